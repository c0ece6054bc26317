"""What starts something large (Spark, a server, a browser, the site) runs in one worker, and starts it once."""

from __future__ import annotations

from pathlib import Path

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


@pytest.hookimpl(tryfirst=True)  # before the names of groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that belong together; workers take a group as a whole (``--dist loadgroup``)."""
    for item in items:
        place = item.path.relative_to(_TESTS).as_posix()
        for start, group in _TOGETHER.items():
            if place.startswith(start):
                item.add_marker(pytest.mark.xdist_group(group))
