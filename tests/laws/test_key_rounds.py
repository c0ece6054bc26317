"""Laws of rounds: rows, inverses, facts that come back as they were, and facts that were forged."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from dptally.errors import DptallyError, InvalidParameter, PrivacyViolation
from dptally.laws.key_rounds import KeyRounds
from dptally.laws.round_stages import CountLaw, ReportingLaw, SizeLaw
from dptally.laws.rounds_plan import SIZES, RoundsPlan, plan_for
from dptally.laws.tables.reporting_curve import Weights
from dptally.randomness import SeededBits
from dptally.verifiers.key_rounds import check_stage

WHOLE = 1 << 128
EPSILON, DELTA = Fraction(1), Fraction(1, 10**4)


@lru_cache(maxsize=8)
def plan(values: bool = True, bound: int | None = None) -> RoundsPlan:
    """A plan that is made once."""
    return plan_for(EPSILON, DELTA, values=values, bound=bound)


@lru_cache(maxsize=8)
def law(values: bool = True, bound: int | None = None) -> KeyRounds:
    """The law of a release: sizes measured (or a bound), units of unlike sizes, counts or none."""
    made, laws = plan(values, bound), []
    for place, stage in enumerate(made.stages):
        if stage.kind == "sizes":
            laws.append(made.size_law(place))
        elif stage.kind == "round":
            sizes = Weights.between(bound, bound) if bound else Weights.between(4, 12)
            laws.append(made.round_law(place, sizes))  # type: ignore[arg-type]
        else:
            laws.append(made.count_law(bound or 6))  # type: ignore[arg-type]
    measured = [[3] * len(SIZES) for stage in made.stages if stage.kind == "sizes"]
    return KeyRounds(EPSILON, DELTA, made.scale, made.declared, laws, measured)  # type: ignore[arg-type]


# ---- what it promises ----


@pytest.mark.parametrize(("values", "bound"), [(True, None), (False, None), (True, 3), (False, 3)])
def test_the_law_of_a_release_is_certified(values: bool, bound: int | None) -> None:
    """All stages within their functions, delta nearly used, and the largest number of keys of a unit named."""
    found = law(values, bound).certify()
    assert found.total_epsilon == EPSILON and found.total_delta <= DELTA
    assert found.total_delta >= DELTA * Fraction(99, 100)
    assert found.copies == (bound or 12) and law(values, bound).most_keys == (bound or 12)


@pytest.mark.parametrize("weights", [(1, 1), (3, 3), (16, 16), (64, 64), (1, 8)])
def test_laws_that_are_chosen_later_are_within_their_functions(weights: tuple[int, int]) -> None:
    """Whatever sizes are measured, the law of each round is accepted by the verifier, and most of its room is used."""
    made = plan(False)
    for place, stage in enumerate(made.stages):
        if stage.kind == "round":
            after = made.declared[place + 1] if place + 1 < len(made.stages) else None
            chosen = made.round_law(place, Weights.between(*weights))
            check_stage(chosen.stage, made.declared[place], after, scale=made.scale, epsilon=EPSILON)


def test_rows_are_laws() -> None:
    """Rows sum to 1, keys alone have the value 1, and a key is reported more surely the more units have it."""
    for values in (True, False):
        made = law(values)
        before = Fraction(-1)
        for count in (0, 1, 2, 5, 20, made.width, 10**6):
            row = made.row(count)
            assert sum(row.values()) == 1 and min(row.values()) >= 0
            assert all(value is None or value >= 1 for value in row)
            assert row[None] == 1 - made.reporting_probability(count)
            assert made.reporting_probability(count) >= before
            before = made.reporting_probability(count)
            if not values:
                assert set(row) == {None, 1}
        assert made.reporting_probability(0) == 0 and made.reporting_probability(made.width) == 1
        half = made.first_frequency(Fraction(1, 2))
        assert half is not None and made.reporting_probability(half) >= Fraction(1, 2)
        assert made.reporting_probability(half - 1) < Fraction(1, 2)


@pytest.mark.parametrize("beta", [Fraction(1, 20), Fraction(1, 1000)])
def test_intervals_cover(beta: Fraction) -> None:
    """For every count the values whose interval misses it have probability at most beta, exactly."""
    made = law(True)
    assert made.counts is not None
    reach = made.counts.reach
    for count in (1, 2, 10, reach, 10 * reach):
        reported = {value: chance for value, chance in made.row(count).items() if value is not None}
        values = np.array(sorted(reported), dtype=np.int64)
        found = made.invert(values, beta)
        assert found.lower is not None and found.upper is not None
        missed = (np.asarray(found.lower) > count) | (np.asarray(found.upper) < count)
        mass = sum((reported[value] for value in values[missed].tolist()), Fraction(0))
        assert mass <= beta * sum(reported.values())


# ---- sampling at the edges ----


class Words:
    """Bits that are given."""

    private = False

    def __init__(self, *numbers: int) -> None:
        self._words = [word for number in numbers for word in (number & ((1 << 64) - 1), number >> 64)]

    def words(self, count: int) -> np.ndarray[Any, Any]:
        """The next words."""
        taken, self._words = self._words[:count], self._words[count:]
        return np.array(taken, dtype=np.uint64)


def reporting(*chances: int) -> ReportingLaw:
    """A law for one key of each unit."""
    return ReportingLaw(Weights(1, 1, 1), b"".join(chance.to_bytes(16, "little") for chance in chances))


def test_draws_at_the_edges_of_entries() -> None:
    """A key is reported if and only if the 128 bits are below its entry: to the last bit, and across words."""
    for entry in (0, 1, (1 << 64) - 1, 1 << 64, (1 << 64) + 5, (1 << 127) + 3, WHOLE - 1):
        made = reporting(0, entry)
        for bits in {0, 1, entry - 1, entry, entry + 1, entry ^ (1 << 64), WHOLE - 1}:
            if 0 <= bits < WHOLE:
                drawn = made.draw(np.array([1], dtype=np.int64), Words(bits))  # type: ignore[arg-type]
                assert drawn.tolist() == [int(bits < entry)]
    made = reporting(0, WHOLE // 2)
    everything = np.array([0, 0, 2, 3, 10**12], dtype=np.int64)
    assert made.draw(everything, Words(0, WHOLE - 1, WHOLE - 1, 0, WHOLE - 1)).tolist() == [0, 0, 1, 1, 1]  # type: ignore[arg-type]
    assert made.chance(1) == Fraction(1, 2) and made.chance(0) == 0 and made.chance(2) == 1 == made.chance(10**9)
    assert made.draw(np.empty(0, dtype=np.int64), Words()).tolist() == []  # type: ignore[arg-type]


def test_counts_are_at_least_one_and_only_drawn_where_there_are_values() -> None:
    """A found key has at least the value 1; a release of keys alone has no counts to draw."""
    drawn = law(True).draw(np.zeros(500, dtype=np.int64), SeededBits(1))
    assert drawn.min() == 1 and drawn.max() > 1
    with pytest.raises(InvalidParameter, match="no counts are drawn for a release of keys alone"):
        law(False).draw(np.zeros(1, dtype=np.int64), SeededBits(1))


# ---- facts ----


@pytest.mark.parametrize(("values", "bound"), [(True, None), (False, None), (True, 3)])
def test_facts_come_back(values: bool, bound: int | None) -> None:
    """Through JSON and back: the same facts, the same certificate."""
    facts = json.loads(json.dumps(law(values, bound).facts()))
    back = KeyRounds.from_facts(facts)
    assert back.facts() == facts
    assert back.certify() == law(values, bound).certify()


def _places(facts: dict[str, Any], kind: str) -> list[int]:
    return [place for place, stage in enumerate(facts["stages"]) if stage["kind"] == kind]


def _table(stage: dict[str, Any]) -> list[int]:
    packed = base64.b64decode(stage["table"])
    return [int.from_bytes(packed[at : at + 16], "little") for at in range(0, len(packed), 16)]


def _packed(numbers: list[int]) -> str:
    return base64.b64encode(b"".join(number.to_bytes(16, "little") for number in numbers)).decode()


def _last_round(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = facts["stages"][_places(facts, "round")[-1]]
    return found


def _double_delta_in(number: int) -> Callable[[dict[str, Any]], None]:
    """The chance of a key that only one unit has is twice as large, and all below one half with it."""

    def forge(facts: dict[str, Any]) -> None:
        stage = facts["stages"][_places(facts, "round")[number]]
        chances = _table(stage)
        stage["table"] = _packed([2 * chance if 4 * chance < WHOLE else chance for chance in chances])

    return forge


def _first_chance_doubled(facts: dict[str, Any]) -> None:
    stage = _last_round(facts)
    chances = _table(stage)
    largest = int(Weights(stage["low"], stage["high"], stage["multiple"]).of_keys.max())
    stage["table"] = _packed([2 * chance if place <= largest else chance for place, chance in enumerate(chances)])


def _one_entry_moved(facts: dict[str, Any]) -> None:
    stage = _last_round(facts)
    chances = _table(stage)
    middle = next(place for place, chance in enumerate(chances) if 4 * chance > WHOLE)
    chances[middle] = chances[middle + 20]
    stage["table"] = _packed(chances)


def _cut_table(facts: dict[str, Any]) -> None:
    stage = _last_round(facts)
    stage["table"] = _packed([chance for chance in _table(stage) if 2 * chance < WHOLE])


def _of_nobody(facts: dict[str, Any]) -> None:
    stage = _last_round(facts)
    stage["table"] = _packed([1, *_table(stage)[1:]])


def _lower_cap_ignored(facts: dict[str, Any]) -> None:
    _last_round(facts)["low"] = 1


def _more_keys(facts: dict[str, Any]) -> None:
    _last_round(facts)["high"] += 4


def _coarser(facts: dict[str, Any]) -> None:
    _last_round(facts)["multiple"] += 1


def _half_function(facts: dict[str, Any]) -> None:
    facts["declared"][0] = _packed([number // 2 for number in _numbers(facts["declared"][0])])


def _all_half(facts: dict[str, Any]) -> None:
    facts["declared"] = [_packed([number // 2 for number in _numbers(each)]) for each in facts["declared"]]


def _numbers(text: str) -> list[int]:
    return _table({"table": text})


def _middle_function_scaled(facts: dict[str, Any]) -> None:
    facts["declared"][3] = _packed([number * 9 // 10 for number in _numbers(facts["declared"][3])])


def _stage_removed(facts: dict[str, Any]) -> None:
    del facts["stages"][0]


def _sizes_left_out(facts: dict[str, Any]) -> None:
    """With its function, so that the other stages fit together: but the sizes are stated still."""
    facts["declared"] = [facts["declared"][0], *facts["declared"][2:]]
    del facts["stages"][0]


def _reordered(facts: dict[str, Any]) -> None:
    first, last = _places(facts, "round")[0], _places(facts, "round")[-1]
    facts["stages"][first], facts["stages"][last] = facts["stages"][last], facts["stages"][first]


def _repeated(facts: dict[str, Any]) -> None:
    at = _places(facts, "round")[-1]
    facts["stages"].insert(at, copy.deepcopy(facts["stages"][at]))
    facts["declared"].insert(at, facts["declared"][at])


def _sizes_of_other_bins(facts: dict[str, Any]) -> None:
    facts["sizes"][0] += [40_000, 12]  # numbers without noise, in bins that no stage has


def _less_noise_on_sizes(facts: dict[str, Any]) -> None:
    stage = facts["stages"][_places(facts, "sizes")[0]]
    stage["loss"] = str(2 * Fraction(stage["loss"]))


def _less_noise_on_counts(facts: dict[str, Any]) -> None:
    stage = facts["stages"][-1]
    stage["sigma"] = str(Fraction(stage["sigma"]) * 9 / 10)


def _more_counts(facts: dict[str, Any]) -> None:
    facts["stages"][-1]["differing"] += 1


def _cut_noise(facts: dict[str, Any]) -> None:
    facts["stages"][-1]["reach"] //= 4


def _smaller_epsilon(facts: dict[str, Any]) -> None:
    facts["epsilon"] = "9/10"


def _smaller_delta(facts: dict[str, Any]) -> None:
    facts["delta"] = "9/100000"


def _another_scale(facts: dict[str, Any]) -> None:
    facts["scale"][0] //= 2


FORGED = [
    _double_delta_in(0),
    _double_delta_in(1),
    _double_delta_in(2),
    _first_chance_doubled,
    _one_entry_moved,
    _cut_table,
    _of_nobody,
    _lower_cap_ignored,
    _more_keys,
    _coarser,
    _half_function,
    _all_half,
    _middle_function_scaled,
    _stage_removed,
    _sizes_left_out,
    _reordered,
    _repeated,
    _sizes_of_other_bins,
    _less_noise_on_sizes,
    _less_noise_on_counts,
    _more_counts,
    _cut_noise,
    _smaller_epsilon,
    _smaller_delta,
    _another_scale,
]


@pytest.mark.parametrize("forge", FORGED, ids=[f"{place} {each.__name__}" for place, each in enumerate(FORGED)])
def test_forged_facts_are_refused(forge: Callable[[dict[str, Any]], None]) -> None:
    """Whatever is changed in favour of more keys, the facts no longer keep what they promise."""
    facts = copy.deepcopy(law(True).facts())
    forge(facts)
    with pytest.raises(PrivacyViolation):
        KeyRounds.from_facts(facts).certify()


def _set(place: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(facts: dict[str, Any]) -> None:
        *path, last = place.split(".")
        here: Any = facts
        for part in path:
            here = here[int(part) if part.isdigit() else part]
        here[int(last) if last.isdigit() else last] = value

    return change


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("stages", "none"), ("stages", []), ("stages", [{"kind": "sizes", "loss": "1"}]), ("declared", {}),
        ("stages.1.table", "?"), ("stages.1.table", ""), ("stages.1.table", "AAAA"), ("stages.1.low", 0),
        ("stages.1.low", True), ("stages.1.high", 5000), ("stages.1.multiple", 1.5), ("stages.0.loss", "-1"),
        ("stages.0.loss", "0"), ("sizes.0", [1 << 63]), ("sizes.0", [True] * 99), ("sizes.0", ["x"]), ("values", False),
        ("values", "yes"), ("scale", [7, 8, 8]), ("scale", [640, 1024, 513]), ("declared.0", "AAAA"),
        ("declared.0", ""), ("epsilon", "0"), ("delta", "2"),
    ],
)  # fmt: skip
def test_damaged_facts_are_refused_by_our_own_errors(place: str, value: object) -> None:
    """No damage leads to another error than ours."""
    facts = copy.deepcopy(law(True).facts())
    _set(place, value)(facts)
    with pytest.raises(DptallyError):
        KeyRounds.from_facts(facts).certify()


def test_laws_without_noise_are_none() -> None:
    """Noise on counts has a deviation, a reach and keys; noise on sizes a positive loss."""
    for wrong in ((Fraction(0), 1, 5), (Fraction(1), 0, 5), (Fraction(1), 1, 0)):
        with pytest.raises(InvalidParameter, match="the noise on counts would have too many values"):
            CountLaw(*wrong)
    with pytest.raises(InvalidParameter):
        SizeLaw(Fraction(0))
