"""Exact audits of what is released of sketches: neighbouring streams are put through sketches, and laws written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate
from typing import Any

from dptally.audit.divergences import PRECISION, as_masses, ball, ends, excess, exponential, product
from dptally.audit.examination import NOTHING, Examination
from dptally.audit.random_settings import RandomSettings
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.shortfall import noise_scale
from dptally.laws.specs.misra_gries import SketchFacts, SketchSpec
from dptally.laws.summed_noise import SummedNoise
from dptally.randomness import SeededBits
from dptally.summaries.misra_gries import MisraGries
from dptally.universes import read_universe
from dptally.verifiers.gaussian import working_precision

_WHOLE = 1 << 128
_ENTRY = 16
_ALPHABET = 4
_MOST_STEPS = 1_200_000  # of writing out the law of a small sketch


def audit_shared_noise(check: Examination, choose: RandomSettings) -> None:
    """One stream: own and shared noise. Small sketches are written out whole, for streams that differ in one element.

    For sketches of any capacity, the chance that a key which only one stream has is reported is computed exactly from
    the table, with the counters that [LT25, Lem. 8] allows, and the loss of noise moved by one is added.
    """
    standard = choose.number(0, 2) == 0
    elements = choose.one_of((1, 1, 1, 2, 4))
    small = choose.coin()
    capacity = choose.number(1, 2) if small else choose.one_of((3, 10, 100, 1000))
    epsilon = choose.spread(2.2, 3.8) * elements if small else choose.spread(0.3, 4)
    delta, share = choose.spread(1e-9, 0.1), choose.coin()
    facts = {"capacity": capacity, "standard": standard, "elements": elements, "shortfall": share}
    check.claim(epsilon, delta, facts)
    made = SketchSpec(
        SketchFacts("standard" if standard else "single", capacity),
        *check.made_for(epsilon, delta),
        elements_per_unit=elements,
        shortfall="private" if share else None,
    )
    law = made.law
    spent = epsilon - law.epsilon
    check.require(law.epsilon + spent == epsilon and spent >= 0, "shares of epsilon do not add up")
    if share:
        _check_shortfall(check, spent, elements)
    check.epsilon = law.epsilon  # what is left for the counters
    _check_leak(check, law, capacity, standard, elements)
    if small:
        for shorter, longer in _neighbouring_streams(choose, elements):
            states = [_counters(stream, capacity, standard) for stream in (longer, shorter)]
            laws = [_write_out(law, state) for state in states]
            if laws[0] is not None and laws[1] is not None:
                check.neighbours(laws[0], laws[1], f"streams of {len(longer)} and {len(shorter)} elements")


def _check_shortfall(check: Examination, spent: Fraction, elements: int) -> None:
    """The geometric noise on how far the sketch falls short: one over the factor per step, to the power of steps."""
    step = noise_scale(spent / elements)
    check.require(
        Fraction(step + 1, step) ** elements <= exponential(spent)[0], "the estimate of the shortfall exceeds its share"
    )


def _check_leak(check: Examination, law: SharedNoise, capacity: int, standard: bool, elements: int) -> None:
    noise = _noise(law.table)
    reach = max(noise)
    below = [0, *accumulate(reversed(noise.values()))]

    def hidden(limit: int) -> int:
        """2^128 P[noise <= limit]."""
        return below[max(0, min(len(noise), limit + reach + 1))]

    ones, zeros = (capacity, 0) if standard else (1, min(1, capacity - 1))
    quiet = sum(
        mass * hidden(law.threshold - 2 - shared) ** ones * hidden(law.threshold - 1 - shared) ** zeros
        for shared, mass in noise.items()
    )
    leak = 1 - Fraction(quiet, _WHOLE ** (1 + ones + zeros))
    moved = {value + 1: mass for value, mass in noise.items()}
    share = law.epsilon / elements
    step = max(excess(noise, moved, share), excess(moved, noise, share))
    with working_precision(PRECISION):
        factor = sum((ball(share * times).exp() for times in range(elements)), ball(0))
        bound = ends(ball(leak + step) * factor)[1]
    check.bounded(bound, "keys that only one stream has, and noise moved by one")


def _neighbouring_streams(choose: RandomSettings, elements: int) -> Iterator[tuple[list[int], list[int]]]:
    """Streams of which one has `elements` elements more, anywhere."""
    yield [], [0] * elements
    longer = [choose.number(1, _ALPHABET) for _ in range(choose.number(elements, 9 + elements))]
    shorter = list(longer)
    for _ in range(elements):
        shorter.pop(choose.number(0, len(shorter) - 1))
    yield shorter, longer


def _sketched(stream: list[int], capacity: int) -> MisraGries:
    sketch = MisraGries(capacity, kind="integer", bits=SeededBits(1))
    if stream:
        sketch.update(stream)
    return sketch


def _counters(stream: list[int], capacity: int, standard: bool) -> dict[int, int]:
    contents = _sketched(stream, capacity).contents()
    found = dict(zip(contents.keys.to_pylist(), contents.counters.tolist(), strict=True))
    return {key: count for key, count in found.items() if count or not standard}


def _write_out(law: SharedNoise, counters: dict[int, int]) -> dict[Any, int] | None:
    """The law of a whole release, key by key, summed over the shared noise; None if it is too long."""
    noise = _noise(law.table)
    if len(noise) * (2 * max(noise) + 2) ** len(counters) > _MOST_STEPS:
        return None
    total: Counter[Any] = Counter()
    for shared, mass in noise.items():
        rows = []
        for key, count in counters.items():
            row: Counter[Any] = Counter()
            for own, chance in noise.items():
                value = count + own + shared
                row[(key, value) if value >= law.threshold else None] += chance
            rows.append(row)
        for outcome, chance in product(rows).items():
            total[tuple(seen for seen in outcome if seen is not None)] += mass * chance
    return total


def _noise(table: bytes) -> dict[int, int]:
    """Masses of the noise by its value, from the largest to the smallest."""
    reached = [int.from_bytes(table[at : at + _ENTRY], "little") for at in range(0, len(table), _ENTRY)]
    masses = [here - before for before, here in zip([0, *reached], [*reached, _WHOLE], strict=True)]
    reach = len(masses) // 2
    return dict(zip(range(reach, -reach - 1, -1), masses, strict=True))


def audit_summed_sketches(check: Examination, choose: RandomSettings) -> None:
    """Sketches that were added up: counters with fractions, of streams that differ in one element."""
    epsilon, delta = choose.spread(0.7, 5), choose.spread(1e-9, 0.1)
    capacity, elements = choose.one_of((1, 2, 3, 8)), choose.one_of((1, 1, 2))
    check.claim(epsilon, delta, {"capacity": capacity, "elements": elements})
    law = SummedNoise(*check.made_for(epsilon, delta), capacity, elements=elements)
    for first, second in _summed_neighbours(choose, capacity, elements):
        keys = sorted({key for key in (*first, *second) if first.get(key, 0) != second.get(key, 0)})
        # Keys are drawn independently, and leaving some of them out of sight cannot raise a divergence.
        for key in keys:
            laws = [_summed_row(law, state.get(key, 0)) for state in (first, second)]
            check.neighbours(laws[0], laws[1], "one key of neighbouring streams")
        if len(keys) > 1:
            pairs = [tuple(_summed_row(law, state.get(key, 0)) for state in (first, second)) for key in keys[:4]]
            for order in (0, 1):
                check.several([(pair[order], pair[1 - order], 1) for pair in pairs], "several keys of streams")


def _summed_neighbours(
    choose: RandomSettings, capacity: int, elements: int
) -> Iterator[tuple[dict[int, int], dict[int, int]]]:
    """Counters, in units of 1 / (capacity + 1), of streams that differ; and the farthest ones that are allowed for."""

    def reduced(stream: list[int]) -> dict[int, int]:
        keys, scaled = _sketched(stream, capacity).reduced()
        return dict(zip(keys.to_pylist(), scaled.tolist(), strict=True))

    for shorter, longer in _neighbouring_streams(choose, elements):
        yield reduced(longer), reduced(shorter)
    farthest = elements * max(1, 2 * capacity - 1)
    base = choose.number(0, 4 * (capacity + 1))
    yield {0: farthest}, {}
    yield {0: base + farthest}, {0: base}


def _summed_row(law: SummedNoise, scaled: int) -> dict[Any, int]:
    """What is reported for one counter in units of 1 / (k + 1): rounded at random, noise added, cut, floored."""
    parts, grid, fine = law.capacity + 1, law.grid, law._best[1]
    low, rest = divmod(scaled * grid, parts)
    noise = _noise(law.table)
    row: dict[Any, int] = {}
    for rounded, weight in ((low, parts - rest), (low + 1, rest)):
        if not weight:
            continue
        if rounded == 0:
            row[None] = row.get(None, 0) + weight * _WHOLE
            continue
        for added, mass in noise.items():
            noisy = rounded + added
            outcome = noisy // grid if noisy >= fine else None
            row[outcome] = row.get(outcome, 0) + weight * mass
    return row


def audit_pure_sketch(check: Examination, choose: RandomSettings) -> None:
    """Sketches over a universe, delta = 0: rounded counters and geometric noise, moved as far as streams can."""
    epsilon = choose.spread(0.2, 5)
    capacity, elements, share = choose.one_of((1, 2, 5, 20)), choose.one_of((1, 1, 3)), choose.coin()
    check.claim(epsilon, NOTHING, {"capacity": capacity, "elements": elements, "shortfall": share})
    made = SketchSpec(
        SketchFacts("single", capacity),
        check.made_for(epsilon)[0],
        None,
        universe=read_universe("words:2"),
        elements_per_unit=elements,
        shortfall="private" if share else None,
    )
    spent = epsilon / 20 if share else Fraction(0)
    if share:
        _check_shortfall(check, spent, elements)
    noise = made.law.noise
    check.epsilon = epsilon - spent
    parts, farthest = capacity + 1, elements * max(1, 2 * capacity - 1)
    for base in (0, choose.number(0, 6 * parts)):
        top = (base + farthest) // parts + 8
        laws = [_rounded_row(noise, scaled, parts, top) for scaled in (base, base + farthest)]
        check.neighbours(laws[0], laws[1], "one counter moved as far as all may be together")
        # The same distance shared by two counters, which are drawn independently.
        part = choose.number(0, farthest)
        moved = [(base, base + part), (base, base + farthest - part)]
        for order in (0, 1):
            pairs = [[_rounded_row(noise, scaled, parts, top) for scaled in pair] for pair in moved]
            check.several([(pair[order], pair[1 - order], 1) for pair in pairs], "two counters moved")


def _rounded_row(noise: ClampedGeometric, scaled: int, parts: int, top: int) -> dict[Any, int]:
    """The law of one value, all from `top` on taken together, as ratios no longer change above both counters."""
    low, rest = divmod(scaled, parts)
    whole = noise.ratio.denominator ** (top + 1) * (noise.ratio.denominator + noise.ratio.numerator)
    row: dict[Any, int] = {}
    for count, weight in ((low, parts - rest), (low + 1, rest)):
        if not weight:
            continue
        law: dict[Any, Fraction] = {value: noise.probability(count, value) for value in range(top)}
        law["more"] = 1 - sum(law.values(), Fraction(0))
        for outcome, mass in as_masses(law, whole).items():
            row[outcome] = row.get(outcome, 0) + weight * mass
    return row
