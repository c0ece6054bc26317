"""What [CGSS21] says about the shape of its solution, asked of the laws that are drawn from."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from dptally import Ppswor, Priority
from dptally.laws.sampling_schemes import UNIT_BITS, Scheme
from dptally.laws.tables.sampled_rows import SampledRows
from dptally.laws.weighted_sample import WeightedSample
from dptally.verifiers.tables import certify_bands
from tests.exact.reference import growth
from tests.exact.test_printed_algorithm_5 import pieces_of_algorithm_5

WHOLE = 1 << UNIT_BITS
SETTINGS = [
    (Fraction(1), Fraction(1, 10**6)),
    (Fraction(1, 10), Fraction(1, 10**4)),
    (Fraction(1, 2), Fraction(1, 100)),
    (Fraction(3), Fraction(1, 1000)),
]


def keys_of(epsilon: Fraction, delta: Fraction, scheme: Scheme) -> SampledRows:
    """Rows of the law without values."""
    return SampledRows(epsilon, delta, scheme, values=False, sub_tokens=1)


# ---- Theorem 5.1 ----


@pytest.mark.parametrize("scheme", [None, Ppswor("0.3"), Priority("0.2")], ids=str)
def test_values_are_separated_as_far_as_privacy_allows(scheme: Scheme | None) -> None:
    """Theorem 5.1, 3: given the row before, no private row reports more often above any value; by linear programs.

    Variables are the masses of the next row. Privacy with the row before, both ways, and the probability of being
    reported are its only constraints, so the optimum of each program is over all laws there are.
    """
    epsilon, delta = Fraction(1, 2), Fraction(1, 20)
    law = WeightedSample(epsilon, delta, scheme, centred=False)
    for frequency in (2, 3, 5, 8):
        before, here = law.row(frequency - 1), law.row(frequency)
        outcomes: list[int | None] = [None, *range(1, frequency + 1)]
        known = np.array([float(before.get(outcome, 0)) for outcome in outcomes])
        a, size = float(growth(epsilon)), len(outcomes)
        identity, nothing, sums = np.eye(size), np.zeros((size, size)), np.ones(size)
        # Rows p, and what exceeds in either direction: p - a before <= up, before - a p <= down.
        constraints = np.block([[identity, -identity, nothing], [-a * identity, nothing, -identity]])
        limits = np.concatenate([a * known, -known])
        totals = np.concatenate([np.zeros((2, size)), np.kron(np.eye(2), sums)], axis=1)
        equal = np.zeros((2, 3 * size))
        equal[0, :size], equal[1, 0] = 1, 1
        for value in range(1, frequency + 1):
            wanted = np.zeros(3 * size)
            wanted[value:size] = -1
            found = linprog(
                wanted,
                A_ub=np.concatenate([constraints, totals]),
                b_ub=np.concatenate([limits, [float(delta)] * 2]),
                A_eq=equal,
                b_eq=[1, float(here[None])],
            )
            assert found.status == 0
            reported = float(sum(mass for outcome, mass in here.items() if outcome is not None and outcome >= value))
            assert reported == pytest.approx(-found.fun, abs=1e-9)


@pytest.mark.parametrize(
    ("scheme", "sub_tokens"),
    [(None, 1), (Ppswor("0.3"), 1), (Ppswor("0.3"), 3), (Priority("0.2", "0.5"), 1), (Priority("0.2", "0.5"), 3)],
    ids=str,
)
def test_values_get_larger_with_frequency(scheme: Scheme | None, sub_tokens: int) -> None:
    """One unit more never makes a value above x less likely, for any x: stochastic order of neighbouring rows."""
    law = WeightedSample("1/2", "1/100", scheme, sub_tokens=sub_tokens)
    rows = [law.row(frequency) for frequency in range(1, 40)]
    for lower, higher in pairwise(rows):
        for value in range(1, 40 * sub_tokens):
            above = [sum(mass for v, mass in row.items() if v is not None and v >= value) for row in (lower, higher)]
            assert above[0] <= above[1]


# ---- Lemmas 4.3, 4.4, A.1 and A.3 ----


def test_lemma_4_3_needs_a_ceiling() -> None:
    """For e^epsilon = 2, delta = 1/31 there are 8 = 2 ceil(L) rows below 1, more than the printed 2L + 1 = 7.92."""
    epsilon = Fraction(69314718056, 10**11)  # just above ln 2
    assert WeightedSample(epsilon, Fraction(1, 31), values=False).width - 1 == 8


@pytest.mark.parametrize("rate", ["0.5", "0.01", "1e-4"])
@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS, ids=str)
def test_lemma_4_4(epsilon: Fraction, delta: Fraction, rate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ppswor with power 1: as without sampling up to the first place where that exceeds q, and q from there on.

    So rows far out are taken from q without listing those before; they are what the recursion gives, row by row.
    """
    scheme, last = Ppswor(rate), 5000
    found = keys_of(epsilon, delta, scheme).reported(1, last)
    sampled = scheme.floors(1, last)
    unsampled = WeightedSample(epsilon, delta, values=False)
    optimum = [unsampled.reporting_probability(frequency) * WHOLE for frequency in range(1, last + 1)]
    turn = next((at for at in range(last) if optimum[at] > sampled[at]), last)
    assert all(abs(found[at] - optimum[at]) < 2**67 for at in range(turn))
    assert found[turn:] == sampled[turn:] and turn < last
    monkeypatch.setattr(SampledRows, "_closed_form", False)
    assert keys_of(epsilon, delta, scheme).reported(1, last) == found


@pytest.mark.parametrize("scheme", [Ppswor("4e-6", 2), Priority("4e-6", 2)], ids=str)
def test_lemma_4_4_is_not_used_where_it_fails(scheme: Scheme) -> None:
    """With power 2, keys are reported as often as sampled for more than 64 rows, and then no longer: rows are listed.

    Rows that went on with q would not be private.
    """
    epsilon, delta = Fraction(1, 1000), Fraction(1, 1000)
    rows = keys_of(epsilon, delta, scheme)
    found, sampled = rows.reported(1, 400), scheme.floors(1, 400)
    assert found[:64] == sampled[:64] and found[-1] < sampled[-1]
    assert certify_bands(rows.bands(range(1, 401)), epsilon=epsilon, delta=delta).worst_delta <= delta


def constraints_of(rows: SampledRows, scheme: Scheme, epsilon: Fraction, delta: Fraction, last: int) -> str:
    """Which constraint each row has reached: "q" sampling (13), "u" one unit more (16), "d" one unit less (17)."""
    a, unit = growth(epsilon), delta * WHOLE
    sequence = ""
    for before, now, ceiling in zip(rows.reported(0, last - 1), rows.reported(1, last), scheme.floors(1, last),
                                    strict=True):  # fmt: skip
        up, down = a * before + unit, WHOLE - (WHOLE - before - unit) / a
        least = min(("q", Fraction(ceiling)), ("u", up), ("d", down), key=lambda found: found[1])
        assert abs(now - least[1]) < 2**67
        sequence += least[0]
    return sequence


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS, ids=str)
def test_lemma_a_1_and_a_3(epsilon: Fraction, delta: Fraction) -> None:
    """Ppswor with power 1 reaches its constraints in the order (16)*, (17)*, (13)*; priority (13) after (16)."""
    seen = ""
    for rate in ("0.9", "0.05", "0.001"):
        scheme = Ppswor(rate)
        seen += (found := constraints_of(keys_of(epsilon, delta, scheme), scheme, epsilon, delta, 600))
        assert re.fullmatch("u*d*q*", found)
    for rate, power in (("0.9", 1), ("0.02", 1), ("0.05", "1/2")):
        other = Priority(rate, power)
        found = constraints_of(keys_of(epsilon, delta, other), other, epsilon, delta, 600)
        first = found.find("q")
        assert first < 0 or "u" not in found[first:]
    assert "u" in seen and "q" in seen


# ---- Lemma C.3 ----


@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 31), Fraction(3, 7)])
def test_lemma_c_3(delta: Fraction) -> None:
    """The densities of Algorithm 5 up to row m have at most 3 m places where any of them changes."""
    for last in (1, 4, 9, 14):
        laws = pieces_of_algorithm_5(2, delta, last, factor=2)
        places = {point for _, pieces in laws for start, end, _ in pieces for point in (start, end)} - {0}
        assert len(places) <= 3 * last


# ---- Lemma F.1 ----


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.01"), ("0.5", "0.01"), ("2", "1/31")])
def test_lemma_f_1(epsilon: str, delta: str, centred: bool) -> None:
    """No weights for the values of this law are both unbiased and nowhere negative; ours are unbiased, so some are.

    That there are none is the infeasibility of a linear program over rows 1 .. n, n up to where the proof goes.
    """
    law = WeightedSample(epsilon, delta, centred=centred)
    last = min(8, law.width)
    rows = [law.row(frequency) for frequency in range(1, last + 1)]
    chances = np.array([[float(row.get(value, 0)) for value in range(1, last + 2)] for row in rows])
    # In units of what the row can be estimated with, so that small chances do not pass for none.
    scale = chances.max(axis=1, keepdims=True)
    wanted = np.arange(1, last + 1) / scale[:, 0]
    found = linprog(np.zeros(last + 1), A_eq=chances / scale, b_eq=wanted, bounds=(0, None), method="highs")
    assert found.status == 2  # infeasible
    weigh = law.estimator("unbiased")
    assert all(weigh.bias(frequency) == 0 for frequency in range(1, 20))
    assert min(weigh(value) for value in range(1, 20)) < 0
