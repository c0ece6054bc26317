"""A sketch over a real stream of files: each batch once, whatever fails, and publications that pay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import BudgetExceeded, DptallyError, InvalidParameter, InvalidSource
from dptally.spark import SketchStream
from dptally.summaries.misra_gries import MisraGries

WORDS = ["the"] * 900 + ["of"] * 500 + ["rare"]
Open = Callable[..., SketchStream]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where files arrive."""
    path = tmp_path / "arriving"
    path.mkdir()
    return path


@pytest.fixture
def open_stream(spark: Any, folder: Path, tmp_path: Path) -> Any:
    """Opens the stream of this test, and stops it at the end."""
    opened: list[SketchStream] = []

    def make(kind: str = "string", state: str = "state", **options: Any) -> SketchStream:
        frame = spark.readStream.schema(f"k {kind}").option("maxFilesPerTrigger", 1).parquet(str(folder))
        opened.append(SketchStream(frame, tmp_path / state, key="k", capacity=10, buckets=2, **options))
        return opened[-1]

    yield make
    for stream in opened:
        stream.stop()


def add(folder: Path, number: int, words: list[Any] = WORDS, kind: pa.DataType | None = None) -> None:
    """A file that arrives at once."""
    pq.write_table(pa.table({"k": pa.array(words, kind or pa.string())}), folder / f".{number}.parquet")
    (folder / f".{number}.parquet").rename(folder / f"{number}.parquet")


def counts(stream: SketchStream) -> dict[str, int]:
    """What the sketch on disk holds."""
    [path] = stream._directory.glob("*.sketch")
    found = {row["key"]: row["estimate"] for row in MisraGries.load(path).items().to_pylist()}
    assert found == {row["key"]: row["estimate"] for row in stream._sketch.items().to_pylist()}
    assert path.stat().st_mode & 0o777 == 0o600
    return found


def times(many: int) -> dict[str, int]:
    """What so many files hold."""
    return {word: many * count for word, count in Counter(WORDS).items()}


def test_a_stream_is_read_published_stopped_and_continued(open_stream: Open, folder: Path, tmp_path: Path) -> None:
    """Files one after another, a stop and a new start: each file counts once; every publication pays in full."""
    ledger = dptally.Ledger(tmp_path / "budget.db", epsilon=2, delta="1e-6")
    add(folder, 1)
    add(folder, 2)
    stream = open_stream()
    stream.process_available()
    assert stream.batch == 1
    assert counts(stream) == times(2)
    release = stream.publish(1, "1e-7", ledger=ledger)
    assert release.table().get_column("k").to_list() == ["of", "the"]
    assert release.guarantee.private
    assert release.guarantee.unit is None
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    stream.stop()
    with pytest.raises(InvalidParameter, match="this stream was stopped"):
        stream.start()
    add(folder, 3)
    again = open_stream()
    assert again.batch == 1
    again.process_available()
    assert counts(again) == times(3)
    again.publish(1, "1e-7", ledger=ledger)
    assert [entry.state for entry in ledger.history()] == ["published", "published"]
    assert ledger.remaining()[0] == 0
    with pytest.raises(BudgetExceeded):
        again.publish(1, "1e-7", ledger=ledger)
    add(folder, 4)
    again.process_available()  # a refused publication does not stop it
    assert counts(again) == times(4)
    again.stop()
    [path] = (tmp_path / "state").glob("*.sketch")
    path.unlink()
    with pytest.raises(InvalidSource, match="does not belong together"):
        open_stream()


def test_a_query_that_dies_before_or_after_the_sketch_is_written(
    open_stream: Open, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that was under way is handed over again, and counts once in either case."""
    add(folder, 1)
    stream = open_stream()
    write = SketchStream._write

    def fail(self: SketchStream, number: int, sketch: MisraGries) -> None:
        raise OSError("no space, and secret words")

    monkeypatch.setattr(SketchStream, "_write", fail)
    with pytest.raises(InvalidSource) as caught:
        stream.process_available()
    assert "secret" not in str(caught.value)
    monkeypatch.setattr(SketchStream, "_write", write)
    stream.stop()
    assert not list((tmp_path / "state").glob("*.sketch"))

    def die(release: Any) -> None:
        raise DptallyError("the place to deliver to is gone.")

    stream = open_stream()
    stream.publish_every(die, batches=1, epsilon=1, delta="1e-6")
    with pytest.raises(DptallyError, match="the place to deliver to is gone"):
        stream.process_available()
    assert stream.batch == 0  # it was written, and Spark does not know
    stream.stop()
    stream = open_stream()
    stream.process_available()
    assert counts(stream) == times(1)


def test_scheduled_publications_stop_when_the_budget_is_spent(open_stream: Open, folder: Path, tmp_path: Path) -> None:
    """After every second batch, as long as the ledger allows; then they are refused, and reading goes on."""
    ledger = dptally.Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")
    releases: list[Any] = []
    stream = open_stream()
    stream.publish_every(releases.append, batches=2, epsilon=1, delta="1e-6", ledger=ledger)
    for number in range(5):
        add(folder, number)
    stream.start(processingTime="0 seconds")
    while stream.batch < 4 and not stream.wait(0.2):
        pass
    stream.stop()
    assert len(releases) == 1
    assert len(stream.refused) == 1
    with MisraStream(open_stream) as again:
        assert counts(again) == times(5)


class MisraStream:
    """A stream for one block."""

    def __init__(self, open_stream: Open) -> None:
        self._stream = open_stream()

    def __enter__(self) -> SketchStream:
        return self._stream.__enter__()

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(*error)


def test_nothing_is_published_before_the_first_batch(open_stream: Open, folder: Path, tmp_path: Path) -> None:
    """By the clock, and on request: nothing is drawn and nothing spent until a batch arrives. Then it is, rows or not:
    whether a batch has any must not show in whether there is a release.
    """
    ledger = dptally.Ledger(tmp_path / "budget.db", epsilon=100, delta="1e-3")
    releases: list[Any] = []
    stream = open_stream()
    stream.publish_every(releases.append, seconds=0.01, epsilon=1, delta="1e-6", ledger=ledger)
    assert not stream._stopping.wait(0.5)  # many ticks of the clock
    with pytest.raises(InvalidParameter, match="no batch has arrived yet, so there is nothing to publish"):
        stream.publish(1, "1e-6", ledger=ledger)
    assert releases == []
    assert ledger.history() == []
    add(folder, 1, [])
    stream.process_available()
    assert stream.batch == 0
    while len(releases) < 2:
        assert not stream._stopping.wait(0.01)
    stream.stop()
    assert len(releases[0]) == 0
    assert len(ledger.history()) >= 2
    with open_stream() as again:  # there is a batch already
        assert len(again.publish(1, "1e-6")) == 0


@pytest.mark.parametrize("kind", ["string", "bigint"])
def test_the_type_of_keys_is_that_of_the_stream(open_stream: Open, folder: Path, tmp_path: Path, kind: str) -> None:
    """A batch without rows and one with a row give releases of one schema, now and after a new start."""
    value, arrow = ("7", pa.string()) if kind == "string" else (7, pa.int64())
    found = []
    for rows in (0, 1):
        add(folder, rows, [value] * rows, arrow)
        stream = open_stream(kind)
        stream.process_available()
        stream.stop()
        for opened in (stream, open_stream(kind)):
            opened.publish(1, "1e-6").save(tmp_path / "r.parquet", overwrite=True)
            found.append(pq.read_schema(tmp_path / "r.parquet").remove_metadata())
            opened.stop()
    assert len(found) == 4 and set(found) == {found[0]}
    assert found[0].types[0] == (pa.large_string() if kind == "string" else pa.int64())
    other = "bigint" if kind == "string" else "string"
    with pytest.raises(InvalidParameter, match="holds a sketch of keys of kind"):
        open_stream(other)


def test_a_stream_of_many_batches_is_one_stream(open_stream: Open, folder: Path, tmp_path: Path) -> None:
    """Its file at one time and at another hold the same rows, and are not merged."""
    files = []
    for number in (1, 2):
        add(folder, number)
        with open_stream() as stream:
            stream.process_available()
            [path] = (tmp_path / "state").glob("*.sketch")
            files.append(MisraGries.load(path))
    assert files[0].streams == files[1].streams
    assert len(files[0].streams) == 1
    with pytest.raises(InvalidParameter, match="hold the same stream"):
        files[0].merge(files[1])


def test_a_publication_that_cannot_be_delivered_ends_reading(open_stream: Open, folder: Path) -> None:
    """It is not lost in a thread: who waits for the stream is told."""
    add(folder, 1)

    def fail(release: Any) -> None:
        raise OSError("secret")

    stream = open_stream().start()
    stream.publish_every(fail, seconds=0.05, epsilon=1, delta="1e-6")
    with pytest.raises(InvalidSource, match="a publication could not be delivered"):
        stream.wait(60)


def test_bad_input(spark: Any, folder: Path, tmp_path: Path, open_stream: Open) -> None:
    """One sentence for each thing that can be wrong."""
    plain = spark.readStream.schema("k string, d double").parquet(str(folder))
    state = tmp_path / "other"
    with pytest.raises(InvalidParameter, match="this needs a streaming DataFrame"):
        SketchStream(spark.range(3), state, key="id")
    with pytest.raises(InvalidSource, match="keys must be text, bytes or integers, not double"):
        SketchStream(plain, state, key="d")
    with pytest.raises(InvalidParameter, match="column 'x' is not in the source"):
        SketchStream(plain, state, key="x")
    limited = spark.readStream.schema("k string").option("maxBytesPerTrigger", "1m").parquet(str(folder))
    with pytest.raises(InvalidParameter, match="the option maxbytespertrigger cuts batches by what is in them"):
        SketchStream(limited, state, key="k")
    assert not state.exists()
    stream = open_stream()
    with pytest.raises(InvalidParameter, match="is in use by another stream"):
        open_stream()
    with pytest.raises(InvalidParameter, match="give either seconds or batches"):
        stream.publish_every(print, epsilon=1, delta="1e-6")
    with pytest.raises(InvalidParameter, match="seconds must be positive"):
        stream.publish_every(print, seconds=0, epsilon=1, delta="1e-6")
    with pytest.raises(InvalidParameter, match="epsilon must be a positive number"):
        stream.publish_every(print, seconds=1, epsilon=-1, delta="1e-6")
    stream._write(0, stream._sketch)
    stream.stop()
    with pytest.raises(InvalidSource, match="does not belong together"):
        open_stream()
    frame = spark.readStream.schema("k string").parquet(str(folder))
    with pytest.raises(InvalidParameter, match="holds a sketch of capacity 10, got 20"):
        SketchStream(frame, tmp_path / "state", key="k", capacity=20)
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(InvalidParameter, match="must be for its owner alone"):
        SketchStream(frame, tmp_path / "open", key="k")
