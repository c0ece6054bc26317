"""Planted bugs stay where they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dptally
from dptally.audit.planted import released_with, rounded_table, spoiled
from dptally.errors import PrivacyViolation
from dptally.mechanisms import stability_histogram
from dptally.observation_models import Stability
from dptally.privacy.certifier import certify_shift_table

PACKAGE = Path(dptally.__file__).parent


def test_nothing_outside_of_audits_imports_them() -> None:
    """No module but those of dptally.audit names the module, and the package does not offer it."""
    for file in PACKAGE.rglob("*.py"):
        if file.parent.name == "audit" and file.parent.parent == PACKAGE:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            assert not any("planted" in name for name in names if name != "audit_planted"), file.name
    assert "audit" not in dptally.__all__ and not hasattr(dptally, "planted")


def test_a_planted_bug_ends_with_its_context() -> None:
    """After the context the mechanism draws from its own law again, also after an error."""
    honest = stability_histogram.Stability
    with pytest.raises(RuntimeError), released_with("stability", "noise halved"):
        assert stability_histogram.Stability is not honest
        raise RuntimeError
    assert stability_histogram.Stability is honest


def test_the_judge_refuses_spoiled_laws() -> None:
    """Without the forged certificate, no spoiled law would draw."""
    with pytest.raises(PrivacyViolation):
        spoiled(Stability(1, "1e-6"), "threshold off by one").certify()
    law = spoiled(Stability(1, "1e-6"), "noise halved")
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        certify_shift_table(law.table, values=True, epsilon=law.epsilon, delta=law.delta)


def test_rounding_keeps_the_order_of_thresholds() -> None:
    """A table of floats is a table still."""
    table = rounded_table(Stability(1, "1e-6").table, 8)
    entries = [int.from_bytes(table[at : at + 16], "little") for at in range(0, len(table), 16)]
    assert entries == sorted(entries) and all(entry.bit_length() <= 128 for entry in entries)
