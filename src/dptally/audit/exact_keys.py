"""Exact audits of mechanisms that report every key by itself: rows of a law, written out and compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptally.audit.divergences import ball, ends
from dptally.audit.examination import Examination
from dptally.audit.random_settings import RandomSettings
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_schemes import Ppswor, Priority, SamplingScheme, Scheme
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import share_between_keys
from dptally.verifiers.gaussian import working_precision

_WHOLE = 1 << 128
_RATE_BITS = 32
_MOST_BORDERS = 400  # of a row that are tried
_LONGEST = 400  # binomial row
_ALL_ROWS = 160  # laws with fewer rows are compared row by row; of others some rows are chosen
_UNITS = (1, 1, 1, 2, 2, 3, 5, 10, 30)


def audit_rows(check: Examination, choose: RandomSettings) -> None:
    """A law for single keys: pairs of rows of what is drawn from, and a unit of several keys."""
    epsilon, delta = choose.spread(*check.mechanism.audits.epsilons), choose.spread(1e-12, 0.1)
    keys, values = choose.one_of(_UNITS), choose.number(0, 3) > 0 or not check.mechanism.keys_only
    delta = Fraction(0) if check.mechanism.pure else delta
    check.claim(epsilon, delta, {"keys": keys, "values": values})
    claimed = share_between_keys(epsilon, delta, keys) if delta else (epsilon / keys, delta)
    law = check.law(*claimed, values=values)
    width: int = getattr(law, "width", getattr(law, "largest", _ALL_ROWS))
    compare_shift_rows(check, law, width, claimed)
    check.together(keys, claimed[0])


def compare_shift_rows(check: Examination, law: Any, width: int, claimed: tuple[Fraction, Fraction]) -> None:
    """Compare neighbouring rows of a law up to `width`, from where on every key is reported, and draws with rows."""
    rows: dict[int, dict[Any, int]] = {}

    def row(frequency: int) -> dict[Any, int]:
        if frequency not in rows:
            stated = law.row(frequency)
            rows[frequency] = check.masses(
                stated, math.lcm(_WHOLE, *(chance.denominator for chance in stated.values()))
            )
        return rows[frequency]

    for frequency in _chosen_rows(width, getattr(law, "threshold", 1), check.choose):
        check.keys(row(frequency), row(frequency - 1), f"frequencies {frequency} and {frequency - 1}", *claimed)
    frequency = check.choose.number(1, width + 1)
    if hasattr(law, "table"):  # of 128 bits, from which the compiled sampler draws
        check.require(follows_rows(law, frequency, row(frequency)), f"draws do not follow row {frequency}")


def _chosen_rows(width: int, threshold: int, choose: RandomSettings) -> list[int]:
    """All rows of a short law; of a long one the first, those around the threshold and the end, and random ones."""
    if width <= _ALL_ROWS:
        return list(range(1, width + 2))
    near = [*range(1, 7), *range(threshold - 2, threshold + 3), *range(width - 3, width + 2)]
    return sorted({row for row in (*near, *choose.some(1, width, 12)) if row >= 1})


def audit_sampled(check: Examination, choose: RandomSettings) -> None:
    """With a sampling scheme: rows from 1 on and far out, and whether keys are reported no more often than sampled."""
    epsilon, delta = choose.spread(0.1, 4), choose.spread(1e-10, 0.05)
    values = choose.number(0, 3) > 0
    sub_tokens = choose.one_of((1, 1, 2, 3)) if values else 1
    scheme = _scheme(choose)
    check.claim(epsilon, delta, {"scheme": scheme, "values": values, "sub_tokens": sub_tokens})
    law = WeightedSample(*check.made_for(epsilon, delta), scheme, values=values, sub_tokens=sub_tokens)
    far = choose.number(60, 400)
    runs = (range(1, 41), range(far, far + 3))
    before: tuple[int, dict[Any, int]] = (0, {None: _WHOLE})
    for band in law.sampled_rows.bands([row for run in runs for row in run]):
        masses = {outcome: mass for outcome, mass in band.masses().items() if mass}
        check.require(sum(masses.values()) == _WHOLE and min(masses.values()) >= 0, "a row is not a law")
        if band.frequency == before[0] + 1:
            where = f"frequencies {band.frequency} and {before[0]}"
            check.keys(masses, before[1], where, epsilon, delta)
        reported = Fraction(_WHOLE - masses.get(None, 0), _WHOLE)
        check.require(reported <= _included(scheme, band.frequency), "a key is reported more often than sampled")
        before = band.frequency, masses
    check.together(1, epsilon)


def _scheme(choose: RandomSettings) -> Scheme:
    kind = choose.number(0, 4)
    if kind == 0:
        steps = sorted(choose.spread(0.001, 1) for _ in range(choose.number(1, 12)))
        return SamplingScheme([min(step, Fraction(1)) for step in steps])
    power = choose.one_of(("1", "1", "1/2", "2", "3/2"))
    rate = choose.spread(0.001, 0.9)
    return Ppswor(rate, power) if kind < 3 else Priority(rate, power)


def _included(scheme: Scheme, frequency: int) -> Fraction:
    """An upper bound of the probability that a scheme takes a key: from its definition, in balls."""
    if isinstance(scheme, SamplingScheme):
        return scheme.bounds(frequency, 64)[1]
    if not isinstance(scheme, Ppswor | Priority):
        return Fraction(1)
    with working_precision(256):
        mass = ball(scheme.rate) * ball(frequency) ** ball(scheme.power)
        taken = -((-mass).expm1()) if isinstance(scheme, Ppswor) else mass
        return min(Fraction(1), ends(taken)[1])


def audit_unit_rows(check: Examination, choose: RandomSettings) -> None:
    """Noise and a threshold, for all keys of a unit at once."""
    epsilon, delta = choose.spread(*check.mechanism.audits.epsilons), choose.spread(1e-10, 0.1)
    keys, values = choose.one_of(_UNITS), choose.number(0, 3) > 0 or not check.mechanism.keys_only
    check.claim(epsilon, delta, {"keys": keys, "values": values})
    law = check.law(epsilon, delta, max_keys_per_unit=keys, values=values)
    compare_gaussian_rows(check, law, keys)


def compare_gaussian_rows(check: Examination, law: GaussianHistogram, keys: int) -> None:
    """Compare data sets that differ in `keys` keys, of which some are missing in one of them.

    One key is compared in exact numbers; several are written out if that is short, and otherwise bounded from below.
    """
    nothing = {None: _WHOLE}
    first, high = (check.masses(law.row(frequency), _WHOLE) for frequency in (1, law.width + 1))
    below = check.masses(law.row(law.width), _WHOLE)
    for frequency in (2, law.threshold, *check.choose.some(2, law.width, 2)):
        rows = [check.masses(law.row(near), _WHOLE) for near in (frequency, frequency - 1)]
        check.neighbours(rows[0], rows[1], f"frequencies {frequency} and {frequency - 1}")
    check.neighbours(first, nothing, "frequencies 1 and 0")
    for shared in sorted({0, keys, *check.choose.some(0, keys, 1)}):
        missing = keys - shared
        for pairs, order in (
            ([(high, below, shared), (first, nothing, missing)], ""),
            ([(below, high, shared), (nothing, first, missing)], ", the other way"),
        ):
            taken = [pair for pair in pairs if pair[2]]
            check.several(taken, f"{keys} keys, {shared} of which have other units{order}")
    frequency = check.choose.number(1, law.width)
    row = check.masses(law.row(frequency), _WHOLE)
    check.require(follows_rows(law, frequency, row), f"draws do not follow row {frequency}")


def audit_merged_sketch(check: Examination, choose: RandomSettings) -> None:
    """What is released of merged sketches and sketches of users: every counter may move by one."""
    from dptally.laws.specs.misra_gries import SketchFacts, SketchSpec

    epsilon, delta = choose.spread(0.2, 4), choose.spread(1e-10, 0.05)
    capacity, form = choose.one_of((1, 2, 3, 8, 20, 60)), choose.one_of(("merged", "user"))
    minimise = choose.one_of(("threshold", "error"))
    check.claim(epsilon, delta, {"capacity": capacity, "form": form, "minimise": minimise})
    made = SketchSpec(
        SketchFacts(form, capacity),  # type: ignore[arg-type]
        *check.made_for(epsilon, delta),
        shortfall=None,
        minimise=minimise,  # type: ignore[arg-type]
    )
    law = made.law
    if law.judged_for_unit:
        compare_gaussian_rows(check, law, capacity)
    else:
        claimed = share_between_keys(epsilon, delta, capacity)
        compare_shift_rows(check, law, law.width, claimed)
        check.together(capacity, claimed[0])


def audit_binomial_rows(check: Examination, choose: RandomSettings) -> None:
    """Sampling alone: binomial rows, written out from factorials."""
    epsilon, delta = choose.spread(0.3, 4), choose.spread(1e-9, 0.1)
    keys, rate = choose.one_of((1, 1, 1, 2, 3, 5)), choose.spread(0.02, 0.6)
    given = choose.number(0, 2)  # neither, rate, threshold
    check.claim(epsilon, delta, {"keys": keys, "rate": rate if given == 1 else "best"})
    claimed = share_between_keys(epsilon, delta, keys)
    law = check.law(*claimed, options={"rate": rate} if given == 1 else {})
    compare_sampling_rows(check, law.rate, law.threshold, claimed, law=law)
    check.together(keys, claimed[0])


def compare_sampling_rows(
    check: Examination,
    rate: Fraction,
    threshold: int,
    claimed: tuple[Fraction, Fraction],
    *,
    law: SampleAndThreshold | None = None,
) -> None:
    """Compare binomial rows: the first that report, those around t / p where the worst pairs are, and some beyond."""
    middle = math.floor(threshold / rate)
    # A pair of rows k and k - 1 is the worst where k (1 - (1 - p) e^-epsilon) passes t.
    kept = 1 - (1 - float(rate)) * math.exp(-float(claimed[0]))
    turn = math.floor(threshold / kept)
    chosen = check.choose.some(threshold, 2 * middle + 4, 3)
    near = {threshold, threshold + 1, turn - 1, turn, turn + 1, middle, *chosen}
    for count in sorted(found for found in near if threshold <= found <= _LONGEST):
        first, second = (binomial(trials, rate, threshold) for trials in (count, count - 1))
        if law is not None and count <= 200:
            stated = check.masses(law.row(count), 1 << (_RATE_BITS * count))
            check.require(stated == first, f"row {count} is not the binomial law")
        check.keys(first, second, f"frequencies {count} and {count - 1}", *claimed)


def binomial(trials: int, rate: Fraction, threshold: int) -> dict[Any, int]:
    """The law of what is reported of `trials` units, in units of 2^-(32 trials)."""
    kept = int(rate * (1 << _RATE_BITS))
    dropped = (1 << _RATE_BITS) - kept
    law: dict[Any, int] = {}
    for hits in range(threshold, trials + 1):
        law[hits] = math.comb(trials, hits) * kept**hits * dropped ** (trials - hits)
    law[None] = (1 << (_RATE_BITS * trials)) - sum(law.values())
    return {outcome: mass for outcome, mass in law.items() if mass}


class _GivenWords:
    """A source that hands out words that were given to it. Not random at all."""

    private = False

    def __init__(self, numbers: list[int]) -> None:
        halves = [half for number in numbers for half in (number & 0xFFFFFFFFFFFFFFFF, number >> 64)]
        self._words = np.array(halves, dtype=np.uint64)
        self._at = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words."""
        found = self._words[self._at : self._at + count]
        self._at += count
        if len(found) < count:
            raise ValueError("more words were asked for than were given")
        return found


def follows_rows(law: Any, frequency: int, row: Mapping[Any, int]) -> bool:
    """Whether a law that reports larger values for smaller numbers draws its row for a frequency, border by border.

    A law of 128 bits draws by one uniform number u from 0 to 2^128 - 1; the compiled sampler is fed chosen numbers in
    place of random ones. Where its row puts a border between two outcomes, the number just below must give the one and
    the number on it the other. With all borders of a row right, and outcomes between borders the same, the draw has
    exactly the probabilities of the row.
    """
    borders, outcomes = [], []
    reached = 0
    for outcome in sorted((value for value in row if value is not None), reverse=True):
        borders.append((reached, reached + row[outcome] - 1))
        outcomes.append(outcome)
        reached += row[outcome]
    if row.get(None, 0):
        borders.append((reached, (1 << 128) - 1))
        outcomes.append(0)
    borders, outcomes = borders[-_MOST_BORDERS:], outcomes[-_MOST_BORDERS:]
    numbers = [number for border in borders for number in border]
    drawn = law.draw(np.full(len(numbers), frequency, dtype=np.int64), _GivenWords(numbers))
    expected = [outcome for outcome in outcomes for _ in range(2)]
    return list(drawn.tolist()) == expected
