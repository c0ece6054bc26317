"""What released sizes of units say about the share that bounding keeps."""

from __future__ import annotations

from collections import Counter

import pytest

from dptally.laws.unit_sizes import SIZES, kept_share, likely_units
from tests.exact.key_rounds_settings import chooser


@pytest.mark.parametrize("seed", range(20))
def test_without_noise_the_share_is_that_of_all_pairs(seed: int) -> None:
    """Units whose sizes are ends of bins: pairs that are kept over all pairs, counted one by one."""
    choose = chooser(f"sizes {seed}")
    units = [choose.choice(SIZES) for _ in range(500)]
    counts = [Counter(units)[size] for size in SIZES]
    for kept in (1, 4, 16, 512):
        expected = sum(min(size, kept) for size in units) / sum(units)
        assert kept_share(counts, 1e-9, kept) == pytest.approx(expected)


def test_noise_is_no_unit() -> None:
    """Bins within the noise count as empty; where all are, no share is said."""
    assert kept_share([3, -2, 1] + [0] * 15, 10.0, kept=4) is None
    few = [0, 5000, *((8, -9, 7, -6) * 4)]
    assert likely_units(few, 10.0)[2:].sum() < 60 and kept_share(few, 10.0, kept=2) == pytest.approx(1, abs=0.05)
