"""The verifier of compact histograms: the exact privacy loss of the table that is drawn from.

Like `dptally.verifiers.tables`, this file shares no code with what it verifies, not even a bound of the exponential.

The statement. A release is a polynomial p with N coefficients over a field of q elements. A key is a point x of the
field, p(x) is an element, and an element means a value. Write E_c(y) for the chance that the element y is put at a key
of count c. Keys of count 0 get nothing: there, E_0(y) is 1/q by definition. With the set A of keys of positive count,
at most N of them, elements y_x are drawn for x in A, independently, and p is a uniform one of the q^(N - |A|)
polynomials with p(x) = y_x on A. Hence, as any N points determine p,

    P[p | counts c] = q^(|A| - N) prod_{x in A} E_{c_x}(p(x)) = q^-N prod_{all keys x} E_{c_x}(p(x)) / E_0(p(x)).

The product over all keys is the same expression for every data set. Two data sets whose counts differ by one, for one
key, therefore have a ratio of at most

    rho = max over c, y of  E_{c+1}(y) / E_c(y)  and  E_c(y) / E_{c+1}(y),

and this is attained: a polynomial with any given value at that key exists. If counts differ by `changes` in sum over
all keys, the ratio is at most rho^changes. So the release is epsilon-differentially private, with delta = 0, if
rho^changes <= e^epsilon, where `changes` bounds what one unit changes.

The elements. A table of tails T_1 >= T_2 >= ... >= T_R, a floor f and a largest count B give the masses of the values,
in units of 1/q with M = q - f (B + 1): f for every value, and M for "c + Z moved into 0 .. B" with P[Z <= -j] = T_j / M
and Z symmetric. Given the value v, an element is one of the s_v that mean v, where s_v is the mass of v for count 0:
element number floor(w s_v / 2^k), w uniform of k bits. Its chance is floor(2^k / s_v) / 2^k or ceil(2^k / s_v) / 2^k.
For counts c, c + 1 >= 1 that choice is the same and cancels out; beside count 0, where all elements have chance 1/q, it
is counted in full.

Why finitely many comparisons suffice. For counts c and c + 1 and a value 0 < v < B the masses are those of Z at v - c
and v - c - 1, plus f; for v = 0 they are the tails at c and c + 1, and for v = B those at B - c and B - c - 1. So all
rows are compared by going once through the masses and once through the tails of Z, up to R + 1, from where on all are
f. Beside count 0 the values up to R + 2, and B, stand for all.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dptally.errors import PrivacyViolation

__all__ = ["CompactCertificate", "certify_compact"]

_PRECISION = 512


@dataclass(frozen=True)
class CompactCertificate:
    """What the verifier found. All numbers are exact."""

    epsilon: Fraction  # what was promised for one unit
    changes: int  # how many steps of counts, summed over all keys, one unit may make
    largest_ratio: Fraction  # rho, the largest ratio of chances for one step of one count
    allowed_ratio: Fraction  # the rational lower bound of e^(epsilon / changes) that it was compared with
    worst_pair: tuple[int, int]  # counts that attain it; the first one's chance exceeds the second one's
    ratios_checked: int  # how many ratios were compared; the argument for all others is at the top of this file
    table_sha256: str  # of the numbers that are drawn from

    @property
    def loss(self) -> float:
        """The privacy loss of one unit as a number to look at: `changes` times the logarithm of the largest ratio."""
        return self.changes * math.log(self.largest_ratio)

    def __str__(self) -> str:
        higher, lower = self.worst_pair
        steps = "one step" if self.changes == 1 else f"each of {self.changes:,} steps"
        return (
            f"{self.ratios_checked:,} ratios of table {self.table_sha256[:16]} compared in exact fractions; the "
            f"largest is {float(self.largest_ratio):.9g} of {float(self.allowed_ratio):.9g} allowed for {steps}, "
            f"between counts {higher:,} and {lower:,}; pure loss {self.loss:.9g} of epsilon {float(self.epsilon):.9g}."
        )


def certify_compact(
    tails: Sequence[int],
    *,
    size: int,
    largest_count: int,
    floor: int,
    element_bits: int,
    changes: int,
    epsilon: Fraction,
) -> CompactCertificate:
    """Verify the law that compact histograms draw from.

    Args:
        tails: T_1 .. T_R, the mass of noise at and beyond 1 .. R, in units of 1 / size.
        size: q, the number of field elements.
        largest_count: B.
        floor: f, the mass that every value has at least.
        element_bits: k, the bits that choose an element of a value.
        changes: how many steps of counts one unit may make.
        epsilon: what must be kept for one unit.

    Returns:
        CompactCertificate: with the exact largest ratio.

    Raises:
        PrivacyViolation: if the numbers are not a law, or a ratio exceeds what is allowed; the message names the pair.
    """
    noise = size - floor * (largest_count + 1)
    decreasing = all(here >= there for here, there in zip(tails, [*tails[1:], 0], strict=False))
    if floor < 1 or largest_count < 1 or changes < 1 or not decreasing or 2 * sum(tails[:1]) > noise or noise < 1:
        raise PrivacyViolation("the table is not a law: a mass is negative, or masses and their sum disagree.")
    checked = 0
    more, less, worst_pair = 1, 1, (0, 0)
    for first, second, pair in _ratios(tails, noise, largest_count, floor, element_bits):
        checked += 1
        if first * less > more * second:
            if second == 0:
                raise PrivacyViolation(f"counts {pair[0]} and {pair[1]} can be distinguished with certainty.")
            more, less, worst_pair = first, second, pair
    worst = Fraction(more, less)
    allowed = _exp_below(epsilon / changes)
    if worst > allowed:
        raise PrivacyViolation(
            f"the table exceeds its epsilon: counts {worst_pair[0]} and {worst_pair[1]} differ by a factor of "
            f"{float(worst):.17g} where {float(allowed):.17g} is allowed."
        )
    facts = f"{size};{largest_count};{floor};{element_bits};{','.join(map(str, tails))}"
    digest = hashlib.sha256(facts.encode()).hexdigest()
    return CompactCertificate(epsilon, changes, worst, allowed, worst_pair, checked, digest)


def _ratios(
    tails: Sequence[int], noise: int, top: int, floor: int, element_bits: int
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Every ratio as a numerator, a denominator and the pair of counts it belongs to."""
    reach = len(tails)
    beyond = [noise - sum(tails[:1]), *tails, 0, 0, 0]  # P[Z <= -j] for j = 0 .. R + 3
    masses = [noise - 2 * sum(tails[:1]), *(beyond[j] - beyond[j + 1] for j in range(1, reach + 3))]  # P[Z = +-j]

    # Counts c and c + 1 from 1 on. Value 0 has the tails at c and c + 1, for c = 1 .. B - 1. Value B has those at
    # B - c - 1 and B - c, the same ones but for the pair at 0 and 1, which is there if B > 1.
    for tail in range(min(top, reach + 2) if top > 1 else 0):
        pair = (tail, tail + 1) if tail else (top, top - 1)
        yield beyond[tail] + floor, beyond[tail + 1] + floor, pair
        yield beyond[tail + 1] + floor, beyond[tail] + floor, pair[::-1]
    # A value 0 < v < B of counts c and c + 1: Z is v - c and v - c - 1, where v - c runs over 2 - B .. B - 2. As Z is
    # symmetric, v - c = -j <= 0 gives the masses at j and j + 1, and v - c = j > 0 those at j and j - 1 once more.
    for below in range(min(top - 1, reach + 2)):
        here, there, pair = masses[below] + floor, masses[below + 1] + floor, (below + 1, below + 2)
        yield here, there, pair
        yield there, here, pair[::-1]
    # Count 0, where an element of the value v has chance 1/q, beside count 1, where it has the mass of v in units of
    # 1/q, times floor(2^k / s) / 2^k or ceil(2^k / s) / 2^k.
    whole = 1 << element_bits
    for value in [*range(min(top, reach + 3)), top]:
        if value == 0:
            cell, mass = beyond[0], beyond[1]
        elif value == top:
            cell, mass = beyond[min(top, reach + 2)], beyond[min(top - 1, reach + 2)]
        else:
            cell, mass = masses[value], masses[value - 1]
        cell, mass = cell + floor, mass + floor
        yield mass * -(-whole // cell), whole, (1, 0)
        yield whole, mass * (whole // cell), (0, 1)


def _exp_below(exponent: Fraction) -> Fraction:
    """A rational number below e^exponent, within 2^-450 for what is allowed here: a Taylor sum, rounded down."""
    one = 1 << _PRECISION
    total = term = one
    order = 0
    while term:  # every term is rounded down, and those left out are positive
        order += 1
        term = term * exponent.numerator // (exponent.denominator * order)
        total += term
    return Fraction(total, one)
