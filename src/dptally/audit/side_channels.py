"""Ways around the mechanism: what a release shows besides its rows, and what errors and time show.

Each check says what was looked at and what was found. Where nothing can be guaranteed, as for time, numbers are given
without a verdict.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dptally
from dptally.audit.subjects import mechanisms
from dptally.errors import DptallyError
from dptally.laws.registry import USUAL
from dptally.laws.stability import Stability
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits, SystemBits
from dptally.releases.table_release import TableRelease

MARKER = "a-key-nobody-may-see"
_DRAWS = 20_000
_REPEATS = 15


@dataclass(frozen=True)
class SideChannel:
    """What one check found."""

    name: str  # of the channel
    looked_at: str  # what was done, in a sentence
    found: str  # what was seen, in a sentence
    leaks: bool | None  # True or False; None where the check gives numbers and no verdict

    def describe(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return asdict(self)


def audit_side_channels(*, seed: int = 8) -> list[SideChannel]:
    """Look at order, files, errors, what is left behind, and time."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        return [
            _order(place, seed),
            _files(place),
            _metadata(place, seed),
            _errors(place),
            _left_behind(place),
            _time(seed),
        ]


def _write(path: Path, keys: list[str]) -> Path:

    pq.write_table(pa.table({"key": keys}), path)
    return path


def _of_keys() -> list[str]:
    """Mechanisms that list keys of the data, each by itself."""
    return [mechanism.name for mechanism in mechanisms() if mechanism.audits.observed == "keys"]


def _publish(source: Path, mechanism: str, bits: Any) -> Any:
    return dptally.publish(
        source, key="key", epsilon=1, delta="1e-6", mechanism=mechanism, randomness=bits, progress=False
    )


def _order(place: Path, seed: int) -> SideChannel:
    """The same data in three orders of rows: keys leave in the order of keys, each time."""
    keys = ["pear"] * 300 + ["apple"] * 200 + ["plum"] * 100
    orders = (keys, keys[::-1], sorted(keys))
    wrong = 0
    for mechanism in _of_keys():
        for number, rows in enumerate(orders):
            for bits in (SystemBits(), SeededBits(seed + number)):
                release = _publish(_write(place / "order.parquet", rows), mechanism, bits)
                found = release.to_arrow().column("key").to_pylist()
                wrong += found != sorted(found)
    return SideChannel(
        "order of rows",
        f"{6 * len(_of_keys())} releases of the same keys, written in three orders, with secret and with seeded bits",
        "rows are sorted by key in all of them" if not wrong else f"{wrong} releases have rows in another order",
        bool(wrong),
    )


def _files(place: Path) -> SideChannel:
    """Neighbouring data sets whose released rows are the same: the files must be the same, byte for byte."""
    keys = ["pear"] * 300 + ["apple"] * 200 + [f"rare {number}" for number in range(50)]
    different = []
    for mechanism in _of_keys():
        contents: list[bytes] = []
        table: Any = None
        for name, rows in (("one", keys), ("other", [*keys, MARKER])):
            drawn = _publish(_write(place / f"{name}.parquet", rows), mechanism, SystemBits())
            # The rows are what chance made of them: with those of the first in both, all that differs is the rest.
            table = drawn.to_arrow().select(["key", "value"]) if table is None else table
            same = TableRelease(table, drawn.guarantee, drawn.certificate, drawn.law)
            same.save(place / f"{name}.release", overwrite=True)
            contents.append((place / f"{name}.release").read_bytes())
        if contents[0] != contents[1]:
            different.append(mechanism)
    return SideChannel(
        "release files",
        "files of the same released rows from two neighbouring data sets, for each mechanism",
        "they are the same, byte for byte" if not different else f"they differ for {', '.join(different)}",
        bool(different),
    )


def _metadata(place: Path, seed: int) -> SideChannel:
    """Everything in the file besides rows: statistics, row groups, names, paths, dates."""
    source = _write(place / f"{MARKER}-file.parquet", ["pear"] * 300 + ["apple"] * 200 + [MARKER])
    release = _publish(source, USUAL, SeededBits(seed))
    saved = place / "metadata.release"
    release.save(saved, overwrite=True)
    content, facts = saved.read_bytes(), pq.ParquetFile(saved)
    troubles = []
    if MARKER.encode() in content or str(place).encode() in content:
        troubles.append("a key that was not released, or a path, is in the file")
    released = set(release.to_arrow().column("key").to_pylist())
    for group in range(facts.metadata.num_row_groups):
        statistics = facts.metadata.row_group(group).column(0).statistics
        if statistics is not None and statistics.has_min_max and {statistics.min, statistics.max} - released:
            troubles.append("statistics name a key that was not released")
    if set(facts.schema_arrow.metadata or {}) - {b"dptally"}:
        troubles.append("there is metadata besides that of dptally")
    return SideChannel(
        "metadata of files",
        f"statistics, row groups, schema and footer ({facts.metadata.created_by}) of a release file",
        "; ".join(troubles) or "released rows and stated parameters only; the writer's name and version are in it",
        bool(troubles),
    )


def _errors(place: Path) -> SideChannel:
    """Every way to fail that can be brought about by data: the marker must be in no message, repr or traceback."""
    files = {
        "few.csv": f"key,n\na,1\n{MARKER}\n",
        "quote.csv": f'key,n\na,1\n"{MARKER},1\n',
        "bad.jsonl": f'{{"key":"a"}}\n{{"key":{MARKER}}}\n',
        "counts.csv": f"key,n\na,{MARKER}\n",
    }
    for name, text in files.items():
        (place / name).write_text(text)

    def attempt(source: Any, **options: Any) -> Callable[[], object]:
        return lambda: dptally.publish(source, epsilon=1, progress=False, **options)

    runs = {
        **{name: attempt(place / name, key="key", delta="1e-6") for name in files},
        "a count that is text": attempt(place / "counts.csv", key="key", count="n", delta="1e-6"),
        "a negative count": attempt({MARKER: -1}, delta="1e-6"),
        "mixed keys": attempt([1, MARKER], delta="1e-6"),
        "a failing iterator": attempt(_failing(), delta="1e-6"),
        **{
            f"more keys than fit, {mechanism.name}": attempt(
                {f"{MARKER}{number}": 1 for number in range(5)},
                mechanism=mechanism.name,
                universe="words:30",
                capacity=2,
            )
            for mechanism in mechanisms()
            if {"universe", "capacity"} <= {option.name for option in mechanism.options()} and mechanism.pure
        },
        "a column that is not there": attempt(place / "few.csv", key="other", delta="1e-6"),
    }
    shown, refused = [], 0
    for name, run in runs.items():
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                run()
            except DptallyError as error:
                refused += 1
                output.write("".join(traceback.format_exception(error)) + repr(error) + str(error.__context__))
        if MARKER in output.getvalue():
            shown.append(name)
    return SideChannel(
        "error texts",
        f"{len(runs)} requests with a marked key, of which {refused} fail, on data that cannot be read or released",
        "the mark is in no message, traceback or output" if not shown else f"the mark shows in: {', '.join(shown)}",
        bool(shown),
    )


def _failing() -> Iterator[str]:
    yield MARKER
    raise ValueError(MARKER)


def _left_behind(place: Path) -> SideChannel:
    """What is in the temporary directory after a release."""
    directory = place / "temporary"
    directory.mkdir()
    before = tempfile.tempdir
    tempfile.tempdir = str(directory)
    try:
        _publish(_write(place / "left.parquet", ["pear"] * 300 + [MARKER]), USUAL, SystemBits())
    finally:
        tempfile.tempdir = before
    left = [path.name for path in directory.rglob("*") if path.is_file()]
    return SideChannel(
        "files left behind",
        "the temporary directory after a release",
        "it is empty" if not left else f"{len(left)} files are left",
        bool(left),
    )


def _time(seed: int) -> SideChannel:
    """How long a draw takes, for keys of different frequencies."""
    bits = SeededBits(seed)
    parts = []
    for law in (WeightedSample(1, "1e-6"), Stability(1, "1e-6")):
        law.certify()
        classes = (1, law.first_frequency(Fraction(1, 2)) or 2, 10**6)
        times: dict[int, list[float]] = {frequency: [] for frequency in classes}
        for _ in range(_REPEATS):
            for frequency in classes:  # in turn, so that a busy machine is busy for all of them
                counts = np.full(_DRAWS, frequency, dtype=np.int64)
                start = time.perf_counter()
                law.draw(counts, bits)
                times[frequency].append((time.perf_counter() - start) / _DRAWS)
        medians = [float(np.median(times[frequency])) * 1e9 for frequency in classes]
        listed = ", ".join(f"{median:.0f} ns" for median in medians)
        parts.append(f"{law.facts()['name']} {listed} per key of frequency {', '.join(map(str, classes))}")
    return SideChannel(
        "time of draws",
        f"the median time of {_REPEATS} batches of {_DRAWS:,} draws",
        "; ".join(parts) + "; counting, sorting and writing take time that depends on the data in any case",
        None,
    )
