"""Many processes on one ledger: they cannot spend more than there is; and what a ledger costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from dptally.ledger import Ledger
from studies.reliability.outcomes import Outcome, Settings
from studies.reliability.outside import read_books
from studies.reliability.processes import Job, WarmStart, fresh
from studies.reliability.scenes import DELTA, EPSILON

__all__ = ["measure_cost", "share_a_budget", "spend_at_once"]

_WORKERS = "studies.reliability.workers"
_PATIENCE = 120.0


def _together(directory: Path, function: str, writers: int, ledger: Path, *more: str) -> tuple[list[str], float]:
    """Run so many processes that begin at once; what they noted, and how long it took."""
    notes, go = fresh(directory, "notes"), fresh(directory, "start") / "go"
    with WarmStart() as warm:
        jobs = [
            Job([str(ledger), str(notes / str(number)), str(go), *more], function=f"{_WORKERS}:{function}")
            for number in range(writers)
        ]
        running = [warm.start(job) for job in jobs]
        deadline = time.monotonic() + _PATIENCE
        while len(list(go.parent.iterdir())) < writers and time.monotonic() < deadline:
            time.sleep(0.02)
        began = time.monotonic()
        go.touch()
        failed = [said for status, said in (victim.wait() for victim in running) if status]
        taken = time.monotonic() - began
    if failed:
        raise RuntimeError(f"{len(failed)} writers failed: {failed[0][-300:]}")
    return [path.read_text() for path in sorted(notes.iterdir())], taken


def share_a_budget(settings: Settings, directory: Path) -> Outcome:
    """Processes publish from one budget until it is empty: exactly its releases are handed out, none twice."""
    outcome, releases = Outcome(), 5 * settings.writers
    ledger = directory / "budget.db"
    Ledger(ledger, epsilon=EPSILON * releases, delta=DELTA * releases).disconnect()
    notes, taken = _together(directory, "publish_until_refused", settings.writers, ledger)
    handed = [line for text in notes for line in text.splitlines() if line != "refused"]
    books = read_books(ledger, fresh(directory, "scratch"))
    outcome.violations += books.violations
    recorded = [one.release_id for one in books.spent.values() if one.state == "published"]
    if sorted(handed) != sorted(recorded):
        outcome.violations.append("what processes were handed is not what the ledger has as published")
    if len(handed) != releases:
        outcome.violations.append(f"{len(handed)} releases were handed out of a budget for {releases}")
    if Fraction(len(handed)) * EPSILON > books.budget[0]:
        outcome.violations.append("more was published than the budget holds")
    outcome.counts.update(
        processes=settings.writers, published=len(handed), refused=sum(text.count("refused") for text in notes)
    )
    outcome.measured["published_per_second"] = round(len(handed) / taken, 1)
    return outcome


def spend_at_once(settings: Settings, directory: Path) -> Outcome:
    """Processes spend as fast as they can; the sum, read from the file, is what they have spent."""
    outcome, ledger = Outcome(), directory / "budget.db"
    Ledger(ledger, epsilon=1000, delta="0.1").disconnect()
    notes, taken = _together(directory, "spend_for_a_while", settings.writers, ledger, str(settings.seconds))
    spent = [int(text) for text in notes]
    books = read_books(ledger, fresh(directory, "scratch"))
    outcome.violations += books.violations
    if books.states().count("published") != sum(spent) or books.total[0] != Fraction(sum(spent), 1000):
        outcome.violations.append("processes have another sum than the ledger")
    outcome.counts.update(processes=settings.writers, spent=sum(spent), rows=books.rows)
    outcome.measured |= {
        "seconds": round(taken, 1),
        "per_second": round(sum(spent) / taken, 1),
        "least_and_most_of_a_process": [min(spent), max(spent)],
    }
    return outcome


def measure_cost(settings: Settings, directory: Path) -> Outcome:
    """The same small release without and with a ledger, in turn; the difference is the ledger's."""
    import dptally
    from dptally.privacy.spending import Spending

    ledger = Ledger(directory / "budget.db", epsilon=1000, delta="0.1")
    data = {f"key {number}": 100 + number for number in range(100)}
    spending = Spending("stability", Fraction(1, 1000), Fraction(1, 10**12))
    taken: dict[str, list[float]] = {"publish_without": [], "publish_with": [], "ledger_alone": []}

    def clocked(name: str, action: Callable[[], object]) -> None:
        began = time.perf_counter()
        action()
        taken[name].append(1000 * (time.perf_counter() - began))

    for _ in range(settings.publishes):
        for name, paid in (("publish_without", None), ("publish_with", ledger)):
            clocked(name, lambda: dptally.publish(data, epsilon="1/10", delta="1e-7", ledger=paid, progress=False))  # noqa: B023
        clocked("ledger_alone", lambda: ledger.reserve(spending).published())
    outcome = Outcome()
    outcome.counts["publishes"] = settings.publishes
    for name, found in taken.items():
        found.sort()
        outcome.measured[f"{name}_median_ms"] = round(statistics.median(found), 2)
        outcome.measured[f"{name}_p95_ms"] = round(found[min(len(found) - 1, int(0.95 * len(found)))], 2)
    ledger.disconnect()
    return outcome
