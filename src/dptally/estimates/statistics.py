"""Sums, means and totals from noisy integers, with confidence intervals. Floating point, and public.

Noise. A released number is floor((A + g/2) / g) + round(N) for an exact sum A, a grain g and Gaussian N of deviation s
(the table differs from that by less than 2^-60). So g times the number is A + g N + r with |r| <= g: half a grain from
the quotient, half from rounding N. A combination of such numbers with factors f has Gaussian noise of variance
sum of (f g s)^2, and an error of at most sum of |f| g beside it; intervals have both.

Many keys. Rounded Gaussian noise of deviation s >= 1 has, up to factors of exp(-2 pi^2 s^2), the masses of the density
of N + U at whole numbers, U uniform on one step. So a sum of k of them is like Gaussian noise of variance
k (s^2 + 1/12), with lighter tails, and half a step for the whole; errors of quotients stay, one for each key.

Means. The mean is c + S / n, with S the sum counted from c, and n the units that have a value. For the true ratio q the
combination S - q n is 0, so q is among the numbers for which |S' - q n'| is at most z sqrt(s_S^2 + q^2 s_n^2) + r
[Fieller 1954], with noisy S' and n'. Beyond the range nothing is possible, which bounds r; the square of a sum x + r is
at most (1 + t) x^2 + (1 + 1/t) r^2 for any t > 0. What remains is a quadratic inequality in q, whose solutions are the
interval; all of the range where n' may be 0.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptally.laws.statistics import Clipped, Statistic
from dptally.laws.statistics_law import NoisyPart, StatisticsLaw

__all__ = ["Bounded", "Combined", "combined", "estimate_statistic", "noisy_sums"]

Floats = NDArray[np.float64]
_WHOLE = 1 << 128


class Bounded(NamedTuple):
    """Estimates with confidence intervals."""

    estimate: Floats
    lower: Floats
    upper: Floats


class Combined(NamedTuple):
    """A combination of noisy numbers: its value, the variance of its Gaussian noise, and the largest error beside."""

    value: Floats
    variance: Floats
    error: Floats

    def times(self, factor: float) -> Combined:
        """A multiple."""
        return Combined(self.value * factor, self.variance * factor**2, self.error * abs(factor))

    def plus(self, other: Combined) -> Combined:
        """A sum of independent ones."""
        return Combined(self.value + other.value, self.variance + other.variance, self.error + other.error)

    def within(self, beta: Fraction) -> Bounded:
        """With bounds that are each missed with probability beta / 2 at most."""
        width = _quantile(beta) * np.sqrt(self.variance) + self.error
        return Bounded(self.value, self.value - width, self.value + width)


def _quantile(beta: Fraction) -> float:
    return -NormalDist().inv_cdf(float(beta) / 2)


def noisy_sums(part: NoisyPart, numbers: Floats, keys: Floats) -> Combined:
    """Sums of the numbers of a part over so many keys each."""
    deviation, grain = float(part.sigma), float(part.grain)
    quotients = keys * (grain / 2 if part.grain > 1 else 0.0)
    many = (keys > 1) & (deviation >= 1)
    variance = keys * np.where(many, deviation**2 + 1 / 12, deviation**2) * grain**2
    return Combined(numbers * grain, variance, quotients + np.where(many, 1.0, keys) * grain / 2)


def _exactly(part: NoisyPart, numbers: Floats, beta: Fraction) -> Bounded:
    """One number each, with bounds from the table itself."""
    steps = part.reach - bisect_right(part.cumulative, beta / 2 * _WHOLE)
    width = (steps + (0.5 if part.grain > 1 else 0.0)) * part.grain
    value = numbers * part.grain
    return Bounded(value, value - width, value + width)


def estimate_statistic(
    law: StatisticsLaw, statistic: Statistic, numbers: dict[str, Floats], keys: Floats, beta: Fraction
) -> Bounded:
    """A sum or mean for each row of noisy numbers, which are sums over so many keys.

    Bounds are each missed with probability beta / 2 at most, row by row.
    """
    place = law.asked.place_of(statistic)
    column, values = law.asked.columns[place], law.part("values", place)
    total = noisy_sums(values, numbers[values.name], keys).times(column.step)
    if statistic.kind == "sum" and not column.centre:
        if (keys == 1).all():
            found = _exactly(values, numbers[values.name], beta)
            return Bounded(*(each * column.step for each in found))
        return total.within(beta)
    nulls, units = law.part("nulls", place), law.units
    assert units is not None  # noqa: S101 - counted wherever nulls are
    count = noisy_sums(units, numbers[units.name], keys).plus(noisy_sums(nulls, numbers[nulls.name], keys).times(-1))
    if statistic.kind == "sum":
        return total.plus(count.times(float(column.centre))).within(beta)
    return _ratio(column, total, count, beta)


def _ratio(column: Clipped, total: Combined, count: Combined, beta: Fraction) -> Bounded:
    centre, reach = float(column.centre), float(column.reach)
    z = _quantile(beta)
    error = total.error + reach * count.error
    deviation = z * np.sqrt(total.variance)
    share = error / np.maximum(deviation, math.ulp(1.0))
    constant = (deviation + error) ** 2  # (1 + t) deviation^2 + (1 + 1/t) error^2 at t = error / deviation
    linear = (1 + share) * z * z * count.variance
    square = count.value**2 - linear
    known = (count.value > 0) & (square > 0)
    safe = np.where(known, square, 1.0)
    # (n^2 - B) q^2 - 2 S n q + S^2 - A <= 0; its discriminant over 4 is A n^2 + B S^2 - A B, which is positive here.
    root = np.sqrt(np.maximum(constant * count.value**2 + linear * (total.value**2 - constant), 0))
    middle = total.value * count.value
    lower = np.where(known, np.clip((middle - root) / safe, -reach, reach), -reach)
    upper = np.where(known, np.clip((middle + root) / safe, -reach, reach), reach)
    likely = np.clip(total.value / np.maximum(count.value, 1.0), -reach, reach)
    return Bounded(centre + np.clip(likely, lower, upper), centre + lower, centre + upper)


def combined(*parts: Combined) -> Combined:
    """The sum of independent ones."""
    found = parts[0]
    for part in parts[1:]:
        found = found.plus(part)
    return found
