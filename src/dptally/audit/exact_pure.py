"""Exact audits of mechanisms with delta = 0: the ratio of every outcome under neighbouring counts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dptally.audit.divergences import exponential
from dptally.audit.examination import NOTHING, Examination
from dptally.audit.random_settings import RandomSettings
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.field_geometric import FieldGeometric, choose_law
from dptally.laws.shortfall import noise_scale
from dptally.laws.specs.compact import changes_per_unit
from dptally.laws.top_k_noise import TopKNoise

_WHOLE = 1 << 128


def audit_dense(check: Examination, choose: RandomSettings) -> None:
    """A value for every key of a list: whole rows for small bounds, windows around the count for large ones."""
    epsilon = choose.spread(0.1, 5)
    keys, bound = choose.one_of((1, 1, 2, 5)), choose.one_of((1, 2, 7, 30, 100, 1000, 1 << 40))
    check.claim(epsilon, NOTHING, {"keys": keys, "bound": bound})
    law = DyadicGeometric(check.made_for(epsilon)[0] / keys, bound)
    compare_dense_rows(check, law, epsilon / keys)
    check.require(keys * law.epsilon <= epsilon, "keys together spend more than epsilon")


def compare_dense_rows(check: Examination, law: DyadicGeometric, key_epsilon: Fraction) -> None:
    """Compare rows at the ends of the range and in the middle."""
    bound = law.bound
    for count in sorted({1, bound, *check.choose.some(1, bound, 3)}):
        rows = [_window(law, number, count) for number in (count, count - 1)]
        check.keys(rows[0], rows[1], f"counts {count} and {count - 1}", key_epsilon)
    check.together(1, check.epsilon)


def _window(law: DyadicGeometric, count: int, middle: int) -> dict[Any, int]:
    """A row as far as the noise reaches; beyond, all values have the same mass whatever the count, and are one."""
    low, high = max(0, middle - law.reach - 2), min(law.bound, middle + law.reach + 2)
    values = {0, law.bound, *range(low, high + 1)}
    row: dict[Any, int] = {value: int(law.probability(value, count) * _WHOLE) for value in values}
    row["beyond"] = _WHOLE - sum(row.values())
    return row


def audit_sparse(check: Examination, choose: RandomSettings) -> None:
    """The noise of every key of a universe, with a small bound so that rows can be written out."""
    epsilon = choose.spread(0.1, 5)
    keys, bound = choose.one_of((1, 1, 2, 5)), choose.one_of((1, 2, 5, 12, 25))
    check.claim(epsilon, NOTHING, {"keys": keys, "bound": bound})
    key_epsilon = epsilon / keys
    noise: Any = TopKNoise(check.made_for(key_epsilon)[0], size=1000, keep=5, bound=bound).noise
    whole = noise.ratio.denominator**bound * (noise.ratio.denominator + noise.ratio.numerator)
    rows = [check.masses(noise.row(count), whole) for count in range(bound + 1)]
    for count in range(1, bound + 1):
        check.keys(rows[count], rows[count - 1], f"counts {count} and {count - 1}", key_epsilon)
    check.together(1, epsilon)


def audit_strict_sparse(check: Examination, choose: RandomSettings) -> None:
    """The version of fixed time: its noise, and whether the random release hides how far the draw is from its law."""
    epsilon = choose.spread(0.2, 3)
    bound, keep, mixing = choose.one_of((2, 5, 20)), choose.one_of((1, 4, 20)), choose.one_of((20, 40))
    size = choose.one_of((10, 1000, 1 << 32))
    check.claim(epsilon, NOTHING, {"bound": bound, "keep": keep, "mixing": mixing, "size": size})
    law = TopKNoise(check.made_for(epsilon)[0], size=size, keep=keep, bound=bound, mixing=mixing)
    masses: list[int] = law.noise.masses  # type: ignore[union-attr]
    rows = []
    for count in range(bound + 1):
        row: dict[Any, int] = {}
        for noise, mass in zip(range(bound, -bound - 1, -1), masses, strict=True):
            value = min(max(count + noise, 0), bound)
            row[value] = row.get(value, 0) + mass
        rows.append(row)
    for count in range(1, bound + 1):
        check.keys(rows[count], rows[count - 1], f"counts {count} and {count - 1}", epsilon)
    low, _ = exponential(epsilon)
    distance = Fraction(bound * size * (keep + 2), 1 << law.scale_bits)
    distance += Fraction((keep + 1) * size, 1 << law.label_bits)
    least = Fraction(1, (4 * size * (bound + 1)) ** keep << mixing)
    # [BV19, Lem. 3.2]: the ratio of the mixture is at most e^epsilon if (e^epsilon + 1) d <= (e^epsilon - 1) least.
    check.require((low + 1) * distance <= (low - 1) * least, "the random release does not hide the distance")
    check.together(1, epsilon)


def audit_compact(check: Examination, choose: RandomSettings) -> None:
    """One polynomial for all keys: the chance of every element at one key, for neighbouring counts."""
    epsilon = choose.spread(0.2, 5)
    keys, rule = choose.one_of((1, 1, 2, 4)), choose.one_of(("subsample", "refuse"))
    largest, size = choose.one_of((1, 2, 10, 1000, (1 << 32) - 1)), choose.one_of((100, 1 << 32, 1 << 64))
    check.claim(epsilon, NOTHING, {"keys": keys, "rule": rule, "largest count": largest, "universe": size})
    changes = keys * (2 if rule == "subsample" else 1)
    check.require(changes_per_unit(keys, rule) == changes, "a unit changes more counts than is accounted for")  # type: ignore[arg-type]
    step = epsilon / changes
    law = choose_law(check.made_for(step)[0], universe_size=size, largest_count=largest)
    counts = {1, largest, *choose.some(1, largest, 1), *choose.some(1, min(largest, 30), 2)}
    low, _ = exponential(step)
    for count in sorted(counts):
        rows = [_elements(law, number, count) for number in (count, count - 1)]
        for (value, kind), chance in rows[0].items():
            other = rows[1][value, kind]
            where = f"the value {value} of counts {count} and {count - 1}"
            check.require(chance <= low * other and other <= low * chance, where + " differs too much")
    check.bounded(Fraction(0), "ratios of chances, element by element")


def _elements(law: FieldGeometric, count: int, middle: int) -> dict[tuple[int, str], Fraction]:
    """The least and the largest chance of one element of each value's cell, times the size of the field."""
    chances: dict[tuple[int, str], Fraction] = {}
    near = range(max(0, middle - law.reach - 2), min(law.largest_count, middle + law.reach + 2) + 1)
    for value in {0, law.largest_count, *near}:
        cell = int(law.probability(value, 0) * law.size)
        for kind in ("least", "most"):
            if count == 0:
                chances[value, kind] = Fraction(1)
                continue
            coins = (1 << law.element_bits) // cell if kind == "least" else -(-(1 << law.element_bits) // cell)
            chances[value, kind] = law.probability(value, count) * law.size * Fraction(coins, 1 << law.element_bits)
    return chances


def audit_total(check: Examination, choose: RandomSettings) -> None:
    """The private number of occurrences: geometric noise with a whole scale, clamped at 0."""
    epsilon = choose.spread(0.001, 5)
    check.claim(epsilon, NOTHING, {})
    scale = noise_scale(check.made_for(epsilon)[0])
    ratio = Fraction(scale, scale + 1)
    reach = 6
    for total in (1, choose.number(2, reach)):
        rows = []
        for count in (total, total - 1):
            # P[Z = z] = (1 - r) / (1 + r) r^|z|; below 0 and beyond the window all is one outcome each.
            row = {0: ratio**count / (1 + ratio)}
            row |= {value: (1 - ratio) / (1 + ratio) * ratio ** abs(value - count) for value in range(1, 2 * reach)}
            row[2 * reach] = 1 - sum(row.values(), Fraction(0))
            whole = (scale + 1) ** (2 * reach + 1) * (2 * scale + 1)
            rows.append(check.masses(row, whole))
        check.neighbours(rows[0], rows[1], f"totals {total} and {total - 1}")
