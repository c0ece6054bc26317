"""Mechanisms refuse counts to which a unit may have added more than they protect."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dptally.errors import InvalidParameter
from dptally.randomness import SeededBits
from tests.mechanisms import (
    GaussianSparseHistogram,
    PrivateWeightedSampling,
    SampleAndThresholdHistogram,
    StabilityHistogram,
)

MECHANISMS = [PrivateWeightedSampling, StabilityHistogram, GaussianSparseHistogram, SampleAndThresholdHistogram]


class Counts:
    """Counts of a key, bounded for so many keys of a unit."""

    key = ("key",)
    unit = "who"
    scheme = None

    def __init__(self, max_keys_per_unit: int) -> None:
        self.max_keys_per_unit = max_keys_per_unit

    def batches(self) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """One batch."""
        yield pa.RecordBatch.from_pydict({"key": ["a"]}), np.array([1000], dtype=np.int64)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_counts_bounded_for_more_keys_are_refused(mechanism: Any) -> None:
    """Made for two keys of a unit: counts bounded at one or two are drawn for, at three they are not."""
    made = mechanism(Fraction(1), Fraction(1, 10**6), max_keys_per_unit=2, values=True)
    for bound in (1, 2):
        assert made.draw(Counts(bound), SeededBits(1)).rows.num_rows == 1
    with pytest.raises(InvalidParameter, match="at most 2 keys, but contributions were bounded at 3"):
        made.draw(Counts(3), SeededBits(1))
