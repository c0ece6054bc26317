"""The arithmetic of the verifier of rounds, against fractions and many digits: never below, and hardly above."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest

from dptally._core import outward_steps
from dptally.errors import PrivacyViolation
from dptally.laws.gaussian_histogram import noise_masses
from dptally.laws.tables.two_sided_geometric import noise_table
from dptally.laws.thresholded_noise import read_entries
from dptally.verifiers import key_rounds as verifier
from dptally.verifiers.gaussian import gaussian_divergences
from dptally.verifiers.key_rounds import COARSE, UNIT, Scale
from tests.exact.key_rounds_reference import WHOLE, exp_above
from tests.exact.key_rounds_settings import chooser

_NEAR = Fraction(1, 10**12)


# ---- the inner loop ----


def exact_steps(
    values: list[Fraction], rows: list[tuple[list[Fraction], tuple[int, int]]], fall: list[Fraction], steps: int
) -> list[Fraction]:
    """What the inner loop bounds, in fractions: the definition of its comment, without rounding."""
    points = len(values)
    for _ in range(steps):

        def at(place: int, now: list[Fraction] = values) -> Fraction:
            if place >= points:
                return now[-1]
            return now[place] if place >= 0 else min(Fraction(1), 1 - (1 - now[0]) * fall[-place])

        values = [
            min(
                Fraction(1),
                max(
                    values[here],
                    *(
                        sure
                        + a * at(here + left)
                        + b * at(here + left + 1)
                        + c * at(here + right)
                        + d * at(here + right + 1)
                        for (sure, a, b, c, d), (left, right) in rows
                    ),
                ),
            )
            for here in range(points)
        ]
    return values


@pytest.mark.parametrize("seed", range(60))
def test_steps_are_never_below_their_exact_values(seed: int) -> None:
    """Random rows, places of both signs and beyond both ends, tiny values and shares; at most 1e-12 above."""
    choose = chooser(seed)
    points, steps = choose.randint(9, 33), choose.choice((1, 2, 5))
    drops = [10.0 ** -choose.uniform(0, choose.choice((2, 30, 300))) for _ in range(points)]
    values = np.minimum(1.0, np.cumsum(drops)[::-1] / choose.choice((1.0, 3.0, sum(drops))))
    shares, places = [], []
    for _ in range(choose.randint(1, 6)):
        parts = [choose.choice((0.0, choose.random(), 2.0 ** -choose.uniform(1, 128))) for _ in range(5)]
        whole = sum(parts) or 1.0
        shares.append([part / whole for part in parts])
        places.append([choose.randint(-points, points - 2) for _ in range(2)])
    step = choose.uniform(0.001, 0.5)
    fall = np.exp(-step * np.arange(points + 1))
    found = values.copy()
    outward_steps(found, np.array(shares), np.array(places, dtype=np.int64), fall, steps)
    exact = exact_steps(
        [Fraction(value) for value in values.tolist()],
        [([Fraction(part) for part in row], (left, right)) for row, (left, right) in zip(shares, places, strict=True)],
        [Fraction(part) for part in fall.tolist()],
        steps,
    )
    for bound, truth in zip(found.tolist(), exact, strict=True):
        assert truth <= Fraction(bound) <= truth * (1 + _NEAR) + Fraction(1, 1 << 800) + steps * Fraction(1, 10**14)


def test_rows_outside_of_the_grid_are_refused() -> None:
    """Places that would be read outside of memory, and shapes that do not fit, raise."""
    fall = np.ones(10)
    good = np.full((1, 5), 0.2)
    for places in ([[-10, 0]], [[0, 8]]):
        with pytest.raises(ValueError, match="a place is outside of the grid"):
            outward_steps(np.ones(9), good, np.array(places, dtype=np.int64), fall, 1)
    with pytest.raises(ValueError, match="fall has one place more"):
        outward_steps(np.ones(9), good, np.zeros((1, 2), dtype=np.int64), fall[1:], 1)
    with pytest.raises(ValueError, match="rows have five shares and two places"):
        outward_steps(np.ones(9), np.ones((1, 4)), np.zeros((1, 2), dtype=np.int64), fall, 1)


# ---- where outcomes lead ----

SCALE = Scale(97, 64, 32)


def rho(scale: Scale) -> Fraction:
    """The ratio of neighbouring points."""
    return 1 + Fraction(1, scale.density)


def random_mass(choose: random.Random) -> int:
    """A probability over 2^128: of any size, near 0 and near 1."""
    return choose.choice((1, WHOLE - 1, choose.getrandbits(128), choose.getrandbits(choose.randint(1, 128)) + 1)) or 1


@pytest.mark.parametrize("seed", range(40))
def test_mass_is_moved_to_the_left_and_not_far(seed: int) -> None:
    """An outcome's mass stays, its place is at most z Q/P, and within 1e-9 of it but for the end."""
    choose = chooser(f"placed {seed}")
    scale = choose.choice((SCALE, Scale(8, 8, 8), Scale(1 << 20, 128, 64)))
    for _ in range(100):
        mass = random_mass(choose)
        near = int(mass * math.exp(choose.uniform(-1, 1) * scale.points / scale.density))
        other = choose.choice((0, random_mass(choose), min(near, WHOLE), mass))
        sure, left, right, place = verifier._placed(mass, other, scale)
        total = Fraction(sure) + Fraction(left) + Fraction(right)
        assert abs(total - Fraction(mass, WHOLE)) <= Fraction(mass, WHOLE) / (1 << 51)
        assert min(sure, left, right) >= 0 and -scale.points <= place <= scale.points - 2
        ratio = Fraction(other, mass)
        if sure:
            assert not left and not right and ratio <= rho(scale) ** -scale.points * (1 + Fraction(1, 1 << 100))
            continue
        mean = (Fraction(left) * rho(scale) ** place + Fraction(right) * rho(scale) ** (place + 1)) / total
        assert rho(scale) ** place <= ratio and mean <= ratio * (1 + Fraction(1, 1 << 50))
        if ratio <= rho(scale) ** (scale.points - 1) and mass > 1 << 60:
            assert mean >= ratio * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize("scale", [SCALE, Scale(8, 8, 8), Scale(640, 1024, 512)])
def test_powers_enclose_the_points(scale: Scale) -> None:
    """Lower and upper bounds of rho^g; the fall is a lower bound in double precision."""
    lows, highs = scale.powers
    for place in range(-scale.points, scale.points + 1, 7):
        exact = rho(scale) ** place * (1 << 192)
        low, high = lows[place + scale.points], highs[place + scale.points]
        assert low <= exact <= high and high - low <= exact / (1 << 150) + 2 * scale.points
    for place in range(0, scale.points + 1, 11):
        fallen = Fraction(float(scale.fall[place]))
        assert fallen < rho(scale) ** -place and fallen > rho(scale) ** -place * (1 - Fraction(1, 1 << 51))


def test_scales_have_limits() -> None:
    """Points that do not divide into eighths, or too many of them, are refused."""
    for wrong in (
        (7, 64, 64),
        (640, 63, 64),
        (640, 64, 12),
        (640, 0, 64),
        (640, 1 << 15, 64),
        (1 << 25, 64, 64),
        (9.0, 8, 8),
    ):
        with pytest.raises(PrivacyViolation, match="the scale of a certificate has no such points"):
            Scale(*wrong)  # type: ignore[arg-type]


# ---- declared functions ----


def smooth(scale: Scale, epsilon: float = 1.0) -> list[int]:
    """A convex function that falls from 1: that of a Gaussian shift by 1, at every eighth point."""
    found = []
    with mpmath.workdps(60):
        for place in range(-scale.below, scale.above + 1, COARSE):
            at = epsilon + place * mpmath.log1p(mpmath.mpf(1) / scale.density)
            found.append(int(mpmath.floor((mpmath.ncdf(0.5 - at) - mpmath.exp(at) * mpmath.ncdf(-0.5 - at)) * UNIT)))
    return found


def test_functions_between_their_points() -> None:
    """Upper bounds of the chord between every eighth point, one bit above it at most."""
    function = smooth(SCALE)
    found = verifier._at_all_points(function, SCALE)
    assert len(found) == SCALE.points
    for place, value in enumerate(found.tolist()):
        first, step = divmod(place, COARSE)
        here, after = function[first], function[min(first + 1, len(function) - 1)]
        share = (rho(SCALE) ** step - 1) / (rho(SCALE) ** COARSE - 1)
        chord = (here - (here - after) * share) / UNIT
        assert chord <= Fraction(value) <= chord * (1 + Fraction(1, 1 << 50))


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(7, 2), Fraction(20)])
def test_the_end_is_what_must_be_paid(epsilon: Fraction) -> None:
    """Upper bounds of max(0, 1 - e^epsilon z), to 14 digits."""
    scale = Scale(max(8, math.ceil(640 / epsilon)), 1024, 512)
    with mpmath.workdps(80):
        growth = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        for place, value in enumerate(verifier._at_the_end(scale, epsilon).tolist()):
            point = (1 + mpmath.mpf(1) / scale.density) ** (place - scale.below)
            truth = max(mpmath.mpf(0), 1 - growth * point)
            assert truth <= value <= truth * (1 + mpmath.mpf(10) ** -14) + mpmath.mpf(10) ** -40


def test_functions_are_checked_in_integers() -> None:
    """What increases, is not convex, leaves 0 .. 1, begins too low at z = 0 or has other points is refused."""
    good = smooth(SCALE)
    verifier.check_function(good, SCALE)
    one, more = SCALE.density**COARSE, (SCALE.density + 1) ** COARSE
    verifier.check_function([0] * len(good), SCALE)
    verifier.check_function([UNIT] * len(good), SCALE)
    last = good.copy()
    last[-1] = last[-2] + 1
    bent = good.copy()
    bent[4] = (bent[3] * one + bent[5] * one * one // more) // (one + one * one // more) + 2  # just above its chord
    above = [UNIT + 1, *good[1:]]
    below = [*good[:-1], -1]
    steep = good.copy()
    steep[0] = UNIT - (steep[0] - steep[1]) * one // (more - one) + 1  # begins above the line from 1 at z = 0
    half = [value / 1.0 for value in good]
    chord = good.copy()
    chord[4] = -(-(chord[3] * more + chord[5] * one) // (more + one)) + 1
    for wrong in (last, above, below, steep, chord, bent):
        with pytest.raises(PrivacyViolation, match="must be convex, must not increase, and lies between 0 and 1"):
            verifier.check_function(wrong, SCALE)
    others: list[Any] = [good[:-1], [*good, 0], half, [], [str(value) for value in good]]
    for other in others:
        with pytest.raises(PrivacyViolation, match="another number of points than its scale"):
            verifier.check_function(other, SCALE)
    chord[4] = (good[3] * more + good[5] * one) // (more + one)
    chord_only = [*chord[:4], chord[4], *chord[5:]]
    assert (chord_only[3] - chord_only[4]) * more >= (chord_only[4] - chord_only[5]) * one


def test_numbers_are_rounded_up() -> None:
    """Any integer over a power of two, tiny ones and those just below 1, becomes a double that is not smaller."""
    choose = chooser(5)
    numbers = [0, 1, UNIT, UNIT - 1, *(choose.getrandbits(choose.randint(1, 120)) for _ in range(2000))]
    for number, value in zip(numbers, verifier._upper(numbers, UNIT).tolist(), strict=True):
        assert Fraction(number, UNIT) <= Fraction(value) <= Fraction(number, UNIT) * (1 + Fraction(1, 1 << 51))


# ---- counts ----


def gaussian_profile(sigma: Fraction, keys: int, epsilon: Fraction, factor: Fraction) -> mpmath.mpf:
    """The divergence of two Gaussian laws sqrt(keys) apart at epsilon + ln factor, with 60 digits."""
    shift = mpmath.sqrt(keys) / (mpmath.mpf(sigma.numerator) / sigma.denominator)
    at = mpmath.mpf(epsilon.numerator) / epsilon.denominator
    at += mpmath.log(mpmath.mpf(factor.numerator) / factor.denominator)
    return mpmath.ncdf(shift / 2 - at / shift) - mpmath.exp(at) * mpmath.ncdf(-shift / 2 - at / shift)


@pytest.mark.parametrize(("sigma", "keys"), [(Fraction(3), 1), (Fraction(9, 2), 4), (Fraction(40), 100)])
def test_divergences_of_counts(sigma: Fraction, keys: int) -> None:
    """At least the divergence of the Gaussian laws, and at most 1e-15 above it, at every z."""
    reach = math.ceil(14 * sigma)
    table, epsilon = noise_table(noise_masses(sigma, reach)), Fraction(1)
    factors = [rho(SCALE) ** place for place in range(-64, 33, 8)]
    found = gaussian_divergences(table, reach=reach, sigma=sigma, differing=keys, epsilon=epsilon, factors=factors)
    with mpmath.workdps(60):
        for factor, bound in zip(factors, found, strict=True):
            truth = gaussian_profile(sigma, keys, epsilon, factor)
            above = mpmath.mpf(bound.numerator) / bound.denominator - truth
            assert 0 <= above <= mpmath.mpf(10) ** -15 * keys


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(5, 2)])
def test_divergences_of_counts_bound_the_table(sigma: Fraction) -> None:
    """One count, the table itself, written out in integers: at most the bound, also for a table that is cut short."""
    for reach in (3, 8, 30):
        table = noise_table(noise_masses(sigma, reach))
        reached = [0, *read_entries(table), WHOLE]
        masses = [after - before for before, after in pairwise(reached)]
        factors = [rho(SCALE) ** place for place in range(-64, 33, 16)]
        found = gaussian_divergences(table, reach=reach, sigma=sigma, differing=1, epsilon=Fraction(1), factors=factors)
        for factor, bound in zip(factors, found, strict=True):
            growth = exp_above(Fraction(1)) * factor
            for first, second in (([*masses, 0], [0, *masses]), ([0, *masses], [*masses, 0])):
                exact = sum(max(0, one - growth * other) for one, other in zip(first, second, strict=True)) / WHOLE
                assert exact <= bound


def test_noise_of_another_deviation_is_far() -> None:
    """A table of less noise than is stated costs as much as it differs; no table, no keys and no noise are refused."""
    table = noise_table(noise_masses(Fraction(2), 60))
    stated: dict[str, object] = {"reach": 60, "epsilon": Fraction(1), "factors": [Fraction(1)]}
    honest = gaussian_divergences(table, sigma=Fraction(2), differing=1, **stated)[0]  # type: ignore[arg-type]
    forged = gaussian_divergences(table, sigma=Fraction(3), differing=1, **stated)[0]  # type: ignore[arg-type]
    assert forged > honest
    for wrong in ({"sigma": Fraction(0), "differing": 1}, {"sigma": Fraction(2), "differing": 0}):
        with pytest.raises(PrivacyViolation, match="must be positive"):
            gaussian_divergences(table, **stated, **wrong)  # type: ignore[arg-type]
    with pytest.raises(PrivacyViolation, match="does not consist of 2 R entries"):
        gaussian_divergences(table[16:], sigma=Fraction(2), differing=1, **stated)  # type: ignore[arg-type]
