"""The verifier: exact privacy loss of the table in use.

This module shares no code with the builders of tables, not even the bounds of the exponential, and reads nothing but
the bytes that the compiled sampler reads. Whoever doubts a guarantee needs to believe this file alone.

The statement. A law with rows P_0, P_1, P_2, ... (row i is the law of what is reported for a key of frequency i) is
(epsilon, delta)-differentially private for adding or removing one unit that counts once for one key if, and only if,
for every i >= 1 and both orders of the pair

    H(P_i, P_{i-1}) = sum_v max(0, P_i(v) - e^epsilon P_{i-1}(v)) <= delta,

where v runs over all reported values and "not reported". H is the hockey-stick divergence: the largest value of
P_i(T) - e^epsilon P_{i-1}(T) over sets T of outcomes. Keys are drawn independently of each other, so what happens to
other keys cancels out.

e^epsilon is replaced by a rational number a <= e^epsilon. H only grows when a shrinks, so a table that passes with a
passes with e^epsilon. Everything else is integer arithmetic without rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from dptally.errors import PrivacyViolation

__all__ = [
    "TABLE_BITS",
    "Band",
    "Certificate",
    "certify_bands",
    "certify_copies",
    "certify_rows",
    "certify_shift_table",
    "certify_value_table",
    "exp_lower",
    "read_thresholds",
]

TABLE_BITS = 128
_ENTRY = TABLE_BITS // 8
_PRECISION = 512
_MOST_COPIES = 10_000  # beyond, the exact sums take minutes


@dataclass(frozen=True)
class Certificate:
    """What the verifier found. All numbers are exact.

    Attributes:
        epsilon: the epsilon at which one key's law was verified.
        delta: the delta that one key's law had to keep.
        worst_delta: the largest divergence found, for a rational lower bound of e^epsilon within 2^-500 of it.
        worst_pair: the pair of frequencies that attains it; the first one's row exceeds the second one's.
        rows_checked: how many rows were compared; the argument for all others is at the verifier's function.
        table_sha256: of the bytes that are drawn from.
        copies: how many keys one unit may touch.
        total_epsilon: what holds for a unit that touches that many keys.
        total_delta: an upper bound of the exact delta of that many copies at `total_epsilon`, rounded up.
        worst_ratio: for judge "pure", the largest ratio of the probabilities of one outcome under neighbouring rows, at
            most e^epsilon, which `worst_pair` attains; otherwise 0.
        judge: what was judged: "rows", the rows of one key's law, or the name of another kind of table.
    """

    epsilon: Fraction
    delta: Fraction
    worst_delta: Fraction
    worst_pair: tuple[int, int]
    rows_checked: int
    table_sha256: str
    copies: int
    total_epsilon: Fraction
    total_delta: Fraction
    judge: str = "rows"
    worst_ratio: Fraction = Fraction(0)

    def __str__(self) -> str:
        if self.judge == "pure":
            return self._pure()
        if self.judge != "rows":
            return (
                f"{self.rows_checked} probabilities of table {self.table_sha256[:16]} verified as {self.judge}: delta "
                f"is at most {float(self.total_delta):.6g} of {float(self.delta):.6g} allowed."
            )
        higher, lower = self.worst_pair
        lines = (
            f"{self.rows_checked} rows of table {self.table_sha256[:16]} compared in exact integers; "
            f"largest divergence {float(self.worst_delta):.6g} of {float(self.delta):.6g} allowed per key, "
            f"between frequencies {higher} and {lower}"
        )
        if self.copies > 1:
            lines += f"; {self.copies} keys per unit together {float(self.total_delta):.6g}"
        return lines + "."

    def _pure(self) -> str:
        higher, lower = self.worst_pair
        limit, one = exp_lower(self.epsilon)
        lines = (
            f"{self.rows_checked} rows of table {self.table_sha256[:16]} compared in exact integers; no outcome is "
            f"more than {float(self.worst_ratio):.9g} times as likely for one frequency as for the next, where "
            f"{limit / one:.9g} is allowed per key; attained between frequencies {higher} and {lower}"
        )
        if self.copies > 1:
            lines += f"; {self.copies} keys together keep epsilon {float(self.total_epsilon):.6g}"
        return lines + "."


def certify_shift_table(table: bytes, *, values: bool, epsilon: Fraction, delta: Fraction) -> Certificate:
    """Verify the law "report w - D if positive", or its version that reports the key without the value.

    The table holds W - 1 thresholds c_0 <= c_1 <= ... <= c_{W-2} as little-endian 128-bit integers, and c_{W-1} = N =
    2^128 is understood. With u uniform on 0 .. N-1, D is the number of thresholds that are at most u. Hence
    P[D <= d] = c_d / N, p_d = c_d - c_{d-1} is the mass of D = d in units of 1/N, and a key of frequency w is reported
    with probability c_{w-1} / N, or 1 for w >= W.

    Why finitely many rows suffice. With values, a key of frequency i >= W is always reported, with value i - D. Rows i
    and i + 1 for i >= W are therefore rows W and W + 1 with every value moved up by i - W; moving both rows by the same
    amount permutes the outcomes and leaves the divergence as it is. So the pairs (i, i - 1) with i = 1 .. W + 1 stand
    for all. Without values, rows from W on are all equal and their divergence is 0; the same range covers them.

    The table is the bytes that are drawn from; the certificate is for one copy. Raises PrivacyViolation if the bytes
    are not a law, or a pair of rows exceeds delta; the message names the pair.
    """
    whole = 1 << TABLE_BITS
    cumulative = [*read_thresholds(table), whole]
    width = len(cumulative)
    masses = [here - before for before, here in zip([0, *cumulative], cumulative, strict=False)]
    growth, one = exp_lower(epsilon)
    unreported = [whole, *(whole - reached for reached in cumulative), 0]  # of rows 0 .. W + 1

    worst, worst_pair = -1, (0, 0)
    value_up = value_down = 0  # what the values contribute to the two divergences of the pair (row, row - 1)
    for row in range(1, width + 2):
        if values:
            # Row `row` holds masses[0 .. row-1] at values row .. 1; the row before holds masses[0 .. row-2] at values
            # row-1 .. 1. Seen from row to row, one more distance d enters each of the two sums.
            if row <= width:
                before = masses[row - 2] if row >= 2 else 0
                value_up += max(0, one * masses[row - 1] - growth * before)
            if row >= 2:
                after = masses[row - 1] if row - 1 < width else 0
                value_down += max(0, one * masses[row - 2] - growth * after)
        else:
            reported, reported_before = whole - unreported[row], whole - unreported[row - 1]
            value_up = max(0, one * reported - growth * reported_before)
            value_down = max(0, one * reported_before - growth * reported)
        up = value_up + max(0, one * unreported[row] - growth * unreported[row - 1])
        down = value_down + max(0, one * unreported[row - 1] - growth * unreported[row])
        if up > worst:
            worst, worst_pair = up, (row, row - 1)
        if down > worst:
            worst, worst_pair = down, (row - 1, row)
    return _verdict(worst, one * whole, worst_pair, width + 2, _hash(table), epsilon, delta)


def certify_value_table(table: bytes, *, epsilon: Fraction, delta: Fraction) -> Certificate:
    """Verify the law "report w + 1 - ceil(c / 2) if c < 2w", c the number of thresholds at most a random number.

    Thresholds t_0 <= t_1 <= ... are little-endian 128-bit integers, at most 2W of them; all that would follow are
    N = 2^128, and the random number is uniform on 0 .. N-1. With F(c) = t_c, the mass of passing at most c thresholds
    in units of 1/N, row w has

    - the value w + 1 - d with mass h_d = F(2d) - F(2d - 2) for d = 0 .. w - 1 (that is c = 2d - 1 or 2d);
    - the value 1 also for c = 2w - 1 alone: mass q_w = F(2w - 1) - F(2w - 2);
    - "not reported" with mass N - F(2w - 1).

    The value 1 is told apart from w + 1 - d >= 2, so these are different outcomes. From row w - 1 to row w, the value v
    goes from d = w - v to d = w + 1 - v: each h_d is compared with h_{d-1}, q_w with q_{w-1}.

    Why finitely many rows suffice. F is N from c = 2W on, so for w > W nothing is hidden, q_w = 0, and row w is
    w + 1 - d with masses h_0 .. h_W. Rows w and w + 1 are then rows W + 1 and W + 2 with every value moved up by the
    same amount, which leaves the divergence as it is: the pairs up to (W + 2, W + 1) stand for all.

    Raises PrivacyViolation if the bytes are not a law, or a pair of rows exceeds delta; the message names the pair.
    """
    reached = read_thresholds(table)
    whole = 1 << TABLE_BITS
    width = (len(reached) + 1) // 2
    reached += [whole] * (2 * (width + 3) - len(reached))
    growth, one = exp_lower(epsilon)
    steps = [here - before for before, here in zip([0, 0, *reached[0::2]], [0, *reached[0::2]], strict=False)]
    ones = [0, *(odd - even for even, odd in zip(reached[0::2], reached[1::2], strict=True))]
    missing = [whole, *(whole - odd for odd in reached[1::2])]

    worst, worst_pair = -1, (0, 0)
    value_up = value_down = 0
    for row in range(1, width + 3):
        # steps[d + 1] is h_d, and steps[0] = 0 stands before h_0. One more d enters each sum with each row.
        value_up += max(0, one * steps[row] - growth * steps[row - 1])
        value_down += max(0, one * steps[row - 1] - growth * steps[row])
        for first, second, values in ((row, row - 1, value_up), (row - 1, row, value_down)):
            excess = values + max(0, one * ones[first] - growth * ones[second])
            excess += max(0, one * missing[first] - growth * missing[second])
            if excess > worst:
                worst, worst_pair = excess, (first, second)
    return _verdict(worst, one * whole, worst_pair, width + 3, _hash(table), epsilon, delta)


def read_thresholds(table: bytes) -> list[int]:
    """The little-endian 128-bit integers of a table.

    Raises PrivacyViolation if the bytes are no such integers, or these decrease.
    """
    if len(table) % _ENTRY:
        raise PrivacyViolation("the table does not consist of whole 128-bit entries.")
    thresholds = [int.from_bytes(table[at : at + _ENTRY], "little") for at in range(0, len(table), _ENTRY)]
    if any(here < before for before, here in pairwise(thresholds)):
        raise PrivacyViolation("the table is not a law: its thresholds decrease.")
    return thresholds


@dataclass(frozen=True)
class Band:
    """One row in the form it is drawn from.

    With u uniform on 0 .. 2^128 - 1 and c the number of thresholds that are at most u, the value is `top` - c, except
    that passing all thresholds means "not reported" unless the row is `sure`.
    """

    frequency: int  # whose row it is
    top: int  # the largest value
    thresholds: bytes  # little-endian 128-bit integers, not decreasing
    sure: bool  # whether a key of this frequency is always reported

    def cumulative(self, passed: int) -> int:
        """Mass of passing at most this many thresholds and being reported, in units of 2^-128."""
        count = len(self.thresholds) // _ENTRY
        last = count if self.sure else count - 1
        if passed < 0 or last < 0:
            return 0
        place = min(passed, last)
        if place == count:
            return 1 << TABLE_BITS
        return int.from_bytes(self.thresholds[place * _ENTRY : (place + 1) * _ENTRY], "little")

    def masses(self) -> dict[int | None, int]:
        """Mass of each outcome in units of 2^-128; None is "not reported"."""
        entries = [
            int.from_bytes(self.thresholds[at : at + _ENTRY], "little") for at in range(0, len(self.thresholds), _ENTRY)
        ]
        found: dict[int | None, int] = {}
        before = 0
        for passed, threshold in enumerate([*entries, 1 << TABLE_BITS]):
            if threshold < before:
                raise PrivacyViolation("the table is not a law: its thresholds decrease.")
            outcome = None if passed == len(entries) and not self.sure else self.top - passed
            found[outcome] = threshold - before
            before = threshold
        return found


def certify_bands(bands: Iterable[Band], *, epsilon: Fraction, delta: Fraction) -> Certificate:
    """Verify rows of a law where consecutive ones are neighbours; those of other frequencies are not compared.

    A band that follows one of the frequency below it is compared with it, both ways. Frequency 0, which is never
    reported, stands before a band of frequency 1. Only these rows are verified; the argument for the others is the
    builder's.

    Raises PrivacyViolation if a row is not a law, or a pair of rows exceeds delta.
    """
    growth, one = exp_lower(epsilon)
    worst, worst_pair, checked = -1, (0, 0), 0
    digest = hashlib.sha256()
    previous: dict[int | None, int] = {None: 1 << TABLE_BITS}
    previous_frequency = 0
    for band in bands:
        masses = band.masses()
        if band.frequency == previous_frequency + 1:
            higher, lower = band.frequency, previous_frequency
            for first, second, pair in ((masses, previous, (higher, lower)), (previous, masses, (lower, higher))):
                excess = 0
                for outcome, mass in first.items():
                    over = one * mass - growth * second.get(outcome, 0)
                    if over > 0:
                        excess += over
                if excess > worst:
                    worst, worst_pair = excess, pair
        digest.update(b"%d,%d,%d;" % (band.frequency, band.top, band.sure) + band.thresholds)
        previous, previous_frequency = masses, band.frequency
        checked += 1
    return _verdict(worst, one << TABLE_BITS, worst_pair, checked, digest.hexdigest(), epsilon, delta)


def certify_rows(rows: Sequence[Sequence[int]], *, epsilon: Fraction, delta: Fraction) -> Certificate:
    """Verify a law given row by row: rows[i][0] is "not reported", rows[i][v] the v-th outcome, as integers.

    Every row must have the same sum, the common denominator; a shorter row has zeros at its end. Only the given rows
    are verified, each with its neighbour: drawing for higher counts needs an argument of its own.

    Raises PrivacyViolation if a row is not a law, or a pair of rows exceeds delta.
    """
    whole = sum(rows[0])
    if any(min(row) < 0 or sum(row) != whole for row in rows):
        raise PrivacyViolation("the table is not a law: a row has a negative entry or another sum.")
    growth, one = exp_lower(epsilon)
    worst, worst_pair = -1, (0, 0)
    for upper in range(1, len(rows)):
        for first, second in ((upper, upper - 1), (upper - 1, upper)):
            other = [*rows[second], *([0] * len(rows[first]))]
            excess = sum(max(0, one * here - growth * there) for here, there in zip(rows[first], other, strict=False))
            if excess > worst:
                worst, worst_pair = excess, (first, second)
    table = repr([list(row) for row in rows]).encode()
    return _verdict(worst, one * whole, worst_pair, len(rows), _hash(table), epsilon, delta)


def _verdict(
    worst: int,
    unit: int,
    worst_pair: tuple[int, int],
    rows_checked: int,
    table_sha256: str,
    epsilon: Fraction,
    delta: Fraction,
) -> Certificate:
    """A certificate, or the refusal."""
    worst_delta = Fraction(worst, unit)
    if worst_delta > delta:
        raise PrivacyViolation(
            f"the table exceeds its delta: rows {worst_pair[0]} and {worst_pair[1]} differ by "
            f"{float(worst_delta):.17g} where {float(delta):.17g} is allowed at epsilon {float(epsilon):.17g}."
        )
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        worst_delta=worst_delta,
        worst_pair=worst_pair,
        rows_checked=rows_checked,
        table_sha256=table_sha256,
        copies=1,
        total_epsilon=epsilon,
        total_delta=worst_delta,
    )


def _hash(table: bytes) -> str:
    return hashlib.sha256(table).hexdigest()


def certify_copies(one_key: Certificate, *, copies: int, epsilon: Fraction, delta: Fraction) -> Certificate:
    """Verify a unit that touches up to `copies` keys, each through a law with the given certificate.

    By [KOV15, Thm. 3.3] `copies` mechanisms, each (e, d)-differentially private, are together (epsilon, D)-private
    with

        D = 1 - (1 - d)^copies (1 - R),  R = H(Binomial(copies, s), Binomial(copies, 1 - s)),  s = e^e / (1 + e^e),

    and no smaller D holds for all such mechanisms: R is the divergence of `copies` randomised responses. A unit that
    touches fewer keys is a special case (the others get the same count in both data sets).

    Raises PrivacyViolation if D, rounded up, exceeds delta; or for a number of keys that no unit has.
    """
    if not 1 <= copies <= _MOST_COPIES:
        raise PrivacyViolation(f"one unit must touch 1 to {_MOST_COPIES} keys.")
    if copies == 1:
        total = one_key.worst_delta
        if one_key.epsilon > epsilon:
            raise PrivacyViolation("the table was verified at a larger epsilon than is guaranteed.")
    else:
        total = _composed_delta(one_key.epsilon, one_key.worst_delta, copies, epsilon)
    if total > delta:
        raise PrivacyViolation(
            f"{copies} keys of one unit together exceed delta: "
            f"{float(total):.17g} where {float(delta):.17g} is allowed."
        )
    return replace(one_key, copies=copies, total_epsilon=epsilon, total_delta=total)


def _composed_delta(key_epsilon: Fraction, key_delta: Fraction, copies: int, epsilon: Fraction) -> Fraction:
    """Upper bound of D above, in fixed point with room for the smallest binomial probability."""
    scale = _PRECISION + 4 * copies
    one = 1 << scale
    low, low_one = exp_lower(key_epsilon, scale)
    high, high_one = exp_upper(key_epsilon, scale)
    total_low, total_one = exp_lower(epsilon, scale)
    # s = e^e / (1 + e^e) grows with e^e; r = 1 - s falls.
    s_low = one * low // (low + low_one)
    s_high = -(-one * high // (high + high_one))
    r_low, r_high = one - s_high, one - s_low
    s_powers, r_powers = [(one, one)], [(one, one)]
    for _ in range(copies):
        (s0, s1), (r0, r1) = s_powers[-1], r_powers[-1]
        s_powers.append(((s0 * s_low) >> scale, -((-s1 * s_high) >> scale)))
        r_powers.append(((r0 * r_low) >> scale, -((-r1 * r_high) >> scale)))
    excess = 0
    ways = 1
    for hits in range(copies + 1):
        if hits:
            ways = ways * (copies - hits + 1) // hits
        more = -((-ways * s_powers[hits][1] * r_powers[copies - hits][1]) >> scale)
        less = (ways * s_powers[copies - hits][0] * r_powers[hits][0]) >> scale
        excess += max(0, more - less * total_low // total_one)
    kept = (one * (key_delta.denominator - key_delta.numerator)) // key_delta.denominator
    survive = one
    for _ in range(copies):
        survive = (survive * kept) >> scale
    spent = one - ((survive * max(0, one - excess)) >> scale)
    return Fraction(-(-spent >> (scale - _PRECISION)), 1 << _PRECISION)


def exp_lower(exponent: Fraction, precision: int = _PRECISION) -> tuple[int, int]:
    """Numerator and denominator of a number at most e^exponent, for exponent >= 0.

    Every term of the exponential series is positive, so leaving terms out and rounding terms down can only lower it.
    """
    one = 1 << precision
    total = term = one
    order = 0
    while term:
        order += 1
        term = term * exponent.numerator // (exponent.denominator * order)
        total += term
    return total, one


def exp_upper(exponent: Fraction, precision: int = _PRECISION) -> tuple[int, int]:
    """Numerator and denominator of a number at least e^exponent.

    The series is summed with terms rounded up, past the order where each term is less than half of the one before; the
    terms left out are then together at most the last one.
    """
    one = 1 << precision
    total = term = one
    order = 0
    while term > 1 or order < 4 * exponent:
        order += 1
        term = -(-term * exponent.numerator // (exponent.denominator * order))
        total += term
    return total + term, one
