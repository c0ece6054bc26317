"""The map of the papers misses no statement, and names nothing that is not there."""

from __future__ import annotations

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPERS = ROOT.parent / "shared" / "papers"
TEXTS = {
    "CGSS21": ["private_weighted_sampling.full.txt", "private_weighted_sampling.short.txt"],
    "BC22": ["sample_and_threshold.txt"],
    "LT25": ["private_misra_gries.txt"],
    "BV19": ["finite_computers.txt"],
}
NUMBER_OF_STATEMENTS = {"CGSS21": 32, "BC22": 11, "LT25": 34, "BV19": 77}
KINDS = "Theorem|Lemma|Algorithm|Corollary|Definition|Proposition|Figure|Table|Claim|Fact"
HEADING = re.compile(rf"(?:^|\*\*)[ ]*({KINDS})[ ]+((?:[A-F]\.)?\d+(?:\.\d+)?)\b", re.M | re.I)


def sections() -> dict[str, list[list[str]]]:
    """The rows of each paper's table, by its key."""
    found = {}
    for part in (ROOT / "docs" / "papers.md").read_text().split("\n## [")[1:]:
        rows = [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in part.splitlines()
            if line.startswith("| ") and not line.startswith(("| statement", "| ---"))
        ]
        found[part[: part.index("]")]] = rows
    return found


MAP = sections()


def test_the_map_has_all_papers_and_each_statement_once() -> None:
    """Four papers, five columns, no statement twice, as many as are known."""
    assert set(MAP) == set(TEXTS)
    for key, rows in MAP.items():
        names = [row[0] for row in rows]
        assert len(names) == len(set(names)) == NUMBER_OF_STATEMENTS[key], key
        assert all(len(row) == 5 and re.fullmatch(rf"({KINDS}) [A-F\d.]+", row[0]) and row[1] for row in rows)


@pytest.mark.parametrize("key", TEXTS)
def test_no_statement_of_a_paper_is_missing(key: str) -> None:
    """Every numbered heading in the paper's text is a row, and every row is a heading in the text."""
    if not PAPERS.exists():
        pytest.skip("the papers are not in ../shared/papers")
    stated = set()
    for name in TEXTS[key]:
        for kind, number in HEADING.findall((PAPERS / name).read_text()):
            stated.add(f"{kind.capitalize()} {number}")
    assert stated == {row[0] for row in MAP[key]}


def test_a_missing_statement_would_be_noticed() -> None:
    """The way headings are found does not depend on how a text prints them."""
    lines = [
        "LEMMA 8. *Let",
        "**Theorem 5.3.** *Let",
        "Figure 2: Laws",
        "as said. **Lemma 4.4.** When",
        "Lemma A.1. The",
    ]
    text = "\n".join([*lines, "see Lemma 99 there"])
    found = [f"{kind.capitalize()} {number}" for kind, number in HEADING.findall(text)]
    assert found == ["Lemma 8", "Theorem 5.3", "Figure 2", "Lemma 4.4", "Lemma A.1"]


def test_modules_and_tests_of_the_map_exist() -> None:
    """Modules can be imported, names in brackets are in their source, test files are there; reasons stand for none."""
    for key, rows in MAP.items():
        for statement, _, modules, tests, _ in rows:
            place = f"{key} {statement}"
            for module, names in re.findall(r"`((?:dptally|studies)[\w.]*)`(?: \(([^)]*)\))?", modules):
                spec = importlib.util.find_spec(module)
                assert spec is not None and spec.origin is not None, f"{place}: {module}"
                for name in re.findall(r"`\"?([\w]+)\"?`", names):
                    assert name in Path(spec.origin).read_text(), f"{place}: {name}"
            for test in re.findall(r"`(tests/[\w/.]+)`", tests):
                assert (ROOT / test).exists(), f"{place}: {test}"
            assert re.search(r"dptally\.|studies\.", modules) or modules.startswith(
                ("none: ", "see there", "none in the package: ")
            ), place
            assert "tests/" in tests or tests == "see there", place


@cache
def calls_the_package(file: Path) -> bool:
    """Whether a module of tests calls something that it imports from dptally."""
    tree = ast.parse(file.read_text())
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dptally":
            imported |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names = (alias.asname or alias.name.split(".")[0] for alias in node.names)
            imported |= {
                name for name, alias in zip(names, node.names, strict=True) if alias.name.startswith("dptally")
            }
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            while isinstance(function, ast.Attribute | ast.Call):
                function = function.value if isinstance(function, ast.Attribute) else function.func
            if isinstance(function, ast.Name):
                called.add(function.id)
    return bool(imported & called)


def test_named_tests_call_the_package() -> None:
    """A test that never calls the package says nothing about it; one that reads its source does so in its own way."""
    reading = {"tests/packaging/test_surface.py"}
    for key, rows in MAP.items():
        for statement, _, _, tests, _ in rows:
            for test in set(re.findall(r"`(tests/[\w/.]+)`", tests)) - reading:
                assert calls_the_package(ROOT / test), f"{key} {statement}: {test} never calls dptally"


def test_a_test_of_its_own_code_would_be_noticed(tmp_path: Path) -> None:
    """Imports alone are no calls, and calls of something else are none of the package."""
    for text, calls in {
        "import numpy\nnumpy.arange(3)": False,
        "from dptally.errors import InvalidParameter\nprint(3)": False,
        "from dptally.exact import exp_bounds as bounds\nbounds(3, 5)[0]": True,
        "import dptally\ndptally.publish({}).table()": True,
        "from tests.exact import reference\nreference.growth(3)": False,
    }.items():
        file = tmp_path / f"{len(text)}.py"
        file.write_text(text)
        assert calls_the_package(file) is calls, text
