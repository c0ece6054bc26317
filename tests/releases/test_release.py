"""A release: its table, its questions, its file, and what must never be in it."""

from __future__ import annotations

import json
import os
import pickle
import stat
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import DptallyError, InvalidParameter, PrivacyViolation, UnreadableRelease
from dptally.files import check_target
from dptally.randomness import SeededBits

COUNTS = {"apple": 500, "banana": 300, "cherry": 300, "date": 40, "rare": 1}


def release_of(counts: dict[Any, int] | None = None, **more: Any) -> dptally.TableRelease:
    """A seeded release of a few keys."""
    return dptally.publish(
        COUNTS if counts is None else counts, **{"epsilon": 1, "delta": "1e-6", "randomness": SeededBits(1), **more}
    )


def test_table_is_sorted_by_key_with_bounds() -> None:
    """Columns and order are as promised, and bounds hold the estimate."""
    table = release_of().table()
    assert table.columns == ["key", "value", "estimate", "lower", "upper"]
    assert table["key"].to_list() == ["apple", "banana", "cherry", "date"]
    assert (table["lower"] <= table["estimate"]).all() and (table["estimate"] <= table["upper"]).all()
    assert (table["estimate"] - table["value"] == cast(Any, release_of().law).likely_drop).all()


def test_order_of_input_does_not_show() -> None:
    """Keys come out in the order of keys whatever order they came in."""
    backwards = dict(reversed(COUNTS.items()))
    assert release_of(backwards).table()["key"].to_list() == release_of().table()["key"].to_list()


@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999"])
def test_bounds_hold_among_released_keys(confidence: str) -> None:
    """For every true frequency, the exact share of released keys whose bounds miss is at most 1 - confidence."""
    from dptally.estimates.frequencies import estimate_frequencies
    from dptally.laws.weighted_sample import WeightedSample

    for law in (WeightedSample("1", "1e-6"), WeightedSample("0.2", "0.01")):
        values = np.arange(1, 4 * law.width, dtype=np.int64)
        found = estimate_frequencies(law, values, confidence)
        assert found.upper is not None and found.estimate is not None
        for frequency in range(1, 3 * law.width):
            row = law.row(frequency)
            missed = sum(
                chance
                for value, chance in row.items()
                if value is not None and not found.lower[value - 1] <= frequency <= found.upper[value - 1]
            )
            assert missed <= (1 - Fraction(confidence)) * law.reporting_probability(frequency)


def test_bounds_are_as_tight_as_the_inversion_allows() -> None:
    """One unit inside the bounds the tail probability is above beta/2; one unit outside it is not."""
    from dptally.estimates.frequencies import estimate_frequencies
    from dptally.laws.weighted_sample import WeightedSample

    law, half = WeightedSample("0.5", "0.001"), Fraction(5, 200)
    for value in (1, 3, law.width // 2, 5 * law.width):
        found = estimate_frequencies(law, np.array([value]), "0.95")
        assert found.upper is not None

        def tails(frequency: int, value: int = value) -> tuple[Fraction, Fraction]:
            row = law.row(frequency)
            up = sum((p for v, p in row.items() if v is not None and v >= value), Fraction(0))
            down = sum((p for v, p in row.items() if v is not None and v <= value), Fraction(0))
            return up / law.reporting_probability(frequency), down / law.reporting_probability(frequency)

        low, high = int(found.lower[0]), int(found.upper[0])
        assert tails(low)[0] > half and (low == 1 or tails(low - 1)[0] <= half)
        assert tails(high)[1] > half and tails(high + 1)[1] <= half


@pytest.mark.parametrize(
    ("epsilon", "delta", "rare"),
    [("0.5", "0.01", 0), ("1", "0.001", 200_000), ("10", "1e-6", 100_000), ("30", "1e-6", 5)],
)
def test_sum_bounds_hold(epsilon: str, delta: str, rare: int) -> None:
    """Over 200 seeded releases bounds of the sum over released keys miss less often than said, on either side.

    Each may miss with probability at most 2.5 %; 20 misses of 200 have probability below 1e-6 at that rate. Among the
    keys are many that are released by chance alone. No warning is raised for large epsilons.
    """
    from dptally.estimates.subset_sums import estimate_sum
    from dptally.laws.weighted_sample import WeightedSample

    law = WeightedSample(epsilon, delta)
    frequencies = np.concatenate([np.arange(1, 400) % 60 + 1, np.ones(rare)]).astype(np.int64)
    over = under = 0
    widest = 0.0
    for seed in range(200):
        drawn = law.draw(frequencies, SeededBits(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = estimate_sum(law, drawn[drawn > 0])
        truth = frequencies[drawn > 0].sum()
        over += found.lower > truth
        under += found.upper < truth
        widest = max(widest, (found.upper - found.lower) / truth)
    assert over < 20 and under < 20
    assert widest < 0.6


def test_sums_of_selections() -> None:
    """SQL text and Polars expressions select the same keys, and g = 1 counts them."""
    release = release_of()
    assert release.sum("key LIKE 'a%'") == release.sum(pl.col("key").str.starts_with("a"))
    assert release.sum("key = 'apple' OR key = 'date'").keys == 2
    counted = release.sum(of=lambda w: 1)
    assert counted.lower == counted.keys == len(release)
    assert release.sum(pl.col("key") == "nothing").estimate == 0


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("key LIKE", "where cannot be evaluated"),
        ("nosuch = 1", "where cannot be evaluated"),
        ("read_csv('/etc/passwd') = 1", "where must not call read_csv"),
        ("value + 1", "where must be a condition"),
    ],
)
def test_bad_selections(where: str, message: str) -> None:
    """A selection that cannot be evaluated, or reaches for files, is refused in one sentence."""
    with pytest.raises(InvalidParameter, match=message):
        release_of().sum(where)


def test_order_statistics() -> None:
    """Top, rank and quantile follow the values; a key that was not released has no rank."""
    release = release_of()
    assert release.top(1)["key"].to_list() == ["apple"]
    assert release.top(0).height == 0
    assert release.rank("apple") == 1 and release.rank("date") == 4
    assert release.rank("rare") is None
    estimates = sorted(release.table()["estimate"].to_list())
    assert [release.quantile(q) for q in (0, "0.25", "0.5", "0.51", 1)] == [
        estimates[0],
        estimates[0],
        estimates[1],
        estimates[2],
        estimates[3],
    ]
    with pytest.raises(InvalidParameter, match="n must not be negative"):
        release.top(-1)
    with pytest.raises(InvalidParameter, match="key must have 1 parts"):
        release.rank(("a", "b"))
    with pytest.raises(InvalidParameter, match="confidence must be between 0 and 1"):
        release.table(confidence=2)


def test_several_key_columns_and_types() -> None:
    """Tuples become several columns, and ranks take tuples."""
    release = release_of({("x", 1): 100, ("x", 2): 200, ("a", 3): 300}, key=["letter", "number"])
    assert release.table().columns[:2] == ["letter", "number"]
    assert release.table().rows()[0][:2] == ("a", "3")
    assert release.rank(("x", "1")) == 3


def test_keys_only() -> None:
    """Without values the table says that the key occurs, and no more."""
    release = release_of(values=False)
    row = release.table().row(0, named=True)
    assert row == {"key": "apple", "value": None, "estimate": None, "lower": 1, "upper": None}
    assert release.sum().upper == float("inf")
    with pytest.raises(InvalidParameter, match="quantile needs values"):
        release.quantile(0.5)


def test_other_formats() -> None:
    """pandas and Arrow hold the same table."""
    release = release_of()
    assert release.to_pandas()["key"].tolist() == release.table()["key"].to_list()
    assert release.to_arrow().column_names == release.table().columns


def test_file_round_trip(tmp_path: Path) -> None:
    """A saved release is the same when read back, opens in other tools, and passes verification."""
    for values in (True, False):
        release = release_of(values=values)
        release.save(tmp_path / f"{values}.parquet")
        again = dptally.load(tmp_path / f"{values}.parquet")
        assert again.table().equals(release.table())
        assert (again.guarantee, again.certificate) == (release.guarantee, release.certificate)
        assert again.verify() == release.certificate
        assert pl.read_parquet(tmp_path / f"{values}.parquet").equals(release.table())
    assert json.dumps(release.describe())


def test_empty_release(tmp_path: Path) -> None:
    """A release without keys is a release: typed table, sums of 0, saved and read."""
    release = release_of({"rare": 1})
    assert len(release) == 0 and release.table().columns[0] == "key"
    assert release.sum().estimate == 0 and release.quantile(0.5) is None
    release.save(tmp_path / "empty.parquet")
    assert len(dptally.load(tmp_path / "empty.parquet").table()) == 0


def test_existing_files_are_kept(tmp_path: Path) -> None:
    """An existing file is replaced only when asked, and targets that cannot be written are named."""
    path = tmp_path / "r.parquet"
    path.write_text("precious")
    with pytest.raises(InvalidParameter, match="exists; use overwrite"):
        release_of().save(path)
    assert path.read_text() == "precious"
    release_of().save(path, overwrite=True)
    assert len(dptally.load(path).table()) == 4
    assert [file.name for file in tmp_path.iterdir()] == ["r.parquet"]
    with pytest.raises(InvalidParameter, match="is a directory"):
        release_of().save(tmp_path)
    with pytest.raises(InvalidParameter, match="is not a directory"):
        release_of().save(tmp_path / "no" / "r.parquet")


def test_a_target_is_tried_and_nothing_is_left_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is made beside the target to see that it can be; if it needs a name, one that the next write removes."""
    made: list[Path] = []
    opened = os.open

    def watched(path: Path, flags: int, *rest: int) -> int:
        if path == tmp_path:
            raise OSError(95, "Operation not supported")  # no files without a name here
        made.append(path)
        return opened(path, flags, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", watched)
        check_target(tmp_path / "r.parquet", overwrite=False)
    assert list(tmp_path.iterdir()) == []
    made[0].write_bytes(b"")  # as a process would leave it that is killed at that moment
    release_of().save(tmp_path / "r.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["r.parquet"]

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(InvalidParameter, match="cannot be written: No space left"):
        check_target(tmp_path / "other.parquet", overwrite=False)


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("nameless", [True, False])
def test_failed_writes_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool, nameless: bool
) -> None:
    """When writing fails half way, the old file stays and no other file is left, with and without O_TMPFILE."""
    path = tmp_path / "r.parquet"
    if overwrite:
        path.write_text("precious")
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
        release_of().save(tmp_path / "other.parquet")
        assert stat.S_ISREG((tmp_path / "other.parquet").stat().st_mode)
        (tmp_path / "other.parquet").unlink()

    def broken(table: pa.Table, file: Any, **_: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", broken)
    with pytest.raises(DptallyError, match="could not be written: No space left"):
        release_of().save(path, overwrite=overwrite)
    assert [file.name for file in tmp_path.iterdir()] == (["r.parquet"] if overwrite else [])
    assert not overwrite or path.read_text() == "precious"


def rewrite(path: Path, change: Any) -> None:
    """Rewrite the metadata of a release file."""
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[b"dptally"])
    facts = change(facts) or facts
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts).encode()}), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.update(format_version=3), "has format version 3, and this dptally reads versions 1 and 2"),
        (lambda f: f.pop("format_version"), "damaged metadata"),
        (lambda f: f.pop("guarantee"), "damaged metadata"),
        (lambda f: f["law"].update(epsilon="-1"), "damaged metadata"),
        (lambda f: f["law"].update(name="Other"), "damaged metadata"),
        (lambda f: f.update(key=["nosuch"]), "damaged metadata"),
        (lambda f: f["guarantee"].update(epsilon="1/0"), "damaged metadata"),
        (lambda f: [1, 2], "damaged metadata"),
    ],
)
def test_damaged_files(tmp_path: Path, change: Any, message: str) -> None:
    """Unknown versions and damaged metadata are refused in one sentence."""
    release_of().save(tmp_path / "r.parquet")
    rewrite(tmp_path / "r.parquet", change)
    with pytest.raises(UnreadableRelease, match=message):
        dptally.load(tmp_path / "r.parquet")


def test_foreign_files(tmp_path: Path) -> None:
    """A missing file, a text file, a cut file and another tool's Parquet are told apart."""
    with pytest.raises(UnreadableRelease, match="is not a file"):
        dptally.load(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    release_of().save(tmp_path / "r.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "r.parquet").read_bytes()[:-100])
    for name in ("text", "cut"):
        with pytest.raises(UnreadableRelease, match="not a readable Parquet file"):
            dptally.load(tmp_path / f"{name}.parquet")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(UnreadableRelease, match="not a dptally release"):
        dptally.load(tmp_path / "other.parquet")


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["guarantee"].update(epsilon="1/2"),
        lambda f: f["guarantee"].update(max_keys_per_unit=2),
        lambda f: f["law"].update(delta="1/100000"),
        lambda f: f["certificate"].update(table_sha256="0" * 64),
        lambda f: f["certificate"].update(worst_delta="1/3"),
    ],
)
def test_verification_notices_false_claims(tmp_path: Path, change: Any) -> None:
    """A file that claims more than its table gives, or another table, fails verification."""
    release_of().save(tmp_path / "r.parquet")
    rewrite(tmp_path / "r.parquet", change)
    with pytest.raises((PrivacyViolation, UnreadableRelease)):
        dptally.load(tmp_path / "r.parquet").verify()


@pytest.mark.parametrize("kind", ["mapping", "polars", "categorical", "pandas", "arrow dictionary"])
def test_nothing_unreleased_stays_reachable(tmp_path: Path, kind: str) -> None:
    """A key that was not released is in no buffer of the release: not pickled, not saved, not in repr."""
    secret = "SECRET-KEY-THAT-ONLY-ONE-UNIT-HAS"  # noqa: S105
    keys = ["common word number one"] * 200 + [secret]
    source: Any = {keys[0]: 200, secret: 1}
    if kind == "polars":
        source = pl.DataFrame({"key": keys})
    elif kind == "categorical":
        source = pl.DataFrame({"key": pl.Series(keys, dtype=pl.Categorical)})
    elif kind == "pandas":
        source = pl.DataFrame({"key": keys}).to_pandas().astype({"key": "category"})
    elif kind == "arrow dictionary":
        source = pa.table({"key": pa.array(keys).dictionary_encode()})
    release = release_of(source, key="key")
    assert len(release) == 1
    release.save(tmp_path / "r.parquet")
    seen = [
        (tmp_path / "r.parquet").read_bytes(),
        pickle.dumps(release.to_arrow()),
        pickle.dumps(release.table()),
        repr(release).encode(),
        str(release.describe()).encode(),
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, release.to_arrow().schema) as writer:
        writer.write_table(release.to_arrow())
    seen.append(sink.getvalue().to_pybytes())
    for buffers in (column.chunk(0).buffers() for column in release.to_arrow().columns if column.num_chunks):
        seen += [buffer.to_pybytes() for buffer in buffers if buffer is not None]
    assert not any(secret.encode() in piece for piece in seen)


def test_guarantee_can_be_quoted() -> None:
    """The sentence names parameters, unit and bound; a seeded release says that it is not private."""
    private = dptally.publish({"a": 100}, epsilon="0.1", delta="1e-6").guarantee
    assert "(epsilon = 0.1, delta = 1e-06)-differential privacy, add/remove of one row" in str(private)
    assert "Mechanism: weighted_sample" in str(private)
    frame = pl.DataFrame({"user": [1, 1, 2], "word": ["a", "b", "a"]})
    bounded = dptally.publish(frame, key="word", unit="user", max_keys_per_unit=2, epsilon=1, delta=1e-6).guarantee
    assert "all rows of one 'user'" in str(bounded) and "At most 2 distinct keys per 'user'" in str(bounded)
    assert "NOT PRIVATE" in str(release_of().guarantee)
