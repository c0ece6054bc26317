"""Curves are the laws' own probabilities, at few well-chosen places."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from dptally.laws import gaussian_histogram
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.reporting_curves import reporting_curve
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_schemes import Ppswor
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.stability import Stability
from dptally.laws.top_k_noise import TopKNoise
from dptally.laws.weighted_sample import WeightedSample

LAWS: dict[str, Any] = {
    "weighted": lambda: WeightedSample("0.1", "1e-6"),
    "sampled": lambda: WeightedSample("1", "1e-6", Ppswor("0.05")),
    "keys only": lambda: WeightedSample("1", "1e-6", values=False),
    "stability": lambda: Stability("1", "1e-6"),
    "gaussian": lambda: GaussianHistogram("1", "1e-6", 3),
    "sample and threshold": lambda: SampleAndThreshold("1", "1e-6"),
    "shared": lambda: SharedNoise("1", "1e-6", 100),
    "heaviest": lambda: TopKNoise("1", size=2**32, keep=100, universe="ipv4"),
}


@pytest.mark.parametrize("name", sorted(LAWS))
def test_points_are_the_probabilities_of_the_law(name: str) -> None:
    """Every point is exact, growing with frequency, and milestones are those of the law."""
    law = LAWS[name]()
    curve = reporting_curve(law)
    for frequency, chance in curve.points:
        assert chance == pytest.approx(float(law.reporting_probability(frequency)), abs=1e-15)
    assert all(before[0] < after[0] and before[1] <= after[1] for before, after in pairwise(curve.points))
    shares = (Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000))
    assert [curve.half, curve.likely, curve.surely] == [law.first_frequency(share) for share in shares]
    assert curve.at_least == (name == "heaviest")
    assert curve.hides
    assert len(curve.points) <= 60
    assert curve.points[0][0] == 0


def test_points_are_where_the_curve_bends() -> None:
    """Straight lines between the points stay within 3 % of the law, on a curve that rises steeply."""
    law = WeightedSample("0.01", "1e-6")
    curve = reporting_curve(law)
    for frequency in range(0, curve.points[-1][0], 7):
        assert curve.chance(frequency) == pytest.approx(float(law.reporting_probability(frequency)), abs=0.03)
    assert curve.chance(10**9) == 1.0
    assert curve.chance(curve.half or 0) >= 0.5


def test_a_wide_gaussian_is_the_same_without_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn in floating point agrees with the table, milestones included."""
    for differing in (1, 3, 40, 1000):
        law = GaussianHistogram("0.5", "1e-7", differing)
        monkeypatch.setattr(gaussian_histogram, "_WIDE", 10**9)
        exact = reporting_curve(law)
        monkeypatch.setattr(gaussian_histogram, "_WIDE", 0)
        fast = reporting_curve(law)
        assert (fast.half, fast.likely, fast.surely) == (exact.half, exact.likely, exact.surely)
        assert [w for w, _ in fast.points] == [w for w, _ in exact.points]
        for (_, one), (_, other) in zip(fast.points, exact.points, strict=True):
            assert one == pytest.approx(other, abs=1e-12)


def test_where_all_keys_are_public_nothing_is_hidden() -> None:
    """A law that reports every key has a flat curve."""
    assert not reporting_curve(DyadicGeometric("1", 1 << 20)).hides


def test_a_curve_can_be_stopped() -> None:
    """An exception of `proceed` ends the computation."""
    calls = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 10:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        reporting_curve(WeightedSample("0.1", "1e-6"), proceed=stop)
    assert len(calls) == 10
