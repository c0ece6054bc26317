"""The trust boundary: what releases, estimates and reports are made of cannot reach code that touches private data.

Every module of the package is on a side. Modules of the public side, and those that both sides stand on, import no
module of another side. As every module is classified, that is transitive: a way from one side to the other has an arrow
that crosses.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import dptally
from dptally.laws.registry import LAWS
from tests.packaging.imports import DYNAMIC, import_graph, reached, sources

PACKAGE = Path(dptally.__file__).parent
PRIVATE, PUBLIC, BOTH = "private side", "public side", "both sides"
ENGINES, EVIDENCE, FRONT = "engines", "evidence", "front"

# Files and folders of src/dptally; a module that differs from its folder is listed by its dotted name.
SIDES = {
    # rows in, units bounded, counts, samples and sketches, the draw
    "sources": PRIVATE,
    "contributions": PRIVATE,
    "summaries": PRIVATE,
    "mechanisms": PRIVATE,
    "request": PRIVATE,
    "paid_sources": PRIVATE,
    "opened_rows": PRIVATE,
    "extending": PRIVATE,
    "publishing": PRIVATE,
    "heavy_hitters": PRIVATE,
    "quantiles": PRIVATE,
    "sketches": PRIVATE,
    "series": PRIVATE,
    # laws, verifiers, guarantees, releases and what is asked of them
    "laws": PUBLIC,
    "observation_models": PUBLIC,
    "verifiers": PUBLIC,
    "privacy": PUBLIC,
    "ledger": PUBLIC,
    "releases": PUBLIC,
    "estimates": PUBLIC,
    "planning": PUBLIC,
    "report": PUBLIC,
    "explore": PUBLIC,
    "labels": PUBLIC,
    # what both stand on
    "_core": BOTH,
    "errors": BOTH,
    "exact": BOTH,
    "files": BOTH,
    "randomness": BOTH,
    "universes": BOTH,
    "progress": BOTH,
    "publish_options": BOTH,
    # clusters and federations: they call both sides
    "spark": ENGINES,
    "federated": ENGINES,
    # runs on made-up data
    "audit": EVIDENCE,
    # what users call
    "": FRONT,
    "plan_requests": FRONT,
    "__main__": FRONT,
    "loading": FRONT,
    "cli": FRONT,
}
OPEN = {PUBLIC, BOTH}
# Arrows that cross all the same. A new one fails, and one that is gone fails until it is taken off this list.
KNOWN = {
    ("laws.registry", DYNAMIC): "laws by the names in files; test_laws_are_imported_from_laws",
    ("releases.release_file", DYNAMIC): "releases by their kind in files; test_releases_are_imported_from_releases",
}


def side(module: str) -> str:
    """Of a module: its own entry, or that of the folder it is in."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in SIDES:
            return SIDES[name]
    return "unclassified"


def crossing(texts: dict[str, str]) -> set[tuple[str, str]]:
    """Arrows from the open sides to any other."""
    graph = import_graph(texts)
    return {(name, other) for name in graph if side(name) in OPEN for other in graph[name] if side(other) not in OPEN}


def misplaced(texts: dict[str, str]) -> set[str]:
    """Files and folders without a side, and sides of what is not there."""
    there = {name.split(".")[0] for name in texts} | {"_core"}
    return {name for name in there if name not in SIDES} | {
        name for name in SIDES if name not in texts and name not in there
    }


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The source of the package."""
    return sources(PACKAGE)


def test_every_module_is_on_a_side(texts: dict[str, str]) -> None:
    """Every file and folder is classified, and nothing is classified that is not there."""
    assert len(texts) > 200
    assert not misplaced(texts)


def test_the_public_side_does_not_reach_private_data(texts: dict[str, str]) -> None:
    """The arrows that cross are exactly the known ones; without them no open module leads to another side."""
    assert crossing(texts) == set(KNOWN)
    graph = import_graph(texts)
    for name, other in KNOWN:
        graph[name].discard(other)
    ways = {name: {other for other in reached(graph, name) if side(other) not in OPEN} for name in graph}
    assert not {name: found for name, found in ways.items() if found and side(name) in OPEN}


def test_releases_are_imported_from_releases() -> None:
    """The table of kinds names modules of `dptally.releases` alone."""
    from dptally.releases.release_file import KINDS

    assert all(home.startswith("dptally.releases.") for home in KINDS.values())


def test_laws_are_imported_from_laws() -> None:
    """Every law that a file may name is a module of the folder of laws."""
    assert all(path.startswith("dptally.laws.") for path in LAWS.values())


def test_nothing_that_publishes_needs_audits_or_the_command_line(texts: dict[str, str]) -> None:
    """Private code and engines import neither evidence nor front."""
    graph = import_graph(texts)
    working = {PRIVATE, ENGINES}
    assert not {
        (name, other) for name in graph if side(name) in working for other in graph[name]
        if side(other) in (EVIDENCE, FRONT)
    }  # fmt: skip


VIOLATIONS = {
    "plain": ("releases.table_release", "from dptally.sources import open_rows", "sources"),
    "in a function": ("releases.table_release", "def f():\n    from dptally.sources.rows import x", "sources.rows"),
    "a module": ("estimates.frequencies", "import dptally.contributions", "contributions"),
    "under another name": ("report.contents", "import dptally.mechanisms.base as b", "mechanisms.base"),
    "from the package": ("report.contents", "from dptally import sources", "sources"),
    "relative": ("releases.table_release", "from ..sources import rows", "sources.rows"),
    "on demand": ("report.plots", "from dptally import publish", "publishing"),
    "an attribute": ("report.contents", "import dptally\ndptally.publish", "publishing"),
    "an attribute of the package, renamed": ("report.contents", "import dptally as d\nd.summaries", "summaries"),
    "by name": ("labels", 'import importlib\nimportlib.import_module("dptally.publishing")', "publishing"),
    "by a name made while running": ("labels", "import importlib\nimportlib.import_module(name)", DYNAMIC),
    "through a shared module": ("exact.powers", "from dptally.contributions import x", "contributions"),
    "through an engine": ("privacy.guarantee", "from dptally.spark import session", "spark.session"),
    "not for type checkers": ("labels", "if TYPE_CHECKING:\n    x = 1\nelse:\n    import dptally.sources", "sources"),
}


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_an_injected_violation_is_caught(kind: str, texts: dict[str, str]) -> None:
    """An import of private code, in any form and anywhere on the open sides, is an arrow that is not known."""
    module, line, target = VIOLATIONS[kind]
    changed = {**texts, module: f"{texts[module]}\n{line}\n"}
    assert (module, target) in crossing(changed) - set(KNOWN)


def test_an_indirect_violation_is_seen_from_where_it_starts(texts: dict[str, str]) -> None:
    """Through a shared module, releases, estimates and laws lead to private code, though none of them changed."""
    changed = {**texts, "exact.parameters": f"{texts['exact.parameters']}\nfrom dptally.contributions import x\n"}
    graph = import_graph(changed)
    for start in ("releases.table_release", "estimates.frequencies", "laws.weighted_sample"):
        assert "contributions" in reached(graph, start) and "contributions" not in reached(import_graph(texts), start)


def test_names_of_types_are_no_violation(texts: dict[str, str]) -> None:
    """What only type checkers see is not loaded."""
    line = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dptally.sources import open_rows"
    assert crossing({**texts, "labels": f"{texts['labels']}\n{line}\n"}) == set(KNOWN)


def test_what_moves_or_is_new_must_be_classified(texts: dict[str, str]) -> None:
    """A new folder, a new file and a folder that is gone are each noticed; so is a known arrow that is gone."""
    assert misplaced({**texts, "new_folder.thing": ""}) == {"new_folder"}
    assert misplaced({**texts, "new_file": ""}) == {"new_file"}
    gone = {name: text for name, text in texts.items() if not name.startswith("sources")}
    assert misplaced(gone) == {"sources"}
    assert misplaced({name: text for name, text in texts.items() if name != "quantiles"}) == {"quantiles"}
    assert crossing({**texts, "laws.registry": ""}) != set(KNOWN)
