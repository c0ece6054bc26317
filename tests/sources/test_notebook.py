"""In a Jupyter kernel without ipywidgets, which DuckDB wants for its progress bar, everything is as elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Cell = Callable[[str], str]

START = """
import sys

sys.modules["ipywidgets"] = None  # not installed, also where it is

import polars as pl

import dptally

def released(source, **options):
    release = dptally.publish(source, epsilon=1, delta="1e-6", **options)
    print(release.table().get_column(release.key[0]).to_list(), release.guarantee.private)

KEYS = ["a"] * 1000 + ["b"] * 1000
pl.DataFrame({"k": KEYS, "u": range(2000)}).write_parquet("rows.parquet")
"""


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """Runs code in a kernel and returns what it printed; fails where it raised."""
    from jupyter_client.manager import start_new_kernel

    place = tmp_path_factory.mktemp("notebook")
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(place), extra_arguments=["--quiet"])

    def run(code: str) -> str:
        printed: list[str] = []

        def take(message: dict[str, dict[str, str]]) -> None:
            printed.append(message["content"].get("text", ""))

        reply = client.execute_interactive(code, timeout=120, output_hook=take)["content"]
        assert reply["status"] == "ok", "\n".join(reply.get("traceback", []))
        return "".join(printed)

    try:
        run(START)
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "source",
    [
        "KEYS",
        '"rows.parquet", key="k"',
        'pl.read_parquet("rows.parquet"), key="k"',
        '"rows.parquet", key="k", unit="u"',
    ],
    ids=["list", "file", "table", "with a unit"],
)
def test_publishing_in_a_notebook(cell: Cell, source: str) -> None:
    """Lists, files and tables are published, with and without a unit, and nothing but the result is printed."""
    assert cell(f"released({source})") == "['a', 'b'] True\n"


def test_sampling_and_sketches_in_a_notebook(cell: Cell, tmp_path: Path) -> None:
    """So are samples of rows and sketches, and a saved release is read again."""
    assert "True" in cell('released("rows.parquet", key="k", sampling=dptally.Ppswor("0.01"))')
    assert "True" in cell('released("rows.parquet", key="k", mechanism="misra_gries", capacity=10)')
    target = tmp_path / "r.parquet"
    saved = f'dptally.publish("rows.parquet", key="k", epsilon=1, delta="1e-6").save({str(target)!r})'
    assert cell(f"{saved}\nprint(len(dptally.load({str(target)!r})))") == "2\n"
