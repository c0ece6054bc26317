"""A series by enumeration: every outcome of one key's noisy numbers, for any of its counts, from the table alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.laws.gaussian_histogram import largest_step, round_up
from dptally.laws.series import SeriesLaw, _buffers, _coefficients, _thresholds

Outcomes = dict[tuple[int, ...], tuple[float, float]]
"""Period of publication (0: never) and the numbers that are seen, with their probabilities under two data sets."""


def small_law(
    epsilon: Fraction, delta: Fraction, *, periods: int, differing: int, bits: int = 0, per_key: int = 1
) -> SeriesLaw:
    """A series on a coarse grid, whose outcomes can be listed; built as `plan_series` does."""
    coefficients = _coefficients(periods, bits)
    first = np.convolve(coefficients, np.ones(per_key))[:periods]
    half = float(delta) / 2 * (1 - 2**-20)
    sigma = round_up(math.sqrt(differing * float(first @ first)) / largest_step(float(epsilon), half))
    reach = math.ceil(float(sigma) * math.sqrt(2 * (30 + math.log(differing * periods / delta) + epsilon)))
    decays, weights = _buffers(coefficients)
    tail = half / (differing * periods)
    return SeriesLaw(
        epsilon, delta, differing, per_key, bits, sigma, reach,
        tuple(int(c) for c in coefficients), decays, weights,
        _thresholds(coefficients, decays, weights, float(sigma), per_key, tail),
    )  # fmt: skip


def lowered(law: SeriesLaw, period: int, by: float) -> SeriesLaw:
    """The same series with the threshold of one period lowered by so many deviations of the noise."""
    found = list(law.thresholds)
    found[period] -= math.ceil(by * float(law.sigma))
    return replace(law, thresholds=tuple(found))


@dataclass(frozen=True)
class KeyLaw:
    """What is seen of one key with given counts, over all periods."""

    law: SeriesLaw

    def masses(self) -> NDArray[np.float64]:
        """P[z = -R], .., P[z = R]."""
        table, one = self.law.table, 16
        reached = [int.from_bytes(table[at : at + one], "little") for at in range(0, len(table), one)]
        units = np.diff(np.array([0, *reached, 1 << 128], dtype=object))
        return np.array([float(Fraction(int(unit), 1 << 128)) for unit in units])[::-1]

    def seen(self, counts: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Outcomes, one to a row: the period of publication, then y (zeros where nothing is seen); and chances."""
        law, periods = self.law, len(self.law.coefficients)
        noise = self.masses()
        values = np.arange(-law.reach, law.reach + 1)
        grid = np.array(list(itertools.product(values.tolist(), repeat=periods)), dtype=np.int64)
        chances = np.ones(1)
        for _ in range(periods):
            chances = np.outer(chances, noise).ravel()
        shift = [sum(law.coefficients[t - s] * counts[s] for s in range(t + 1)) for t in range(periods)]
        y = grid + np.array(shift)
        published = np.zeros(len(y), dtype=np.int64)
        sums = np.zeros((len(y), len(law.decays)))
        decays, weights = (np.array([float(each) for each in part]) for part in (law.decays, law.weights))
        for t in range(periods):
            sums = sums * decays + y[:, [t]]
            there = sum(counts[: t + 1]) > 0
            passes = (sums @ weights >= law.thresholds[t]) & (published == 0) & there
            published[passes] = t + 1
        hidden = published == 0
        rows = np.concatenate([published[:, None], y], axis=1)
        rows[hidden] = 0
        kept = np.concatenate([rows[~hidden], np.zeros((1, periods + 1), dtype=np.int64)])
        return kept, np.append(chances[~hidden], chances[hidden].sum())


def pairs_of_chances(law: SeriesLaw, without: tuple[int, ...], added: tuple[int, ...]) -> NDArray[np.float64]:
    """The chances of every outcome without and with the unit, two to a row."""
    both = tuple(a + b for a, b in zip(without, added, strict=True))
    rows, chances = KeyLaw(law).seen(without)
    other_rows, other_chances = KeyLaw(law).seen(both)
    together, places = np.unique(np.concatenate([rows, other_rows]), axis=0, return_inverse=True)
    found = np.zeros((len(together), 2))
    np.add.at(found[:, 0], places.ravel()[: len(rows)], chances)
    np.add.at(found[:, 1], places.ravel()[len(rows) :], other_chances)
    return found


def divergence(pairs: NDArray[np.float64], epsilon: float) -> float:
    """The larger of the two divergences at epsilon."""
    factor = math.exp(epsilon)
    one = np.maximum(pairs[:, 0] - factor * pairs[:, 1], 0).sum()
    other = np.maximum(pairs[:, 1] - factor * pairs[:, 0], 0).sum()
    return float(max(one, other))


def product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two keys at once."""
    return np.stack([np.outer(left[:, side], right[:, side]).ravel() for side in (0, 1)], axis=1)
