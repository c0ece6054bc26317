"""The page with the results of audits."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.audits import END, START, replace_results, results

from dptally.audit import audit_black_box, audit_exactly
from dptally.audit.side_channels import SideChannel
from dptally.errors import InvalidParameter

PAGE = Path(__file__).parents[2] / "docs" / "audits.md"


def test_the_page_has_results_of_passed_audits() -> None:
    """What is checked in was written by the command, and nothing in it is broken or missed."""
    written = PAGE.read_text().partition(START)[2].partition(END)[0]
    if written.strip() == "Not written yet.":
        pytest.skip("the audits have not been run for this page yet")
    assert "python -m studies.audits" in written and "0 violations, 0 controls missed" in written
    assert "VIOLATED" not in written and "MISSED" not in written and "LEAKS" not in written


def test_results_are_tables() -> None:
    """A small run gives a line for each finding, with verdicts."""
    exact = audit_exactly("dense", settings=3, seed=1)
    kept = audit_black_box("dense", runs=400, seed=1)
    text = results(exact, 1.0, kept, [], [SideChannel("order", "rows", "sorted", False)], 1, "a command")
    assert "| dense | 3 | 0 | epsilon x 2 6/6 |" in text
    assert "| order | rows | sorted | closed |" in text and "| kept |" in text


def test_only_what_is_between_marks_is_replaced() -> None:
    """The rest of a page stays; a page without marks is refused."""
    assert replace_results(f"a\n{START}\nold\n{END}\nb\n", "new\n") == f"a\n{START}\nnew\n{END}\nb\n"
    with pytest.raises(InvalidParameter, match="does not have the marks"):
        replace_results("a page", "new")
