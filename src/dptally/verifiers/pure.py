"""The verifier of pure laws: exact largest ratio of neighbouring rows, on the numbers in use.

Like `dptally.verifiers.tables`, from which it takes nothing but the certificate and the lower bound of the
exponential, this module shares no code with the builders of laws.

The statement. A law with rows P_0, P_1, ... is epsilon-differentially private (delta = 0) for a change of one in one
count if, and only if, for every i >= 1 and every outcome v

    P_i(v) <= e^epsilon P_{i-1}(v)  and  P_{i-1}(v) <= e^epsilon P_i(v).

One outcome that has no chance in one row and some in the next is enough to break it. e^epsilon is replaced by a
rational number a <= e^epsilon: what passes with a passes with e^epsilon. Everything else is integer arithmetic without
rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

from dptally.errors import PrivacyViolation
from dptally.verifiers.tables import TABLE_BITS, Certificate, exp_lower

__all__ = [
    "certify_clamped_noise",
    "certify_dyadic_noise",
    "certify_geometric_noise",
    "certify_hidden_difference",
    "certify_prefixes",
    "certify_pure_copies",
    "certify_pure_rows",
    "certify_rounded_counters",
]

_ENTRY = TABLE_BITS // 8
_QUOTIENT_BITS = 192
_LONG = 1 << 2048
_Comparison = tuple[int, int, int]  # masses of one outcome in rows c and c + 1, and c


def certify_pure_rows(rows: Sequence[Sequence[int]], *, epsilon: Fraction) -> Certificate:
    """Verify a law given row by row: rows[i][v] is the mass of the v-th outcome, as integers.

    Every row must have the same sum, the common denominator, and the same number of outcomes. Only the given rows are
    verified, each with its neighbour.

    Raises PrivacyViolation if a row is not a law, or an outcome's ratio exceeds e^epsilon.
    """
    whole, outcomes = sum(rows[0]), len(rows[0])
    if whole <= 0 or any(len(row) != outcomes or min(row) < 0 or sum(row) != whole for row in rows):
        raise PrivacyViolation("the table is not a law: a row has a negative entry, another length or another sum.")
    comparisons = (
        (here, there, count)
        for count in range(len(rows) - 1)
        for here, there in zip(rows[count], rows[count + 1], strict=True)
    )
    digest = _hash([mass for row in rows for mass in row])
    return _judge(comparisons, len(rows), digest, epsilon)


def certify_clamped_noise(
    masses: Sequence[int], *, uniform: int, bound: int, epsilon: Fraction, table_sha256: str | None = None
) -> Certificate:
    """Verify the law "count plus noise, clamped to 0 .. bound, mixed with uniform values".

    With integers M_R, ..., M_0, ..., M_{-R} (`masses`, of odd length, from the largest noise to the smallest), g
    (`uniform`) and B (`bound`), and N = sum of the masses + (B + 1) g, row c for c = 0 .. B is

        P_c(v) N = g + M_{v-c}                for 0 < v < B,
        P_c(0) N = g + L_c,                   L_c = sum of M_z over z <= -c,
        P_c(B) N = g + H_{B-c},               H_k = sum of M_z over z >= k.

    All pairs of neighbouring rows and all outcomes are covered by finitely many comparisons. At an inner value v, rows
    c and c + 1 have g + M_z and g + M_{z-1} with z = v - c, which takes every value from 2 - B to B - 1 and no other;
    beyond -R .. R + 1 both are g. At 0 they have g + L_c and g + L_{c+1}, c = 0 .. B - 1, both g for c > R; at B they
    have g + H_k and g + H_{k-1}, k = 1 .. B, both g for k > R + 1.

    `masses` are those of the noise, an odd number of them; `uniform` is the mass that every value has besides; `bound`,
    at least 1, the largest value and the largest count; `table_sha256` that of the bytes that are drawn from, if they
    are not these numbers themselves. Raises PrivacyViolation if this is not a law, or an outcome's ratio exceeds
    e^epsilon; the message names the pair.
    """
    if len(masses) % 2 == 0 or min(masses) < 0 or uniform < 0 or bound < 1:
        raise PrivacyViolation("the table is not a law: a mass is negative, or the noise has no middle.")
    if table_sha256 is None:
        table_sha256 = _hash([*masses, uniform, bound])
    reach = len(masses) // 2
    checked = min(bound, 2 * reach + 3) + 1
    return _judge(_noise_comparisons(masses, uniform, bound), checked, table_sha256, epsilon)


def _noise_comparisons(masses: Sequence[int], uniform: int, bound: int) -> Iterable[_Comparison]:
    reach = len(masses) // 2

    def mass(noise: int) -> int:
        return masses[reach - noise] if -reach <= noise <= reach else 0

    for noise in range(max(2 - bound, -reach), min(bound - 1, reach + 1) + 1):
        yield uniform + mass(noise), uniform + mass(noise - 1), max(0, 1 - noise)
    from_below = [*reversed(list(accumulate(reversed(masses), initial=0)))]  # [R - z]: sum over noise up to z
    for count in range(min(bound - 1, reach) + 1):
        yield uniform + from_below[reach + count], uniform + from_below[reach + count + 1], count
    from_above = list(accumulate(masses, initial=0))  # [R - z + 1]: sum over noise of at least z
    for distance in range(1, min(bound, reach + 1) + 1):
        yield uniform + from_above[reach - distance + 1], uniform + from_above[reach - distance + 2], bound - distance


def certify_dyadic_noise(table: bytes, *, uniform: int, bound: int, epsilon: Fraction) -> Certificate:
    """Verify the law of `certify_clamped_noise` from the bytes that are drawn from, with N = 2^128.

    The table holds thresholds c_0 <= c_1 <= ... <= c_{2R} as little-endian 128-bit integers. With u uniform on
    0 .. N - 1 and D the number of thresholds that are at most u, the noise is R - D if D <= 2R; otherwise the value is
    floor((u - c_{2R}) / g). So M_{R-d} = c_d - c_{d-1}, and every value has g besides if N - c_{2R} = (B + 1) g.

    Raises PrivacyViolation if the bytes are not such a law, or an outcome's ratio exceeds e^epsilon.
    """
    if not table or len(table) % _ENTRY:
        raise PrivacyViolation("the table does not consist of whole 128-bit entries.")
    cumulative = [int.from_bytes(table[at : at + _ENTRY], "little") for at in range(0, len(table), _ENTRY)]
    if cumulative[-1] + (bound + 1) * uniform != 1 << TABLE_BITS:
        raise PrivacyViolation("the table is not a law: noise and uniform values do not sum to one.")
    masses = [here - before for before, here in zip([0, *cumulative], cumulative, strict=False)]
    digest = hashlib.sha256(b"%d,%d;" % (uniform, bound) + table).hexdigest()
    return certify_clamped_noise(masses, uniform=uniform, bound=bound, epsilon=epsilon, table_sha256=digest)


def certify_geometric_noise(ratio: int, *, bound: int, epsilon: Fraction) -> Certificate:
    """Verify the law "count plus two-sided geometric noise, clamped to 0 .. bound", which has no table.

    The noise has P[Z = z] = (1 - r) / (1 + r) r^|z| with r = `ratio` / 2^128. Rows c and c + 1 have at an inner value v
    the masses of Z = v - c and Z = v - c - 1; at the value 0 they have P[Z <= -c] = r^c / (1 + r) and the same with
    c + 1; at the value `bound` they have P[Z >= k] = r^k / (1 + r) with k = bound - c, and with k - 1. So every outcome
    of every pair of neighbouring rows, c = 0 .. bound - 1, has the ratio r or 1 / r exactly, and two rows stand for all
    of them.

    Raises PrivacyViolation if r is not between 0 and 1, or 1 / r exceeds e^epsilon.
    """
    if not 0 < ratio < 1 << TABLE_BITS or bound < 1:
        raise PrivacyViolation("the noise is not a law: its ratio must be between 0 and 1.")
    return _judge([(1 << TABLE_BITS, ratio, 0)], 2, _hash([ratio, bound]), epsilon)


def certify_hidden_difference(
    *, size: int, keep: int, bound: int, mixing: int, scale_bits: int, label_bits: int, epsilon: Fraction
) -> None:
    """Verify whether a random release hides that a pure mechanism M is drawn from within a small distance d only.

    M' is within d = bound size (keep + 2) / 2^scale_bits + (keep + 1) size / 2^label_bits of M for all data. It is
    released with probability 1 - 2^-g, g = `mixing`, and otherwise a random histogram that gives every release at least
    the probability q = (4 size (bound + 1))^-keep. By [BV19, Lem. 3.2] the mixture keeps the epsilon of M if
    (e^epsilon + 1) d <= (e^epsilon - 1) 2^-g q, for which 3 d <= min(epsilon, 1) 2^-g q is enough, since
    (e^x - 1) / (e^x + 1) >= min(x, 1) / 3 for x > 0. What holds for epsilon holds for every larger one.

    Raises PrivacyViolation if it does not.
    """
    distance = Fraction(bound * size * (keep + 2), 1 << scale_bits) + Fraction((keep + 1) * size, 1 << label_bits)
    least = Fraction(1, (4 * size * (bound + 1)) ** keep)
    if 3 * distance * (1 << mixing) > min(epsilon, Fraction(1)) * least:
        raise PrivacyViolation("the draw is not close enough to its law for a random release to hide the difference.")


def certify_prefixes(table: bytes, masses: Sequence[int], *, uniform: int, bound: int) -> None:
    """Check that a table holds the first 128 bits of the cumulative probabilities of a law with another denominator.

    With C_d the sum of the first d + 1 masses and N as in `certify_clamped_noise`, entry d must be t_d with
    t_d / 2^128 <= C_d / N < (t_d + 1) / 2^128, for every C_d < N. A uniform number whose first 128 bits differ from
    t_d is then on the same side of C_d / N as they are of t_d; one that starts with t_d needs more bits.

    Raises PrivacyViolation if an entry is wrong or missing.
    """
    whole = sum(masses) + (bound + 1) * uniform
    cumulative = [reached for reached in accumulate(masses) if reached < whole]
    if len(table) != _ENTRY * len(cumulative):
        raise PrivacyViolation("the table of prefixes has another length than the law.")
    for place, reached in enumerate(cumulative):
        entry = int.from_bytes(table[place * _ENTRY : (place + 1) * _ENTRY], "little")
        if not 0 <= (reached << TABLE_BITS) - entry * whole < whole:
            raise PrivacyViolation("the table of prefixes does not belong to the law.")


def certify_pure_copies(one_key: Certificate, *, copies: int, epsilon: Fraction) -> Certificate:
    """Verify a unit that touches up to `copies` keys, each through a law with the given certificate.

    Keys are drawn independently, so ratios multiply: `copies` times the epsilon of one key holds. For noise whose ratio
    attains e^epsilon both ways this cannot be improved, although all counts move in the same direction: the outcome
    in which every touched key's value is above its count has the product of the largest ratios.

    Raises PrivacyViolation if that is more than `epsilon`, or there are no copies.
    """
    if copies < 1:
        raise PrivacyViolation("one unit must touch at least one key.")
    if copies * one_key.epsilon > epsilon:
        raise PrivacyViolation(
            f"{copies} keys of one unit together exceed epsilon: "
            f"{float(copies * one_key.epsilon):.17g} where {float(epsilon):.17g} is allowed."
        )
    return replace(one_key, copies=copies, total_epsilon=epsilon)


def certify_rounded_counters(one_step: Certificate, *, distance: Fraction, epsilon: Fraction) -> Certificate:
    """Verify counters with fractions that are rounded at random to whole ones before they are drawn for.

    A counter y >= 0 is rounded to floor(y) or the whole number above, so that its mean is y, and a law whose
    neighbouring rows have ratios of at most rho = `one_step.worst_ratio` draws for it. Neighbouring data sets have
    counters whose absolute differences add up to at most `distance`; keys are treated independently.

    Statement. This keeps distance * (rho - 1). Proof. Between whole numbers the law Q_y of what is drawn is the
    mixture, linear in y, of the rows i and i + 1. Moving y to y' in there changes the probability of an event by
    |y' - y| |Q_{i+1} - Q_i|, which is at most |y' - y| (rho - 1) min(Q_i, Q_{i+1}) <= |y' - y| (rho - 1) Q_y, so that
    Q_y' <= e^{|y' - y| (rho - 1)} Q_y. Walk from one data set to the other, counter by counter and cell by cell.

    Raises PrivacyViolation if that is more than `epsilon`, or the distance is not positive.
    """
    if distance <= 0:
        raise PrivacyViolation("one unit must move the counters.")
    spent = distance * (one_step.worst_ratio - 1)
    if spent > epsilon:
        raise PrivacyViolation(
            f"rounded counters exceed epsilon: {float(spent):.17g} where {float(epsilon):.17g} is allowed."
        )
    return replace(one_step, total_epsilon=epsilon)


def _judge(comparisons: Iterable[_Comparison], rows_checked: int, table_sha256: str, epsilon: Fraction) -> Certificate:
    """A certificate, or the refusal."""
    most, least, pair = 1, 1, (1, 0)
    for here, there, count in comparisons:
        high, low = (here, there) if here >= there else (there, here)
        if _exceeds(high, low, most, least):
            most, least = high, low
            pair = (count, count + 1) if here >= there else (count + 1, count)
    growth, one = exp_lower(epsilon)
    if one * most > growth * least:
        bounded = most < least << 1000  # beyond that, floats end
        ratio = f"by a factor of {float(Fraction(most, least)):.17g}" if bounded else "without limit"
        raise PrivacyViolation(
            f"the table exceeds its epsilon: an outcome of rows {pair[0]} and {pair[1]} differs {ratio} "
            f"where e^{float(epsilon):.17g} is allowed."
        )
    return Certificate(
        epsilon=epsilon,
        delta=Fraction(0),
        worst_delta=Fraction(0),
        worst_pair=pair,
        rows_checked=rows_checked,
        table_sha256=table_sha256,
        copies=1,
        total_epsilon=epsilon,
        total_delta=Fraction(0),
        judge="pure",
        worst_ratio=Fraction(most, least),
    )


def _exceeds(high: int, low: int, most: int, least: int) -> bool:
    """Whether high / low > most / least, where a denominator of 0 stands for infinity."""
    if high > _LONG and low and least:
        # Long numbers are slow to multiply, and fast to divide where the quotient is short.
        quotient, other = (high << _QUOTIENT_BITS) // low, (most << _QUOTIENT_BITS) // least
        if quotient != other:
            return quotient > other
    return high * least > most * low


def _hash(numbers: Iterable[int]) -> str:
    return hashlib.sha256(",".join(map(hex, numbers)).encode()).hexdigest()
