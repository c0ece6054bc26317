"""Public names, the trust boundary, and what importing costs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import dptally

PACKAGE = Path(dptally.__file__).parent
PUBLIC_NAMES = [
    "BudgetExceeded",
    "Certificate",
    "CombinedReleases",
    "CompactRelease",
    "DptallyError",
    "Guarantee",
    "InvalidParameter",
    "InvalidSource",
    "Ledger",
    "MisraGriesSketch",
    "MissingDependency",
    "Plan",
    "Ppswor",
    "Priority",
    "PrivacyViolation",
    "RangeRelease",
    "Release",
    "SamplingScheme",
    "UnreadableLedger",
    "UnreadableRelease",
    "UserMisraGriesSketch",
    "__version__",
    "combine",
    "find_quantile",
    "load",
    "load_ranges",
    "load_sketch",
    "plan",
    "publish",
    "publish_quantiles",
    "sanitize",
    "sum_sketches",
]
PUBLIC_SIDE = [
    "combined_releases.py",
    "heavy_hitters",
    "release.py",
    "release_file.py",
    "release_metadata.py",
    "compact_release.py",
    "compact_release_file.py",
    "universes.py",
    "range_release.py",
    "range_release_file.py",
    "quantile_search.py",
    "grids.py",
    "tree_laws.py",
    "plots.py",
    "any_release.py",
    "key_expressions.py",
    "report",
    "explore",
    "integer_columns.py",
    "labels.py",
    "whole_files.py",
    "ledger",
    "privacy",
    "estimates",
    "observation_models",
]
PRIVATE_STAGES = {
    "sources",
    "contributions",
    "summaries",
    "mechanisms",
    "pipeline",
    "trie_pipeline",
    "pure_requests",
    "mechanism_requests",
}
STANDING_ALONE = {
    "privacy/certifier.py": {"dptally.errors"},
    "privacy/pure_judge.py": {"dptally.errors", "dptally.privacy.certifier"},
    "privacy/compact_judge.py": {"dptally.errors"},
    "privacy/gaussian_judge.py": {"dptally.errors", "dptally.privacy.certifier"},
    "privacy/sketch_judge.py": {"dptally.errors", "dptally.privacy.certifier"},
}


def imported(file: Path) -> set[str]:
    """Every dptally module a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.split(".")[0] == "dptally"}


def test_public_names_are_the_listed_ones() -> None:
    """The list, the module's __all__ and what can be loaded are the same."""
    assert dptally.__all__ == PUBLIC_NAMES
    assert all(getattr(dptally, name) is not None for name in PUBLIC_NAMES)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dptally.nonsense  # noqa: B018


def test_public_side_never_reaches_private_data() -> None:
    """Release, estimates, plots and laws import no stage that touches private data."""
    for name in PUBLIC_SIDE:
        place = PACKAGE / name
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            stages = {module.split(".")[1] for module in imported(file) if "." in module}
            assert not stages & PRIVATE_STAGES, f"{file.name} imports {stages & PRIVATE_STAGES}"


def test_the_judge_stands_alone() -> None:
    """The certifier imports nothing of the package but its errors: no code is shared with builders of tables."""
    for name, allowed in STANDING_ALONE.items():
        assert imported(PACKAGE / name) <= allowed


@pytest.mark.parametrize("command", [["-c", "import dptally"], ["-m", "dptally", "--help"]], ids=["import", "help"])
def test_starting_is_cheap(command: list[str]) -> None:
    """Importing and asking for help load no heavy module and take less than 0.3 s of CPU (best of five)."""
    program = (
        "import json, resource, subprocess, sys;"
        "subprocess.run([sys.executable, *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL);"
        "u = resource.getrusage(resource.RUSAGE_CHILDREN); print(json.dumps(u.ru_utime + u.ru_stime))"
    )
    seconds = [
        json.loads(subprocess.run([sys.executable, "-c", program, *command], check=True, capture_output=True).stdout)
        for _ in range(5)
    ]
    assert min(seconds) < 0.3


def test_import_loads_nothing_heavy() -> None:
    """Engines and NumPy are not loaded before they are used."""
    heavy = ("numpy", "polars", "duckdb", "pyarrow", "pandas", "rich")
    program = f"import sys, dptally; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


def test_publishing_a_file_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """Libraries that only other requests use would take memory and time: ledgers, Gaussian noise, tables of others."""
    file = tmp_path / "rows.parquet"
    pl.DataFrame({"key": ["a"] * 100}).write_parquet(file)
    others = ["flint", "pandas", "pyarrow.parquet", "pyspark", "sqlite3", "altair", "dp_accounting"]
    program = (
        "import sys, dptally; dptally.publish(sys.argv[1], key='key', epsilon=1, delta='1e-6').table();"
        f"print([name for name in {others} if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(file)]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip() == "[]"
