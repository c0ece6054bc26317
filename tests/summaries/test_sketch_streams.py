"""A stream counts once: no sketch is put together with itself, with a copy, or with one that holds it."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.cli import main
from dptally.errors import InvalidParameter
from dptally.randomness import SeededBits
from dptally.sketches import merge_sketches

TWICE = "two of the sketches hold the same stream"


def elements(rows: int = 3, **options: Any) -> dptally.MisraGriesSketch:
    """A sketch of a stream of its own."""
    sketch = dptally.MisraGriesSketch(4, **options)
    sketch.update(pa.array([7] * rows, pa.int64()))
    return sketch


def users(rows: int = 3) -> dptally.UserMisraGriesSketch:
    """A sketch of users of its own."""
    sketch = dptally.UserMisraGriesSketch(4, 2)
    sketch.update([["a", "b"]] * rows)
    return sketch


def through_a_file(sketch: Any, directory: Path) -> Any:
    """A copy."""
    path = directory / f"{len(list(directory.iterdir()))}.sketch"
    sketch.save(path)
    return dptally.load_sketch(path)


COPIES: dict[str, Callable[[Any, Path], Any]] = {
    "itself": lambda sketch, _: sketch,
    "its file": through_a_file,
    "its bytes": lambda sketch, _: type(sketch).from_bytes(sketch.to_bytes()),
    "pickle": lambda sketch, _: pickle.loads(pickle.dumps(sketch)),  # noqa: S301
    "copy": lambda sketch, _: copy.deepcopy(sketch),
}


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_refused(way: str, rows: int, tmp_path: Path) -> None:
    """For sketches of elements, of users and added-up ones, whether or not there are rows in them."""
    for sketch in (elements(rows), users(rows)):
        again: Any = COPIES[way](sketch, tmp_path)
        with pytest.raises(InvalidParameter, match=TWICE):
            sketch.merge(again)
        with pytest.raises(InvalidParameter, match=TWICE):
            merge_sketches([type(sketch)(4), sketch, again])
        assert not sketch.merged
    sketch = elements(rows)
    again = COPIES[way](sketch, tmp_path)
    with pytest.raises(InvalidParameter, match=TWICE):
        dptally.sum_sketches([sketch, again])
    with pytest.raises(InvalidParameter, match=TWICE):
        dptally.sum_sketches([sketch]).merge(dptally.sum_sketches([again]))


def test_one_that_goes_on_is_still_a_copy(tmp_path: Path) -> None:
    """Two continuations of one file have its rows in common."""
    first = elements()
    second = through_a_file(first, tmp_path)
    for sketch in (first, second):
        sketch.update(pa.array([8, 9], pa.int64()))
    with pytest.raises(InvalidParameter, match=TWICE):
        first.merge(second)


def test_a_part_of_another_is_refused(tmp_path: Path) -> None:
    """What was merged or added up holds the streams of its parts, also in a file and after merging again."""
    one, two, three = elements(), elements(), elements()
    merged = through_a_file(one.merge(two), tmp_path)
    assert merged.total == 6
    for part in (one, two, one.merge(), merged.merge(), one.merge(two)):
        with pytest.raises(InvalidParameter, match=TWICE):
            merged.merge(part)
        with pytest.raises(InvalidParameter, match=TWICE):
            part.merge(three, merged)
    assert merged.merge(three).total == 9
    summed = through_a_file(dptally.sum_sketches([one, two]), tmp_path)
    for part in (one, dptally.sum_sketches([two]), dptally.sum_sketches([three, two])):
        with pytest.raises(InvalidParameter, match=TWICE):
            dptally.sum_sketches([part, summed])
    assert dptally.sum_sketches([summed, three]).total == 9


def test_streams_of_their_own_are_put_together(tmp_path: Path) -> None:
    """Equal contents, equal seeds and equal parameters make no copy; neither does a sketch without a batch."""
    seeded = [elements(bits=SeededBits(1)) for _ in range(3)]
    assert seeded[0].merge(*seeded[1:]).total == 9
    assert dptally.sum_sketches(seeded).total == 9
    nothing = [elements(0) for _ in range(3)]
    assert nothing[0].merge(*nothing[1:]).total == 0
    template = dptally.MisraGriesSketch(4)
    parts = [through_a_file(template, tmp_path), copy.copy(template), template]
    for number, part in enumerate(parts):
        part.update([f"{number}"])
    assert parts[0].merge(*parts[1:]).total == 3


def test_an_untouched_sketch_is_refused_beside_itself() -> None:
    """There is nothing in it, but the request is a mistake all the same."""
    for sketch in (dptally.MisraGriesSketch(4), dptally.UserMisraGriesSketch(4)):
        with pytest.raises(InvalidParameter, match=TWICE):
            sketch.merge(sketch)  # type: ignore[arg-type]
    sketch = dptally.MisraGriesSketch(4)
    with pytest.raises(InvalidParameter, match=TWICE):
        dptally.sum_sketches([sketch, sketch])


def test_threads_that_begin_one_sketch_make_one_stream() -> None:
    """However many come first."""
    for _ in range(50):
        sketch = dptally.MisraGriesSketch(4)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(sketch.update, [["a"]] * 4))
        assert (len(sketch.streams), sketch.total) == (1, 4)


def test_a_refusal_changes_nothing() -> None:
    """Neither sketch, nor their streams."""
    one, two = elements(), elements()
    before = one.to_bytes(), two.to_bytes()
    with pytest.raises(InvalidParameter, match=TWICE):
        one.merge(two, one)
    assert (one.to_bytes(), two.to_bytes()) == before
    assert one.merge(two).total == 6


def test_no_release_tells_a_stream(tmp_path: Path) -> None:
    """The numbers of streams are in sketches and their files alone: not in a release, its file, or a representation."""
    one, two = elements(900), elements(900)
    forms: list[Any] = [one, one.merge(two), dptally.sum_sketches([one, two])]
    for number, made in enumerate(forms):
        path = tmp_path / f"{number}.sketch"
        made.save(path)
        release = made.publish(1, "1e-6")
        release.save(tmp_path / "r.parquet", overwrite=True)
        shown = (tmp_path / "r.parquet").read_bytes() + repr(made).encode() + repr(release.guarantee).encode()
        assert made.streams
        for stream in made.streams:
            assert stream in path.read_bytes()
            words = np.frombuffer(stream, np.uint64)
            for text in (stream, stream.hex().encode(), *(str(word).encode() for word in words)):
                assert text not in shown


# The same from the shell.


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, Path]:
    """Two sketches of one file of rows, which are two streams."""
    pq.write_table(pa.table({"k": ["a", "b", "a"]}), tmp_path / "rows.parquet")
    places = tmp_path / "a.sketch", tmp_path / "b.sketch"
    for place in places:
        assert main(["sketch", "build", str(tmp_path / "rows.parquet"), "--key", "k", "-o", str(place), "-q"]) == 0
    return places


def same_name(path: Path) -> Path:
    """The file under its own name."""
    return path


def other_spelling(path: Path) -> Path:
    """The file under a longer name."""
    return path.parent / ".." / path.parent.name / path.name


def symbolic_link(path: Path) -> Path:
    """A link to the file."""
    link = path.with_suffix(".link")
    link.symlink_to(path)
    return link


def hard_link(path: Path) -> Path:
    """The file under another name."""
    link = path.with_suffix(".hard")
    link.hardlink_to(path)
    return link


def copied(path: Path) -> Path:
    """A file of its own with the same bytes."""
    return Path(shutil.copy(path, path.with_suffix(".copy")))


def merged_already(path: Path) -> Path:
    """A sketch that it was merged into."""
    place = path.with_suffix(".merged")
    dptally.load_sketch(path).merge().save(place)
    return place


@pytest.mark.parametrize("options", [(), ("--sum",)], ids=["merge", "sum"])
@pytest.mark.parametrize(
    "again", [same_name, other_spelling, symbolic_link, hard_link, copied, merged_already], ids=lambda way: way.__name__
)
def test_sketch_merge_takes_a_stream_once(
    again: Callable[[Path], Path],
    options: tuple[str, ...],
    built: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever name or copy it comes under; nothing is written."""
    one, two = built
    place = tmp_path / "out.sketch"
    assert main(["sketch", "merge", *map(str, (one, two, again(one))), *options, "-o", str(place), "-q"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    if not (options and again is merged_already):  # a merged sketch is refused before
        assert TWICE in said
    assert not place.exists()
    assert main(["sketch", "merge", str(one), str(two), *options, "-o", str(place), "-q"]) == 0
    assert dptally.load_sketch(place).total == 6
