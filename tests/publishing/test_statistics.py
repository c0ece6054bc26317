"""Sums, means, totals and counts of rows from end to end: sources, files, refusals, what is verified and paid."""

from __future__ import annotations

import json
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import DptallyError, InvalidParameter, InvalidSource, PrivacyViolation, UnreadableRelease
from dptally.randomness import SeededBits

UNITS, WORDS = 900, ("ash", "birch", "cedar")
BUDGET: dict[str, Any] = {"epsilon": 8, "delta": "1e-6"}  # short tables: seconds, not minutes
ASKED: dict[str, Any] = {"key": "word", "unit": "who", "max_keys_per_unit": 3, **BUDGET}
STATISTICS: dict[str, Any] = {"sums": {"amount": (0, 10)}, "means": {"rating": (1, 5)}, "totals": True}


def rows() -> pl.DataFrame:
    """900 units with three words each and one of their own; two equal rows for each, some without a rating."""
    found = []
    for unit in range(UNITS):
        for word in (*WORDS[: 2 + unit % 2], f"own {unit}"):
            rating = None if unit % 3 == 0 else 3.5
            found += [(unit, word, 2.25, rating)] * 2
    schema = {"who": pl.Int64, "word": pl.String, "amount": pl.Float64, "rating": pl.Float64}
    return pl.DataFrame(found, schema=schema, orient="row")


@pytest.fixture(scope="module")
def release() -> Any:
    """Everything at once."""
    return dptally.publish(rows(), **ASKED, **STATISTICS, randomness=SeededBits(3))


def test_all_columns_are_near_the_truth(release: Any) -> None:
    """Names of columns, their order, estimates within their intervals, and those of the truth, at 99.9999 %."""
    table = release.table(confidence="0.999999")
    names = [f"{name}{end}" for name in ("sum_amount", "mean_rating") for end in ("", "_lower", "_upper")]
    assert table.columns == ["word", "value", "estimate", "lower", "upper", *names]
    assert table.get_column("word").to_list() == list(WORDS)
    for row, units in zip(table.iter_rows(named=True), (UNITS, UNITS, UNITS // 2), strict=True):
        assert row["lower"] <= units <= row["upper"]
        assert row["sum_amount_lower"] <= 4.5 * units <= row["sum_amount_upper"]
        assert row["mean_rating_lower"] <= 3.5 <= row["mean_rating_upper"]
        assert row["sum_amount_lower"] <= row["sum_amount"] <= row["sum_amount_upper"]
    top = release.top(2, confidence="0.999999")
    assert top.columns == table.columns and top.get_column("sum_amount_upper").is_finite().all()


def test_totals(release: Any) -> None:
    """Rows and columns by name; units, all pairs, and those of keys that were not released."""
    found = release.totals(confidence="0.999999")
    assert found.columns == ["name", "estimate", "lower", "upper"]
    assert found.get_column("name").to_list() == ["units", "pairs", "other"]
    for row, truth in zip(found.iter_rows(), (UNITS, UNITS * 7 // 2, UNITS), strict=True):
        assert row[2] <= truth <= row[3] and row[2] <= row[1] <= row[3]
    told = str(release.sum())
    assert "All pairs that were counted, released or not, add up to" in told and release.sum().total is not None


def test_without_totals_it_says_so() -> None:
    """A release without totals says in a sentence that it cannot tell, whatever else it has."""
    plain = dptally.publish({"a": 100}, **BUDGET)
    with pytest.raises(InvalidParameter, match="does not tell how many there are in all; publish with totals=True"):
        plain.totals()
    sums = dptally.publish(rows(), **ASKED, sums={"amount": (0, 10)}, randomness=SeededBits(3))
    with pytest.raises(InvalidParameter, match="does not tell how many there are in all"):
        sums.totals()
    assert "does not tell how many" in str(sums.sum())


def test_files(release: Any, tmp_path: Path) -> None:
    """Saved, loaded and verified: the same table, totals, guarantee; columns that other tools can read."""
    release.save(tmp_path / "r.parquet")
    again = dptally.load(tmp_path / "r.parquet")
    assert again.table().equals(release.table()) and again.totals().equals(release.totals())
    assert again.guarantee == release.guarantee and again.verify() == release.certificate
    assert again.by("word").equals(release.by("word"))
    assert {"sum_amount", "mean_rating_upper", "noisy_count"} <= set(pq.read_table(tmp_path / "r.parquet").column_names)
    assert "2 clipped sums and means and totals together" in str(
        release.guarantee.__class__(**{**vars(release.guarantee), "private": True})
    )


FORGED: dict[str, Any] = {
    "sigma": lambda facts: facts["law"]["stages"][-1]["parts"][1].update(sigma="20"),
    "grain": lambda facts: facts["law"]["stages"][-1]["parts"][1].update(grain=1 << 30),
    "limit of values": lambda facts: facts["law"]["stages"][-1]["parts"][1].update(limit=1 << 20),
    "limit of other": lambda facts: facts["law"]["stages"][-1]["parts"][-1].update(limit=99),
    "column of nulls": lambda facts: facts["law"]["stages"][-1]["parts"][2].update(column=1),
    "differing": lambda facts: facts["law"]["stages"][-1].update(differing=30),
    "a part less": lambda facts: facts["law"]["stages"][-1]["parts"].pop(),
    "a part that is none": lambda facts: facts["law"]["stages"][-1]["parts"][0].update(kind="free"),
    "range": lambda facts: facts["law"]["stages"][-1]["asked"]["asked"][0].update(low="50"),
    "totals": lambda facts: facts["law"]["stages"][-1]["asked"].update(totals="yes"),
    "a total that is no number": lambda facts: facts["numbers"].update(noisy_other="7"),
    "a total that is missing": lambda facts: facts.update(numbers={}),
    "statistics of the guarantee": lambda facts: (
        facts["guarantee"]["conditions"].update(statistics=1)
        if isinstance(facts["guarantee"].get("conditions"), dict)
        else facts["guarantee"].update(statistics=1)
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_are_refused(release: Any, tmp_path: Path, name: str) -> None:
    """Less noise, larger contributions, parts that are unpaid, numbers that are none: not read, or not verified."""
    release.save(tmp_path / "r.parquet")
    table = pq.read_table(tmp_path / "r.parquet")
    facts = json.loads(table.schema.metadata[b"dptally"])
    FORGED[name](facts)
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts)}), tmp_path / "forged.parquet")
    with pytest.raises((UnreadableRelease, PrivacyViolation)):
        dptally.load(tmp_path / "forged.parquet").verify()


def test_forged_columns_are_refused(release: Any, tmp_path: Path) -> None:
    """Values that are not those of the noisy counts are not read, and bounds in the file are not believed."""
    release.save(tmp_path / "r.parquet")
    table = pq.read_table(tmp_path / "r.parquet")
    place = table.column_names.index("noisy_count")
    forged = table.set_column(place, "noisy_count", pa.array([5] * len(table), pa.int64()))
    pq.write_table(forged, tmp_path / "forged.parquet")
    with pytest.raises(UnreadableRelease):
        dptally.load(tmp_path / "forged.parquet")
    place = table.column_names.index("sum_amount")
    pq.write_table(table.set_column(place, "sum_amount", pa.array([9e9] * len(table))), tmp_path / "shown.parquet")
    assert dptally.load(tmp_path / "shown.parquet").table().equals(release.table())


# ---- sources ----


def _sources(tmp_path: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    frame = rows()
    frame.write_parquet(tmp_path / "rows.parquet")
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_ndjson(tmp_path / "rows.jsonl")
    with sqlite3.connect(tmp_path / "rows.db") as connection:
        connection.execute("CREATE TABLE events (who INTEGER, word TEXT, amount REAL, rating REAL)")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", frame.rows())
    return {
        "Parquet": (tmp_path / "rows.parquet", {}),
        "CSV": (tmp_path / "rows.csv", {"types": {"who": "int64"}}),
        "JSON": (tmp_path / "rows.jsonl", {"types": {"who": "int64"}}),
        "pandas": (frame.to_pandas(), {}),
        "Arrow": (frame.to_arrow(), {}),
        "lazy": (frame.lazy(), {}),
        "Polars": (frame, {"engine": "polars"}),
        "SQLite": (f"sqlite:///{tmp_path / 'rows.db'}", {"table": "events"}),
    }


def test_every_source_gives_the_same_release(release: Any, tmp_path: Path) -> None:
    """Equal rows of a unit count one by one, wherever they come from; a seed finds the same numbers."""
    for name, (source, options) in _sources(tmp_path).items():
        found = dptally.publish(source, **ASKED, **STATISTICS, **options, randomness=SeededBits(3))
        assert found.table().equals(release.table()), name
        assert found.totals().equals(release.totals()), name


def test_rows_and_sizes_that_are_measured() -> None:
    """Two rows for each unit and word, at most one of which counts where that is the bound; without a bound of keys."""
    asked = {"key": "word", "unit": "who", **BUDGET, "count": "rows", "randomness": SeededBits(4)}
    for most in (1, 3):
        found = dptally.publish(rows(), **asked, max_rows_per_unit_and_key=most, totals=True)
        table = found.table(confidence="0.999999")
        assert table.columns[5:8] == ["units", "units_lower", "units_upper"]
        first = table.row(0, named=True)
        assert first["lower"] <= min(2, most) * UNITS <= first["upper"]
        assert first["units_lower"] <= UNITS <= first["units_upper"]
        assert found.guarantee.rows_per_unit_and_key == most
        found.verify()


def test_every_row_is_its_own_unit() -> None:
    """Without a unit one round is enough; sums are over rows."""
    found = dptally.publish(rows(), key="word", **BUDGET, **STATISTICS, randomness=SeededBits(5))
    assert found.guarantee.max_keys_per_unit == 1 and found.guarantee.rounds == 1
    row = found.table(confidence="0.999999").row(0, named=True)
    assert row["lower"] <= 2 * UNITS <= row["upper"]
    assert row["sum_amount_lower"] <= 4.5 * UNITS <= row["sum_amount_upper"]
    found.verify()


def test_one_event_in_the_ledger(tmp_path: Path) -> None:
    """All parts are one spending, and a refused column gives it back."""
    ledger = dptally.Ledger(tmp_path / "l.db", epsilon=20, delta="1e-2")
    with pytest.raises(DptallyError):
        dptally.publish(rows(), **ASKED, sums={"nothing": (0, 1)}, ledger=ledger)
    found = dptally.publish(rows(), **ASKED, **STATISTICS, ledger=ledger)
    assert found.guarantee.record is not None
    assert ledger.remaining()[0] == 12


# ---- refusals ----

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "reversed": ({"sums": {"amount": (10, 0)}}, "from a smaller to a larger"),
    "empty": ({"sums": {"amount": (1, 1)}}, "from a smaller to a larger"),
    "infinite": ({"sums": {"amount": (0, float("inf"))}}, "finite number"),
    "no range": ({"means": {"amount": None}}, "needs a range of two numbers.*publish_quantiles"),
    "no mapping": ({"sums": ["amount"]}, "must map columns to ranges.*publish_quantiles"),
    "too narrow": ({"sums": {"amount": (10**12, 10**12 + 1)}}, "no narrower than"),
    "text": ({"sums": {"word2": (0, 1)}}, "must hold numbers to be summed or averaged, not text"),
    "unknown": ({"sums": {"nothing": (0, 1)}}, "column 'nothing' is not in"),
    "the key": ({"sums": {"word": (0, 1)}}, "is a key or the unit, and has no sum"),
    "the unit": ({"means": {"who": (0, 1)}}, "is a key or the unit, and has no mean"),
    "shares of nothing": ({"totals": True, "shares": {"sum_x": 0.1}}, "shares names 'sum_x', which is none of"),
    "shares above 1": ({"totals": True, "shares": {"counts": 1.1}}, "add up to less than 1"),
    "shares alone": ({"shares": {"counts": 0.1}}, "shares are for sums, means"),
    "rows without a bound": ({"count": "rows"}, "max_rows_per_unit_and_key is missing"),
    "a bound without rows": ({"max_rows_per_unit_and_key": 3}, "is for count='rows'"),
    "combined": ({"sums": {"amount": (0, 1)}, "combine_rows": "largest"}, "must be 'add' or 'average'"),
    "keys only": ({"totals": True, "values": False}, "come with counts"),
    "mechanism": ({"totals": True, "mechanism": "gaussian"}, "need the mechanism 'rounds', got 'gaussian'"),
    "count": ({"count": "amount"}, "with a unit, count is 'units' or 'rows'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    """One sentence each, from the request and declared types, and nothing is spent."""
    options, told = REFUSED[name]
    ledger = dptally.Ledger(tmp_path / "l.db", epsilon=20, delta="1e-2")
    source = rows().with_columns(word2=pl.col("word"))
    with pytest.raises((InvalidParameter, InvalidSource), match=told):
        dptally.publish(source, **ASKED, **options, ledger=ledger)
    assert ledger.remaining()[0] == 20


def test_sources_without_rows_are_refused() -> None:
    """A mapping has counts, and an iterable keys alone."""
    with pytest.raises(InvalidParameter, match="are of rows; this source has counts"):
        dptally.publish({"a": 5}, **BUDGET, totals=True)
    with pytest.raises(InvalidParameter, match="this source holds keys only"):
        dptally.publish(iter("aab"), **BUDGET, sums={"amount": (0, 1)})


def test_names_that_clash_are_refused() -> None:
    """A key column cannot have the name of a column of the release."""
    frame = rows().rename({"word": "sum_amount"})
    with pytest.raises(InvalidParameter, match="a key column may not be named 'sum_amount'"):
        dptally.publish(frame, **{**ASKED, "key": "sum_amount"}, **STATISTICS)


def test_shares_move_noise() -> None:
    """A larger share of the budget is less noise for that part, and shares are those that were asked for."""
    from dptally.laws.specs.rounds import Rounds
    from dptally.request import read_request

    asked = {**ASKED, **STATISTICS}
    usual = Rounds().spec(read_request(**asked)).law.statistics
    more = Rounds().spec(read_request(**asked, shares={"sum_amount": "0.2"})).law.statistics
    assert more.part("values", 0).deviation < usual.part("values", 0).deviation
    assert more.counts.deviation > usual.counts.deviation
    assert more.asked.parts["sum_amount"] == Fraction(1, 5) and sum(more.asked.parts.values()) == 1


def test_roll_ups() -> None:
    """Groups of released keys by a key column, sorted, with the number of keys, for releases with and without sums."""
    frame = rows().with_columns(half=pl.when(pl.col("word") == "ash").then(pl.lit("a")).otherwise(pl.lit("b")))
    asked = {**ASKED, "key": ["half", "word"], "randomness": SeededBits(8)}
    for options in (STATISTICS, {"mechanism": "rounds"}):
        found = dptally.publish(frame, **asked, **options).by("half", confidence="0.999999")
        assert found.get_column("half").to_list() == ["a", "b"] and found.get_column("keys").to_list() == [1, 2]
        for row, truth in zip(found.iter_rows(named=True), (UNITS, UNITS * 3 // 2), strict=True):
            assert row["lower"] <= truth <= row["upper"]
    with pytest.raises(InvalidParameter, match="by takes names of key columns, which are half, word"):
        dptally.publish(frame, **asked).by("amount")


def test_values_that_are_odd() -> None:
    """NaN is no value, infinities are clipped, and a release of nothing has its columns."""
    frame = rows().with_columns(
        amount=pl.Series(np.where(np.arange(rows().height) % 2, np.inf, -np.inf)), rating=pl.lit(float("nan"))
    )
    found = dptally.publish(frame, **ASKED, **STATISTICS, combine_rows="add", randomness=SeededBits(9))
    first = found.table(confidence="0.999999").row(0, named=True)
    assert first["sum_amount_lower"] <= 0 <= first["sum_amount_upper"]
    nothing = dptally.publish(rows().clear(), **ASKED, **STATISTICS, randomness=SeededBits(9))
    assert len(nothing) == 0 and nothing.table().columns == found.table().columns
    assert nothing.by("word").height == 0 and nothing.totals().height == 3
