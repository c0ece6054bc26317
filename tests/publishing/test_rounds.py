"""Releases in rounds from end to end: nothing to choose, odd data, what is saved, verified and paid."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dptally
from dptally.errors import BudgetExceeded, InvalidParameter, PrivacyViolation
from dptally.laws.unit_sizes import SIZES
from dptally.randomness import SeededBits

ASKED: dict[str, Any] = {
    "key": "word",
    "unit": "who",
    "epsilon": 4,
    "delta": "1e-4",
}  # short tables: seconds, not minutes
COMMON, UNITS, DELTA = 12, 1200, Fraction(1, 10**4)


def frame(who: list[Any], word: list[Any]) -> pl.DataFrame:
    """Rows."""
    return pl.DataFrame({"who": who, "word": word}, schema_overrides={"word": pl.String})


def many() -> pl.DataFrame:
    """1,200 units: twelve words that all have, and one of its own for each."""
    who = [unit for unit in range(UNITS) for _ in range(COMMON + 1)]
    shared = [f"common {place}" for place in range(COMMON)]
    return frame(who, [word for unit in range(UNITS) for word in (*shared, f"own {unit}")])


@pytest.fixture(scope="module")
def release() -> Any:
    """With nothing but key, unit, epsilon and delta."""
    return dptally.publish(many(), **ASKED, randomness=SeededBits(5))


def words(found: Any) -> list[str]:
    """The released keys."""
    return [str(word) for word in found.table().get_column("word")]


def test_nothing_to_choose(release: Any) -> None:
    """Key, unit, epsilon and delta are enough; keys of all units are found, keys of one are not, counts are near."""
    assert words(release) == sorted(f"common {place}" for place in range(COMMON))
    table = release.table()
    assert abs(table.get_column("value").to_numpy() - UNITS).max() < UNITS // 4
    assert (table.get_column("lower") <= UNITS).all() and (table.get_column("upper") >= UNITS).all()
    stated = release.guarantee
    assert stated.mechanism == "rounds" and stated.epsilon == 4 and stated.delta == DELTA
    assert stated.unit == "who" and stated.rounds == 3


def test_sizes_are_those_of_units(release: Any) -> None:
    """The noisy sizes in the release: most units have 13 keys at first, one at the end, and twelve found ones."""
    facts = release.law.facts()
    first, *_, last = facts["sizes"]
    assert len(first) == len(SIZES) and SIZES[int(np.argmax(first))] == 16
    assert SIZES[int(np.argmax(last))] == 12
    assert len(facts["sizes"]) == [stage["kind"] for stage in facts["stages"]].count("sizes")


def test_what_bounding_leaves_out_is_said(release: Any, tmp_path: Path) -> None:
    """The share of found keys that count comes from the released sizes alone; `show` and the report say it."""
    kept = release.law.counts.differing
    assert kept == 12 and release.law.kept_share == pytest.approx(1, abs=0.05)
    assert "at most 12 released keys of a unit, about" in release.law.counted
    release.report(tmp_path / "page.html")
    assert release.law.counted in release.summary().notes
    assert release.law.counted in (tmp_path / "page.html").read_text()
    again = type(release.law).from_facts(release.law.facts())
    assert again.kept_share == release.law.kept_share
    stated = dptally.publish(many(), **ASKED, max_keys_per_unit=3, mechanism="rounds", randomness=SeededBits(5))
    assert stated.law.kept_share is None and stated.law.counted.endswith("at most 3 released keys of a unit.")


def test_saved_loaded_verified(release: Any, tmp_path: Path) -> None:
    """A file brings the release back, verified from what it says; facts that were changed in it do not verify."""
    place = tmp_path / "release.parquet"
    release.save(place)
    back = dptally.load(place)
    assert words(back) == words(release) and back.guarantee == release.guarantee
    assert back.law.facts() == release.law.facts()
    found = back.verify()
    assert found.total_delta <= DELTA
    assert json.loads(json.dumps(back.law.facts())) == back.law.facts()


def test_a_seed_repeats_its_release_and_another_does_not() -> None:
    """Seeded bits give the same keys, counts and sizes; the release says that it is not private."""
    asked = {**ASKED, "mechanism": "rounds", "max_keys_per_unit": 16}
    first, again, other = (dptally.publish(many(), **asked, randomness=SeededBits(seed)) for seed in (1, 1, 2))
    assert first.table().equals(again.table()) and first.law.facts() == again.law.facts()
    assert not first.table().equals(other.table()) and not first.guarantee.private


def test_keys_only() -> None:
    """values=False has no counts, no stage for them, and no column of estimates of counts to be wrong about."""
    found = dptally.publish(many(), **ASKED, values=False, randomness=SeededBits(6))
    assert words(found) == sorted(f"common {place}" for place in range(COMMON))
    kinds = [stage["kind"] for stage in found.law.facts()["stages"]]
    assert kinds == ["sizes", "round"] * 3
    found.verify()


def test_a_given_bound() -> None:
    """With a bound no sizes are measured; no unit has more than that many keys in any stage."""
    found = dptally.publish(many(), **ASKED, mechanism="rounds", max_keys_per_unit=5, randomness=SeededBits(6))
    assert [stage["kind"] for stage in found.law.facts()["stages"]] == ["round"] * 3 + ["counts"]
    assert found.guarantee.max_keys_per_unit == 5 and found.law.facts()["sizes"] == []
    found.verify()


# ---- odd data ----


@pytest.mark.parametrize("values", [True, False])
def test_no_rows(values: bool) -> None:
    """No rows: no keys, a release with its columns, verified."""
    found = dptally.publish(frame([], []), **ASKED, values=values, randomness=SeededBits(1))
    assert words(found) == [] and found.verify().total_delta <= DELTA


def test_a_single_unit() -> None:
    """One unit with 40 keys: nothing is found."""
    found = dptally.publish(frame(["a"] * 40, [f"w{n}" for n in range(40)]), **ASKED, randomness=SeededBits(1))
    assert words(found) == []


def test_units_with_one_key() -> None:
    """All units have one key: frequent keys are found, rare ones are not, counts are near."""
    word = ["often"] * 3000 + ["less"] * 800 + [f"once {n}" for n in range(200)]
    found = dptally.publish(frame(list(range(len(word))), word), **ASKED, randomness=SeededBits(2))
    assert words(found) == ["less", "often"]
    values = dict(zip(words(found), found.table().get_column("value"), strict=True))
    assert abs(values["often"] - 3000) < 300 and abs(values["less"] - 800) < 300


def test_a_unit_with_very_many_keys() -> None:
    """A million keys of one unit beside others: it takes part with few of them, and none of its own is found."""
    others = many()
    large = pl.DataFrame({"n": np.arange(10**6)}).select(who=pl.lit(-1, pl.Int64), word=pl.format("large {}", "n"))
    found = dptally.publish(pl.concat([others, large]), **ASKED, randomness=SeededBits(3))
    assert words(found) == sorted(f"common {place}" for place in range(COMMON))


def test_all_keys_found_in_the_first_round() -> None:
    """Nothing is left for later rounds; all keys have a count."""
    who = [unit for unit in range(20_000) for _ in range(2)]
    found = dptally.publish(frame(who, ["a", "b"] * 20_000), **ASKED, randomness=SeededBits(4))
    assert words(found) == ["a", "b"]
    assert all(abs(value - 20_000) < 1000 for value in found.table().get_column("value"))


def test_one_key_for_all() -> None:
    """One key that all units have, many times: it is found, and counts each unit once."""
    found = dptally.publish(
        frame([n % 5000 for n in range(20_000)], ["it"] * 20_000), **ASKED, randomness=SeededBits(6)
    )
    assert words(found) == ["it"] and abs(found.table().get_column("value")[0] - 5000) < 300


def test_what_is_refused_costs_nothing(tmp_path: Path) -> None:
    """Requests and declared types that cannot be met leave the budget as it was; a file without the columns, too."""
    ledger = dptally.Ledger(tmp_path / "budget.db", epsilon=9, delta="1e-3")
    rows = many()
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (rows, {"unit": "nobody"}),
        (rows, {"key": "nothing"}),
        (rows, {"epsilon": "0.001"}),
        (rows, {"delta": 0}),
        (rows, {"memory_limit": "much"}),
        (rows.with_columns(word=pl.struct("word")), {}),
        (str(tmp_path / "missing.parquet"), {}),
    ]
    for data, changed in wrong:
        with pytest.raises(dptally.DptallyError):
            dptally.publish(data, **{**ASKED, **changed}, ledger=ledger)
    assert ledger.remaining() == (9, Fraction(1, 1000))


def test_null_keys_are_a_key_where_they_are_kept() -> None:
    """nulls="keep" finds null like any other key; by default rows with nulls are left out."""
    who = [unit for unit in range(1500) for _ in range(2)]
    rows = frame(who, [None, "a"] * 1500)
    asked = {**ASKED, "mechanism": "rounds", "max_keys_per_unit": 2, "randomness": SeededBits(4)}
    kept = dptally.publish(rows, **asked, nulls="keep").table().get_column("word").to_list()
    assert sorted(kept, key=str) == [None, "a"]
    assert words(dptally.publish(rows, **asked)) == ["a"]


_TYPES = {
    "float": (pa.float64(), [float("nan"), -0.0]),
    "timestamp": (pa.timestamp("us", tz="Europe/Berlin"), [0, -(10**15)]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.25")]),
    "bool": (pa.bool_(), [True, False]),
    "bytes": (pa.binary(), [b"\x00a", b"\xff"]),
    "unsigned": (pa.uint64(), [2**64 - 1, 0]),
    "date": (pa.date32(), [0, 20_000]),
    "empty text": (pa.large_string(), ["", "a"]),
}


@pytest.mark.parametrize("name", _TYPES)
def test_keys_of_every_type_are_found_once_and_counted(name: str) -> None:
    """What was found in one round is recognised in the next: no key twice, none without its count."""
    kind, keys = _TYPES[name]
    rows = pa.table({"word": pa.array(keys * 400, kind), "who": [place // 2 for place in range(800)]})
    asked = {**ASKED, "mechanism": "rounds", "max_keys_per_unit": 2}
    found = dptally.publish(rows, **asked, randomness=SeededBits(2)).table()
    assert len(found) == 2 and all(abs(value - 400) < 40 for value in found.get_column("value"))


# ---- requests ----


def test_what_cannot_be_asked() -> None:
    """A sentence for each: no unit, no delta, more keys than rounds keep."""
    rows = many()
    with pytest.raises(InvalidParameter, match="mechanism 'rounds' is for units with several keys"):
        dptally.publish(rows, key="word", epsilon=1, delta="1e-6", mechanism="rounds")
    with pytest.raises(InvalidParameter, match="delta"):
        dptally.publish(rows, key="word", unit="who", epsilon=1, mechanism="rounds")
    with pytest.raises(InvalidParameter, match="keeps at most 512 keys per unit, got 1000"):
        dptally.publish(rows, **ASKED, max_keys_per_unit=1000, mechanism="rounds")


def test_releases_of_disjoint_streams_add_up() -> None:
    """Sums of both within their intervals (wrong once in 10^8), one guarantee for all; keys alone cannot be added."""
    one, other = (dptally.publish(many(), **ASKED, max_keys_per_unit=13) for _ in range(2))
    both = dptally.combine([one, other], units="disjoint")
    table = both.table(confidence=1 - 1e-9).filter(pl.col("word").str.starts_with("common"))
    assert table.height == COMMON and (table.get_column("reported_by") == 2).all()
    assert (table.get_column("lower") <= 2 * UNITS).all() and (table.get_column("upper") >= 2 * UNITS).all()
    assert (both.epsilon, both.delta) == (4, DELTA) and len(both.verify()) == 2
    shared = dptally.combine([one, other], units="shared")
    assert (shared.epsilon, shared.delta) == (8, 2 * DELTA)
    keys = dptally.publish(many(), **ASKED, max_keys_per_unit=13, values=False)
    with pytest.raises(InvalidParameter, match="without values cannot be added up"):
        dptally.combine([one, keys], units="disjoint")


def test_the_ledger_pays_once_for_all_stages(tmp_path: Path) -> None:
    """Exactly epsilon and delta of the request; a second release beyond the budget is refused before data is read."""
    place = tmp_path / "budget.db"
    ledger = dptally.Ledger(place, epsilon="6", delta="1e-3")
    found = dptally.publish(many(), **ASKED, ledger=ledger, randomness=SeededBits(1))
    assert found.guarantee.record is not None
    assert len(ledger.history()) == 1 and ledger.remaining() == (2, Fraction(1, 1000) - DELTA)
    with pytest.raises(BudgetExceeded):
        dptally.publish(many(), **ASKED, ledger=ledger)
    assert len(ledger.history()) == 1


def test_a_law_that_the_verifier_refuses_is_not_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each law is verified before its stage is drawn: a builder that goes wrong in a later round ends the release."""
    from dptally.laws.round_stages import ReportingLaw
    from dptally.laws.rounds_plan import RoundsPlan

    honest, drawn = RoundsPlan.round_law, list[ReportingLaw]()

    def too_much(self: RoundsPlan, place: int, weights: Any) -> ReportingLaw:
        made = honest(self, place, weights)
        if place == 3 and drawn:
            table = [min(4 * made._chances[at], (1 << 128) - 1) for at in range(made.certain)]
            made = ReportingLaw(made.weights, b"".join(chance.to_bytes(16, "little") for chance in table))
        return made

    draw = ReportingLaw.draw

    def noted(self: ReportingLaw, *arguments: Any) -> Any:
        drawn.append(self)
        return draw(self, *arguments)

    monkeypatch.setattr(RoundsPlan, "round_law", too_much)
    monkeypatch.setattr(ReportingLaw, "draw", noted)
    with pytest.raises(PrivacyViolation, match="a stage exceeds its declared function"):
        dptally.publish(many(), **ASKED, values=False, randomness=SeededBits(1))
    assert len(drawn) == 1
