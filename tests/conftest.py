"""Which tests are fast, which share something large that one worker starts once, and what was skipped."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path, PurePosixPath

import pytest

_TESTS = Path(__file__).parent
_TOGETHER = {
    "spark/": "spark",
    "sources/test_postgresql.py": "postgresql",
    "sources/test_databases.py": "postgresql",
    "sources/test_database_trees.py": "postgresql",
    "report/test_browser.py": "browser",
    "explore/test_browser.py": "browser",
    "docs/test_site.py": "site",
}
# What is tested in memory and in one process, and what was pinned: for every save of a file.
_FAST = (
    "estimates/",
    "explore/",
    "golden/",
    "laws/",
    "mechanisms/",
    "packaging/",
    "publishing/",
    "randomness/",
    "releases/",
    "report/",
    "summaries/",
    "universes/",
)


@pytest.hookimpl(tryfirst=True)  # before the names of groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the fast tests, and those that belong together: workers take a group as a whole (``--dist loadgroup``)."""
    for item in items:
        place = item.path.relative_to(_TESTS).as_posix()
        if place.startswith(_FAST) and not place.startswith(tuple(_TOGETHER)):
            item.add_marker("fast")
        for start, group in _TOGETHER.items():
            if place.startswith(start):
                item.add_marker(pytest.mark.xdist_group(group))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped and why, a line for each reason."""
    places: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        places[reason.removeprefix("Skipped: ")].append(report.nodeid)
    if places:
        count = sum(map(len, places.values()))
        terminalreporter.section(f"skipped: {count}, for {len(places)} reasons")
    for reason, nodes in sorted(places.items()):
        folders = sorted({PurePosixPath(node.partition("::")[0]).parent.as_posix() for node in nodes})
        terminalreporter.write_line(f"{len(nodes):4} in {', '.join(folders)}: {reason}")
