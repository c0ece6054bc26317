"""Pages, help and errors use the terms of the field: words that made readers stumble do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dptally import errors
from dptally.cli.commands import build_parser
from dptally.cli.parser import leaf_commands

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dptally"
COMMANDS = dict(leaf_commands(build_parser()))
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "benchmarks" / "README.md",
        *ROOT.glob("changelog.d/*.md"),
        *ROOT.glob("docs/**/*.md"),
    ]
)
# What not to write, and what to write instead.
WORDS = {
    r"judge\w*": "verifier, verified, verification",
    r"promis\w+": "guarantee, guaranteed",
    r"draws? from|drawn from|drawing from": "sample from, sampled from",
    r"the very \w+": "the table in use",
    r"told apart|tell apart": "distinguished",
    r"betray\w*|giv\w+ (\w+ )?away": "identifies, discloses",
    r"whoever|somebody|nobody|everybody": "anyone, an attacker, no one",
    r"anew|by luck|without a word|in silence": "again, by chance, silently",
    r"planted": "injected fault",
    r"heaviest": "top, most frequent",
    r"true frequenc\w+": "true count",
    r"not add up": "cannot be composed",
}


def bad_words(text: str) -> list[str]:
    """Every word of the list that a text has, with what to write instead."""
    return [
        f"{found[0]!r}: write {better}"
        for pattern, better in WORDS.items()
        for found in re.finditer(rf"\b(?:{pattern})\b", text, re.I)
    ]


def prose(page: str) -> str:
    """A page without code, outputs, formulas, comments and addresses."""
    for part in (r"^```.*?^```", r"\$\$.*?\$\$", r"<!--.*?-->", r"`[^`\n]+`", r"\]\([^)]*\)"):
        page = re.sub(part, " ", page, flags=re.S | re.M)
    return " ".join(page.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_terms_of_the_field(page: Path) -> None:
    """No page has a word of the list outside of code."""
    assert bad_words(prose(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", COMMANDS)
def test_help_uses_the_terms_of_the_field(path: str) -> None:
    """No help of a command has a word of the list."""
    assert bad_words(COMMANDS[path].format_help()) == []


def sentences(file: Path) -> Iterator[str]:
    """The texts of every raise statement, and of every error that is made."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in errors.__all__
        if made or isinstance(node, ast.Raise):
            parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            yield " ".join(part for part in parts if isinstance(part, str))


def test_errors_use_the_terms_of_the_field() -> None:
    """No sentence that is raised anywhere in the package has a word of the list."""
    files = sorted(PACKAGE.rglob("*.py"))
    found = {(file.name, bad) for file in files for text in sentences(file) for bad in bad_words(text)}
    assert found == set()
    assert sum(1 for file in files for _ in sentences(file)) > 500


def test_a_bad_word_would_be_noticed() -> None:
    """Words are found in prose, in any case and form, and not in code, formulas or addresses."""
    assert len(bad_words(prose("The judge refuses.\nWhoever draws\nfrom it gives\nthem away."))) == 4
    assert not bad_words(prose("```text\nthe judge\n```\n`judged` [x](judge.md) $$judge$$ <!-- judge -->"))
    assert not bad_words("A single random draw; prejudged is another word.")
