"""Injected faults apply, name tests that exist, and are caught; a fault that no test notices is told from one that is.

Only a few are run here; ``python -m tests.mutants`` runs all of them.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.test_papers import MAP
from tests.mutants.catalogue import FAULTS, WITHOUT_FAULT
from tests.mutants.copies import ROOT, Outcome, applied, copy_package, inject, run_tests
from tests.mutants.fault import Fault

STATEMENTS = {f"{key} {row[0]}" for key, rows in MAP.items() for row in rows}
BROKEN = {
    statement: [fault for fault in FAULTS if statement in fault.breaks]
    for statement in sorted({statement for fault in FAULTS for statement in fault.breaks})
    if statement.split()[0] in MAP
}
QUICK = ("contributions-one-key-too-many", "randomness-words-again-after-fork")


def named(name: str) -> Fault:
    """The fault of this name."""
    return next(fault for fault in FAULTS if fault.name == name)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package without any fault."""
    return copy_package(tmp_path_factory.mktemp("mutants") / "original")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_still_applies(fault: Fault) -> None:
    """Its text occurs once, the changed file is Python still, and the named tests are there."""
    ast.parse(applied(fault))
    assert fault.tests and fault.breaks
    for test in fault.tests:
        file, *names = test.split("::")
        assert (ROOT / file).is_file(), test
        found = {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, _NAMED)}
        assert {name.split("[")[0] for name in names} <= found, test


_NAMED = ast.FunctionDef | ast.ClassDef


def test_names_and_statements_are_spelled_rightly() -> None:
    """Names of faults are unique, statements are those of docs/papers.md, and none both has a fault and needs none."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert set(BROKEN) <= STATEMENTS and set(WITHOUT_FAULT) <= STATEMENTS
    assert not set(WITHOUT_FAULT) & set(BROKEN)
    assert all(WITHOUT_FAULT.values())


@pytest.mark.parametrize("key", sorted({statement.split()[0] for statement in (*BROKEN, *WITHOUT_FAULT)}))
def test_every_statement_of_a_paper_has_a_fault_or_a_reason(key: str) -> None:
    """No row of docs/papers.md is left out: a test is known to notice when it is broken, or it is said why none is."""
    stated = {statement for statement in STATEMENTS if statement.split()[0] == key}
    assert stated == stated & ({*BROKEN} | {*WITHOUT_FAULT})


@pytest.mark.parametrize("statement", BROKEN)
def test_the_tests_that_the_map_names_catch_the_fault(statement: str) -> None:
    """For each statement with a fault, a test file that its row of docs/papers.md names catches one."""
    key, name = statement.split(" ", 1)
    row = next(row for row in MAP[key] if row[0] == name)
    named_there = set(re.findall(r"`(tests/[\w/.]+)`", row[3]))
    assert named_there & {test.split("::")[0] for fault in BROKEN[statement] for test in fault.tests}


@pytest.mark.parametrize("name", QUICK)
def test_quick_faults_are_caught(original: Path, tmp_path: Path, name: str) -> None:
    """The named test fails on the copy with the fault, by an assertion."""
    fault = named(name)
    found = run_tests(inject(fault, original, tmp_path / "copy"), fault.tests)
    assert found.caught, found


def test_what_is_no_fault_is_not_caught(original: Path, tmp_path: Path) -> None:
    """A change of a comment survives; a file that cannot be imported is an error, not a catch."""
    harmless = Fault("comment", ("nothing",), "contributions.py", "# The last run may go on",
                     "# The last run might go on", ("tests/summaries/test_contributions.py",))  # fmt: skip
    found = run_tests(inject(harmless, original, tmp_path / "harmless"), harmless.tests)
    assert found.passed and not found.caught
    broken = replace(harmless, old="import pyarrow as pa\n", new="import no_such_module as pa\n")
    found = run_tests(inject(broken, original, tmp_path / "broken"), broken.tests)
    assert not found.passed and not found.caught


def test_a_fault_that_no_longer_applies_is_noticed() -> None:
    """Text that is gone, that occurs twice, or a file that is gone."""
    fault = named(QUICK[0])
    for wrong in (replace(fault, old="no such text"), replace(fault, old="import"), replace(fault, file="gone.py")):
        with pytest.raises(LookupError, match="not once"):
            applied(wrong)


def test_only_failures_of_statements_count_as_caught() -> None:
    """An assertion, a missing exception and a refusal by a verifier do; a lost name does not."""
    kinds = {"AssertionError": True, "Failed": True, "PrivacyViolation": True, "NameError": False, "": False}
    for reason, caught in kinds.items():
        assert Outcome(False, "tests/x.py::test_y", reason, 1).caught is caught
    assert not Outcome(True, "", "", 1).caught
