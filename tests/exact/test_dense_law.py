"""Histograms with a value for every public key, and with a threshold, as they are drawn: laws of whole releases."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dptally.exact import exp_bounds
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.stability import Stability
from dptally.verifiers.tables import exp_lower
from tests.exact.enumeration import PieceWords, law_of_pieces, sizes_of
from tests.mechanisms import DenseHistogram, Made, StabilityHistogram

Release = tuple[tuple[str, int], ...]


class Counted:
    """Counts of letters, as the package counts them."""

    key = ("letter",)
    unit = None
    scheme: Any = None

    def __init__(self, counts: dict[str, int], max_keys_per_unit: int = 1) -> None:
        self._counts, self.max_keys_per_unit = counts, max_keys_per_unit

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """All in one."""
        keys = pa.RecordBatch.from_pydict({"letter": pa.array(list(self._counts), pa.string())})
        yield keys, np.array(list(self._counts.values()), dtype=np.int64)


def drawn_law(mechanism: Any, counts: dict[str, int], sizes: list[int], units: int = 1) -> dict[Release, Fraction]:
    """The law of the package's release over all random numbers."""

    def draw(bits: PieceWords) -> Release:
        rows = mechanism.draw(Counted(counts, units), bits).rows
        return tuple(zip(rows["letter"].to_pylist(), rows["value"].to_pylist(), strict=True))

    return law_of_pieces(draw, sizes)


def dense(epsilon: str, units: int = 1) -> tuple[Made, list[int]]:
    """A histogram of two letters with values up to 2, and the pieces of its random numbers."""
    mechanism = DenseHistogram(epsilon, pa.table({"letter": ["a", "b"]}), bound=2, max_keys_per_unit=units)
    law = mechanism.law
    assert isinstance(law, DyadicGeometric)
    *noise, uniform = sizes_of(law.table)
    assert uniform == 3 * law.uniform_mass
    return mechanism, [*noise, *[law.uniform_mass] * 3]


@pytest.mark.parametrize("counts", [{}, {"a": 1}, {"b": 2, "a": 1, "z": 5}])
def test_every_public_key_has_the_law_of_its_count(counts: dict[str, int]) -> None:
    """Values of different keys are independent, and each has the row of its count; other keys are as good as absent."""
    mechanism, sizes = dense("14")
    rows = [mechanism.law.row(min(counts.get(letter, 0), 2)) for letter in "ab"]
    stated = {(("a", a), ("b", b)): rows[0][a] * rows[1][b] for a, b in product(range(3), repeat=2)}
    assert drawn_law(mechanism, counts, sizes) == stated


@pytest.mark.parametrize(
    ("counts", "fewer", "units"),
    [
        ({"a": 1}, {}, 1),
        ({"a": 2, "b": 1}, {"a": 1, "b": 1}, 1),
        ({"a": 1, "b": 1}, {}, 2),
        ({"a": 1, "b": 2}, {"b": 1}, 2),
    ],
)
def test_dense_releases_differ_by_at_most_e_to_the_epsilon(
    counts: dict[str, int], fewer: dict[str, int], units: int
) -> None:
    """A unit with one key, or with two, changes no release's chance by more than e^epsilon, and by nearly as much."""
    mechanism, sizes = dense(str(14 * units), units)
    first, second = (drawn_law(mechanism, each, sizes, units) for each in (counts, fewer))
    assert first.keys() == second.keys()
    ratio = max(max(first[h] / second[h], second[h] / first[h]) for h in first)
    low, high = exp_bounds(Fraction(14 * units), 256)
    assert high * Fraction(9, 10) < ratio <= low


@pytest.mark.parametrize(
    ("counts", "fewer", "units"),
    [
        ({"a": 1}, {}, 1),
        ({"a": 2, "b": 1}, {"a": 1, "b": 1}, 1),
        ({"a": 1, "b": 1}, {}, 2),
        ({"a": 3, "b": 2}, {"a": 2, "b": 1}, 2),
    ],
)
def test_releases_above_a_threshold_keep_epsilon_and_delta(
    counts: dict[str, int], fewer: dict[str, int], units: int
) -> None:
    """Noise for keys that occur, above a threshold: whole releases of neighbours diverge by at most delta."""
    epsilon, delta = Fraction(12 * units), Fraction(1, 10)
    mechanism = StabilityHistogram(epsilon, delta, max_keys_per_unit=units, values=True)
    law = mechanism.law
    assert isinstance(law, Stability)
    laws = [drawn_law(mechanism, each, sizes_of(law.table), units) for each in (counts, fewer)]
    for found, data in zip(laws, (counts, fewer), strict=True):
        chances = {
            tuple((letter, value) for letter, value in zip(data, values, strict=True) if value is not None): _product(
                law.row(count)[value] for count, value in zip(data.values(), values, strict=True)
            )
            for values in product(*(law.row(count) for count in data.values()))
        }
        assert found == {release: chance for release, chance in chances.items() if chance}
    growth, zero = Fraction(*exp_lower(epsilon)), Fraction(0)
    for first, second in (laws, laws[::-1]):
        assert sum((max(zero, p - growth * second.get(h, zero)) for h, p in first.items()), zero) <= delta


def _product(chances: Iterator[Fraction]) -> Fraction:
    found = Fraction(1)
    for chance in chances:
        found *= chance
    return found
