"""The task of one round, the registry of tasks, and what devices hold."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from dptally.errors import InvalidParameter, InvalidSource, PrivacyViolation
from dptally.federated import HistogramRounds, Round, Rounds, register_task
from dptally.federated.devices import read_devices
from dptally.federated.protocol import RATE_UNIT, read_rounds, task_named
from dptally.randomness import SeededBits
from tests.federated.prefix_rounds import PrefixRounds


def test_tasks_keep_the_protocol_and_survive_being_written() -> None:
    """A task made from its own description describes itself the same, and starts with the same round."""
    for task in (
        HistogramRounds("1/3", "1e-6", key="word", keys=["b", "a"], colluding=5, key_bytes=9),
        PrefixRounds(3, "1", "1e-6"),
    ):
        assert isinstance(task, Rounds)
        again = read_rounds(json.loads(json.dumps({"task": task.task, **task.to_dict()})))
        assert again.to_dict() == task.to_dict()
        assert again.start() == task.start() == Round.from_dict(json.loads(json.dumps(task.start().to_dict())))


def test_round_states_the_law() -> None:
    """Rate and threshold of the round are those of the law that estimates invert."""
    task = HistogramRounds("1", "1e-8", rate="0.1")
    asked = task.start()
    assert Fraction(asked.rate, RATE_UNIT) == task.law.rate and asked.threshold == task.law.threshold == 10


def test_colluding_devices_leave_the_law_of_the_others_within_the_guarantee() -> None:
    """With c extra votes the report of H + c at threshold t + c is the judged law's report of H, shifted by c."""
    plain, wary = HistogramRounds("1", "1e-6"), HistogramRounds("1", "1e-6", colluding=7)
    assert wary.law.rate == plain.law.rate and wary.law.threshold == plain.law.threshold + 7
    honest = range(60)
    seen = {count: count + 7 if count + 7 >= wary.law.threshold else None for count in honest}
    judged = {count: count if count >= plain.law.threshold else None for count in honest}
    assert all((seen[count] is None) == (judged[count] is None) for count in honest)
    assert wary.receive({b"a": 30}).verify()


def test_answers() -> None:
    """A value is its text, unless it is missing, too long, or not asked for."""
    asked = HistogramRounds("1", "1e-6", key_bytes=4).start()
    answer = HistogramRounds.answer
    assert [answer(value, asked) for value in ("abcd", "", 7, "äö")] == [b"abcd", b"", b"7", "äö".encode()]
    assert [answer(value, asked) for value in (None, "abcde", "äöü")] == [None, None, None]
    asked = HistogramRounds("1", "1e-6", keys=["a"]).start()
    assert [answer(value, asked) for value in ("a", "b")] == [b"a", None]


def test_bad_requests_are_refused() -> None:
    """Parameters are checked, and judged, before anybody is asked."""
    with pytest.raises(PrivacyViolation):
        HistogramRounds("1", "1e-6", rate="0.5", threshold=3)
    for options, match in [
        ({"key": "value"}, "key must be a name"),
        ({"keys": "abc"}, "keys must be a list of texts"),
        ({"keys": ["\ud800"]}, "keys must be a list of texts"),
        ({"key_bytes": 0}, "key_bytes must be at least 1"),
        ({"colluding": -1}, "colluding must be at least 0"),
    ]:
        with pytest.raises(InvalidParameter, match=match):
            HistogramRounds("1", "1e-6", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="does not have such parameters"):
        read_rounds({"task": "histogram", "nonsense": 1})
    with pytest.raises(InvalidParameter, match="there is no task named"):
        read_rounds({})
    with pytest.raises(InvalidParameter, match="there is a task named 'test_prefixes' already"):
        register_task("test_prefixes", HistogramRounds)
    assert task_named("histogram") is HistogramRounds


# ---- what devices hold ----


def test_every_kind_of_table_gives_the_same_devices(tmp_path: Path) -> None:
    """CSV, Parquet, SQLite and a function hold the same values; rows without a value are no devices."""
    frame = pl.DataFrame({"word": ["a", "b", None, "a"], "who": ["1", "2", "3", "4"]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        connection.execute('CREATE TABLE "my table" (word TEXT, who TEXT)')
        connection.executemany('INSERT INTO "my table" VALUES (?, ?)', frame.rows())
    connection.close()
    for unit in (None, "who"):
        found = [
            read_devices(tmp_path / "t.csv", key="word", unit=unit),
            read_devices(str(tmp_path / "t.parquet"), key="word", unit=unit),
            read_devices(tmp_path / "t.sqlite", key="word", unit=unit, table="my table"),
        ]
        assert all(values == ["a", "b", "a"] for values in found)


def test_a_device_with_several_values_keeps_one_of_them(tmp_path: Path) -> None:
    """The choice is uniform among distinct values: 600 devices with a, a, b; 5 standard deviations (rate 6e-7)."""
    rows = [(who, word) for who in range(600) for word in ("a", "a", "b")]
    pl.DataFrame(rows, schema=["who", "word"], orient="row").write_parquet(tmp_path / "t.parquet")
    found = Counter(read_devices(tmp_path / "t.parquet", key="word", unit="who", bits=SeededBits(1)))
    assert found.total() == 600 and abs(found["a"] - 300) < 5 * 600**0.5 / 2


def test_bad_tables_are_refused(tmp_path: Path) -> None:
    """One sentence for each mistake, none of which holds data."""
    (tmp_path / "t.csv").write_text("word\nsecret\n")
    (tmp_path / "broken.db").write_bytes(b"secret" * 100)
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("CREATE TABLE t (word TEXT)")
    connection.close()
    for kind, match, source, options in [
        (InvalidParameter, "key must name the column", "t.csv", {}),
        (InvalidParameter, "table is for SQLite files", "t.csv", {"key": "word", "table": "t"}),
        (InvalidParameter, "table must name the table or view", "t.db", {"key": "word"}),
        (InvalidParameter, "there is no column 'other' in the table", "t.db", {"key": "other", "table": "t"}),
        (InvalidSource, "cannot be read as an SQLite file", "broken.db", {"key": "word", "table": "t"}),
        (InvalidSource, "cannot be read as an SQLite file", "t.db", {"key": "word", "table": "nothing"}),
        (InvalidSource, "is not a file", "missing.db", {"key": "word", "table": "t"}),
    ]:
        with pytest.raises(kind, match=match):
            read_devices(tmp_path / source, **options)  # type: ignore[arg-type]


def test_a_unit_that_is_not_a_number_is_one_device(tmp_path: Path) -> None:
    """No NaN equals another one, and yet their rows belong to one unit."""
    file = tmp_path / "t.parquet"
    pl.DataFrame({"u": [float("nan")] * 100 + [1.0], "k": ["a"] * 101}).write_parquet(file)
    assert read_devices(file, key="k", unit="u") == ["a", "a"]
