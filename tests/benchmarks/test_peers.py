"""The comparison with other libraries: what is run, how lines are counted, and the page from recorded results."""

from __future__ import annotations

import ast
import gzip
import importlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import dptally

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
MODULES = (
    "accuracy",
    "catalogue",
    "cells",
    "charts",
    "data",
    "expected_errors",
    "measuring",
    "page",
    "run",
    "set_up",
    "summary",
    "user_lines",
)


@pytest.fixture(scope="module")
def peers() -> Iterator[dict[str, ModuleType]]:
    """The scripts as modules; they are no package, and are forgotten afterwards."""
    sys.path.insert(0, str(PEERS))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(PEERS))
        for name in MODULES:
            sys.modules.pop(name, None)


def test_lines_are_those_a_user_writes(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """Imports, blank lines, comments, docstrings and functions that are not needed do not count."""
    file = tmp_path / "entry.py"
    file.write_text(
        '"""Text\nof two lines."""\n\nimport os\nfrom a import (\n    b,\n)\n\nready = b()  # one\n\n\n'
        'def by_rows(file):\n    """Not counted."""\n    # nor this\n    return helper(\n        file\n    )\n\n\n'
        'def by_units(file):\n    text = """a\nb"""\n    return text\n\n\n'
        "def helper(file):\n    return os.stat(file)\n"
    )
    count = peers["user_lines"].count_user_lines
    assert count(file, "by_rows") == 1 + 4 + 2
    assert count(file, "by_units") == 1 + 4
    assert count(file, "nothing") == 0


def test_every_entry_is_there_and_readable(peers: dict[str, ModuleType]) -> None:
    """Each entry of the catalogue has a file with the functions its cells call, and each file is in the catalogue."""
    catalogue, cells = peers["catalogue"], peers["cells"]
    assert {entry.file for entry in catalogue.ENTRIES} == set(catalogue.ENTRY_FILES.glob("*.py"))
    environments = {file.stem for file in (PEERS / "environments").glob("*.txt")} | {catalogue.OWN}
    for entry in catalogue.ENTRIES:
        assert entry.environment in environments
        functions = {node.name for node in ast.parse(entry.file.read_text()).body if isinstance(node, ast.FunctionDef)}
        called = {"by_rows" if cell.by_rows else "by_units" for cell in cells.all_cells() if cell.entry == entry}
        assert called <= functions, entry.name


def test_cells_cover_what_is_asked(peers: dict[str, ModuleType]) -> None:
    """All numbers of keys, both epsilons and all data sets, each cell once; Gaussian entries from three keys on."""
    cells = peers["cells"].all_cells()
    names = [cell.name for cell in cells]
    assert len(names) == len(set(names))
    for data_set in ("zipf-1e6", "zipf-1e7", "retail", "mathoverflow", "headlines"):
        for keys in (1, 3, 10):
            for epsilon in ("0.1", "1"):
                found = {
                    name.rpartition("/")[2] for name in names if name.startswith(f"{data_set}/l{keys}/e{epsilon}/")
                }
                assert {"plain_polars", "dptally_default", "tumult_default"} <= found
                assert ("dptally_gaussian" in found) == (keys >= 3)
                assert "opendp_low_level" not in found
    assert all(cell.delta == "1e-6" for cell in cells if cell.data_set != "promises")
    assert [cell.name for cell in cells if cell.entry.promises_only] == ["promises/l1/e1/opendp_low_level"]


def test_cells_are_chosen_by_pattern(peers: dict[str, ModuleType]) -> None:
    """Patterns choose parts, none chooses everything, and an unknown one chooses nothing."""
    choose = peers["cells"].choose_cells
    assert {cell.task for cell in choose(["zipf-1e7/l1/*"])} == {"zipf-1e7/l1/e0.1", "zipf-1e7/l1/e1"}
    assert {cell.entry.environment for cell in choose(["*/dptally*", "*/plain*"])} == {"own"}
    assert choose([]) == peers["cells"].all_cells()
    assert choose(["elsewhere/*"]) == []


def test_zipf_units_have_as_many_distinct_keys_as_allowed(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """Bounding takes nothing from synthetic data, and the truth is the plain count."""
    file = peers["data"].make_data("zipf-3e3-l3", tmp_path)
    rows = pl.read_parquet(file)
    assert rows.group_by("unit").agg(pl.col("key").n_unique()).get_column("key").unique().to_list() == [3]
    true = peers["data"].true_counts(file, 3, False)
    plain = rows.group_by("key").agg(pl.len().cast(pl.Float64).alias("true"))
    assert true.sort("key").equals(plain.sort("key"))


def test_the_truth_of_bounded_units_is_an_expectation(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """A unit with four keys and a bound of one adds a quarter to each, however often it has the key."""
    file = tmp_path / "rows.parquet"
    pl.DataFrame({"unit": [1, 1, 1, 1, 1, 2], "key": ["a", "a", "b", "c", "d", "a"]}).write_parquet(file)
    true = dict(peers["data"].true_counts(file, 1, False).iter_rows())
    assert true == {"a": 1.25, "b": 0.25, "c": 0.25, "d": 0.25}


def test_the_ceiling_is_that_of_the_optimal_law(peers: dict[str, ModuleType]) -> None:
    """A key that one unit has counts delta, one that is always reported counts 1."""
    true = pl.DataFrame({"key": ["rare", "common"], "true": [1.0, 28.0]})
    assert peers["accuracy"].expected_keys(true, "1", "1e-6") == pytest.approx(1 + 1e-6, abs=1e-12)


def test_expected_errors_of_frequent_keys_are_those_of_the_noise(peers: dict[str, ModuleType]) -> None:
    """Far above every threshold, Laplace noise of scale b is off by b, its integer kind by 1 / sinh(1 / b)."""
    true = pl.DataFrame({"key": ["a", "b"], "true": [500.0, 900.0]})
    ours, integer, released = peers["expected_errors"].expected_errors(true, "1", "1e-6", integers=True)
    _, continuous, _ = peers["expected_errors"].expected_errors(true, "1", "1e-6", integers=False)
    assert (integer, continuous, released) == pytest.approx((1 / math.sinh(1), 1.0, 2.0), rel=1e-4)
    assert ours == pytest.approx(dptally.plan(epsilon=1, delta="1e-6").asked.mean_absolute_error)


def test_a_worker_measures_the_second_call(tmp_path: Path) -> None:
    """The worker runs an entry on a first file, then on the data, and writes what was released of the data."""
    for name, key in (("first", "a"), ("data", "b")):
        pl.DataFrame({"unit": [1, 2], "key": [key, key]}).write_parquet(tmp_path / f"{name}.parquet")
    output = tmp_path / "out.json.gz"
    request = [tmp_path / "data.parquet", tmp_path / "first.parquet", "1", "1", "1e-6", "0", output]
    command = [
        sys.executable,
        str(PEERS / "worker.py"),
        str(PEERS / "entries" / "plain_polars.py"),
        "by_rows",
        *map(str, request),
    ]
    subprocess.run(command, check=True, timeout=60)
    with gzip.open(output, "rt") as text:
        written = json.load(text)
    assert (written["keys"], written["values"]) == (["b"], [2.0])
    assert set(written["measured"]) == {"start_wall", "start_cpu", "wall", "cpu"}


def test_a_worker_measures_the_memory_of_one_call(tmp_path: Path) -> None:
    """Without a first file, memory is measured: a table of 32 MB more takes at least as much more."""
    peaks = []
    for rows in (1, 1 << 22):
        file, output = tmp_path / "data.parquet", tmp_path / "out.json.gz"
        pl.DataFrame({"unit": range(rows), "key": range(rows)}).write_parquet(file)
        request = [file, "-", "1", "1", "1e-6", "0", output]
        command = [
            sys.executable,
            str(PEERS / "worker.py"),
            str(PEERS / "entries" / "plain_polars_eager.py"),
            "by_rows",
            *map(str, request),
        ]
        subprocess.run(command, check=True, timeout=60)
        with gzip.open(output, "rt") as text:
            written = json.load(text)
        assert set(written["measured"]) == {"peak"}
        peaks.append(written["measured"]["peak"])
    assert peaks[1] > peaks[0] + 32


def _run(keys: int, **more: Any) -> dict[str, Any]:
    measured = {"wall": 1.0, "cpu": 2.0, "start_wall": 1.0, "start_cpu": 1.0, "peak": 100.0}
    return {"status": "done", "keys": keys, "error": 9.5, "date": "2026-11-16", "load": 0.5, **measured, **more}


def _recorded() -> dict[str, Any]:
    common = {"dptally_default": {"keys": 600, "ours": 9.0, "theirs": 10.0}}
    late = {"status": "too long", "limit": 300, "date": "2026-11-16", "load": 0.5}
    return {
        "machine": {"python": "3.11", "cores": 2, "memory_gb": 24, "polars": "2.1"},
        "tasks": {
            "zipf-1e7/l1/e0.1": {"rows": 10**7, "units": 10**7, "distinct_keys": 99_000, "optimum": 7700.0},
            "promises/l1/e1": {"rows": 10**5, "units": 10**5, "distinct_keys": 10**5, "optimum": 1000.0},
            "zipf-1e6/l1/e0.1": {"rows": 10**6, "units": 10**6, "distinct_keys": 80_000, "optimum": 775.0},
        },
        "cells": {
            "promises/l1/e1/dptally_default": [_run(1000, units_betrayed=1000)],
            "promises/l1/e1/opendp_low_level": [_run(1319, units_betrayed=1319)],
            "promises/l1/e1/pydp_threshold": [_run(1400, units_betrayed=1400)],
            "zipf-1e6/l1/e0.1/plain_polars": [_run(80_000)],
            "zipf-1e6/l1/e0.1/dptally_default": [_run(770), _run(780)],
            "zipf-1e6/l1/e0.1/opendp_laplace": [_run(620, common=common)],
            "zipf-1e6/l1/e0.1/pipelinedp_default": [_run(420, common=common)],
            "zipf-1e6/l1/e0.1/pydp_threshold": [_run(700, common=common)],
            "zipf-1e6/l1/e0.1/tumult_default": [late],
            "zipf-1e7/l1/e0.1/plain_polars": [_run(99_000, cpu=1.0)],
            "zipf-1e7/l1/e0.1/dptally_default": [_run(7700, cpu=1.2, peak=150.0)],
        },
        "lines": {"dptally_default": {"by_rows": 2, "by_units": 5}},
    }


def test_the_page_says_what_was_measured(peers: dict[str, ModuleType]) -> None:
    """Means, ratios, who exceeded delta and is no rival, and who took too long are on the page."""
    page = peers["page"].page(_recorded(), ["keys-zipf-1e6.svg"])
    assert "**775 keys** (dptally), 1.25 times the best peer (OpenDP, 620); ceiling 775" in page
    assert "1.85 times PipelineDP's default (420)" in page
    assert "error on common keys 0.90 of that of the most accurate peer" in page
    assert "1.20 times the processor time and 1.50 times the memory" in page
    assert "| OpenDP, low level | 1 | 1,319 | 0.0132 | **exceeded** |" in page
    assert "| dptally | 1 | 1,000 | 0.0100 | kept |" in page
    assert "| Tumult | over 300 s |" in page
    assert "**Not measured yet**" in page
    assert "](figures/peers/keys-zipf-1e6.svg)" in page
    assert page.index("a million rows\n") < page.index("ten million rows\n")


def test_pictures_are_drawn(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """There is a picture of keys, errors, time and memory for each size that was run."""
    names = peers["charts"].draw_charts(peers["summary"].summarise(_recorded()), tmp_path)
    assert {"keys-zipf-1e6.svg", "errors-zipf-1e6.svg", "cpu-zipf-1e7.svg", "memory-zipf-1e7.svg"} <= set(names)
    assert all((tmp_path / name).read_text().startswith("<svg") for name in names)


def test_results_are_merged(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """Cells of another file are taken over where it has at least as many runs."""
    here, other = tmp_path / "here.json", tmp_path / "other.json"
    recorded = _recorded()
    here.write_text(json.dumps(recorded))
    other.write_text(json.dumps({"machine": {}, "tasks": {}, "cells": {
        "zipf-1e6/l1/e0.1/dptally_default": [_run(1)],
        "zipf-1e6/l1/e0.1/opendp_laplace": [_run(2)],
        "zipf-1e6/l1/e1/opendp_laplace": [_run(3)],
    }}))  # fmt: skip
    results = peers["run"].Results(here)
    results.add(other)
    results.write()
    cells = json.loads(here.read_text())["cells"]
    assert [run["keys"] for run in cells["zipf-1e6/l1/e0.1/dptally_default"]] == [770, 780]
    assert [run["keys"] for run in cells["zipf-1e6/l1/e0.1/opendp_laplace"]] == [2]
    assert [run["keys"] for run in cells["zipf-1e6/l1/e1/opendp_laplace"]] == [3]
    cell = peers["cells"].choose_cells(["zipf-1e6/l1/e1/tumult*"])[0]
    assert results.too_long(cell) == 300  # the other epsilon took too long


def test_kept_releases_are_compared_once_more(peers: dict[str, ModuleType], tmp_path: Path) -> None:
    """With --judge, errors and comparisons follow the releases on disk, and nothing is run."""
    data = tmp_path / "cache" / "data" / "zipf-1e6-l1.parquet"
    data.parent.mkdir(parents=True)
    pl.DataFrame({"unit": range(4), "key": ["a", "a", "a", "b"]}).write_parquet(data)
    for entry, value in (("dptally_default", 3.0), ("opendp_laplace", 5.0)):
        output = tmp_path / "cache" / "releases" / "zipf-1e6" / "l1" / "e1" / entry / "0.json.gz"
        output.parent.mkdir(parents=True)
        with gzip.open(output, "wt") as text:
            json.dump({"measured": {}, "keys": ["a"], "values": [value]}, text)
    cells = {f"zipf-1e6/l1/e1/{entry}": [_run(1)] for entry in ("dptally_default", "opendp_laplace")}
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"machine": {}, "tasks": {}, "cells": cells}))
    asked = ["--judge", "--only", "zipf-1e6/l1/e1/*", "--cache", str(tmp_path / "cache"), "--results", str(file)]
    subprocess.run([sys.executable, str(PEERS / "run.py"), *asked], check=True, timeout=60)
    [run] = json.loads(file.read_text())["cells"]["zipf-1e6/l1/e1/opendp_laplace"]
    assert (run["error"], run["common"]["dptally_default"]) == (2, {"keys": 1, "ours": 0, "theirs": 2})
