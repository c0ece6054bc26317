"""What the package gave before it was rebuilt, it still gives: numbers, rows of a seed, and what old files hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden import files
from tests.golden.facts import differences
from tests.golden.outputs import EXPECTED, OUTPUTS, check, home


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_is_what_it_was(name: str) -> None:
    """A seed gives the rows it gave, and every question about them its answer."""
    check(home(name), OUTPUTS[name]())


@pytest.mark.parametrize("name", files.names())
def test_a_file_of_version_1_is_read(name: str) -> None:
    """A file that the package wrote before holds what it held."""
    check("files", {name: files.read(name)}, only=name)


def test_nothing_that_was_pinned_is_left_out() -> None:
    """Every file of this folder is compared with something."""
    assert {path.stem for path in EXPECTED.glob("*.json")} == {*map(home, OUTPUTS), "files", "spark"}
    assert set(json.loads((EXPECTED / "files.json").read_text())) == set(files.names())


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (1, 2),
        (1.0, 1.0 + 1e-8),
        ([1], [1, 1]),
        ({"a": 1}, {"b": 1}),
        (1, True),
        ("a", "b"),
        (None, 0),
        (10**12, 10**12 + 1),
    ],
)
def test_differences_are_seen(expected: Any, found: Any) -> None:
    """Whole numbers are compared exactly, others to nine digits, and nothing may be missing."""
    assert differences({"x": [expected]}, {"x": [found]})


def test_what_is_new_is_no_difference() -> None:
    """Fields may be added."""
    assert not differences({"a": 1.0}, {"a": 1.0 + 1e-12, "b": 2})
