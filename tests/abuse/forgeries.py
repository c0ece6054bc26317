"""Releases of every kind, and the rules by which a forged guarantee is compared with the true one.

`implied` is the whole of it: may somebody who is told the forged guarantee, and told that it verifies, be told more
than is true? It looks at the true guarantee and certificate, which the publisher's own mechanism made, and at numbers
that are computed here, not at the verifier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa

import dptally
from dptally.heavy_hitters import publish_heavy_hitters
from dptally.laws.base import Law
from dptally.privacy.guarantee import CONDITIONS, Guarantee, Record
from dptally.randomness import SeededBits
from dptally.universes import read_universe
from tests.mechanisms import CompactHistogram

COUNTS = {"apple": 500, "banana": 300, "cherry": 240, "date": 170, "elder": 160, "fig": 150}
RECORD = Record("0" * 32, "1" * 32, 5, "2" * 64)

EVIL: dict[str, list[Any]] = {
    "int": [0, -1, 1, 2, 3, 8, 1000, 2**62, 2**63 - 1],
    "int | None": [None, 0, -1, 1, 2, 3, 4, 8, 1000, 2**62, 2**63 - 1],
    "str": ["", "x", "add or remove one row", "replace one unit"],
    "str | None": [None, "", "user", "each row"],
    "bool": [False],
    "Record | None": [None, RECORD],
}
PARTS = [Fraction(0), Fraction(-1), Fraction(1, 1000), Fraction(1, 20), Fraction(1, 2), Fraction(29)]
MECHANISMS = [
    "weighted_sample", "sanitized_sample", "stability", "gaussian", "sample_and_threshold", "dense", "sparse",
    "strict_sparse", "misra_gries", "compact", "weighted_sample_tree", "sample_and_threshold_tree", "dense_tree",
    "trie_heavy_hitters",
]  # fmt: skip


def evil_values(name: str, kind: str, true: Any) -> list[Any]:
    """Values to put into a field: of its type, around the true one, and far from it."""
    if name == "mechanism":
        found: list[Any] = [*MECHANISMS, "", "x"]
    elif name == "delta":
        found = [Fraction(0), true / 2, true * 2, Fraction(1, 10**9), Fraction(1, 2), Fraction(-1, 10**9), Fraction(1)]
    elif name == "epsilon":
        found = [Fraction(1, 100), true / 2, true * Fraction(19, 20), true * Fraction(99, 100), true * 2, Fraction(30)]
        found += [Fraction(0), Fraction(-1)]
    elif kind == "Fraction":
        found = [*PARTS, true / 2, true * 2]
    else:
        found = EVIL[kind]
    return [value for value in found if value != true or type(value) is not type(true)]


def changed(true: Guarantee, **changes: Any) -> Guarantee:
    """The guarantee with other fields or conditions."""
    fixed = {name: part for name, part in changes.items() if name not in CONDITIONS}
    return replace(true, **fixed).under(**{name: part for name, part in changes.items() if name in CONDITIONS})


def kinds() -> dict[str, str]:
    """The type of every field and condition of a guarantee."""
    of_conditions = {
        name: "Fraction" if isinstance(neutral, Fraction) else "int | None" if neutral is None else "int"
        for name, neutral in CONDITIONS.items()
    }
    stated = {field.name: str(field.type) for field in fields(Guarantee) if field.name != "conditions"}
    return {**stated, **of_conditions}


def mutations(true: Guarantee) -> dict[str, list[Any]]:
    """For every field and condition, whatever it is called, what it may be replaced by; a new type is an error."""
    return {name: evil_values(name, kind, getattr(true, name)) for name, kind in kinds().items()}


# ---- what a guarantee promises, field by field ----


def _spent(promise: Guarantee) -> Fraction:
    return promise.epsilon - promise.spent_on_size - promise.spent_on_shortfall


def _epsilon(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    """What is left for the law is at least what its true certificate says, or what a forged process needs by hand."""
    if true.mechanism == "compact":
        changes = forged.max_keys_per_unit * (2 if release.beyond_capacity == "subsample" else 1)
        return float(forged.epsilon) >= changes * math.log(_largest_ratio(release.law)) * (1 - 1e-9)
    certificate = release.certificate
    if release_law(release) == "HeaviestNoise" and forged.sketch_capacity is not None:
        size = forged.sketch_capacity
        distance = forged.elements_per_unit * max(1, 2 * size - 1) / (size + 1)
        return float(_spent(forged)) >= distance * float(certificate.worst_ratio - 1) * (1 - 1e-12)
    return _spent(forged) >= certificate.total_epsilon


def _largest_ratio(law: Any) -> float:
    """How much likelier a value can be for one count than for the next, looked up one by one."""
    counts = {*range(min(law.largest_count, 60)), max(0, law.largest_count - 1)}
    ratios = [
        law.probability(value, count) / law.probability(value, count + 1)
        for count in counts
        for value in {*range(min(law.largest_count, 120) + 1), law.largest_count}
    ]
    return float(max(*ratios, 1 / min(ratios)))


def _delta(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    return forged.delta >= (0 if true.mechanism == "compact" else release.certificate.total_delta)


def _keys(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    """At most the true number; but a sketch of units takes any number: it moves each counter by one at most.

    Whether units were rows or those of a column before the sketch saw them, no file can show.
    """
    of_units = release_law(release) in ("GaussianHistogram", "WeightedSample") and forged.unit is not None
    if of_units and forged.sketch_capacity is not None:
        return forged.max_keys_per_unit >= 0
    return 1 <= forged.max_keys_per_unit <= true.max_keys_per_unit


def _mechanism(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    """Who drew a sample, and so whether a condition is to be stated, no file can show; all else must be the same."""
    samples = {"weighted_sample", "sanitized_sample"}
    sampled = samples if _scheme(release) is not None else set()
    return forged.mechanism == true.mechanism or {forged.mechanism, true.mechanism} <= sampled


def _size(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    """A part of epsilon, never less than nothing; what the estimate of a total cost, no file can show."""
    return forged.spent_on_size >= 0 and (forged.spent_on_size == 0 or _scheme(release) is not None)


def _shortfall(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    """At least what noise of the stated scale costs a unit, by hand."""
    shortfall = getattr(release, "shortfall", None)
    if shortfall is None or not shortfall.scale:
        return forged.spent_on_shortfall == 0
    cost = forged.elements_per_unit * math.log1p(1 / shortfall.scale)
    return float(forged.spent_on_shortfall) >= cost * (1 - 1e-12)


def _capacity(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    """The true one; of a pure release only the product with the number of sketches counts, see `_epsilon`."""
    if release_law(release) == "HeaviestNoise" and true.sketch_capacity is not None:
        return forged.sketch_capacity is not None and forged.sketch_capacity * forged.sketches == release.law.keep
    return forged.sketch_capacity == true.sketch_capacity


def _sketches(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    """How many were added up changes the promise of none of them; there is at least one."""
    return forged.sketches >= 1 and (forged.sketches == 1 or release_law(release) in ("SummedNoise", "HeaviestNoise"))


def _elements(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    if release_law(release) == "HeaviestNoise":
        return forged.elements_per_unit >= 1  # `_epsilon` counts them
    return 1 <= forged.elements_per_unit <= true.elements_per_unit


def _distinct(true: Guarantee, forged: Guarantee, release: Any) -> bool:
    """None compares all data sets, which promises more than a number does."""
    return forged.most_distinct_keys == true.most_distinct_keys or true.most_distinct_keys is None


RULES: dict[str, Callable[[Guarantee, Guarantee, Any], bool]] = {
    "epsilon": _epsilon,
    "delta": _delta,
    "unit": lambda true, forged, release: forged.unit is not None or forged.max_keys_per_unit == 1,  # else a name
    "max_keys_per_unit": _keys,
    "mechanism": _mechanism,
    "spent_on_size": _size,
    "spent_on_shortfall": _shortfall,
    "sketch_capacity": _capacity,
    "sketches": _sketches,
    "elements_per_unit": _elements,
    "most_distinct_keys": _distinct,
    "rounds": lambda true, forged, release: forged.rounds == true.rounds,
    "statistics": lambda true, forged, release: forged.statistics == true.statistics,
    "totals": lambda true, forged, release: forged.totals == true.totals,
    "rows_per_unit_and_key": lambda true, forged, release: forged.rows_per_unit_and_key == true.rows_per_unit_and_key,
    "periods": lambda true, forged, release: forged.periods == true.periods,
    "periods_per_key": lambda true, forged, release: forged.periods_per_key == true.periods_per_key,
    "within": lambda true, forged, release: forged.within == true.within,  # the releases here are of no series
    "private": lambda true, forged, release: True,  # no file can show it
    "neighbours": lambda true, forged, release: forged.neighbours == true.neighbours,
    "record": lambda true, forged, release: True,  # a ledger answers for it
    "where": lambda true, forged, release: True,  # the word of the publisher, and no part of what is guaranteed
}


def implied(true: Guarantee, forged: Guarantee, release: Any) -> list[str]:
    """The fields in which the forged guarantee promises more than is true."""
    return [name for name in kinds() if not RULES[name](true, forged, release)]


def _scheme(release: Any) -> Any:
    return getattr(getattr(release, "law", None), "scheme", None)


def release_law(release: Any) -> str:
    """The name of the law of a release, as files hold it."""
    law = getattr(release, "law", None)
    return str(law.facts()["name"]) if isinstance(law, Law) else type(law).__name__


# ---- one release of every kind ----


def _publish(source: Any = COUNTS, **options: Any) -> Any:
    return dptally.publish(source, randomness=SeededBits(7), **options)


def _people() -> pa.Table:
    keys = list(COUNTS)
    rows = [(person, keys[(person + step) % len(keys)]) for person in range(900) for step in range(3)]
    return pa.table({"user": [person for person, _ in rows], "key": [key for _, key in rows]})


def _sketch(capacity: int = 8) -> dptally.MisraGriesSketch:
    made = dptally.MisraGriesSketch(capacity)
    made.update([key for key, count in COUNTS.items() for _ in range(count)])
    return made


def _other_sketch() -> dptally.MisraGriesSketch:
    made = dptally.MisraGriesSketch(8)
    made.update([key for key, count in COUNTS.items() for _ in range(count + 20)])
    return made


def _users(most: int | None) -> dptally.UserMisraGriesSketch:
    made = dptally.UserMisraGriesSketch(8, most)
    keys = list(COUNTS)
    made.update([[keys[person % 6], keys[(person + 1) % 6]] for person in range(1500)])
    return made


def _ranges(mechanism: Any, delta: str | None) -> Any:
    values = pa.table({"v": [value % 50 for value in range(4000)]})
    return dptally.publish_quantiles(
        values, value="v", low=0, high=63, epsilon=1, delta=delta, mechanism=mechanism, randomness=SeededBits(7)
    )


def _tree(**options: Any) -> Any:
    keys = [key for key, count in COUNTS.items() for _ in range(count)]
    table = pa.table({"word": keys})
    return publish_heavy_hitters(
        table, key="word", epsilon=1, delta="1e-6", levels=3, randomness=SeededBits(7), **options
    )


def _subsampled() -> Any:
    made = CompactHistogram(
        1, universe=read_universe("integers:0..99"), capacity=6, largest_count=1000, beyond_capacity="subsample"
    )
    return made.build({5: 400, 9: 30}, SeededBits(7))


_BOTH: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
_PURE: dict[str, Any] = {"epsilon": 1, "bound": 1000}
_NUMBERS = {number: 100 * number for number in range(1, 8)}
_UNITS: dict[str, Any] = {"source": _people(), "key": "key", "unit": "user"}
KINDS: dict[str, Callable[[], Any]] = {
    "weighted_sample": lambda: _publish(**_BOTH),
    "weighted_sample_units": lambda: _publish(**_BOTH, **_UNITS, max_keys_per_unit=3),
    "sampled": lambda: _publish(**_BOTH, sampling=dptally.Ppswor("0.3")),
    "priority": lambda: _publish(**_BOTH, sampling=dptally.Priority("0.01")),
    "sampled_by_size": lambda: _publish(**_BOTH, sampling=dptally.Ppswor(size=300)),
    "keys_only": lambda: _publish(**_BOTH, values=False),
    "sanitized_sample": lambda: dptally.sanitize(COUNTS, "ppswor:0.9", **_BOTH, randomness=SeededBits(7)),
    "stability": lambda: _publish(**_BOTH, mechanism="stability"),
    "gaussian": lambda: _publish(**_BOTH, **_UNITS, mechanism="gaussian", max_keys_per_unit=3),
    "sample_and_threshold": lambda: _publish(**_BOTH, mechanism="sample_and_threshold"),
    "dense": lambda: _publish(_NUMBERS, **_PURE, mechanism="dense", universe="integers:0..20"),
    "dense_units": lambda: _publish(**_UNITS, epsilon=1, mechanism="dense", universe=list(COUNTS), max_keys_per_unit=2),
    "sparse": lambda: _publish(_NUMBERS, **_PURE, mechanism="sparse", universe="uint64", capacity=6),
    "strict_sparse": lambda: _publish(
        _NUMBERS, **_PURE, mechanism="sparse", universe="integers:0..99", capacity=6, strict_time=True
    ),
    "compact": lambda: _publish(_NUMBERS, **_PURE, mechanism="compact", universe="uint64", capacity=8),
    "compact_subsampled": _subsampled,
    "sketch": lambda: _sketch().publish("1", "1e-6", randomness=SeededBits(7)),
    "sketch_of_groups": lambda: _sketch().publish("1", "1e-6", elements_per_unit=2, randomness=SeededBits(7)),
    "sketch_stated_shortfall": lambda: _sketch().publish("1", "1e-6", shortfall=9, randomness=SeededBits(7)),
    "sketch_untold_shortfall": lambda: _sketch().publish("1", "1e-6", shortfall=None, randomness=SeededBits(7)),
    "sketch_merged": lambda: _sketch().merge(_other_sketch()).publish("1", "1e-6", randomness=SeededBits(7)),
    "sketch_users": lambda: _users(2).publish("1", "1e-6", randomness=SeededBits(7)),
    "sketch_users_unbounded": lambda: _users(None).publish("1", "1e-6", minimise="error", randomness=SeededBits(7)),
    "sketch_summed": lambda: dptally.sum_sketches([_sketch(), _other_sketch()]).publish(
        "1", "1e-6", randomness=SeededBits(7)
    ),
    "sketch_pure": lambda: _sketch().publish("1", universe="words:12", randomness=SeededBits(7)),
    "ranges_sample_and_threshold": lambda: _ranges("sample_and_threshold", "1e-6"),
    "ranges_weighted_sample": lambda: _ranges("weighted_sample", "1e-6"),
    "ranges_dense": lambda: _ranges("dense", None),
    "tree": _tree,
    "tree_optimal": lambda: _tree(composition="optimal"),
    "tree_single_round": lambda: _tree(single_round=True),
}


@cache
def genuine(kind: str) -> Any:
    """A release of this kind, drawn from a seed and made to look as if it were not: that much no file can show."""
    made = KINDS[kind]()
    made = made.stating(replace(made.guarantee, private=True))
    made.verify()
    return made
