"""The statistical helpers notice wrong samplers in each direction, and accept right ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.statistical.checks import FALSE_ALARM, Z_LIMIT, chi_square_pvalue, mean_z

LAW = {0: 0.5, 1: 0.3, 2: 0.2}


@pytest.mark.parametrize(
    ("true_law", "accepted"),
    [
        ([0.5, 0.3, 0.2], True),
        ([0.52, 0.28, 0.2], False),
        ([0.48, 0.32, 0.2], False),
        ([0.5, 0.28, 0.2, 0.02], False),
        ([0.5, 0.5, 0.0], False),
    ],
)
def test_chi_square(true_law: list[float], accepted: bool) -> None:
    """100,000 draws tell the law from one that is off by 0.02 either way, with a new outcome, or without one."""
    draws = np.random.default_rng(5).choice(len(true_law), size=100_000, p=true_law)
    assert (chi_square_pvalue(Counter(draws.tolist()), LAW, 100_000) > FALSE_ALARM) is accepted


@pytest.mark.parametrize(("shift", "accepted"), [(0.0, True), (0.05, False), (-0.05, False)])
def test_mean(shift: float, accepted: bool) -> None:
    """20,000 samples tell the mean from one that is off by a twentieth of a standard deviation either way."""
    samples = np.random.default_rng(6).normal(shift, 1, 20_000)
    assert (abs(mean_z(samples.tolist(), 0, 1)) < Z_LIMIT) is accepted
