"""The statistical tests, one place, one false-alarm rate.

FALSE_ALARM is the probability with which a correct sampler is called wrong under a fresh seed. In the normal run seeds
are fixed, so a test either always passes or always fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6


def chi_square_pvalue(observed: Mapping[Any, int], law: Mapping[Any, float], draws: int) -> float:
    """P-value of observed counts under a law; outcomes expected fewer than 10 times are pooled into one.

    An outcome of probability 0 that was observed gives 0.
    """
    if any(count and law.get(outcome, 0) <= 0 for outcome, count in observed.items()):
        return 0.0
    found: list[float] = []
    expected: list[float] = []
    rest_found = rest_expected = 0.0
    for outcome, chance in law.items():
        if chance * draws >= 10:
            found.append(observed.get(outcome, 0))
            expected.append(chance * draws)
        else:
            rest_found += observed.get(outcome, 0)
            rest_expected += chance * draws
    if rest_expected >= 10:
        found.append(rest_found)
        expected.append(rest_expected)
    elif rest_found > 10 + 10 * rest_expected:
        return 0.0
    if len(found) == 1:
        return 1.0  # one outcome has all the mass but what was pooled, and that was looked at above
    scale = sum(found) / sum(expected)
    return float(stats.chisquare(found, [e * scale for e in expected]).pvalue)


def mean_z(samples: Sequence[float], mean: float, variance: float) -> float:
    """How many standard deviations the sample mean is from where it should be."""
    return float((np.mean(samples) - mean) / np.sqrt(variance / len(samples)))


Z_LIMIT = float(stats.norm.isf(FALSE_ALARM / 2))
