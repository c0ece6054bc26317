"""A pytest plugin: only the copy of the package is tested, and the first failure is written down with its type."""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

import dptally

PLACE = Path(os.environ["DPTALLY_COPY"])
# Only whether there is a counterexample matters here, not the smallest one; and every run looks at the same examples.
settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], derandomize=True, database=None)
settings.load_profile("mutants")
FOUND: dict[str, Any] = {"number": 0, "failed": "", "reason": ""}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test anything but the copy."""
    if not Path(dptally.__file__).is_relative_to(PLACE):
        pytest.exit(f"the tests would run against {dptally.__file__}", returncode=3)


def _kind(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup) and error.exceptions:
        return _kind(error.exceptions[0])
    return type(error).__name__


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Note the test that failed, and by what."""
    report = (yield).get_result()
    FOUND["number"] += report.when == "call" and not report.skipped
    if report.failed and not FOUND["failed"]:
        FOUND.update(failed=item.nodeid, reason=_kind(call.excinfo.value) if call.excinfo else "")


def pytest_sessionfinish() -> None:
    """Write down what was found; without this file no test counts as run."""
    (PLACE / "outcome.json").write_text(json.dumps(FOUND))
