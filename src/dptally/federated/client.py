"""The client's end: a node that holds one device or many, and answers for each by a coin of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_count
from dptally.federated.limits import Answers, Limits
from dptally.federated.messages import LARGEST_NODE, Enrolment, pack_ballot, read_registration
from dptally.federated.protocol import Round, task_named
from dptally.randomness import BitSource, SystemBits
from dptally.randomness.integers import draw_integers


class Node:
    """Devices of one node, each with one value, which no one else sees unless its device takes part.

    In every round each device that is asked takes part with exactly the stated probability, independently of all other
    devices, of earlier rounds, and of what it holds. The ballot's size and the work done do not depend on the coins.

    Args:
        values: one for each device, or a function that returns them; None in it is a device without a value.
        capacity: answer for this many devices, the missing ones abstaining, so that not even the server learns how many
            there are; None for as many as there are.
        bits: where coins come from; None for secret bits of the operating system.
        limits: what the node answers at most, whatever a server asks; None for the default limits.
        answers: the record of what was answered, over the lifetime of the node; None for one in memory, which is
            forgotten with the node.

    Raises:
        InvalidParameter: more devices than the capacity. Nothing has been sent then.
    """

    def __init__(
        self,
        values: Sequence[Any] | Callable[[], Iterable[Any]],
        *,
        capacity: int | None = None,
        bits: BitSource | None = None,
        limits: Limits | None = None,
        answers: Answers | None = None,
    ) -> None:
        self._values: list[Any] = list(values() if callable(values) else values)
        self._bits: BitSource = SystemBits() if bits is None else bits
        self._limits = Limits() if limits is None else limits
        self._answers = Answers() if answers is None else answers
        if capacity is None:
            self._slots = len(self._values)
        else:
            self._slots = as_count("capacity", capacity, largest=LARGEST_NODE)
        # Not cut off at the capacity: one device more would then push out another, and two devices would change.
        if len(self._values) > min(self._slots, LARGEST_NODE):
            raise InvalidParameter("the node holds more devices than its capacity; raise the capacity or add a node.")

    def __repr__(self) -> str:
        return "Node()"

    def enrol(self, message: bytes) -> bytes:
        """Answer the server's registration, unless it takes fewer devices of one node."""
        run, max_devices = read_registration(message)
        if self._slots > max_devices:
            raise InvalidParameter(f"the server takes at most {max_devices} devices of one node.")
        return Enrolment(run, self._slots, self._bits.private).pack()

    def answer(self, message: bytes) -> bytes:
        """Answer a call: flip every asked device's coin, once, and send a vote or an abstention of the same size.

        Refused is what is no call, was answered before, or asks for more than the limits allow.
        """
        call = self._limits.read(message)
        if len(self._values) > call.slots:
            raise InvalidParameter("the call is for fewer devices than the node holds; it must enrol again.")
        vote = task_named(call.asked.task).answer
        asked = np.arange(call.slots) if call.contacted is None else np.flatnonzero(call.contacted)
        self._answers.record(call, self._limits)
        coins = draw_integers(call.coin_of, len(asked), self._bits) < np.uint64(call.asked.rate)
        votes: list[bytes | None] = []
        for slot, takes_part in zip(asked.tolist(), coins.tolist(), strict=True):
            # The vote is made in any case: work must not show the coin.
            made = _vote_of(vote, self._values[slot], call.asked) if slot < len(self._values) else None
            votes.append(made if takes_part else None)
        return pack_ballot(call, votes, self._bits.words(2).tobytes())


def _vote_of(answer: Callable[[Any, Round], bytes | None], value: Any, asked: Round) -> bytes | None:
    try:
        vote = answer(value, asked)
    except Exception:
        # A value that the task cannot read is a device without a vote. Were it an error of the node, adding one such
        # device would silence all others of the node.
        vote = None
    return vote if isinstance(vote, bytes) and len(vote) <= asked.key_bytes else None
