"""The server's end: asks, adds up, applies the threshold, and only then keeps anything.

Why a round that lost messages still states a true guarantee. Let S be the set of devices whose ballots arrive in time.
Ballots have the same size, and take the same work, whatever the coins are, so S does not depend on them: given S, the
count of a key is Binomial(number of devices of S that hold it, rate), independently for all keys. That is the law for
the data of S; the other devices are simply not in the data. Adding or removing one device changes the data of S by at
most that device, provided that the arrival of the others does not depend on it. So the guarantee holds given S, for
every S, hence for the mixture. Estimates speak of the devices in S.

What the server must keep to itself until the threshold has been applied: ballots, counts, who was contacted, how many
devices enrolled. All of it stays in memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_fraction
from dptally.federated.limits import certify_round
from dptally.federated.messages import LARGEST_NODE, Call, ballot_refusal, read_ballot, read_enrolment, registration
from dptally.federated.payments import Payments
from dptally.federated.protocol import RATE_UNIT, Round, Rounds
from dptally.federated.run_state import Attempt, RunState, damaged
from dptally.ledger.paying import AnyLedger
from dptally.randomness import BitSource, SystemBits

COUNTED = "counted"
_LARGEST_FEDERATION = 1 << 26  # devices


@dataclass(repr=False)
class _Tally:
    """Private: the votes of one attempt at a round. Lives in memory only."""

    attempt: bytes
    asked: Round
    calls: dict[Hashable, Call]
    accepts: Callable[[bytes, Round], bool]

    def __post_init__(self) -> None:
        self._waiting = dict(self.calls)
        self._votes: Counter[bytes] = Counter()

    def add(self, node: Hashable, message: object) -> str:
        """Count a ballot, or say why not; at most one ballot per node, one vote per slot."""
        if node not in self.calls:
            return "not asked"
        if node not in self._waiting:
            return "duplicate"
        refusal = ballot_refusal(message, self._waiting[node])
        if refusal is not None or not isinstance(message, bytes):
            return refusal or "malformed"
        del self._waiting[node]
        for vote in read_ballot(message, self.asked.key_bytes):
            if self.accepts(vote, self.asked):
                self._votes[vote] += 1
        return COUNTED

    def close(self) -> dict[bytes, int]:
        """What may be seen: counts that reach the threshold, in the order of votes. The rest is forgotten."""
        released = {vote: n for vote, n in sorted(self._votes.items()) if n >= self.asked.threshold}
        self._votes.clear()
        self.calls.clear()
        self._waiting.clear()
        return released


class Server:
    """Runs a task over nodes that some transport reaches. Not for several threads at once.

    The transport calls, in this order: `registration`, sent to every node; `enrol` for each answer; then, until
    `finished`: `begin_round`, whose messages it sends; `receive` for each answer; `close_round`.

    Guarantee:
        Each round is verified, exactly, for the epsilon and delta it states, before it is asked. What an attempt spends
        is on disk before the first call leaves. A server that is killed leaves released counts and spending behind,
        never votes; a round that was cut off is asked again, with fresh coins, as a new attempt that is paid for again.

    Args:
        rounds: the task.
        state: a file to resume from and to keep the run's public state in; None to keep none.
        contact_rate: the probability with which the server asks a device at all, by a secret coin for each device; the
            device then takes part with probability rate / contact_rate. None to ask every device. See
            `enough_to_contact`.
        max_devices_per_node: nodes that enrol more are refused: a bound on what one bad node can add.
        ledger: what the run is paid from; as in `dptally.publish`. See `dptally.federated.payments`.
        bits: for names of attempts and coins of contact; None for secret bits of the operating system.

    Raises:
        InvalidParameter: a state file of another task, or parameters that cannot be met.
        InvalidSource: a state file that is damaged.
    """

    def __init__(
        self,
        rounds: Rounds,
        *,
        state: str | Path | None = None,
        contact_rate: object = None,
        max_devices_per_node: int = 10_000,
        ledger: AnyLedger | None = None,
        bits: BitSource | None = None,
    ) -> None:
        self._rounds = rounds
        self._bits: BitSource = SystemBits() if bits is None else bits
        self._contact = RATE_UNIT if contact_rate is None else _contact_units(contact_rate)
        self._max_devices = as_count("max_devices_per_node", max_devices_per_node, largest=LARGEST_NODE)
        self._slots: dict[Hashable, int] = {}
        self._tally: _Tally | None = None
        self._private = self._bits.private or self._contact == RATE_UNIT
        self.result: Any = None
        self.finished = False
        task = {"task": rounds.task, **rounds.to_dict()}
        self._due: Round | None = None
        self._state = RunState.open(None if state is None else Path(state), task, run=self._name())
        self._payments = Payments(ledger, getattr(rounds, "spends", None), self._state.paid)
        self._go_on(rounds.start(), 1)
        for number, (counts, private) in enumerate(self._state.finished, start=1):
            if self._due is None:
                raise InvalidParameter("the state file holds more rounds than the task has.")
            if not self._could_release(counts, self._due):
                raise damaged(self._state.path)
            self._private &= private
            self._go_on(rounds.receive(counts), number + 1)

    @property
    def spent(self) -> list[Attempt]:
        """Every attempt at a round, finished or not, with what it spends."""
        return list(self._state.attempts)

    @property
    def total_spent(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta of all attempts added up, the ones that were cut off among them.

        An upper bound: a task that composes its rounds more tightly says so in its result, for the finished ones.
        """
        return (
            sum((attempt.epsilon for attempt in self.spent), Fraction(0)),
            sum((attempt.delta for attempt in self.spent), Fraction(0)),
        )

    def __repr__(self) -> str:
        return f"Server(task={self._rounds.task!r}, finished={self.finished})"

    # ---- nodes ----

    def registration(self) -> bytes:
        """The message that asks a node to enrol."""
        return registration(self._state.run, self._max_devices)

    def enrol(self, node: Hashable, message: object) -> str:
        """Take a node in, once, with the number of devices it answers for: "counted", or why it was refused."""
        if node in self._slots:
            return "duplicate"
        said = read_enrolment(message) if isinstance(message, bytes) else None
        if said is None:
            return "malformed"
        if said.run != self._state.run:
            return "late or foreign"
        if said.slots > self._max_devices or sum(self._slots.values()) + said.slots > _LARGEST_FEDERATION:
            return "oversized"
        self._slots[node] = said.slots
        self._private &= said.private
        return COUNTED

    # ---- rounds ----

    def begin_round(self) -> dict[Hashable, bytes]:
        """Record what the next attempt spends, then return the message for each node to be asked."""
        if self._due is None:
            raise InvalidParameter("the task is finished.")
        if self._tally is not None:
            raise InvalidParameter("a round is open; close it first.")
        asked, attempt = self._due, self._name()
        if self._contact < asked.rate:
            raise InvalidParameter("contact_rate must be at least the rate of every round.")
        self._payments.pay(asked)
        self._state.paid = self._payments.record or self._state.paid
        calls = {node: self._call(attempt, asked, slots) for node, slots in self._slots.items()}
        calls = {node: call for node, call in calls.items() if call.votes}
        self._state.spend(Attempt(asked.number, attempt, asked.epsilon, asked.delta))
        self._tally = _Tally(attempt, asked, calls, self._rounds.accepts)
        return {node: call.pack() for node, call in calls.items()}

    def _call(self, attempt: bytes, asked: Round, slots: int) -> Call:
        contacted = None
        if self._contact < RATE_UNIT:
            coins = self._bits.words(slots) >> np.uint64(32)
            contacted = coins < np.uint64(self._contact)
        return Call(self._state.run, attempt, asked, slots, self._contact, contacted)

    def receive(self, node: Hashable, message: object) -> str:
        """Count a node's ballot: "counted", or why it was refused, and then nothing of it is counted."""
        return "late or foreign" if self._tally is None else self._tally.add(node, message)

    def close_round(self) -> None:
        """Apply the threshold, forget everything else, keep what is released, and hand it to the task."""
        if self._tally is None:
            raise InvalidParameter("no round is open.")
        attempt, asked = self._tally.attempt, self._tally.asked
        released = self._tally.close()
        self._tally = None
        self._state.finish(asked.number, attempt, released, private=self._private)
        self._payments.round_closed()
        self._go_on(self._rounds.receive(released), asked.number + 1)

    def _go_on(self, found: Any, number: int) -> None:
        """Make the task's next round the one that is due, or its result ours."""
        if isinstance(found, Round):
            if found.task != self._rounds.task or found.number != number:
                raise InvalidParameter(f"the task must state round {number} of itself.")
            certify_round(found)  # what it spends, before anyone is asked
            self._due = found
            return
        self._due, self.finished = None, True
        changes: dict[str, Any] = {} if self._private else {"private": False}
        if self._payments.record is not None:
            changes["record"] = self._payments.record
        self.result = _marked(found, changes) if changes else found
        self._payments.finished()

    def _could_release(self, counts: Mapping[bytes, int], asked: Round) -> bool:
        """Whether a round can have released these counts; a state file may say anything."""
        return all(
            asked.threshold <= count <= _LARGEST_FEDERATION
            and len(vote) <= asked.key_bytes
            and self._rounds.accepts(vote, asked)
            for vote, count in counts.items()
        )

    def _name(self) -> bytes:
        return self._bits.words(2).tobytes()


def enough_to_contact(rate: object, expected_devices: int, *, spread: int = 10) -> Fraction:
    """The contact rate at which about m + spread sqrt(m) devices are asked, m = rate * expected_devices.

    [BC22, Lem. 4] asks a fixed number s = m + c sqrt(m) of devices, each of which takes part with probability m / s.
    Then counts are not binomial over the population, and the guarantee does not cover it. Here every device is asked
    by a secret coin with probability r, and takes part with probability p / r, exactly: the product is p,
    independently for all devices, so the law is that of asking everybody. About n r devices are asked.

    Who sees which devices were asked (the network, say) must count p / r for the rate of those. Where that matters, ask
    everybody.

    Args:
        rate: p, of the law.
        expected_devices: n: public, a guess; it decides how many are asked, not what is promised.
        spread: c.

    Returns:
        Fraction: a multiple of 2^-32, at least the rate and at most 1.
    """
    exact = as_fraction("rate", rate)
    if not 0 < exact < 1:
        raise InvalidParameter(f"rate must be between 0 and 1, got {rate}.")
    devices = as_count("expected_devices", expected_devices, largest=1 << 62)
    wide = as_count("spread", spread, largest=1000, smallest=0)
    mean = exact * devices
    # p (1 + c / sqrt(m)), rounded up; sqrt(m) is rounded down, at least 1.
    root = max(1, math.isqrt(math.floor(mean)))
    units = math.ceil(exact * (1 + Fraction(wide, root)) * RATE_UNIT)
    return Fraction(min(units, RATE_UNIT), RATE_UNIT)


def _marked(result: Any, changes: dict[str, Any]) -> Any:
    """The result, its guarantee saying that it is not private, or what paid for it."""
    if not hasattr(result, "guarantee"):
        return result
    marked = replace(result.guarantee, **changes)
    if hasattr(result, "stating"):
        return result.stating(marked)
    return replace(result, guarantee=marked)  # a dataclass of a task from outside


def _contact_units(contact_rate: object) -> int:
    rate = as_fraction("contact_rate", contact_rate)
    if not 0 < rate <= 1:
        raise InvalidParameter(f"contact_rate must be above 0 and at most 1, got {contact_rate}.")
    return math.ceil(rate * RATE_UNIT)
