"""The comparison of counts, sums and means: entries, data, errors, the page."""

from __future__ import annotations

import ast
import gzip
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks" / "group_by"
PEERS = SCRIPTS.parent / "peers"
MODULES = ("catalogue", "cells", "data", "measuring", "page", "run", "set_up", "statements", "values")


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """The scripts as modules; they are no package, and are forgotten afterwards."""
    before = list(sys.path)
    sys.path[:0] = [str(SCRIPTS), str(PEERS)]
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path[:] = before
        for name in MODULES:
            sys.modules.pop(name, None)


def test_every_entry_has_a_file_and_every_file_is_run(scripts: dict[str, ModuleType]) -> None:
    """Cells are distinct, each calls a file with `by_units`, and no file is left out."""
    cells = scripts["statements"].choose_cells([])
    names = [cell.name for cell in cells]
    assert len(names) == len(set(names))
    assert {cell.entry.file for cell in cells} == set((SCRIPTS / "entries").glob("*.py"))
    for file in {cell.entry.file for cell in cells}:
        assert "by_units" in {
            node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)
        }
    assert not any(cell.by_rows for cell in cells)


def test_the_truth_is_of_clipped_values_and_of_all_keys(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    """Values beyond 0 and 100 are cut; errors are over keys that are released."""
    file = tmp_path / "rows.parquet"
    rows = {"unit": [1, 2, 1, 3], "key": ["a", "a", "b", "c"], "x": [-5.0, 250.0, 7.0, 1.0]}
    pl.DataFrame(rows).write_parquet(file)
    true = scripts["values"].true_statement(file)
    assert true.filter(key="a").row(0) == ("a", 2.0, 100.0, 50.0)
    released = pl.DataFrame({"key": ["a", "b"], "count": [3.0, 1.0], "sum": [90.0, 7.0], "mean": [30.0, 7.0]})
    assert scripts["run"].errors(released, true) == {"count": 0.5, "sum": 5.0, "mean": 10.0}


@pytest.mark.parametrize("entry", ["dptally_automatic", "dptally_stated", "dptally_values", "dptally_two_sums"])
def test_our_entries_answer_the_statement(scripts: dict[str, ModuleType], tmp_path: Path, entry: str) -> None:
    """The worker writes count, sum and mean of the frequent key, near the truth at a large epsilon."""
    file, output = scripts["values"].make_first(tmp_path), tmp_path / "out.json.gz"
    command = [PEERS / "worker.py", SCRIPTS / "entries" / f"{entry}.py", "by_units", file, "-", 1, 20, 0.01, 0, output]
    subprocess.run([sys.executable, *map(str, command)], check=True, timeout=120)
    measured, released = scripts["run"].read_release(output)
    assert set(measured) == {"peak"}
    [(key, count, total, last)] = released.rows()
    assert (key, count, total) == ("common", pytest.approx(1000, abs=30), pytest.approx(50_000, abs=3000))
    assert last == pytest.approx(3494 if entry == "dptally_two_sums" else 50, rel=0.4)


def test_errors_are_compared_on_common_keys(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    """A peer's run has its own errors, and those of both where both have the key."""
    run, [cell] = scripts["run"], scripts["statements"].choose_cells(["products/l10/e1/opendp_gaussian"])
    data = tmp_path / "group_by" / "data" / "products.parquet"
    data.parent.mkdir(parents=True)
    pl.DataFrame({"unit": [1, 2], "key": ["a", "b"], "x": [10.0, 20.0]}).write_parquet(data)
    for entry, keys in (("dptally_stated", {"a": [2, 14, 7]}), ("opendp_gaussian", {"a": [4, 2, 9], "b": [1, 20, 20]})):
        output = run.release_file(cell, 0, tmp_path).parents[1] / entry / "0.json.gz"
        output.parent.mkdir(parents=True)
        with gzip.open(output, "wt") as text:
            json.dump({"measured": {}, "keys": list(keys), "values": list(keys.values())}, text)
    results = run.Results(tmp_path / "results.json")
    results.found["cells"][cell.name] = [{"status": "done", "keys": 2}]
    run.compare(cell, tmp_path, results)
    [found] = json.loads((tmp_path / "results.json").read_text())["cells"][cell.name]
    assert found["errors"] == {"count": 1.5, "sum": 4.0, "mean": 0.5}
    ours, theirs = {"count": 1, "sum": 4, "mean": 3}, {"count": 3, "sum": 8, "mean": 1}
    assert found["common"] == {"dptally_stated": {"keys": 1, "ours": ours, "theirs": theirs}}


def _done(keys: int, **more: Any) -> dict[str, Any]:
    errors = {"count": 2.0, "sum": 30.0, "mean": 1.0}
    return {"status": "done", "keys": keys, "errors": errors, "common": {}, "load": 1.0, **more}


def test_the_page_says_where_the_bar_is_reached(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    """The largest ratio over all peers is shown, bold up to .8; cost and failures are there."""
    half = {"keys": 5, "ours": {"count": 1, "sum": 9, "mean": 2}, "theirs": {"count": 2, "sum": 10, "mean": 1}}
    same = {"keys": 3, "ours": {"count": 3, "sum": 4, "mean": 1}, "theirs": {"count": 6, "sum": 8, "mean": 2}}
    task = "products/l10/e1"
    cells = {
        f"{task}/dptally_stated": [_done(9)],
        f"{task}/opendp_gaussian": [_done(5, common={"dptally_stated": half})],
        f"{task}/pipelinedp_default": [_done(3, common={"dptally_stated": same})],
        f"{task}/tumult_default": [{"status": "too long", "limit": 600.0}],
        "zipf-1e7/l10/e1/plain_two_sums": [{"status": "done", "keys": 1, "cpu": 2.0, "wall": 1.0, "load": 1.0}],
        "zipf-1e7/l10/e1/plain_clipped_sums": [{"status": "done", "keys": 1, "cpu": 6.0, "wall": 2.0, "load": 1.0}],
        "zipf-1e7/l10/e1/dptally_two_sums": [{"status": "done", "keys": 1, "cpu": 3.0, "wall": 4.0, "load": 1.0}],
    }
    file, output = tmp_path / "results.json", tmp_path / "page.md"
    file.write_text(json.dumps({"machine": {"python": "3.11", "cores": 2}, "cells": cells}))
    scripts["page"].main(["--results", str(file), "--output", str(output)])
    text = output.read_text()
    assert "| dptally, stated | 9 | 5 | **0.50 (PipelineDP, default)** | 0.90 (OpenDP, Gaussian) | 2.00 (OpenDP" in text
    assert "0.50 / 0.90 / 2.00 on 5" in text
    assert "1.50 times the processor time and 4.00 times the time" in text
    assert "0.50 and 2.00 times those of the same with clipped values" in text
    assert "products/l10/e1/tumult_default: too long" in text
