"""Public names, verifiers that stand alone, and what importing costs."""

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
    "Compact",
    "CompactRelease",
    "Dense",
    "DptallyError",
    "Gaussian",
    "Guarantee",
    "InvalidParameter",
    "InvalidSource",
    "Ledger",
    "MisraGries",
    "MisraGriesSketch",
    "MissingDependency",
    "Plan",
    "Ppswor",
    "PrefixTree",
    "Priority",
    "PrivacyViolation",
    "RangeRelease",
    "Release",
    "Rounds",
    "SampleAndThreshold",
    "SamplingScheme",
    "Series",
    "SeriesRelease",
    "Sparse",
    "Stability",
    "TableRelease",
    "UnreadableLedger",
    "UnreadableRelease",
    "UserMisraGriesSketch",
    "WeightedSample",
    "__version__",
    "combine",
    "find_quantile",
    "load",
    "load_ranges",
    "load_sketch",
    "plan",
    "publish",
    "publish_heavy_hitters",
    "publish_quantiles",
    "register",
    "sanitize",
    "sum_sketches",
]
STANDING_ALONE = {
    "verifiers/guarantees.py": {
        "dptally.errors",
        "dptally.privacy.guarantee",  # for type checkers
        "dptally.verifiers.compact",
        "dptally.verifiers.pure",
        "dptally.verifiers.rounds",
        "dptally.verifiers.sampling",
        "dptally.verifiers.sketches",
        "dptally.verifiers.tables",
    },
    "verifiers/tables.py": {"dptally.errors"},
    "verifiers/pure.py": {"dptally.errors", "dptally.verifiers.tables"},
    "verifiers/compact.py": {"dptally.errors"},
    "verifiers/gaussian.py": {"dptally.errors", "dptally.verifiers.tables"},
    "verifiers/key_rounds.py": {
        "dptally._core",  # one loop of its own, native/outward_steps.cpp
        "dptally.errors",
        "dptally.verifiers.gaussian",
        "dptally.verifiers.joint_noise",
        "dptally.verifiers.tables",
    },
    "verifiers/series.py": {"dptally.errors", "dptally.verifiers.gaussian", "dptally.verifiers.tables"},
    "verifiers/joint_noise.py": {"dptally.errors", "dptally.verifiers.gaussian"},
    "verifiers/sketches.py": {"dptally.errors", "dptally.verifiers.tables"},
    "verifiers/sampling.py": {"dptally.errors", "dptally.verifiers.tables"},
    "verifiers/loss_measures.py": {"dptally.verifiers.tables"},
    "verifiers/profiles.py": {"dptally.verifiers.loss_measures", "dptally.verifiers.tables"},
    "verifiers/declared_profile.py": {
        "dptally.errors",
        "dptally.verifiers.key_rounds",
        "dptally.verifiers.loss_measures",
        "dptally.verifiers.profiles",
        "dptally.verifiers.tables",
    },
    "verifiers/rounds.py": {
        "dptally.errors",
        "dptally.verifiers.tables",
        "dptally.verifiers.loss_measures",
        "dptally.verifiers.sampling",
    },
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


def test_verifiers_stand_alone() -> None:
    """A verifier imports nothing of the package but its errors: no code is shared with builders of tables."""
    verifiers = {file.relative_to(PACKAGE).as_posix() for file in (PACKAGE / "verifiers").glob("*.py")}
    assert verifiers - {"verifiers/__init__.py"} == set(STANDING_ALONE)
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
    others = ["flint", "pandas", "pyarrow.parquet", "pyspark", "sqlite3", "vl_convert", "dp_accounting"]
    program = (
        "import sys, dptally; dptally.publish(sys.argv[1], key='key', epsilon=1, delta='1e-6').table();"
        f"print([name for name in {others} if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(file)]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip() == "[]"
