"""The four messages of the protocol, as bytes.

=============  =================================================================================================
registration   server to node: JSON with the run's name and the largest number of devices a node may have
enrolment      node to server: 25 bytes: "DPT1", the run (16), number of slots (4), whether its coins are secret (1)
call           server to node: JSON with the run, the attempt, the round, the coin, and which slots are asked
ballot         node to server: "DPT2", run (16), attempt (16), number of slots (4), 16 random bytes, and one vote for
               each slot asked
=============  =================================================================================================

The random bytes keep equal ballots from being equal messages: a transport that names messages by a hash, sends equal
ones once, and writes the names to its log (Flower does all three) would show who abstained.

A vote takes 2 + key_bytes bytes: its length plus one, or 0 for an abstention, then its bytes, padded with zeros. So
the size of a ballot depends on the call alone: neither on coins nor on what devices hold. All numbers are big-endian.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count
from dptally.federated.protocol import RATE_UNIT, Round

LARGEST_CALL = 1 << 24  # bytes
LARGEST_NODE = 1 << 20  # devices of one node
_VERSION = 1
_NAME = 16
_ENROLMENT = struct.Struct(">4s16sIB")
_BALLOT = struct.Struct(">4s16s16sI16s")
_LENGTH = 2


def registration(run: bytes, max_devices: int) -> bytes:
    """The server's first message: who will ask, and how many devices it lets a node have."""
    return json.dumps({"version": _VERSION, "run": run.hex(), "max_devices": max_devices}).encode()


def read_registration(message: bytes) -> tuple[bytes, int]:
    """The run's name and the largest number of devices."""
    data = _json(message, ("version", "run", "max_devices"))
    return _name(data["run"]), as_count("max_devices", data["max_devices"], largest=LARGEST_NODE)


@dataclass(frozen=True)
class Enrolment:
    """What a node says of itself."""

    run: bytes
    slots: int  # for how many devices it will answer
    private: bool  # whether its coins are secret

    def pack(self) -> bytes:
        """As bytes, always the same number."""
        return _ENROLMENT.pack(b"DPT1", self.run, self.slots, self.private)


def read_enrolment(message: bytes) -> Enrolment | None:
    """What a node says of itself, or None if this is no such message."""
    if not isinstance(message, bytes) or len(message) != _ENROLMENT.size:
        return None
    magic, run, slots, private = _ENROLMENT.unpack(message)
    return Enrolment(run, slots, bool(private)) if magic == b"DPT1" and private in (0, 1) else None


@dataclass(frozen=True, repr=False)
class Call:
    """A round, as one node is asked."""

    run: bytes
    attempt: bytes  # name of this attempt at the round: fresh for every attempt
    asked: Round
    slots: int  # how many the node enrolled
    coin_of: int = RATE_UNIT  # a device that is asked takes part with probability rate / coin_of
    contacted: NDArray[np.bool_] | None = None  # for each slot, whether it is asked; None for all

    @property
    def votes(self) -> int:
        """How many slots are asked."""
        return self.slots if self.contacted is None else int(np.count_nonzero(self.contacted))

    def pack(self) -> bytes:
        """As bytes."""
        chosen = None
        if self.contacted is not None:
            chosen = base64.b64encode(np.packbits(self.contacted).tobytes()).decode()
        data = {
            "version": _VERSION,
            "run": self.run.hex(),
            "attempt": self.attempt.hex(),
            "round": self.asked.to_dict(),
            "slots": self.slots,
            "coin_of": self.coin_of,
            "contacted": chosen,
        }
        return json.dumps(data).encode()

    @classmethod
    def read(cls, message: bytes) -> Call:
        """The call that `pack` wrote."""
        data = _json(message, ("version", "run", "attempt", "round", "slots", "coin_of", "contacted"))
        asked = Round.from_dict(data["round"])
        slots = as_count("slots", data["slots"], largest=LARGEST_NODE, smallest=0)
        coin_of = as_count("coin_of", data["coin_of"], largest=RATE_UNIT)
        if coin_of < asked.rate:
            raise InvalidParameter("coin_of must be at least the rate.")
        contacted = None
        if data["contacted"] is not None:
            try:
                packed = np.frombuffer(base64.b64decode(data["contacted"], validate=True), dtype=np.uint8)
            except (binascii.Error, TypeError, ValueError):
                raise InvalidParameter("contacted must be a map of slots.") from None
            if len(packed) != -(-slots // 8):
                raise InvalidParameter("contacted must be a map of slots.")
            contacted = np.unpackbits(packed, count=slots).astype(bool)
        return cls(_name(data["run"]), _name(data["attempt"]), asked, slots, coin_of, contacted)


def ballot_size(votes: int, key_bytes: int) -> int:
    """How many bytes a ballot has."""
    return _BALLOT.size + votes * (_LENGTH + key_bytes)


def pack_ballot(call: Call, votes: Sequence[bytes | None], salt: bytes) -> bytes:
    """The node's answer: one vote or abstention for each slot asked; `salt` is 16 random bytes."""
    width = call.asked.key_bytes
    slots = b"".join(
        bytes(_LENGTH + width) if vote is None else (len(vote) + 1).to_bytes(_LENGTH, "big") + vote.ljust(width, b"\0")
        for vote in votes
    )
    return _BALLOT.pack(b"DPT2", call.run, call.attempt, len(votes), salt) + slots


def ballot_refusal(message: object, call: Call) -> str | None:
    """Why a message is no answer to this call, or None; its votes have not been looked at."""
    expected = ballot_size(call.votes, call.asked.key_bytes)
    if not isinstance(message, bytes) or len(message) != expected:
        return "oversized" if isinstance(message, bytes) and len(message) > expected else "malformed"
    magic, run, attempt, votes, _ = _BALLOT.unpack_from(message)
    belongs = (magic, run, attempt, votes) == (b"DPT2", call.run, call.attempt, call.votes)
    return None if belongs else "late or foreign"


def read_ballot(message: bytes, key_bytes: int) -> Iterator[bytes]:
    """The votes of a ballot whose size and beginning have been checked; abstentions and broken votes are left out."""
    table = np.frombuffer(message, dtype=np.uint8, offset=_BALLOT.size).reshape(-1, _LENGTH + key_bytes)
    lengths = table[:, 0].astype(np.int64) * 256 + table[:, 1] - 1
    for place in np.flatnonzero((lengths >= 0) & (lengths <= key_bytes)):
        vote = table[place, _LENGTH:].tobytes()
        length = int(lengths[place])
        if not any(vote[length:]):
            yield vote[:length]


def _json(message: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(message, bytes) or len(message) > LARGEST_CALL:
        raise InvalidParameter("the server's message is too long.")
    try:
        data = json.loads(message)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or set(data) != set(names):
        raise InvalidParameter("the server's message is not one of this protocol.")
    if data["version"] != _VERSION:
        raise InvalidParameter(f"the server speaks another version of the protocol, this is version {_VERSION}.")
    return data


def _name(text: object) -> bytes:
    try:
        name = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        name = b""
    if len(name) != _NAME:
        raise InvalidParameter(f"a run or attempt is named by {_NAME} bytes in hexadecimal digits.")
    return name
