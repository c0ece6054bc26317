"""Which streams a sketch holds, so that none of them is added to itself.

The noise of a merged or added-up sketch hides one unit in one of its streams. If one sketch is merged with itself, with
a copy of its file, or with a sketch that it was merged into, every unit of it counts twice, and the noise hides half of
it. So a stream gets a random number of 128 bits when its first batch is taken in, whether or not there are rows in it;
copies, files and merged sketches keep the numbers, and sketches that have one in common are not put together.

The numbers are random and say nothing about the data. They are in sketches and their files, which are private, and in
no release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dptally.errors import InvalidParameter
from dptally.randomness import SystemBits

IDENTITY_BYTES = 16


class HoldsStreams(Protocol):
    """A sketch of whatever form."""

    @property
    def streams(self) -> frozenset[bytes]:
        """The numbers of the streams it holds."""


def new_identity() -> bytes:
    """The number of a new stream. It has secret bits of its own: seeded sketches must not share it."""
    return SystemBits().words(IDENTITY_BYTES // 8).tobytes()


def united_streams(sketches: Sequence[HoldsStreams]) -> frozenset[bytes]:
    """The streams of all sketches."""
    united = frozenset[bytes]().union(*(sketch.streams for sketch in sketches))
    given_once = len({id(sketch) for sketch in sketches}) == len(sketches)
    if not given_once or len(united) < sum(len(sketch.streams) for sketch in sketches):
        raise InvalidParameter(
            "two of the sketches hold the same stream: one is given twice, or is a copy or a part of another; "
            "a unit in it would count twice, so give each stream once."
        )
    return united
