"""Two releases compared: intervals of differences and ratios hold, and what cannot be compared is refused."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import dptally
from dptally.errors import InvalidParameter
from dptally.randomness import SeededBits
from dptally.releases.table_release import TableRelease
from dptally.report.comparison_chart import comparison_chart
from tests.cli.conftest import Run, on_terminal, run

__all__ = ["run"]  # the fixture


def published(counts: dict[Any, int], seed: int = 1, **given: Any) -> TableRelease:
    """A seeded release of counts."""
    asked: dict[str, Any] = {"epsilon": 1, "delta": "1e-3", **given}
    found = dptally.publish(counts, randomness=SeededBits(seed), **asked)
    assert isinstance(found, TableRelease)
    return found


def held(release: TableRelease, values: dict[str, int]) -> TableRelease:
    """A release of the same law with these values."""
    rows = pa.table({"key": list(values), "value": pa.array(list(values.values()), pa.int64())})
    return TableRelease(rows, release.guarantee, release.certificate, release.law)


@pytest.mark.parametrize("confidence", ["0.2", "0.6"])
def test_exact_coverage(confidence: str) -> None:
    """All pairs of small counts, all values of both draws: difference and ratio together miss no more than they may."""
    one, other = published({"a": 9}), published({"a": 9}, 2, epsilon="0.7")
    most, largest = 9, 40
    pairs = [(v, w) for v in range(largest) for w in range(largest) if v or w]
    name = {pair: f"{pair[0]}|{pair[1]}" for pair in pairs}
    before = held(one, {name[pair]: pair[0] for pair in pairs if pair[0] >= one.law.threshold})
    after = held(other, {name[pair]: pair[1] for pair in pairs if pair[1] >= other.law.threshold})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = {row["key"]: row for row in before.compare(after, confidence=confidence).iter_rows(named=True)}
    assert {row["status"] for row in rows.values()} == {"both", "appeared", "gone"}
    worst = Fraction(0)
    for first in range(most):
        for second in range(most):
            missed = beyond = Fraction(0)
            for v, chance in one.law.row(first).items():
                for w, also in other.law.row(second).items():
                    if (v or 0) >= largest or (w or 0) >= largest:
                        beyond += chance * also
                        continue
                    row = rows.get(f"{v or 0}|{w or 0}")
                    if row is not None:
                        low, high = row["ratio_lower"] or 0.0, row["ratio_upper"]
                        inside = row["difference_lower"] <= second - first <= row["difference_upper"]
                        inside &= low * first <= second + 1e-9 and (high is None or second <= high * first + 1e-9)
                        missed += 0 if inside else chance * also
            worst = max(worst, missed + beyond)
    assert 0 < worst <= 1 - Fraction(confidence)


@pytest.mark.parametrize("pairs", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_simulated_coverage(pairs: int) -> None:
    """Intervals at 80 % hold for at least 80 % of keys, and those of the largest changes for all keys at once.

    With 60 keys for each pair of releases, fewer than 70 % of right intervals of 2400 would have a probability below
    1e-30 if 80 % were the chance; of 40 pairs fewer than 18 all right one below 1e-6.
    """
    counts = [{f"k{i}": 5 + 3 * i for i in range(60)}, {f"k{i}": 140 - 2 * i for i in range(60)}]
    right = total = whole = 0
    for place in range(pairs):
        before, after = (published(each, 2 * place + side) for side, each in enumerate(counts))
        for n in (None, 1000):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = before.compare(after, n=n, confidence="0.8")
            truth = rows.select(
                pl.col("key").replace_strict(counts[1], return_dtype=pl.Int64)
                - pl.col("key").replace_strict(counts[0], return_dtype=pl.Int64)
            ).to_series()
            inside = truth.is_between(rows.get_column("difference_lower"), rows.get_column("difference_upper"))
            if n is None:
                right, total = right + int(inside.sum()), total + len(rows)
            else:
                whole += bool(inside.all())
    assert right >= 0.7 * total
    assert whole >= 0.45 * pairs


def test_what_is_shown() -> None:
    """Differences and ratios are those of the estimates; of keys in one release only bounds are known."""
    before, after = published({"a": 500, "b": 80, "gone": 300}), published({"a": 1000, "b": 80, "new": 300}, 2)
    rows = {row["key"]: row for row in before.compare(after).iter_rows(named=True)}
    assert {key: row["status"] for key, row in rows.items()} == {
        "a": "both", "b": "both", "gone": "gone", "new": "appeared"
    }  # fmt: skip
    a = rows["a"]
    assert a["difference"] == a["estimate_after"] - a["estimate_before"]
    assert a["ratio"] == pytest.approx(a["estimate_after"] / a["estimate_before"])
    assert a["difference_lower"] <= 500 <= a["difference_upper"]
    assert a["ratio_lower"] < 2 < a["ratio_upper"]
    new, gone = rows["new"], rows["gone"]
    assert (new["difference"], new["ratio"], new["estimate_before"], new["ratio_upper"]) == (None, None, None, None)
    assert 200 < new["difference_lower"] < 300 < new["difference_upper"]
    assert (gone["estimate_after"], gone["ratio_lower"]) == (None, 0.0)
    assert gone["difference_lower"] < -290 and 0 < gone["ratio_upper"] < 1
    top = before.compare(after, n=3)
    assert top.get_column("key").to_list()[0] == "a" and set(top.get_column("key")) == {"a", "gone", "new"}
    wider = top.filter(key="a").row(0, named=True)
    assert wider["difference_upper"] - wider["difference_lower"] > a["difference_upper"] - a["difference_lower"]
    reverse = after.compare(before).filter(key="a").row(0, named=True)
    assert (reverse["difference_lower"], reverse["difference_upper"]) == (
        -a["difference_upper"],
        -a["difference_lower"],
    )


def test_sampled_keys_may_have_any_count() -> None:
    """A release that samples keys hides keys of any count, so a missing key has no bound there."""
    before = published({"a": 500, "b": 400})
    after = published({"a": 500}, sampling=dptally.Ppswor("0.9", power=0))
    row = before.compare(after).filter(key="b").row(0, named=True)
    assert (row["difference_upper"], row["ratio_upper"]) == (None, None)
    assert row["difference_lower"] is not None


def test_what_cannot_be_compared() -> None:
    """Each refusal is one sentence that says why."""
    rows = pl.DataFrame({"k": ["a"] * 600, "u": list(range(600))})
    asked: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "key": "k"}
    by_row, by_unit = dptally.publish(rows, **asked), dptally.publish(rows, unit="u", max_keys_per_unit=1, **asked)
    named = published({"a": 500})
    tree: Any = dptally.publish_quantiles(range(100), low=0, high=99, epsilon=1, mechanism="dense")
    cases = (
        (by_row, by_unit, "the first release counts rows, the second different 'u'"),
        (by_row, named, "different key columns"),
        (named, named, "both are the same release"),
        (named, tree, "only tables of keys can be compared"),
        (tree, named, "only tables of keys can be compared"),
        (named, published({"a": 500}, values=False), "without values"),
        (named, published({"a": 5}, delta=None, mechanism="dense", universe=["b"]), "over the same ones"),
    )
    for before, after, said in cases:
        with pytest.raises(InvalidParameter, match=said):
            before.compare(after)
    with pytest.raises(InvalidParameter, match="n must not be negative"):
        named.compare(by_row, n=-1)


def test_differing_guarantees_are_named() -> None:
    """Another epsilon, mechanism or bound is no reason to refuse, and is said."""
    asked: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
    before, after = dptally.publish({"a": 500}, **asked), dptally.publish({"a": 500}, **asked, mechanism="stability")
    with pytest.warns(UserWarning, match="the releases differ in mechanism; intervals hold"):
        before.compare(after)
    with pytest.warns(UserWarning, match="differ in epsilon, delta, whether they are private"):
        before.compare(published({"a": 500}, epsilon=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before.compare(dptally.publish({"a": 700}, **asked))


def test_null_keys_and_several_columns() -> None:
    """A null key is one key in both releases, and keys may have several columns."""
    rows = pl.DataFrame({"k": ["a", None] * 400, "l": ["x", "y"] * 400})
    asked: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "key": ["k", "l"], "nulls": "keep"}
    found = dptally.publish(rows, **asked).compare(dptally.publish(rows, **asked))
    assert found.select("k", "l", "status").rows() == [(None, "y", "both"), ("a", "x", "both")]


def test_command(run: Run, tmp_path: Path) -> None:
    """The command prints, warns, writes a chart or rows, and refuses what the library refuses."""
    places = [str(tmp_path / name) for name in ("one.parquet", "two.parquet")]
    asked: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
    dptally.publish({"a": 500, "b": 90}, **asked).save(places[0])
    dptally.publish({"a": 900, "c": 90}, **asked).save(places[1])
    for ending in ("html", "svg", "csv", "json", "parquet"):
        done = run("compare", *places, "-o", tmp_path / f"out.{ending}")
        assert done.status == 0, done.err
        assert "Not released is not zero" in done.err
        assert done.out.startswith("key,estimate_before,estimate_after,difference,")
    assert "difference of counts" in (tmp_path / "out.svg").read_text(encoding="utf-8")
    assert pl.read_csv(tmp_path / "out.csv").height == 3
    told = run("compare", *places, "--json", "-n", "1")
    assert '"appeared": 1' in told.out and told.status == 0
    assert run("compare", places[0], places[0]).status == 2
    assert run("compare", *places, "-o", tmp_path / "out.txt").status == 2
    assert run("compare", *places, "-o", places[0], "--overwrite").status == 2
    assert run("compare", *places, "--explain").status == 0


def test_command_on_a_terminal(tmp_path: Path) -> None:
    """A terminal gets a table with the words of the status, wide or narrow, and keys are whole in both."""
    places, key = [tmp_path / name for name in ("one.parquet", "two.parquet")], "a key of some length"
    for place, count in zip(places, (500, 900), strict=True):
        published({key: count, "b": 1900 - count}).save(place)
    for columns in (200, 90, 50):
        status, written = on_terminal("compare", *places, columns=columns)
        assert status == 0 and key.encode() in written and "…".encode() not in written, columns
        assert (b" both\r" in written) == (columns >= 90), written
        assert (b"Left out" in written) == (columns < 200)


def test_sums_of_one_release_alone() -> None:
    """Releases over the same key columns are compared, whatever else one of them has."""
    rows = pl.DataFrame({"k": ["a", "b"] * 400, "u": range(800), "x": [1.0] * 800})
    asked: dict[str, Any] = {"key": "k", "unit": "u", "max_keys_per_unit": 1, "epsilon": 8, "delta": "1e-6"}
    one = dptally.publish(rows, mechanism="rounds", **asked)
    other = dptally.publish(rows, mechanism="rounds", sums={"x": (0, 2)}, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert one.compare(other).get_column("status").to_list() == ["both", "both"]


def test_chart_of_nothing() -> None:
    """A comparison without rows has a chart, too."""
    rows = published({"a": 500}).compare(published({"a": 700}, 2), n=0)
    assert "The change" in comparison_chart(rows, 1, "95 %").content(".svg").decode()
