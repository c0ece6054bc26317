"""Faults are in the tests alone: nothing in the package replaces a law, a verifier or a source of random words."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import dptally
from dptally.errors import PrivacyViolation
from dptally.laws.specs import stability
from dptally.laws.stability import Stability
from dptally.randomness import SeededBits, SystemBits
from dptally.verifiers.tables import certify_shift_table
from tests.audit.injected_faults import released_with, rounded_table, spoiled

PACKAGE = Path(dptally.__file__).parent
# Attributes of modules that the package sets: each with what it is for. None is a law, a verifier or a source of bits.
ATTRIBUTES_SET = {
    ("cli/outputs.py", "name"): "standard streams that were closed, opened to nowhere",
    ("ledger/paying.py", "_SPENT"): "what to say about the budget, on an exception that is on its way",
    ("audit/side_channels.py", "tempdir"): "where Python makes temporary files, while the audit watches for them",
}


def module_attributes_set(file: Path) -> set[str]:
    """Names that a module sets on something else than itself: by setattr, or by assigning to an imported module."""
    tree = ast.parse(file.read_text())
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "__dict__":
            found.add("__dict__")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            found.add(str(node.args[1].value) if isinstance(node.args[1], ast.Constant) else ast.unparse(node.args[1]))
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, _ASSIGNED) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in imported:
                found.add(target.attr)
    return found


_ASSIGNED = ast.AnnAssign | ast.AugAssign


def test_nothing_in_the_package_replaces_anything_in_another_module() -> None:
    """No module sets attributes of others, but the ones listed; and there is no module of faults."""
    found = {
        (file.relative_to(PACKAGE).as_posix(), name)
        for file in PACKAGE.rglob("*.py")
        for name in module_attributes_set(file)
    }
    assert found == set(ATTRIBUTES_SET)
    assert not [file.name for file in PACKAGE.rglob("*.py") if "planted" in file.name or "fault" in file.name]


def test_replacing_would_be_noticed(tmp_path: Path) -> None:
    """The ways in which a module could replace something in another."""
    file = tmp_path / "module.py"
    file.write_text("import dptally.publishing as pipeline\npipeline.SystemBits = None\nsetattr(pipeline, 'name', 1)\n"
                    "pipeline.__dict__['other'] = 1\n")  # fmt: skip
    assert module_attributes_set(file) == {"SystemBits", "name", "__dict__"}


class LyingBits:
    """Words that are all alike, from a source that says that they are secret."""

    private = True

    def words(self, count: int) -> NDArray[np.uint64]:
        """The same word every time."""
        return np.zeros(count, dtype=np.uint64)


class LyingSystemBits(SystemBits):
    """The same, by inheritance."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """The same word every time."""
        return np.zeros(count, dtype=np.uint64)


@pytest.mark.parametrize("bits", [LyingBits(), LyingSystemBits(), SeededBits(1)], ids=lambda bits: type(bits).__name__)
def test_only_bits_of_the_system_make_a_private_release(bits: Any) -> None:
    """Whatever a source of bits says of itself: a release from any other one says that it is not private."""
    data = pl.DataFrame({"key": ["a"] * 100})
    privacy: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
    sketch = dptally.MisraGriesSketch(4)
    sketch.update(["a"] * 100)
    releases = [
        dptally.publish(data, key="key", **privacy, randomness=bits),
        dptally.sanitize(data.group_by("key").len("n"), dptally.Ppswor("0.5"), key="key", count="n", **privacy,
                         randomness=bits),
        sketch.publish(**privacy, randomness=bits),
        dptally.publish_quantiles([1, 2, 3] * 50, low=0, high=7, resolution=8, **privacy, randomness=bits),
    ]  # fmt: skip
    assert [release.guarantee.private for release in releases] == [False] * len(releases)
    assert dptally.publish(data, key="key", **privacy).guarantee.private


def test_a_fault_ends_with_its_context() -> None:
    """After the context the mechanism draws from its own law again, also after an error."""
    names = vars(stability)
    honest = names["StabilityLaw"]
    with pytest.raises(RuntimeError), released_with("stability", "noise halved"):
        assert names["StabilityLaw"] is not honest
        raise RuntimeError
    assert names["StabilityLaw"] is honest


def test_the_verifier_refuses_spoiled_laws() -> None:
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
