"""The verifier of guarantees: what a release states about itself, against what its mechanism and its law give.

Other verifiers compute the privacy loss of one table. This one says what follows from it for a unit, and which of the
fields of a guarantee a mechanism uses at all. Every field of `Guarantee`, and every condition it names, has a rule
here: it is derived from the law and must not be stronger than what was derived; or it has its neutral value, because
the mechanism does not use it; or it is one of the few facts that no file can show (`WORD_OF_THE_PUBLISHER`). What has
no rule is refused.

How far one unit moves the counts, and how often it is counted, is written down here once more, and taken from nowhere
else: this module shares no code with the builders of laws, with the mechanisms, or with what draws.

| mechanism | law | how often a unit is counted |
| --- | --- | --- |
| weighted_sample, sanitized_sample, stability, sample_and_threshold | of one key | `max_keys_per_unit` copies |
| gaussian | of all keys of a unit | as many keys as the table was verified for |
| dense, sparse, strict_sparse | of one key, pure | `max_keys_per_unit` copies |
| misra_gries | SharedNoise, SummedNoise: of a sketch | one element, or `elements_per_unit` |
| misra_gries | GaussianHistogram, WeightedSample: of a counter | all `sketch_capacity` counters |
| misra_gries | HeaviestNoise: of a counter, pure | distance of all counters together |
| compact | FieldGeometric: of one step | one step for each key, or two where others are pushed out |
| ..._tree | of one node | once in each level |
| trie_heavy_hitters | of one round | once in each round |

What cannot be seen from a file: that the values were drawn from the stated law with secret bits, that contributions
were bounded as stated before, and that nothing else was released from the same data.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dptally.errors import PrivacyViolation
from dptally.verifiers.compact import CompactCertificate, certify_compact
from dptally.verifiers.pure import certify_pure_copies, certify_rounded_counters
from dptally.verifiers.rounds import LARGEST_ROUNDS, certify_rounds
from dptally.verifiers.sampling import certify_sampling
from dptally.verifiers.sketches import certify_shared_noise, certify_summed_noise
from dptally.verifiers.tables import Certificate, certify_copies, certify_rows, exp_lower

if TYPE_CHECKING:
    from dptally.privacy.guarantee import Guarantee

__all__ = [
    "DERIVED",
    "NEUTRAL",
    "WORD_OF_THE_PUBLISHER",
    "verify_compact",
    "verify_prefix_tree",
    "verify_range_tree",
    "verify_rounds",
    "verify_table",
]

NEIGHBOURS = "add or remove one unit"
DERIVED = ("epsilon", "delta", "max_keys_per_unit", "mechanism", "neighbours")
NEUTRAL: Mapping[str, object] = {
    "spent_on_size": Fraction(0),
    "spent_on_shortfall": Fraction(0),
    "sketch_capacity": None,
    "sketches": 1,
    "elements_per_unit": 1,
    "most_distinct_keys": None,
    "rounds": 1,
    "statistics": 0,
    "totals": 0,
    "rows_per_unit_and_key": 1,
    "periods": 1,
    "periods_per_key": 1,
    "within": 0,
}
# a name, how the bits were made, what a ledger has to show, and which rows were read
WORD_OF_THE_PUBLISHER = ("unit", "private", "record", "where")

_LAWS = {
    "weighted_sample": "WeightedSample",
    "sanitized_sample": "WeightedSample",
    "stability": "Stability",
    "gaussian": "GaussianHistogram",
    "rounds": "KeyRounds",
    "sample_and_threshold": "SampleAndThreshold",
    "dense": "DyadicGeometric",
    "sparse": "HeaviestNoise",
    "strict_sparse": "HeaviestNoise",
}
_TREES = {
    "weighted_sample_tree": "WeightedSample",
    "sample_and_threshold_tree": "SampleAndThreshold",
    "dense_tree": "DyadicGeometric",
}
_SKETCH, _COMPACT, _PREFIXES = "misra_gries", "compact", "trie_heavy_hitters"
_SERIES, _WITHIN = ("series", "FactorisedSeries"), 5
_PERIODS = {1: r"\d{4}-\d{2}-\d{2}", 2: r"\d{4}-W\d{2}", 3: r"\d{4}-\d{2}"}  # names of days, weeks and months
_OURS = frozenset((*_LAWS, *_TREES, _SKETCH, _COMPACT, _PREFIXES, _SERIES[0]))
_SKETCHES_OF_STREAMS = ("SharedNoise", "SummedNoise", "HeaviestNoise")
_SKETCHES_OF_UNITS = ("GaussianHistogram", "WeightedSample")
_OUR_LAWS = frozenset((*_LAWS.values(), *_TREES.values(), *_SKETCHES_OF_STREAMS, *_SKETCHES_OF_UNITS, _SERIES[1]))
_LARGEST = 1 << 62


def verify_table(stated: Guarantee, law: Any, *, rows: int, shortfall: Any = None) -> Certificate:
    """Derive what a table of keys guarantees, and compare.

    `stated` is what the release says, `law` was rebuilt from its parameters (`facts`, `certify`, and for sketches its
    table and threshold), `rows` is how many keys were released, and `shortfall` how far a sketch falls short, as
    released; None where it is not told. The certificate is for a unit with all that it may hold. Raises
    PrivacyViolation if the guarantee states more than the law gives, or what its mechanism does not use.
    """
    facts = law.facts()
    if stated.mechanism == _SKETCH:
        return _verify_sketch(stated, law, facts, rows, shortfall)
    if stated.mechanism not in _OURS:
        return _verify_outside(stated, law, facts, shortfall)
    _check_law(stated, _LAWS, facts)
    sampled = facts.get("scheme") is not None
    sized = stated.mechanism == "weighted_sample" and sampled and stated.unit is None
    in_rounds = facts["name"] == "KeyRounds"
    of_rounds = ("rounds", "statistics", "totals", "rows_per_unit_and_key")
    _check_fields(stated, used=("spent_on_size",) if sized else of_rounds if in_rounds else ())
    _require(shortfall is None, "only a sketch falls short of counts")
    _require(stated.max_keys_per_unit >= 1, "a unit has at least one key")
    if stated.mechanism == "sanitized_sample":
        _require(sampled and stated.unit is None, "a sample that was made private has a scheme, and no units")
    _require(facts.get("neighbours", NEIGHBOURS) == NEIGHBOURS, "the law compares other data sets")
    mixed = facts.get("mixing") is not None
    _require(mixed == (stated.mechanism == "strict_sparse"), "the mechanism does not draw from this law")
    rest, found = stated.epsilon - stated.spent_on_size, law.certify()
    if facts["name"] == "GaussianHistogram":
        return _for_the_unit(found, rest, stated, found.copies == stated.max_keys_per_unit)
    if in_rounds:
        kinds = [each["kind"] for each in facts["stages"]]
        most = max(each.get("high", each.get("differing", 1)) for each in facts["stages"])
        last = facts["stages"][-1]
        none: Mapping[str, Any] = {"asked": [], "totals": False, "rows": None}
        asked = last["asked"] if last["kind"] == "statistics" else none
        _require(stated.unit is not None or last["kind"] == "statistics", "rounds without units have statistics")
        _require(kinds.count("round") == stated.rounds, "the release has other rounds")
        released = (len(asked["asked"]), int(asked["totals"]), asked["rows"] or 1)
        told = (stated.statistics, stated.totals, stated.rows_per_unit_and_key)
        _require(released == told, "the release has other statistics")
        return _for_the_unit(found, rest, stated, most == stated.max_keys_per_unit)
    return _copies(found, stated.max_keys_per_unit, rest, stated)


def _verify_outside(stated: Guarantee, law: Any, facts: Mapping[str, Any], shortfall: Any) -> Certificate:
    """Derive what a mechanism from outside guarantees: from the rows of its law, or by the verifier it brings.

    Rows are integers with a common sum; row 0 is "not reported" for certain, as keys that do not occur are not drawn
    for; counts above the last row are drawn for as the last one. So comparing all neighbouring rows is complete.
    """
    _check_fields(stated)
    _require(shortfall is None, "only a sketch falls short of counts")
    _require(stated.max_keys_per_unit >= 1, "a unit has at least one key")
    _require(facts["name"] not in _OUR_LAWS, "the mechanism does not draw from this law")
    if law.certified_by is None:
        _require(len(law.rows) > 1 and len(law.rows[0]) == 1, "a key that does not occur must never be reported")
        found = certify_rows(law.rows, epsilon=law.epsilon, delta=law.delta)
        return _copies(found, stated.max_keys_per_unit, stated.epsilon, stated)
    found = _copies(law.certify(), stated.max_keys_per_unit, stated.epsilon, stated)
    return replace(found, judge=f"certified by {law.certified_by}")


def _verify_sketch(stated: Guarantee, law: Any, facts: Mapping[str, Any], rows: int, shortfall: Any) -> Certificate:
    """Derive what a released sketch guarantees, from what one unit more can do to its counters."""
    name, capacity = facts["name"], stated.sketch_capacity
    of_stream = name in _SKETCHES_OF_STREAMS
    _require(of_stream or name in _SKETCHES_OF_UNITS, "no sketch is released by this law")
    used = {"sketch_capacity", "spent_on_shortfall"}
    used |= {"elements_per_unit"} if of_stream else set()
    used |= {"sketches"} if name in ("SummedNoise", "HeaviestNoise") else set()
    _check_fields(stated, used=used)
    _require(capacity is not None, "a sketch has a capacity")
    assert capacity is not None  # noqa: S101 - for the type checker
    if of_stream:
        _require(stated.unit is None and stated.max_keys_per_unit == 1, "in a sketch of a stream units are elements")
    else:
        _require(stated.unit is not None or stated.max_keys_per_unit == 1, "without units there is one key for each")
        _require(facts["values"] is True and facts.get("scheme") is None, "a sketch is released with its values")
    _require(rows <= capacity * stated.sketches, "the release holds more keys than its sketches have counters")
    _check_shortfall(stated, shortfall, parts=capacity + 1 if name in ("SummedNoise", "HeaviestNoise") else 1)
    rest, found = stated.epsilon - stated.spent_on_shortfall, law.certify()
    elements, distance = stated.elements_per_unit, Fraction(max(1, 2 * capacity - 1), capacity + 1)
    if name in ("SharedNoise", "SummedNoise"):
        _require((facts["capacity"], facts["elements"]) == (capacity, elements), "the law is that of another sketch")
    if name == "SharedNoise":
        # Algorithm 1: one key of counter 1 and one of counter 0 [LT25, Lem. 8]; without zero counters, all of them.
        ones, zeros = (capacity, 0) if facts["standard"] else (1, 1 if capacity > 1 else 0)
        again = certify_shared_noise(
            law.table, threshold=law.threshold, ones=ones, zeros=zeros, elements=elements, epsilon=law.epsilon,
            delta=law.delta,
        )  # fmt: skip
        return _for_the_unit(found, rest, stated, found == again)
    if name == "SummedNoise":
        again = certify_summed_noise(
            law.table, threshold=law.threshold * law.grid, grid=law.grid, distance=elements * distance,
            epsilon=law.epsilon, delta=law.delta,
        )  # fmt: skip
        return _for_the_unit(found, rest, stated, found == again)
    if name == "HeaviestNoise":
        _require(stated.delta == 0, "the law keeps delta = 0, and the release states another one")
        _require(facts["mixing"] is None, "no sketch is released by this law")
        _require(facts["keep"] == capacity * stated.sketches, "as many keys are kept as sketches have counters")
        return certify_rounded_counters(found, distance=elements * distance, epsilon=rest)
    if name == "GaussianHistogram":
        return _for_the_unit(found, rest, stated, found.copies == capacity)
    return _copies(found, capacity, rest, stated)


def _check_shortfall(stated: Guarantee, shortfall: Any, *, parts: int) -> None:
    """A number with noise has been paid for: (K + 1) / K <= e^(spent / elements), K the scale of the noise."""
    scale = 0 if shortfall is None else shortfall.scale
    _require(bool(scale) == (stated.spent_on_shortfall > 0), "what the shortfall cost is not what it took")
    if shortfall is None:
        return
    _require(scale >= 0 and 0 <= shortfall.reported <= _LARGEST, "there is no such shortfall")
    _require(shortfall.parts == (parts if scale else 1), "the shortfall is not one of this sketch")
    if scale:
        growth, one = exp_lower(stated.spent_on_shortfall / stated.elements_per_unit)
        _require((scale + 1) * one <= growth * scale, "the shortfall costs more than is stated")


def verify_range_tree(stated: Guarantee, law: Any, *, levels: int) -> Certificate:
    """Derive what a tree of counts guarantees: a unit is in one node of each level."""
    facts = law.facts()
    _check_law(stated, _TREES, facts)
    _check_fields(stated)
    _require(stated.max_keys_per_unit == 1, "a unit has one value")
    _require(facts.get("neighbours", NEIGHBOURS) == NEIGHBOURS, "the law compares other data sets")
    _require(facts.get("values", True) is True and facts.get("scheme") is None, "a tree is drawn without sampling")
    return _copies(law.certify(), levels, stated.epsilon, stated)


def verify_series(stated: Guarantee, law: Any, period: str) -> Certificate:
    """Derive what a whole series guarantees: its certificate is for the unit, with all its keys and periods."""
    facts = law.facts()
    _require((stated.mechanism, facts["name"]) == _SERIES, "the mechanism does not draw from this law")
    _check_fields(stated, used=("periods", "periods_per_key", "within"))
    _require(stated.unit is not None, "a series has units")
    _require(stated.periods == len(facts["coefficients"]), "the series has another number of periods")
    _require(0 <= stated.within < _WITHIN, "there is no such part of the data")
    named = re.fullmatch(_PERIODS.get(stated.within, ".*"), period)
    _require(named is not None, "the period is not what a unit is protected within")
    often = facts["per_key"] == stated.periods_per_key and (not stated.within or facts["per_key"] == 1)
    _require(often, "a unit counts in other periods")
    found = law.certify()
    return _for_the_unit(found, stated.epsilon, stated, found.copies == stated.max_keys_per_unit)


def verify_compact(stated: Guarantee, law: Any, *, capacity: int, subsample: bool) -> CompactCertificate:
    """Derive what a compact release guarantees.

    A unit makes one step for each of its keys; where the data is subsampled to a fixed number, each of them may also
    push out an occurrence of another unit.
    """
    _require(stated.mechanism == _COMPACT, "the mechanism does not make such a release")
    _check_fields(stated, used=() if subsample else ("most_distinct_keys",))
    _require(stated.delta == 0, "the law keeps delta = 0, and the release states another one")
    _require(stated.max_keys_per_unit >= 1, "a unit has at least one key")
    most = None if subsample else capacity
    _require(stated.most_distinct_keys == most, "the condition on the data is not the one of the release")
    return certify_compact(
        law.tails,
        size=law.size,
        largest_count=law.largest_count,
        floor=law.floor,
        element_bits=law.element_bits,
        changes=stated.max_keys_per_unit * (2 if subsample else 1),
        epsilon=stated.epsilon,
    )


def verify_prefix_tree(stated: Guarantee, found: Certificate) -> None:
    """Compare what a tree of prefixes states with the finding for all of its rounds (`verify_rounds`)."""
    _require(stated.mechanism == _PREFIXES, "the mechanism does not make such a release")
    _check_fields(stated)
    _require(stated.max_keys_per_unit == 1, "a unit has one value")
    _require(found.total_epsilon <= stated.epsilon and found.total_delta <= stated.delta, _MORE)


def verify_rounds(
    rate: Fraction,
    threshold: int,
    *,
    rounds: int,
    composition: str,
    round_epsilon: Fraction,
    epsilon: Fraction,
    delta: Fraction,
) -> Certificate:
    """Derive what rounds of sampling guarantee together, in each of which a unit counts once for one key.

    `composition` says how they are added up: "exact", "optimal" or "basic"; `round_epsilon` is that at which one round
    is verified, where they are not added up exactly. Raises PrivacyViolation if the rounds together do not keep epsilon
    and delta.
    """
    _require(1 <= rounds <= LARGEST_ROUNDS, "there are too many rounds")
    _require(composition in ("exact", "optimal", "basic"), "there is no such composition")
    _require(round_epsilon > 0, "a round has a positive epsilon")
    if composition == "exact" and rounds > 1:
        _require(round_epsilon == epsilon, "rounds that are added up exactly have no epsilon of their own")
        return certify_rounds(rate, threshold, rounds=rounds, epsilon=epsilon, delta=delta)
    one = certify_sampling(rate, threshold, epsilon=round_epsilon, delta=delta)
    if composition == "basic" and rounds > 1:
        total = rounds * one.worst_delta
        _require(rounds * round_epsilon <= epsilon and total <= delta, _MORE)
        return replace(one, copies=rounds, total_epsilon=epsilon, total_delta=total)
    return certify_copies(one, copies=rounds, epsilon=epsilon, delta=delta)


# ---- what all of them share ----

_MORE = "the guarantee states more than the law gives"


def _check_law(stated: Guarantee, laws: Mapping[str, str], facts: Mapping[str, Any]) -> None:
    _require(laws.get(stated.mechanism) == facts["name"], "the mechanism does not draw from this law")


def _check_fields(stated: Guarantee, *, used: Collection[str] = ()) -> None:
    """Refuse numbers that no mechanism gives, and any condition that this one does not use and that is not neutral."""
    for field in fields(stated):
        known = (*DERIVED, *WORD_OF_THE_PUBLISHER, "conditions")
        _require(field.name in known, f"{field.name} cannot be checked")
    names = [name for name, _ in stated.conditions]
    _require(len(set(names)) == len(names), "a condition is stated twice")
    for name, part in stated.conditions:
        _require(name in NEUTRAL, f"{name} cannot be checked")
        _require(part == NEUTRAL[name] or name in used, f"the mechanism has no {name}")
    _require(stated.neighbours == NEIGHBOURS, "only adding or removing one unit is protected")
    _require(stated.unit is not None or stated.max_keys_per_unit == 1, "without units there is one key for each")
    _require(stated.epsilon > 0 and 0 <= stated.delta < 1, "there is no such epsilon or delta")
    parts = (stated.spent_on_size, stated.spent_on_shortfall)
    _require(min(parts) >= 0 and sum(parts) < stated.epsilon, "parts of epsilon add up to no more than all of it")
    _require(0 <= stated.max_keys_per_unit <= _LARGEST, "there is no such number of keys")
    for count in (stated.sketches, stated.elements_per_unit, stated.sketch_capacity):
        _require(count is None or 1 <= count <= _LARGEST, "there is no such sketch")


def _copies(found: Certificate, copies: int, epsilon: Fraction, stated: Guarantee) -> Certificate:
    """So many independent draws from one law, of which a unit changes each."""
    if found.judge == "pure":
        _require(stated.delta == 0, "the law keeps delta = 0, and the release states another one")
        return certify_pure_copies(found, copies=copies, epsilon=epsilon)
    return certify_copies(found, copies=copies, epsilon=epsilon, delta=stated.delta)


def _for_the_unit(found: Certificate, epsilon: Fraction, stated: Guarantee, as_stated: bool) -> Certificate:
    """A finding that speaks of the whole unit already."""
    _require(as_stated and found.total_epsilon <= epsilon and found.total_delta <= stated.delta, _MORE)
    return found


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise PrivacyViolation(f"verification failed: {otherwise}.")
