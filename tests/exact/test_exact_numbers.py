"""Exact parameters and bounds of the exponential."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon, as_fraction, exp_bounds


@given(st.fractions(-40, 40, max_denominator=10**6), st.integers(1, 400))
def test_exponential_lies_between_its_bounds(exponent: Fraction, bits: int) -> None:
    """low <= e^x <= high, no wider than asked, against mpmath at much higher precision."""
    low, high = exp_bounds(exponent, bits)
    with mp.workprec(bits + 300):
        exact = mp.exp(mpf(exponent.numerator) / exponent.denominator)
        assert mpf(low.numerator) / low.denominator <= exact * (1 + mpf(2) ** -(bits + 250))
        assert exact <= mpf(high.numerator) / high.denominator * (1 + mpf(2) ** -(bits + 250))
    assert high / low <= 1 + Fraction(1, 2**bits)


def test_exponential_of_zero_is_one() -> None:
    """e^0 is within its bounds too."""
    low, high = exp_bounds(Fraction(0), 50)
    assert low <= 1 <= high


@pytest.mark.parametrize(
    ("given_number", "exact"),
    [
        (0.1, Fraction(3602879701896397, 36028797018963968)),
        ("0.1", Fraction(1, 10)),
        ("1e-6", Fraction(1, 10**6)),
        (" 1/3 ", Fraction(1, 3)),
        (2, Fraction(2)),
        (Fraction(1, 7), Fraction(1, 7)),
        (Decimal("0.3"), Fraction(3, 10)),
        (np.float64(0.5), Fraction(1, 2)),
        (np.float32(0.25), Fraction(1, 4)),
        (np.int64(3), Fraction(3)),
    ],
)
def test_numbers_are_read_exactly(given_number: object, exact: Fraction) -> None:
    """A float means its binary value, a string its decimal value, fractions and integers themselves."""
    assert as_fraction("epsilon", given_number) == exact


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        (0, "epsilon must be a positive number, got 0"),
        (-1, "epsilon must be a positive number, got -1"),
        ("-0.5", "epsilon must be a positive number, got -0.5"),
        (float("nan"), "epsilon must be a finite number, got nan"),
        (float("inf"), "epsilon must be a finite number, got inf"),
        (Decimal("Infinity"), "epsilon must be a finite number"),
        ("nan", "epsilon must be a number, got 'nan'"),
        ("one", "epsilon must be a number, got 'one'"),
        ("1/0", "epsilon must be a number"),
        (None, "epsilon must be a number, got NoneType"),
        (True, "epsilon must be a number, got bool"),
        (1 + 0j, "epsilon must be a number, got complex"),
        (33, "epsilon must be at most 32"),
    ],
)
def test_bad_epsilon(epsilon: object, message: str) -> None:
    """Each bad epsilon gets one clear sentence."""
    with pytest.raises(InvalidParameter, match=message):
        as_epsilon(epsilon)


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        (-0.1, "delta must be at least 0 and below 1, got -0.1"),
        (1, "delta must be at least 0 and below 1, got 1"),
        ("1.5", "delta must be at least 0 and below 1"),
        (float("nan"), "delta must be a finite number"),
        (0, "Mechanisms with delta = 0 are 'dense', 'sparse' and 'compact'"),
        (0.0, "with delta = 0 no private key can ever be reported"),
        ("1e-30", "delta must be at least 2\\^-64"),
    ],
)
def test_bad_delta(delta: object, message: str) -> None:
    """Each bad delta gets one clear sentence; 0 is told which mechanisms are pure."""
    with pytest.raises(InvalidParameter, match=message):
        as_delta(delta)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "at least 1, got 0"),
        (-3, "at least 1, got -3"),
        (11, "at most 10, got 11"),
        (1.0, "whole number, got float"),
    ],
)
def test_bad_counts(number: object, message: str) -> None:
    """Bounds on keys per unit are whole numbers within their limits."""
    with pytest.raises(InvalidParameter, match=f"max_keys_per_unit must be .*{message}"):
        as_count("max_keys_per_unit", number, largest=10)
