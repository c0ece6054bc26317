"""What type checkers know about `publish`."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import get_overloads

import pytest

import dptally
from dptally.laws.registry import MECHANISMS, TableMechanism
from dptally.publish_options import PublishOptions
from dptally.publishing import publish

PROGRAM = """
from typing import assert_type
import dptally

counts = {"a": 1}
assert_type(dptally.publish(counts, epsilon=1, delta="1e-6"), dptally.TableRelease)
assert_type(dptally.publish(counts, epsilon=1, delta="1e-6", mechanism="stability"), dptally.TableRelease)
assert_type(dptally.publish(counts, epsilon=1, mechanism="compact", universe="ipv4"), dptally.CompactRelease)
assert_type(dptally.publish(counts, epsilon=1, mechanism=dptally.Compact(universe="ipv4")), dptally.CompactRelease)
assert_type(dptally.publish(counts, epsilon=1, mechanism=dptally.Sparse(universe="ipv4")), dptally.TableRelease)
dptally.load("r.parquet").top(3).height

def by_name(name: str) -> None:
    found = dptally.publish(counts, epsilon=1, mechanism=name)
    assert_type(found, dptally.TableRelease | dptally.CompactRelease)

dptally.publish(counts, delta="1e-6")  # type: ignore[call-overload]
dptally.publish(counts, epsilon=1, detla="1e-6")  # type: ignore[call-overload]
"""


def test_the_options_are_those_of_publish() -> None:
    """What type checkers are told and what `publish` takes have the same names, and only epsilon is required."""
    taken = dict(inspect.signature(publish).parameters)
    del taken["source"], taken["mechanism"], taken["collect"]
    assert set(PublishOptions.__annotations__) == set(taken)
    required = {name for name, parameter in taken.items() if parameter.default is inspect.Parameter.empty}
    told = {name for name, note in PublishOptions.__annotations__.items() if "Required" in str(note)}
    assert told == required == {"epsilon"}
    assert {*MECHANISMS, "auto"} == {*TableMechanism.__args__, "compact"}  # type: ignore[attr-defined]
    assert len(get_overloads(publish)) == 4


@pytest.mark.slow
def test_type_checkers_know_the_kind_of_release(tmp_path: Path) -> None:
    """A release by any mechanism but "compact" is a `Release`; a misspelt or missing option is an error."""
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(program)]
    place = Path(dptally.__file__).parents[1]  # mypy finds what is installed by itself, and refuses to be told
    paths = {**os.environ, **({} if place.name == "site-packages" else {"MYPYPATH": str(place)})}
    done = subprocess.run(command, cwd=tmp_path, env=paths, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
