"""What a node lets a server ask of its devices, checked by the node itself, call by call.

A call states a rate, a threshold, an epsilon and a delta. None of it is believed: the node computes again, exactly,
whether rate and threshold keep epsilon and delta, and compares every number with limits that its owner has set.

What no node can check: that the server applies the threshold, and how many other nodes it asks. A server that lies
about these sees the value of each device that takes part. So `Limits.rate` is what holds against the server itself: in
one call it learns the value of a device with at most that probability.

Answers are counted over the node's lifetime, not over one run. An answer is written down before a coin is flipped: a
process that is killed in between has spent without answering; no call is ever answered twice. Several processes may
share the record.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from dptally.errors import DptallyError, InvalidParameter, InvalidSource, PrivacyViolation
from dptally.exact import as_count, as_fraction
from dptally.federated.messages import LARGEST_CALL, LARGEST_NODE, Call, ballot_size
from dptally.federated.protocol import RATE_UNIT, Round
from dptally.laws.sample_and_threshold import SampleAndThreshold

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS answers (attempt BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS spent (answers INTEGER, epsilon TEXT, delta TEXT)",
    "INSERT INTO spent SELECT 0, '0', '0' WHERE NOT EXISTS (SELECT 1 FROM spent)",
)


@dataclass(frozen=True)
class Limits:
    """The largest request that a node answers. Set by its owner; nothing that a server sends changes it.

    Attributes:
        epsilon: of all answers together, added up over the node's lifetime.
        delta: of all answers together, added up.
        rate: the largest probability with which a device takes part in one call.
        devices: the fewest devices of this node that one call may ask; calls that single out fewer are refused.
        answers: how many calls are answered in all.
        message_bytes: the longest call that is read, and the longest ballot that is made.
        trust_contact_rate: whether calls are answered that ask only some devices. The server says that it chose them by
            secret coins, and devices then take part with a larger probability; a node can check neither, so such calls
            are refused unless its owner trusts the server's word. `rate` then limits the product of both probabilities.
    """

    epsilon: Fraction = Fraction(16)
    delta: Fraction = Fraction(1, 1000)
    rate: Fraction = Fraction(1, 2)
    devices: int = 1
    answers: int = 64
    message_bytes: int = LARGEST_CALL
    trust_contact_rate: bool = False

    def __post_init__(self) -> None:
        for name, largest in (("epsilon", None), ("delta", 1), ("rate", 1)):
            number = as_fraction(name, getattr(self, name))
            if number <= 0 or (largest is not None and number > largest):
                raise InvalidParameter(f"{name} must be above 0{' and at most 1' if largest else ''}, got {number}.")
            object.__setattr__(self, name, number)
        as_count("devices", self.devices, largest=LARGEST_NODE)
        as_count("answers", self.answers, largest=1 << 20)
        as_count("message_bytes", self.message_bytes, largest=1 << 30)

    def read(self, message: bytes) -> Call:
        """The call that a message holds, if it is within the limits. Nothing has been computed from any value then."""
        if isinstance(message, bytes) and len(message) > self.message_bytes:
            raise InvalidParameter(f"the call is longer than the {self.message_bytes} bytes that this node reads.")
        call = Call.read(message)
        if call.asked.epsilon > self.epsilon or call.asked.delta > self.delta:
            raise InvalidParameter("the call spends more epsilon or delta than this node allows.")
        if (call.contacted is not None or call.coin_of != RATE_UNIT) and not self.trust_contact_rate:
            raise InvalidParameter("the call asks only some devices, which this node does not allow.")
        if Fraction(call.asked.rate, RATE_UNIT) > self.rate:
            raise InvalidParameter("the call has devices take part with a larger probability than this node allows.")
        if 0 < call.votes < self.devices:
            raise InvalidParameter(f"the call asks fewer than the {self.devices} devices that this node allows.")
        if ballot_size(call.votes, call.asked.key_bytes) > self.message_bytes:
            raise InvalidParameter(f"the answer would be longer than the {self.message_bytes} bytes of this node.")
        try:
            certify_round(call.asked)
        except PrivacyViolation:
            raise InvalidParameter(
                "the call's rate and threshold do not keep the epsilon and delta it states."
            ) from None
        return call


def certify_round(asked: Round) -> None:
    """Verify that the rate and threshold of a round keep its epsilon and delta."""
    _certify(asked.epsilon, asked.delta, asked.rate, asked.threshold)


@lru_cache(maxsize=64)
def _certify(epsilon: Fraction, delta: Fraction, rate: int, threshold: int) -> None:
    """Each combination is verified once."""
    SampleAndThreshold(epsilon, delta, rate=Fraction(rate, RATE_UNIT), threshold=threshold).certify()


class Answers:
    """The record of what was answered.

    Args:
        path: its file, made with mode 0600 if it is missing; None to keep it in memory, as simulations do.

    Raises:
        InvalidSource: the file is no such record, or cannot be written. A node that does not know what it has answered
            does not answer.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._memory = sqlite3.connect(":memory:", isolation_level=None) if path is None else None
        if self._path is not None:
            try:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            except OSError:
                raise self._unusable() from None
        with self._transaction() as connection:
            for statement in _SCHEMA:
                connection.execute(statement)

    def record(self, call: Call, limits: Limits) -> None:
        """Write down that a call is answered, if limits allow it and it was not answered before."""
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM answers WHERE attempt = ?", (call.attempt,)).fetchone():
                raise InvalidParameter(
                    "this call was answered before: a second look at fresh coins would not be private."
                )
            answers, *parts = connection.execute("SELECT answers, epsilon, delta FROM spent").fetchone()
            if answers >= limits.answers:
                raise InvalidParameter(f"the node has answered {answers} calls, and may answer no more.")
            epsilon, delta = Fraction(parts[0]) + call.asked.epsilon, Fraction(parts[1]) + call.asked.delta
            if epsilon > limits.epsilon or delta > limits.delta:
                raise InvalidParameter(
                    f"the node may spend epsilon {float(limits.epsilon):.6g} and delta {float(limits.delta):.6g} in "
                    "all, and this call would exceed that."
                )
            connection.execute("INSERT INTO answers VALUES (?)", (call.attempt,))
            spent = (answers + 1, str(epsilon), str(delta))
            connection.execute("UPDATE spent SET answers = ?, epsilon = ?, delta = ?", spent)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block, on disk, or nothing; one process at a time."""
        try:
            with self._connection() as connection, connection:  # which commits, or rolls back
                connection.execute("BEGIN IMMEDIATE")
                yield connection
        except DptallyError:
            raise
        except (sqlite3.Error, OSError, TypeError, ValueError):
            raise self._unusable() from None

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            yield self._memory
            return
        with contextlib.closing(sqlite3.connect(str(self._path), isolation_level=None, timeout=30)) as connection:
            yield connection

    def _unusable(self) -> InvalidSource:
        return InvalidSource(f"{self._path} cannot be used as the record of what this node has answered.")


def default_place(source: str, table: str | None) -> Path:
    """Where the record of a node is kept that was given no other place: one for each table, whatever is asked of it."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = hashlib.sha256(f"{Path(source).resolve()}\0{table or ''}".encode()).hexdigest()[:32]
    return Path(home) / "dptally" / "answers" / f"{name}.db"
