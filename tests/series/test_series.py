"""A series from the outside: what counts, what is released, what is refused, and what a retry draws."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dptally
from dptally import InvalidParameter, Series
from dptally.estimates.series import half_width, window_totals
from dptally.laws.series import plan_series
from dptally.randomness import SeededBits
from dptally.series import adding
from dptally.series.state import State

EASY: dict[str, Any] = {"key": "word", "unit": "user", "epsilon": 32, "delta": "0.1"}


def rows(*pairs: tuple[str, range]) -> pl.DataFrame:
    """Rows of words, each with the users that have it."""
    words = [word for word, users in pairs for _ in users]
    return pl.DataFrame({"word": words, "user": [user for _, users in pairs for user in users]})


def totals(table: pl.DataFrame) -> dict[str, int]:
    """Running totals by word."""
    return dict(table.select("word", "total").iter_rows())


def test_a_unit_counts_once_for_a_key_in_the_whole_series(tmp_path: Path) -> None:
    """Users that come back with the same word add nothing; new ones do. Noise is a few counts at most here."""
    series = Series.create(tmp_path / "s", **EASY, max_keys_per_unit=2, periods=4)
    series.add(rows(("tea", range(400))), period=1)
    series.add(rows(("tea", range(400))), period=2)
    series.add(rows(("tea", range(300, 500)), ("milk", range(300))), period=3)
    found = series.table(3)
    assert totals(found) == pytest.approx({"tea": 500, "milk": 300}, abs=25)
    increments = [totals(series.table(n).with_columns(total="increment"))["tea"] for n in (1, 2, 3)]
    assert increments == pytest.approx([400, 0, 100], abs=25)


def test_a_unit_counts_for_no_more_keys_than_it_may_over_all_periods(tmp_path: Path) -> None:
    """With one key for each user, what is new on the second day counts only for users who are new."""
    series = Series.create(tmp_path / "s", **EASY, max_keys_per_unit=1, periods=2)
    series.add(rows(("tea", range(300))), period=1)
    series.add(rows(("milk", range(600)), ("tea", range(600))), period=2)
    found = totals(series.table())
    assert found["tea"] + found["milk"] == pytest.approx(600, abs=40)
    assert found["milk"] == pytest.approx(150, abs=60)  # of 300 new users, each has one of two words


def test_a_unit_may_count_in_several_periods_and_for_few_new_keys(tmp_path: Path) -> None:
    """`periods_per_key` counts daily actives, `max_new_keys_per_period` leaves room for later keys."""
    options = {**EASY, "max_keys_per_unit": 3, "periods_per_key": 2, "max_new_keys_per_period": 1}
    series = Series.create(tmp_path / "s", **options, periods=4)
    for period in (1, 2, 3):
        series.add(rows(("tea", range(2000))), period=period)
    assert totals(series.table())["tea"] == pytest.approx(4000, abs=120)
    series.add(rows(("milk", range(2000)), ("salt", range(2000))), period=4)
    found = totals(series.table())
    assert found["milk"] + found["salt"] == pytest.approx(2000, abs=240)


def test_the_guarantee_of_a_unit_within_a_day(tmp_path: Path) -> None:
    """Units count again on every day, nothing about them is kept, and the guarantee says what it protects."""
    series = Series.create(tmp_path / "s", **EASY, periods=3, period_unit="day", ledger=_ledger(tmp_path))
    for day in ("2026-11-16", "2026-11-17"):
        series.add(rows(("tea", range(400))), period=day)
    assert totals(series.table())["tea"] == pytest.approx(800, abs=40)
    assert "add/remove of all rows of one 'user' within one day" in str(series.guarantee)
    with series._state.reading():
        assert not list(series._state.get("units"))
    assert dptally.Ledger(tmp_path / "budget.db").history()[0].unit == "user within one day"


def _ledger(folder: Path) -> dptally.Ledger:
    return dptally.Ledger(folder / "budget.db", epsilon=32, delta="0.1")


def test_a_series_is_paid_for_once(tmp_path: Path) -> None:
    """A second one exceeds the budget, before its file is made; releases name the entry."""
    ledger = _ledger(tmp_path)
    series = Series.create(tmp_path / "s", **EASY, periods=3, ledger=ledger)
    release = series.add(rows(("tea", range(400))), period=1)
    assert release.guarantee.record is not None
    assert len(ledger.history()) == 1
    with pytest.raises(dptally.BudgetExceeded):
        Series.create(tmp_path / "other", **EASY, periods=3, ledger=ledger)
    assert not (tmp_path / "other").exists()


def test_a_release_is_read_back_and_verifies(tmp_path: Path) -> None:
    """The file of a period is a release like any other, and names its series."""
    series = Series.create(tmp_path / "s", **EASY, periods=3)
    release = series.add(rows(("tea", range(400)), ("milk", range(300))), period="2026-W47")
    release.save(tmp_path / "r.parquet")
    found = dptally.load(tmp_path / "r.parquet", dptally.SeriesRelease)
    assert found.table().equals(release.table())
    assert found.verify() == series.certificate
    assert found.place == release.place
    assert found.place.period == "2026-W47"
    assert found.table().columns == [
        "word", "total", "lower", "upper", "increment", "increment_lower", "increment_upper",
    ]  # fmt: skip
    assert found.count("milk") is not None
    assert found.count("salt") is None
    forged = found.stating(found.guarantee.under(periods=2))
    with pytest.raises(dptally.PrivacyViolation):
        forged.verify()


def test_windows_and_changes(tmp_path: Path) -> None:
    """Differences of totals, also for keys that were published later."""
    series = Series.create(tmp_path / "s", **EASY, periods=4)
    series.add(rows(("tea", range(400))), period=1)
    series.add(rows(("tea", range(400, 500)), ("milk", range(1000, 1900))), period=2)
    series.add(rows(("tea", range(500, 900))), period=3)
    window = {word: (low, high) for word, _, low, high in series.window(2, 3, confidence="0.9999999").iter_rows()}
    assert window["tea"][0] <= 500 <= window["tea"][1]
    assert window["milk"][0] <= 900 <= window["milk"][1]
    change = {word: number for word, number, *_ in series.changes(2, 3).iter_rows()}
    assert change == pytest.approx({"tea": 300, "milk": -900}, abs=40)
    assert len(series.top(1)) == 1
    assert series.plot().title


def test_a_period_that_is_left_out_is_empty(tmp_path: Path) -> None:
    """Its number is used up, its increment is about 0, and it cannot be added later."""
    series = Series.create(tmp_path / "s", **EASY, periods=5)
    series.add(rows(("tea", range(400))), period="2026-11-16")
    release = series.add(rows(("tea", range(400, 500))), period="2026-11-19")
    assert release.place.number == 4
    assert totals(release.table())["tea"] == pytest.approx(500, abs=25)
    with pytest.raises(InvalidParameter, match="rows that come late belong into the current period"):
        series.add(rows(("tea", range(5))), period="2026-11-17")


def test_requests_that_are_refused(tmp_path: Path) -> None:
    """Each with one sentence, and none changes the state."""
    place = tmp_path / "s"
    series = Series.create(place, **EASY, periods=5)
    series.add(rows(("tea", range(400))), period="2026-11-16")
    before = place.read_bytes()
    more = rows(("tea", range(400, 500)))
    for period, said in {
        "2026-11-16": "was added already",
        "2026-11-15": "is before 2026-11-16",
        "2026-11-21": "beyond the horizon of 5 periods",
        "2026-W47": "must be a day like",
        "yesterday": "must be a date",
    }.items():
        with pytest.raises(InvalidParameter, match=said):
            series.add(more, period=period)
    with pytest.raises(InvalidParameter, match="column 'word' is not in the source"):
        series.add(more.rename({"word": "term"}), period="2026-11-17")
    with pytest.raises(InvalidParameter, match="column 'user' has another type"):
        series.add(more.with_columns(pl.col("user").cast(pl.String)), period="2026-11-17")
    with pytest.raises(InvalidParameter, match="never replaced"):
        Series.create(place, **{**EASY, "epsilon": 3}, periods=5)
    assert place.read_bytes() == before
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    place.chmod(0o644)
    with pytest.raises(InvalidParameter, match="may be read by others"):
        Series.open(place)


def test_a_state_of_a_newer_version_or_another_file_is_refused(tmp_path: Path) -> None:
    """By its header, before anything is looked at."""
    place = tmp_path / "s"
    Series.create(place, **EASY, periods=5).close()
    changed = bytearray(place.read_bytes())
    changed[60:64] = (2).to_bytes(4, "big")  # user_version of SQLite
    place.write_bytes(changed)
    with pytest.raises(InvalidParameter, match="newer version"):
        Series.open(place)
    _ledger(tmp_path)
    (tmp_path / "budget.db").chmod(0o600)
    with pytest.raises(InvalidParameter, match="not a series"):
        Series.open(tmp_path / "budget.db")


def test_a_state_that_was_rolled_back_is_refused(tmp_path: Path) -> None:
    """A copy from before a release was handed out: adding to it would be a second release of one period."""
    place, copy = tmp_path / "s", tmp_path / "copy"
    series = Series.create(place, **EASY, periods=5)
    series.add(rows(("tea", range(400))), period=1)
    shutil.copy2(place, copy)
    series.add(rows(("tea", range(500))), period=2)
    series.close()
    shutil.copy2(copy, place)
    with pytest.raises(InvalidParameter, match="was restored from a copy"):
        Series.open(place).add(rows(("milk", range(500))), period=2)
    (tmp_path / "s-head").unlink()
    with pytest.raises(InvalidParameter, match="is missing or damaged"):
        Series.open(place).add(rows(("milk", range(500))), period=2)


def test_what_is_shown_after_an_interruption_is_noted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the state and its note: who then looks at the period cannot add it to an older state."""
    place, copy = tmp_path / "s", tmp_path / "copy"
    series = Series.create(place, **EASY, periods=5)
    series.add(rows(("tea", range(400))), period=1)
    shutil.copy2(place, copy)

    def fail(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(State, "_write_note", fail)
        with pytest.raises(Stop):
            series.add(rows(("tea", range(500))), period=2)
        with pytest.raises(Stop):  # nothing is handed out where the note cannot be written
            series.release(2)
    assert series.release(2).place.number == 2
    series.close()
    shutil.copy2(copy, place)
    with pytest.raises(InvalidParameter, match="was restored from a copy"):
        Series.open(place).add(rows(("tea", range(501))), period=2)


def test_the_head_in_a_release_cannot_be_guessed(tmp_path: Path) -> None:
    """Two series without any rows have heads of their own, so a head does not say that there were none."""
    nothing, heads = rows(("tea", range(1))).clear(), set()
    for name in ("one", "two"):
        series = Series.create(tmp_path / name, **EASY, periods=5)
        heads |= {series.add(nothing, period=period).place.head for period in (1, 2)}
    assert len(heads) == 4


def test_a_path_is_opened_by_open() -> None:
    """And the constructor says so."""
    with pytest.raises(InvalidParameter, match=r"Series\.open"):
        Series("week.series")  # type: ignore[arg-type]


def test_estimates_are_in_their_intervals(tmp_path: Path) -> None:
    """Also increments of periods without rows, which noise makes negative about every second time."""
    series = Series.create(tmp_path / "s", **{**EASY, "epsilon": 1}, periods=12, randomness=SeededBits(3))
    series.add(rows(("tea", range(900))), period=1)
    found = [series.add(rows(("tea", range(1))), period=period).table().row(0, named=True) for period in range(2, 13)]
    assert min(row["increment"] for row in found) < 0
    assert all(row["increment_lower"] <= row["increment"] <= row["increment_upper"] for row in found)
    window = series.window(5, 5).row(0, named=True)
    assert window["lower"] <= window["total"] <= window["upper"]


def test_the_period_is_what_the_guarantee_protects_within(tmp_path: Path) -> None:
    """A month of daily periods would protect a day alone: refused by `add`, and found in a release."""
    series = Series.create(tmp_path / "s", **EASY, periods=3, period_unit="month")
    for period in ("2026-11-16", "2026-W47", 1):
        with pytest.raises(InvalidParameter, match="must be a month"):
            series.add(rows(("tea", range(400))), period=period)
    release = series.add(rows(("tea", range(400))), period="2026-11")
    assert release.verify() == series.certificate
    with pytest.raises(dptally.PrivacyViolation, match="protected within"):
        release.stating(release.guarantee.under(within=1)).verify()


def test_a_source_that_tells_units_apart_otherwise_is_refused(tmp_path: Path) -> None:
    """Text in CSV and values in JSON have other identities: the same users would count again."""
    series = Series.create(tmp_path / "s", **EASY, periods=4)
    (tmp_path / "a.csv").write_text("word,user\n" + "".join(f"tea,{n}\n" for n in range(400)))
    (tmp_path / "a.jsonl").write_text("".join(f'{{"word": "tea", "user": {n}}}\n' for n in range(400)))
    series.add(tmp_path / "a.csv", period=1)
    before = (tmp_path / "s").read_bytes()
    with pytest.raises(InvalidParameter, match="column 'user' has another type or kind of source"):
        series.add(tmp_path / "a.jsonl", period=2)
    assert (tmp_path / "s").read_bytes() == before
    series.add(rows(("tea", range(400))).cast(pl.String), period=2)
    assert totals(series.add(tmp_path / "a.jsonl", period=3, types={"user": "text"}).table())["tea"] < 425


class Stop(Exception):  # noqa: N818 - what stops an add
    """Raised in the middle of an add."""


def test_a_retry_draws_what_was_drawn_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An add that failed before its last step changes nothing; run again, it has the numbers of one that did not."""
    place, twin = tmp_path / "s", tmp_path / "twin"
    series = Series.create(place, **EASY, periods=5)
    series.add(rows(("tea", range(400))), period=1)
    before = place.read_bytes()
    shutil.copy2(place, twin)
    shutil.copy2(tmp_path / "s-head", tmp_path / "twin-head")
    second = rows(("tea", range(300, 600)), ("milk", range(400)))

    def fail(*_: object, **__: object) -> None:
        raise Stop

    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(State, "put_period", fail)
        series.add(second, period=2)
    assert place.read_bytes() == before
    again = series.add(second, period=2)
    untouched = Series.open(twin)
    assert untouched.add(second, period=2).table().equals(again.table())
    first, other = (adding.published_history(each._state)[2] for each in (series, untouched))
    assert np.array_equal(first, other)  # totals are rounded to whole counts, these are not


def test_other_rows_have_other_noise(tmp_path: Path) -> None:
    """A restored state that gets other rows never meets the noise of the period again, not even for other keys."""
    place, twin = tmp_path / "s", tmp_path / "twin"
    series = Series.create(place, key="word", unit="user", epsilon=1, delta="1e-6", periods=5)
    series.add(rows(("tea", range(4000)), ("milk", range(5000, 9000))), period=1)
    shutil.copy2(place, twin)
    shutil.copy2(tmp_path / "s-head", tmp_path / "twin-head")
    one = series.add(rows(("tea", range(4000, 4100))), period=2)
    other = Series.open(twin).add(rows(("tea", range(4000, 4101))), period=2)
    history = [adding.published_history(each._state)[2] for each in (series, Series.open(twin))]
    assert (history[0][:, 0] == history[1][:, 0]).all()
    assert (history[0][:, 1] != history[1][:, 1]).all()
    assert len(one) == len(other) == 2


def test_two_copies_share_no_noise_after_their_first_difference(tmp_path: Path) -> None:
    """Equal rows after different ones, and a period that was left out: nothing cancels, for old keys and new ones."""
    place, twin = tmp_path / "s", tmp_path / "twin"
    Series.create(place, key="word", unit="user", epsilon=1, delta="1e-6", periods=5).close()
    shutil.copy2(place, twin)
    shutil.copy2(tmp_path / "s-head", tmp_path / "twin-head")
    history = []
    for path, users in ((place, 4000), (twin, 4001)):
        series = Series.open(path)
        series.add(rows(("tea", range(users))), period=1)
        series.add(rows(("milk", range(5000, 9000))), period=3)
        history.append(adding.published_history(series._state)[2] - np.outer([users, 0], series.law.coefficients[:3]))
    assert history[0].shape == (2, 3)
    assert (history[0] != history[1]).all()


def test_noise_of_a_period_stays_when_later_periods_come() -> None:
    """A key that is new later has the noise it would have had, whatever came since."""
    law, blocks = plan_series(1, "1e-6", differing=1, periods=3), np.arange(40, dtype=np.uint64)
    short, long = (adding.Noise(law, bytes(32), [b"1", b"2", b"3"][:known], private=True) for known in (2, 3))
    assert np.array_equal(short.of(blocks, 2), long.of(blocks, 2))
    assert not np.array_equal(long.of(blocks, 2), long.of(blocks, 3))


def test_a_release_that_was_not_handed_out_is_handed_out_by_a_retry(tmp_path: Path) -> None:
    """Without reading rows: what they are by then does not matter."""
    series = Series.create(tmp_path / "s", **EASY, periods=5)
    series.commit(rows(("tea", range(400))), period=1)
    expected = series.release(1).table()
    assert series.add(tmp_path / "no such file.csv", period=1).table().equals(expected)
    with pytest.raises(InvalidParameter, match="was added already"):
        series.add(rows(("tea", range(400))), period=1)


def test_hidden_keys_are_tested_in_every_period(tmp_path: Path) -> None:
    """Keys near their threshold are published in later periods without any row of theirs."""
    series = Series.create(
        tmp_path / "s", key="word", unit="user", epsilon=1, delta="0.01", periods=40, randomness=SeededBits(1)
    )
    near = series.law.thresholds[0] // 2**series.law.bits
    users = iter(range(10**6))
    many = [(f"w{n}", [next(users) for _ in range(near - 1)]) for n in range(60)]
    frame = pl.DataFrame([(w, u) for w, us in many for u in us], schema=["word", "user"], orient="row")
    first = len(series.add(frame, period=1))
    empty = frame.clear()
    later = len(series.add(empty, period=2))
    assert 10 < first < 50
    assert later > first


def test_a_filter_is_obeyed_and_named(tmp_path: Path) -> None:
    """Rows are filtered before units are bounded, and the release of the period says so."""
    series = Series.create(tmp_path / "s", **EASY, periods=5)
    release = series.add(rows(("tea", range(900))), period=1, where="user < 400")
    assert totals(release.table())["tea"] == pytest.approx(400, abs=25)
    assert "Only rows with 'user < 400' were read in this period" in str(release.guarantee)
    assert release.verify() == series.certificate


def test_a_sealed_series_keeps_what_was_released(tmp_path: Path) -> None:
    """And nothing else: neither the secret, nor units, nor keys that were not published."""
    place = tmp_path / "s"
    series = Series.create(place, **EASY, periods=5)
    release = series.add(rows(("tea", range(400)), ("secretword", range(500, 501))), period=1)
    assert b"secretword" in b"".join(str(t).encode() for _, t in _tables(series, "keys"))
    series.seal()
    assert not _tables(series, "keys") and not _tables(series, "units")
    again = Series.open(place)
    assert again.sealed
    assert again.table(1).equals(release.table())
    with pytest.raises(InvalidParameter, match="is sealed"):
        again.add(rows(("tea", range(400))), period=2)


def _tables(series: Series, kind: str) -> list[tuple[int, Any]]:
    with series._state.reading():
        return list(series._state.get(kind))


@pytest.mark.parametrize("question", [(1, 12, None), (12, 12, None), (5, 9, None), (12, 12, 3)])
def test_intervals_cover_as_often_as_they_say(question: tuple[int, int, int | None]) -> None:
    """Of noise alone, for totals, increments, windows and differences: of 20,000 keys 95 % within a false-alarm rate
    of 1e-6 (five deviations), and not far more than that.
    """
    first, last, less = question
    law = plan_series(1, "1e-6", differing=2, periods=12)
    noise = law.draw_noise(20_000 * 12, SeededBits(5)).reshape(20_000, 12)
    found = window_totals(law, noise, first, last)
    if less is not None:
        found -= window_totals(law, noise, less, less)
    covered = np.mean(np.abs(np.rint(found)) <= half_width(law, first, last, 0.95, less=less))
    assert 0.95 - 5 * (0.95 * 0.05 / 20_000) ** 0.5 <= covered <= 0.985


def test_totals_are_exact_but_for_the_noise() -> None:
    """B C = A: without noise, totals and windows of any counts are those of the counts."""
    law = plan_series(1, "1e-6", differing=2, periods=60)
    counts = np.random.default_rng(3).integers(0, 10**6, (5, 60))
    mixing = np.array([[law.coefficients[t - s] if s <= t else 0 for s in range(60)] for t in range(60)])
    y = counts @ mixing.T
    assert np.allclose(window_totals(law, y, 1, 60), counts.sum(axis=1), atol=1e-3)
    assert np.allclose(window_totals(law, y, 21, 40), counts[:, 20:40].sum(axis=1), atol=1e-3)
