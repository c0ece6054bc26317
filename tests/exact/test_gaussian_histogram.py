"""The Gaussian sparse histogram: the theorem against integration, the judge against wrong tables, the calibration."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from mpmath import mp, mpf
from scipy.special import ndtr

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.gaussian_histogram import (
    LARGEST_REACH,
    GaussianHistogram,
    calibrate,
    noise_masses,
)
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import share_between_keys
from dptally.randomness import SeededBits
from dptally.verifiers import gaussian as gaussian_judge
from dptally.verifiers.gaussian import certify_gaussian_table, thresholded_gaussian_delta
from tests.exact.reference import divergence, growth, optimal_probabilities

PAGE = Path(__file__).parents[2] / "docs" / "mechanisms" / "gaussian-histogram.md"
SETTINGS = [("0.1", "1e-6", 10), ("1", "1e-6", 1), ("1", "1e-10", 1000), ("3", "0.01", 2), ("0.3", "0.2", 5)]


# ---- the slow reference: integrate the divergence of the mechanism itself ----


def hockey_stick(pairs: tuple[tuple[int, int], ...], threshold: float, sigma: float, epsilon: np.ndarray) -> np.ndarray:
    """Divergence at each epsilon between the releases for the first and for the second counts of some keys.

    Real noise, real threshold. The outcome of the first key is summed or integrated over, and changes the epsilon at
    which the other keys are compared; the last key is integrated in closed form between the points where the larger
    density changes.
    """
    (first, second), rest = pairs[0], pairs[1:]

    def others(shifted: np.ndarray) -> np.ndarray:
        if rest:
            return hockey_stick(rest, threshold, sigma, shifted)
        return np.maximum(0.0, -np.expm1(shifted))

    hidden = [1.0 if count == 0 else float(ndtr((threshold - count) / sigma)) for count in (first, second)]
    total = hidden[0] * others(epsilon + math.log(hidden[1] / hidden[0]))
    if first == 0:
        return total
    if second == 0:
        return total + (1 - hidden[0])  # a key that the second data set does not have was seen
    if not rest:
        crossing = (first + second) / 2 + epsilon * sigma**2 / (first - second)
        low, high = (
            (np.maximum(threshold, crossing), np.full_like(epsilon, np.inf))
            if first > second
            else (np.full_like(epsilon, threshold), np.maximum(threshold, crossing))
        )
        masses = [ndtr((count - low) / sigma) - ndtr((count - high) / sigma) for count in (first, second)]
        return total + masses[0] - np.exp(epsilon) * masses[1]
    nodes, weights = np.polynomial.legendre.leggauss(80)
    low_end, high_end = max(threshold, first - 9 * sigma), first + 9 * sigma
    if low_end >= high_end:
        return total
    points = (high_end - low_end) / 2 * nodes + (high_end + low_end) / 2
    density = np.exp(-((points - first) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    ratio = ((points - first) ** 2 - (points - second) ** 2) / (2 * sigma**2)
    inner = others((epsilon[..., None] + ratio).reshape(-1)).reshape(*epsilon.shape, -1)
    return total + (inner * density * weights).sum(axis=-1) * (high_end - low_end) / 2


def reference(sigma: float, threshold: int, keys: int, epsilon: float) -> tuple[float, tuple[tuple[int, int], ...]]:
    """The largest divergence over up to `keys` keys, their counts, and both directions."""
    far = threshold + round(20 * sigma)  # certain to be reported, as far as floats can tell
    worst, worst_pairs = 0.0, tuple[tuple[int, int], ...]()
    for number in range(1, keys + 1):
        for counts in itertools.combinations_with_replacement((1, 2, threshold, far), number):
            for pairs in (tuple((count, count - 1) for count in counts), tuple((count - 1, count) for count in counts)):
                found = float(hockey_stick(pairs, threshold - 0.5, sigma, np.array([epsilon]))[0])
                if found > worst:
                    worst, worst_pairs = found, pairs
    return worst, worst_pairs


@pytest.mark.parametrize("keys", [1, 2, 3])
@pytest.mark.parametrize(
    ("sigma", "threshold", "epsilon"),
    [
        (Fraction(3, 2), 4, Fraction(1)),
        (Fraction(3, 2), 6, Fraction(1, 2)),
        (Fraction(4), 9, Fraction(1, 10)),
        (Fraction(1), 3, Fraction(2)),
        (Fraction(5, 2), 12, Fraction(1, 3)),
    ],
)
def test_the_theorem_is_what_integration_finds(sigma: Fraction, threshold: int, epsilon: Fraction, keys: int) -> None:
    """The judge's bound equals the largest divergence over counts, shared keys and directions, by integration."""
    bound, shared = thresholded_gaussian_delta(sigma=sigma, threshold=threshold, differing=keys, epsilon=epsilon)
    found, pairs = reference(float(sigma), threshold, keys, float(epsilon))
    assert found == pytest.approx(float(bound), rel=1e-7, abs=0)
    assert sum(min(pair) > 0 for pair in pairs) == shared and len(pairs) == keys


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_each_term_is_what_integration_finds(missing: int) -> None:
    """For each number of shared keys, of high counts, the judge's two terms are the divergences of the two orders."""
    sigma, threshold, epsilon = Fraction(2), 6, Fraction(2, 5)
    for shared in (1, 2):
        counts = [1] * missing + [threshold + 40] * shared
        terms = gaussian_judge._Divergence(sigma, threshold, missing + shared, epsilon, Fraction(0))
        for term, pairs in (
            (terms.lost, [(count, count - 1) for count in counts]),
            (terms.gained, [(count - 1, count) for count in counts]),
        ):
            found = hockey_stick(tuple(pairs), threshold - 0.5, float(sigma), np.array([float(epsilon)]))
            assert float(term(shared, missing)) == pytest.approx(float(found[0]), rel=1e-8, abs=0)


def test_one_missing_and_one_shared_key_by_mpmath() -> None:
    """At 40 digits and delta near 1e-9 the judge's term agrees with adaptive integration to 25 digits."""
    sigma, threshold, epsilon = Fraction(6), 40, Fraction(1)
    with mp.workdps(40):
        s, e = mpf(6), mpf(1)
        hidden = mp.ncdf((mpf(threshold) - mpf(3) / 2) / s)

        def density(x: mpf) -> mpf:
            return hidden * mp.npdf(x, 1, s) - mp.exp(e) * mp.npdf(x, 0, s)

        crossing = mpf(1) / 2 + (e - mp.log(hidden)) * s**2
        wanted = 1 - hidden + mp.quad(density, [crossing, crossing + 3 * s, crossing + 8 * s, crossing + 30 * s])
        with gaussian_judge.working_precision(200):
            term = gaussian_judge._Divergence(sigma, threshold, 2, epsilon, Fraction(0)).at(1, 1)
            number = term.mid().fmpq()
        assert abs(mpf(int(number.numer())) / mpf(int(number.denom())) / wanted - 1) < mpf(10) ** -25


@pytest.mark.parametrize("seed", range(6))
def test_intervals_lose_nothing(seed: int) -> None:
    """The maximum by intervals is the maximum over every j, for noise and thresholds that fit and that do not."""
    source = random.Random(seed)  # noqa: S311
    keys = 300
    epsilon = Fraction(source.choice(["0.01", "0.3", "1", "4"]))
    sigma, threshold = calibrate(epsilon, Fraction(source.choice(["0.3", "0.01", "1e-6"])), keys)
    sigma *= Fraction(source.randint(90, 120), 100)
    threshold = max(2, threshold * source.randint(85, 115) // 100)
    bound, shared = thresholded_gaussian_delta(sigma=sigma, threshold=threshold, differing=keys, epsilon=epsilon)
    with gaussian_judge.working_precision(128):
        terms = gaussian_judge._Divergence(sigma, threshold, keys, epsilon, Fraction(0))
        every = [float(terms.at(j, keys - j).upper()) for j in range(keys + 1)]
    assert float(bound) == max(every) and every[shared] == max(every)


@pytest.mark.parametrize("peak", [1, 7, 30, 150, 271, 299])
def test_a_peak_between_the_ends_is_found(peak: int) -> None:
    """For any terms that grow with j and k, wherever j + k = l is worst, the search finds it."""

    class Peaked(gaussian_judge._Divergence):
        """Terms that are largest at `peak`."""

        def at(self, shared: int, missing: int) -> arb:
            return arb(min(shared * (300 - peak), missing * peak))

    best, shared = Peaked(Fraction(1), 5, 300, Fraction(1), Fraction(0)).largest(None)
    assert (float(best), shared) == ((300 - peak) * peak, peak)


def test_terms_grow_with_both_numbers_of_keys() -> None:
    """What lets intervals be settled at once: neither more shared nor more missing keys lower a term."""
    for epsilon, sigma, threshold in ((Fraction(1, 10), Fraction(7), 20), (Fraction(2), Fraction(3, 2), 5)):
        terms = gaussian_judge._Divergence(sigma, threshold, 12, epsilon, Fraction(0))
        for shared, missing in itertools.product(range(12), range(12)):
            here = terms.at(shared, missing)
            assert here <= terms.at(shared + 1, missing).upper() and here <= terms.at(shared, missing + 1).upper()


def test_digits_are_added_until_the_verdict_is_clear() -> None:
    """A limit within 2^-400 of the true value is decided either way, where 128 bits could not."""
    asked = {"sigma": Fraction(5), "threshold": 40, "differing": 3, "epsilon": Fraction(1)}
    with gaussian_judge.working_precision(700):
        terms = gaussian_judge._Divergence(Fraction(5), 40, 3, Fraction(1), Fraction(0))
        exact = max((terms.at(j, 3 - j) for j in range(4)), key=float)
        value = Fraction(int(exact.mid().fmpq().numer()), int(exact.mid().fmpq().denom()))
    above, below = value + Fraction(1, 2**400), value - Fraction(1, 2**400)
    assert thresholded_gaussian_delta(**asked, allowed=above)[0] <= above  # type: ignore[arg-type]
    assert thresholded_gaussian_delta(**asked, allowed=below)[0] > below  # type: ignore[arg-type]


# ---- the table ----


@pytest.mark.parametrize(("epsilon", "delta", "keys"), SETTINGS)
def test_the_table_is_the_rounded_gaussian_law(epsilon: str, delta: str, keys: int) -> None:
    """Probabilities are those of mpmath, rounded up except in the middle, symmetric, and add up."""
    law = GaussianHistogram(epsilon, delta, keys)
    masses = noise_masses(law.sigma, law.reach)
    assert masses[0] + 2 * sum(masses[1:]) == 2**128
    with mp.workdps(80):
        scale = mpf(law.sigma.numerator) / law.sigma.denominator * mp.sqrt(2)
        for distance in range(0, law.reach + 1, max(1, law.reach // 60)):
            ends = ((distance + side * mpf("0.5")) / scale for side in (-1, 1))
            wanted = mpf(2) ** 127 * -(-mp.erfc(next(ends)) + mp.erfc(next(ends)))
            if distance:
                assert 0 <= masses[distance] - wanted < 1 + mpf(2) ** -10
                assert law.noise_law[distance] == law.noise_law[-distance] == Fraction(masses[distance], 2**128)
            else:
                cut = mpf(2) ** 58 * float(law.delta) / keys / mp.exp(float(law.epsilon))  # 2^-70 of delta
                assert -2 * law.reach - 2 < masses[0] - wanted <= 1 + cut
    assert sum(law.noise_law.values()) == 1


def largest_divergence(law: GaussianHistogram, highest: int) -> Fraction:
    """The largest divergence of two keys' releases with counts up to `highest`, one lower for both, both ways."""
    factor = growth(law.epsilon, 200)
    largest = Fraction(0)
    for counts in itertools.combinations_with_replacement(range(1, highest + 1), 2):
        here, before = (
            {
                (x, y): a * b
                for (x, a), (y, b) in itertools.product(*(law.row(count - lower).items() for count in counts))
            }
            for lower in (0, 1)
        )
        largest = max(largest, divergence(here, before, factor), divergence(before, here, factor))
    return largest


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.05"), ("0.5", "0.2"), ("4", "0.001")])
def test_every_pair_of_releases_written_out(epsilon: str, delta: str) -> None:
    """Enumerated in fractions, no pair of neighbours exceeds what the certificate says, and one comes near it.

    One threshold lower, a pair exceeds delta itself: the judge's refusal is not caution.
    """
    law = GaussianHistogram(epsilon, delta, 2)
    worst = law.certify().worst_delta
    assert worst / 2 < largest_divergence(law, 4) <= worst <= law.delta
    assert 1 - (1 - law.reporting_probability(1)) ** 2 <= worst
    law.threshold -= 1
    assert largest_divergence(law, 1) > law.delta


@pytest.mark.parametrize("seed", range(4))
def test_a_distorted_table_costs_no_more_than_the_judge_says(seed: int) -> None:
    """With 3 % of random distortion and a bump where keys of one unit pass, enumeration stays within the bound.

    It exceeds delta, and the judge at that delta refuses.
    """
    source = random.Random(seed)  # noqa: S311
    law = GaussianHistogram("0.8", "0.1", 2)
    masses = [int(law.noise_law[law.reach - drop] * 2**128) for drop in range(2 * law.reach + 1)]
    masses = [mass * source.randint(970, 1030) // 1000 for mass in masses]
    masses[law.reach - law.threshold + 1] += 2**128 // 20  # noise T - 1
    masses[law.reach] += 2**128 - sum(masses)
    vars(law)["table"] = table_of(masses)  # the other properties were computed from the right one
    for name in ("cumulative", "noise_law"):
        vars(law).pop(name)
    assert law.delta < largest_divergence(law, 4) <= judge(law, delta=Fraction(9, 10)) < Fraction(9, 10)
    with pytest.raises(PrivacyViolation, match="is not the Gaussian law"):
        law.certify()


def test_shrinking_is_a_smaller_epsilon() -> None:
    """With shrink 1 - 1/e the divergence of l keys is that at epsilon - l."""
    asked = {"sigma": Fraction(2), "threshold": 12, "differing": 3}
    share = Fraction(1 - math.exp(-1.0))
    shrunk, _ = thresholded_gaussian_delta(**asked, epsilon=Fraction(4), shrink=share)  # type: ignore[arg-type]
    plain, _ = thresholded_gaussian_delta(**asked, epsilon=Fraction(1))  # type: ignore[arg-type]
    assert float(shrunk) == pytest.approx(float(plain), rel=1e-12, abs=0)


@pytest.mark.parametrize(("epsilon", "delta", "keys"), SETTINGS)
def test_certificate(epsilon: str, delta: str, keys: int) -> None:
    """The certificate says what was judged; delta is spent but for 2^-18 of it, and precision is left as it was."""
    law = GaussianHistogram(epsilon, delta, keys)
    before = ctx.prec
    certificate = law.certify()
    assert ctx.prec == before
    assert law.delta * (1 - Fraction(1, 2**17)) < certificate.worst_delta <= law.delta
    assert certificate.total_delta == certificate.worst_delta and certificate.total_epsilon == law.epsilon
    assert certificate.worst_pair == (keys, keys) and certificate.copies == keys
    assert certificate.rows_checked == 2 * law.reach + 1 == len(law.cumulative)
    assert certificate.table_sha256 == hashlib.sha256(b"%d;" % law.threshold + law.table).hexdigest()
    assert "in ball arithmetic" in str(certificate)
    assert law.certify() is certificate


def judge(law: GaussianHistogram, **changed: Any) -> Fraction:
    """The judge on a law's table, with something changed."""
    asked: dict[str, Any] = {
        "table": law.table,
        "reach": law.reach,
        "sigma": law.sigma,
        "threshold": law.threshold,
        "differing": law.differing,
        "epsilon": law.epsilon,
        "delta": law.delta,
        **changed,
    }
    return certify_gaussian_table(asked.pop("table"), **asked).worst_delta


def table_of(masses: list[int]) -> bytes:
    """Thresholds from the masses of D = 0 .. 2R."""
    return b"".join(reached.to_bytes(16, "little") for reached in list(accumulate(masses))[:-1])


@pytest.mark.parametrize(("epsilon", "delta", "keys"), SETTINGS)
def test_wrong_tables_are_refused(epsilon: str, delta: str, keys: int) -> None:
    """Noise that is not what it is said to be, too little noise, and a threshold one too low do not pass."""
    law = GaussianHistogram(epsilon, delta, keys)
    assert judge(law) == law.certify().worst_delta
    half = noise_masses(law.sigma / 2, law.reach)
    halved = table_of([*reversed(half), *half[1:]])
    with pytest.raises(PrivacyViolation, match="is not the Gaussian law of deviation"):
        judge(law, table=halved)
    with pytest.raises(PrivacyViolation, match="the noise is too small"):
        judge(law, table=halved, sigma=law.sigma / 2)
    with pytest.raises(PrivacyViolation, match="is not the Gaussian law of deviation"):
        judge(law, sigma=law.sigma * (1 + max(law.delta, Fraction(1, 1000))))
    with pytest.raises(PrivacyViolation, match="the threshold is too low"):
        judge(law, threshold=law.threshold - 1)
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        judge(law, differing=law.differing + 1)
    with pytest.raises(PrivacyViolation, match="the noise is too small"):
        judge(law, epsilon=law.epsilon * Fraction(999, 1000))


def test_wrong_bytes_are_refused() -> None:
    """Bytes that are no law, of another length, or without a threshold."""
    law = GaussianHistogram("1", "1e-3", 2)
    with pytest.raises(PrivacyViolation, match="does not consist of 2 R entries"):
        judge(law, table=law.table[:-1])
    with pytest.raises(PrivacyViolation, match="does not consist of 2 R entries"):
        judge(law, reach=law.reach - 1)
    with pytest.raises(PrivacyViolation, match="its thresholds decrease"):
        judge(law, table=law.table[::-1])
    with pytest.raises(PrivacyViolation, match="must be positive"):
        judge(law, threshold=0)


@pytest.mark.parametrize("keys", [1, 7])
@pytest.mark.parametrize("noise", [-2, 2])
def test_the_price_of_a_difference(keys: int, noise: int) -> None:
    """Moving mass u from one value to another costs (1 + e^epsilon) l u, by the argument of the judge."""
    law = GaussianHistogram("1", "1e-6", keys)
    masses = [int(law.noise_law[law.reach - drop] * 2**128) for drop in range(2 * law.reach + 1)]
    moved = 2**75
    masses[law.reach] -= moved
    masses[law.reach - noise] += moved
    cost = judge(law, table=table_of(masses)) - judge(law)
    assert float(cost) == pytest.approx(keys * (1 + math.e) * 2.0 ** (75 - 128), rel=1e-3, abs=0)
    masses[law.reach] -= 2**118
    masses[law.reach - noise] += 2**118
    with pytest.raises(PrivacyViolation, match="is not the Gaussian law"):
        judge(law, table=table_of(masses))


def test_a_cut_tail_is_charged() -> None:
    """A table cut where e^epsilon times its tail is more than delta is refused, though all it holds is right."""
    law = GaussianHistogram("5", "1e-6", 1)
    reach = math.ceil(law.sigma * 5)
    half = noise_masses(law.sigma, reach)
    with pytest.raises(PrivacyViolation, match="is not the Gaussian law"):
        judge(law, table=table_of([*reversed(half), *half[1:]]), reach=reach)


# ---- the calibration ----


def test_golden_calibration() -> None:
    """At epsilon .1, delta 1e-6, l = 10: sigma 171.6 -> 114.8, tau 995 -> 597 against Lemma 24 of [LT25].

    Values of an independent calculation from the theorem, in the project's errata. tau = T - 3/2, T whole.
    """
    sigma, threshold = calibrate("0.1", "1e-6", 10)
    assert round(float(sigma), 1) == 114.8
    assert threshold == math.ceil(597 + 1.5) == 599
    lemma_sigma, lemma_threshold = lemma_24("0.1", "1e-6", 10)
    assert round(lemma_sigma, 1) == 171.6 and round(lemma_threshold - 1) == 995


def test_golden_gaussian_mechanism() -> None:
    """For one key sigma is that of the analytic Gaussian mechanism: the divergence at it is delta, by mpmath."""
    for epsilon, delta in (("1", "1e-6"), ("0.01", "1e-10"), ("20", "1e-3")):
        sigma, _ = calibrate(epsilon, delta, 1)
        with mp.workdps(50):
            step = sigma.denominator / mpf(sigma.numerator)
            e = mpf(epsilon)
            found = mp.ncdf(step / 2 - e / step) - mp.exp(e) * mp.ncdf(-step / 2 - e / step)
            assert 1 - mpf(2) ** -17 < found / mpf(delta) < 1


def both_ends_decide(epsilon: float, delta: float, keys: int) -> bool:
    """Whether the threshold is the one that j = 0 demands at the sigma that j = l demands."""
    sigma, threshold = calibrate(epsilon, delta, keys)
    allowed = delta * (1 - 2**-20)
    quantile = -NormalDist().inv_cdf(-math.expm1(math.log1p(-allowed) / keys))
    return threshold == max(2, math.ceil(1.5 + quantile * float(sigma)))


EPSILONS = [10 ** (power / 4) for power in range(-16, 7)]
DELTAS = [*(10 ** (-power / 4) for power in range(1, 40)), 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999]
KEYS = [2, 3, 4, 7, 20, 100, 1000, 100_000]


def test_what_lies_between_the_ends_never_demands_more() -> None:
    """The pair that meets both ends with equality is private: no j between is worse (part of the page's grid)."""
    for setting in itertools.product(EPSILONS[::5], DELTAS[::6], KEYS[::3]):
        assert both_ends_decide(*setting)


@pytest.mark.slow
def test_what_lies_between_the_ends_never_demands_more_on_the_whole_grid() -> None:
    """The same for all settings that the page speaks of."""
    settings = list(itertools.product(EPSILONS, DELTAS, KEYS))
    assert f"{len(settings):,} settings" in PAGE.read_text()
    assert all(both_ends_decide(*setting) for setting in settings)


@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "2", "32"])
def test_neither_noise_nor_threshold_can_be_lowered(epsilon: str) -> None:
    """With the threshold one lower, or the noise one part in 10^5 smaller, the theorem exceeds delta."""
    for delta in (Fraction(1, 2**64), Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 3)):
        for keys in (1, 2, 10, 1000, 100_000):
            sigma, threshold = calibrate(epsilon, delta, keys)
            asked = {"differing": keys, "epsilon": Fraction(epsilon), "allowed": delta}
            within, _ = thresholded_gaussian_delta(sigma=sigma, threshold=threshold, **asked)  # type: ignore[arg-type]
            lower, _ = thresholded_gaussian_delta(sigma=sigma, threshold=threshold - 1, **asked)  # type: ignore[arg-type]
            less = sigma * Fraction(99_999, 100_000)
            quieter, _ = thresholded_gaussian_delta(sigma=less, threshold=threshold, **asked)  # type: ignore[arg-type]
            assert within <= delta < min(lower, quieter)


@pytest.mark.parametrize(
    ("epsilon", "delta", "keys"),
    [
        ("32", Fraction(1, 2**64), 100_000),
        ("32", Fraction(1, 2**64), 1),
        ("32", "0.999", 100_000),
        ("32", "0.9", 1),
        ("0.001", "0.01", 1),
        ("0.001", "0.99", 3),
        ("0.02", Fraction(1, 2**64), 1),
        ("0.5", Fraction(1, 2**64), 100),
        ("0.001", "0.5", 100_000),
    ],
)
def test_extremes_are_certified(epsilon: str, delta: object, keys: int) -> None:
    """At the corners of the parameters the table is built, certified, and spends delta."""
    law = GaussianHistogram(epsilon, delta, keys)
    assert law.delta * (1 - Fraction(1, 2**17)) < law.certify().worst_delta <= law.delta
    assert -math.expm1(keys * math.log1p(-float(law.reporting_probability(1)))) <= law.delta
    assert law.reach >= law.threshold >= 2


def test_calibration_beyond_tables() -> None:
    """The calibration goes on where a table would be too long, and the table says so."""
    sigma, threshold = calibrate("0.001", Fraction(1, 2**64), 100_000)
    assert 2.4e6 < sigma < 2.7e6 and 9 < threshold / sigma < 11
    with pytest.raises(InvalidParameter, match=f"more than {2 * LARGEST_REACH} values"):
        GaussianHistogram("0.001", Fraction(1, 2**64), 100_000)


# ---- the law ----


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-6"), ("1", "1e-6"), ("2", "0.01")])
def test_the_gate(epsilon: str, delta: str) -> None:
    """As in test_gate.py: for one key at most the optimum for every frequency, and nothing at frequency 0."""
    law = GaussianHistogram(epsilon, delta)
    for frequency, best in enumerate(optimal_probabilities(law.epsilon, law.delta), start=1):
        assert law.reporting_probability(frequency) <= best
    assert law.reporting_probability(0) == 0


@pytest.mark.parametrize("values", [True, False])
def test_rows(values: bool) -> None:
    """Rows add up, follow the noise, and agree with the reporting probability and the first frequency."""
    law = GaussianHistogram("2", "0.01", 2, values=values)
    assert law.row(0) == {None: 1}
    for frequency in (1, 2, law.threshold, law.width, law.width + 5, 2**62):
        row = law.row(frequency)
        reported = sum((p for z, p in law.noise_law.items() if frequency + z >= law.threshold), Fraction(0))
        assert sum(row.values()) == 1 and row[None] == 1 - reported == 1 - law.reporting_probability(frequency)
        if values:
            assert all(law.noise_law[value - frequency] == p for value, p in row.items() if value is not None)
            assert min(value for value in row if value is not None) >= law.threshold
        else:
            assert row[1] == reported
    for probability in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(1)):
        first = law.first_frequency(probability)
        assert law.reporting_probability(first) >= probability > law.reporting_probability(first - 1)
    assert law.first_frequency(Fraction(1)) == law.width
    assert law.first_frequency(law.reporting_probability(1)) == 1


def test_the_native_sampler_reads_the_table_as_the_row_says() -> None:
    """At the words where the outcome changes, frequency by frequency, the drawn value is the row's."""
    law = GaussianHistogram("2", "0.05", 2)

    class Words:
        """A source of one given 128-bit number."""

        private = False

        def __init__(self, number: int) -> None:
            self.number = number

        def words(self, count: int) -> np.ndarray:
            return np.array([self.number % 2**64, self.number >> 64] * (count // 2), dtype=np.uint64)

    frequencies = np.arange(0, law.width + 2, dtype=np.int64)
    for drop, edge in enumerate(law.cumulative):
        for number, passed in ((edge - 1, drop), (edge, drop + 1)):
            if number < 2**128:
                noisy = frequencies + law.reach - passed
                wanted = np.where((noisy >= law.threshold) & (frequencies > 0), noisy, 0)
                assert (law.draw(frequencies, Words(number)) == wanted).all()


def test_draws_at_the_borders() -> None:
    """Frequency 0 is never reported, 2^62 does not overflow, nothing in gives nothing out, keys only are ones."""
    law = GaussianHistogram("1", "0.3", 2)
    assert not law.draw(np.zeros(5000, dtype=np.int64), SeededBits(1)).any()
    drawn = law.draw(np.full(20_000, 2, dtype=np.int64), SeededBits(2))
    assert drawn[drawn > 0].min() == law.threshold
    assert abs(law.draw(np.full(100, 2**62, dtype=np.int64), SeededBits(3)) - 2**62).max() <= law.reach
    assert law.draw(np.array([], dtype=np.int64), SeededBits(4)).size == 0
    keys = GaussianHistogram("1", "0.3", 2, values=False)
    assert (keys.draw(np.full(20_000, 2, dtype=np.int64), SeededBits(2)) == (drawn > 0)).all()


def test_nothing_is_drawn_without_a_certificate() -> None:
    """A law whose table does not pass cannot draw."""
    law = GaussianHistogram("1", "1e-3", 2)
    law.threshold -= 1
    with pytest.raises(PrivacyViolation, match="the threshold is too low"):
        law.draw(np.array([5]), SeededBits(1))


def test_bad_input() -> None:
    """One message for each thing that cannot be asked for."""
    with pytest.raises(InvalidParameter, match="epsilon must be a positive number, got -1"):
        GaussianHistogram(-1, "1e-6")
    with pytest.raises(InvalidParameter, match="delta must be at least 0 and below 1, got 2"):
        GaussianHistogram(1, 2)
    with pytest.raises(InvalidParameter, match="differing must be at least 1, got 0"):
        GaussianHistogram(1, "1e-6", 0)
    with pytest.raises(InvalidParameter, match="differing must be at most 100000, got 100001"):
        calibrate(1, "1e-6", 100_001)
    with pytest.raises(InvalidParameter, match="differing and sigma must be positive"):
        thresholded_gaussian_delta(sigma=Fraction(0), threshold=2, differing=1, epsilon=Fraction(1))
    law = GaussianHistogram("1", "0.1")
    with pytest.raises(InvalidParameter, match="one-dimensional array of whole numbers"):
        law.draw(np.array([1.5]), SeededBits(1))
    with pytest.raises(InvalidParameter, match="from 0 to 2"):
        law.draw(np.array([-1]), SeededBits(1))
    with pytest.raises(InvalidParameter, match="true_frequency must be a whole number"):
        law.row(-1)
    assert repr(law) == "GaussianHistogram(epsilon=1, delta=1/10, differing=1, values=True)"


# ---- the figures of the documentation ----


def lemma_24(epsilon: str, delta: str, keys: int) -> tuple[float, float]:
    """Noise and threshold 1 + tau of the closed form."""
    sigma = math.sqrt(2 * keys * math.log(2.5 / float(delta))) / float(epsilon)
    return sigma, 1 + math.sqrt(2 * math.log(2 * keys / float(delta))) * sigma


def test_the_gain_over_the_closed_form_is_as_the_page_says() -> None:
    """Every row of the page's table is what comes out."""
    number = r"([\d.e-]+)"
    pattern = rf"^\| {number} \| {number} \| {number} \| {number} / {number} \| {number} / {number} \|$"
    rows = re.findall(pattern, PAGE.read_text(), re.M)
    assert [row[:3] for row in rows] == list(itertools.product(("10", "1000"), ("0.5", "1"), ("1e-6", "1e-10")))
    for keys, epsilon, delta, *figures in rows:
        closed_sigma, closed_threshold = lemma_24(epsilon, delta, int(keys))
        sigma, threshold = calibrate(epsilon, delta, int(keys))
        assert figures == [f"{closed_sigma:.2f}", f"{float(sigma):.2f}", f"{closed_threshold:.2f}", str(threshold)]


def test_the_comparison_with_a_shared_budget_is_as_the_page_says() -> None:
    """Both rows of the page's table are what comes out; the Gaussian law is better from three keys on."""
    header, shared, gaussian = (
        [int(figure) for figure in re.findall(r"\| (\d+)(?= )", line)]
        for line in PAGE.read_text().splitlines()
        if line.startswith(("| keys per unit", "| optimal histogram", "| Gaussian sparse"))
    )
    assert header == [1, 2, 3, 5, 10, 30, 100]
    for keys, by_sharing, by_noise in zip(header, shared, gaussian, strict=True):
        law = WeightedSample(*share_between_keys(Fraction(1), Fraction(1, 10**6), keys))
        half = Fraction(1, 2)
        assert law.reporting_probability(by_sharing - 1) < half <= law.reporting_probability(by_sharing)
        assert GaussianHistogram("1", "1e-6", keys).first_frequency(half) == by_noise
        assert (by_noise < by_sharing) == (keys >= 3)
