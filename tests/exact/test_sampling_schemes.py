"""Sampling probabilities: exact floors, rational bounds, and refusals."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dptally import Ppswor, Priority, SamplingScheme
from dptally.errors import InvalidParameter
from dptally.laws.sampling_schemes import Scheme, read_scheme

RATES = st.fractions(Fraction(1, 10**7), 3, max_denominator=10**8).filter(bool)
POWERS = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2)])


def exact_probability(scheme: Ppswor | Priority, frequency: int) -> mpf:
    """q_i by mpmath, with 600 bits."""
    with mp.workprec(600):
        mass = mpf(scheme.rate.numerator) / scheme.rate.denominator
        mass *= mpf(frequency) ** (mpf(scheme.power.numerator) / scheme.power.denominator)
        return -mp.expm1(-mass) if isinstance(scheme, Ppswor) else min(mpf(1), mass)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([Ppswor, Priority]), RATES, POWERS, st.integers(1, 10**6), st.integers(20, 300))
def test_bounds_hold(kind: type[Ppswor | Priority], rate: Fraction, power: Fraction, frequency: int, bits: int) -> None:
    """The true probability lies between the bounds, which are as close as asked."""
    scheme = kind(rate, power)
    low, high = scheme.bounds(frequency, bits)
    exact = exact_probability(scheme, frequency)
    with mp.workprec(600):
        slack = mpf(2) ** -550
        assert mpf(low.numerator) / low.denominator <= exact + slack
        assert exact <= mpf(high.numerator) / high.denominator + slack
    assert high - low <= Fraction(8, 2**bits)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([Ppswor, Priority]), RATES, POWERS, st.integers(1, 10**5))
def test_floors_are_exact_and_do_not_fall(
    kind: type[Ppswor | Priority], rate: Fraction, power: Fraction, first: int
) -> None:
    """The whole part of 2^127 q, one by one and as a list, agrees with mpmath; lists never fall."""
    scheme = kind(rate, power)
    listed = scheme.floors(first, first + 20)
    assert listed == sorted(listed) == [scheme.floor(first + i) for i in range(21)]
    with mp.workprec(600):
        scaled = exact_probability(scheme, first) * mpf(2) ** 127
        nearest = int(mp.floor(scaled))
        if isinstance(scheme, Ppswor) and nearest == 2**127:
            nearest -= 1  # mpmath rounds 1 - e^-x to 1, which it never is
        if abs(scaled - mp.nint(scaled)) > mpf(2) ** -200:
            assert listed[0] == nearest


@pytest.mark.parametrize("frequency", [10**12, 2**62])
def test_ppswor_is_never_certain(frequency: int) -> None:
    """However large the frequency, the probability stays below 1, at once and without gigantic numbers."""
    assert Ppswor("0.001").floor(frequency) == 2**127 - 1
    assert Ppswor("0.001").floors(frequency, frequency + 100) == [2**127 - 1] * 101


@pytest.mark.parametrize(
    ("scheme", "first"),
    [(Priority("0.01"), 100), (Priority("0.3"), 4), (Priority("0.01", "0.5"), 10_000), (Priority(5), 1)],
)
def test_priority_becomes_certain(scheme: Priority, first: int) -> None:
    """The first frequency with probability 1 is found."""
    assert scheme.certain_from == first
    assert scheme.bounds(first, 80)[0] == 1
    assert first == 1 or scheme.bounds(first - 1, 80)[1] < 1


@pytest.mark.parametrize(
    "scheme",
    [Ppswor("0.01"), Ppswor("1/3", "0.5"), Priority("2", 2), Ppswor(size=1000), SamplingScheme([0, "0.5", 1])],
    ids=str,
)
def test_text_round_trip(scheme: Scheme) -> None:
    """A scheme's text gives the scheme again; schemes are equal when their text is."""
    assert read_scheme(str(scheme)) == scheme
    assert hash(read_scheme(str(scheme))) == hash(scheme)
    assert scheme != Ppswor("0.7")


def test_falling_probabilities_are_refused_and_repaired() -> None:
    """A scheme that falls is refused with the index; the repair lowers earlier probabilities."""
    with pytest.raises(InvalidParameter, match="the one of frequency 3 is below the one of 2"):
        SamplingScheme([0, "0.5", "0.25", 1])
    assert SamplingScheme.repaired([0, "0.5", "0.25", 1]) == SamplingScheme([0, "0.25", "0.25", 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ppswor(0), "rate must be a positive number, got 0"),
        (lambda: Ppswor(-1), "rate must be a positive number, got -1"),
        (lambda: Priority(float("nan")), "rate must be a finite number"),
        (lambda: Ppswor("0.1", 3), "power must be from 0 to 2, got 3"),
        (lambda: Ppswor("0.1", 0.3), "denominator of at most 1000"),
        (lambda: Ppswor(), "either a rate or a size"),
        (lambda: Ppswor("0.1", size=5), "either a rate or a size"),
        (lambda: Ppswor(size=0), "size must be at least 1"),
        (lambda: Ppswor(power=2, size=5), "a size needs power 1"),
        (lambda: Ppswor(size=5).rate, "has no rate before it has met the data"),
        (lambda: Ppswor(size=5).of_total(5), "size must be below the number of occurrences"),
        (lambda: SamplingScheme([]), "at least one probability"),
        (lambda: SamplingScheme([0, 2]), "must be from 0 to 1"),
        (lambda: read_scheme("ppswor"), "must be written as ppswor:RATE"),
        (lambda: read_scheme("magic:1"), "must be written as ppswor:RATE"),
        (lambda: read_scheme("bottom-k:100"), "cannot be made private afterwards"),
        (lambda: read_scheme("hash:0.01"), "a public hash tells everyone"),
    ],
)
def test_bad_schemes(make: object, message: str) -> None:
    """Each bad scheme gets one clear sentence."""
    assert callable(make)
    with pytest.raises(InvalidParameter, match=message):
        make()
