"""Examples in docstrings and in the documentation run, and citations resolve."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import dptally

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(dptally.__path__, "dptally.") if "_core" not in module.name
)
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_docstring_examples(name: str) -> None:
    """Every example in a docstring gives what it says."""
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


@pytest.mark.parametrize("page", [page for page in PAGES if "tutorials" not in page.parts], ids=lambda page: page.name)
def test_python_blocks_of_pages_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run one after the other, in an empty directory; tutorials in tests/docs."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M):
        exec(compile(block, str(page), "exec"), names)  # noqa: S102 - our own documentation


def test_citations_resolve() -> None:
    """Every [Key21]-style citation in the sources is an entry of docs/references.bib."""
    known = set(re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(), re.M))
    cited: set[str] = set()
    for file in (ROOT / "src").rglob("*.py"):
        cited |= set(re.findall(r"\[([A-Z][A-Za-z]+\d\d)\b", file.read_text()))
    assert cited and cited <= known


def test_links_between_pages_lead_somewhere() -> None:
    """Relative links and pictures in the documentation exist."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
