"""Several processes on one ledger, and processes that die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest

from dptally import BudgetExceeded, Ledger
from dptally.privacy.spending import Spending

SPEND = """
import sys
from fractions import Fraction
from dptally import BudgetExceeded, Ledger
from dptally.privacy.spending import Spending

ledger = Ledger(sys.argv[1], epsilon=1, delta=0)
spent = 0
while True:
    try:
        ledger.reserve(Spending("dense", Fraction(1, 40), Fraction(0))).published()
    except BudgetExceeded:
        break
    spent += 1
print(spent)
"""

IMPATIENT = """
import sys
from fractions import Fraction
from dptally import Ledger
from dptally.ledger import storage
from dptally.privacy.spending import Spending

storage._PATIENCE, storage._ONE_WAIT = -1, 0  # SQLite does not wait, and is asked once
for _ in range(10):
    ledger = Ledger(sys.argv[1])
    ledger.reserve(Spending("dense", Fraction(1, 1000), Fraction(0))).published()
    ledger.remaining()
    Ledger(sys.argv[1], read_only=True).verify()
    ledger.disconnect()
print("done")
"""

HANG = """
import sys, time
from fractions import Fraction
from dptally import Ledger
from dptally.privacy.spending import Spending

reservation = Ledger(sys.argv[1]).reserve(Spending("dense", Fraction(1, 2), Fraction(0)))
if sys.argv[2] == "drawn":
    reservation.drawn()
print("ready", flush=True)
time.sleep(60)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=os.environ
    )


def test_writers_cannot_spend_the_same_budget(tmp_path: Path) -> None:
    """Three processes that make and empty one ledger at once spend exactly its budget, in one unbroken history."""
    place = tmp_path / "budget.db"
    processes = [start(SPEND, place) for _ in range(3)]
    spent = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(spent) == 40
    ledger = Ledger(place)
    assert len(ledger.history()) == 40 and ledger.remaining()[0] == 0
    assert ledger.verify()[0] == 120


def test_nobody_meets_a_locked_file(tmp_path: Path) -> None:
    """Readers and writers queue, so that nobody has to ask SQLite again: with polling, 8 writers starved each other."""
    place = tmp_path / "budget.db"
    Ledger(place, epsilon=1, delta=0)
    processes = [start(IMPATIENT, place) for _ in range(4)]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["done\n"] * 4
    assert Ledger(place).verify()[0] == 3 * 4 * 10


@pytest.mark.parametrize("state", ["reserved", "drawn"])
def test_a_killed_process_has_spent(tmp_path: Path, state: str) -> None:
    """What a process held when it was killed stays spent, for ever, and the ledger opens as always."""
    place = tmp_path / "budget.db"
    Ledger(place, epsilon="3/4", delta=0)
    process = start(HANG, place, state)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=10)
    process.stdout.close()
    ledger = Ledger(place)
    assert [entry.state for entry in ledger.history()] == [state]
    assert ledger.remaining() == (Fraction(1, 4), 0)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(Spending("dense", Fraction(1, 2), Fraction(0)))


def test_threads_share_a_ledger(tmp_path: Path) -> None:
    """Threads of one process spend no more than the budget either."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=1, delta=0)
    spent: list[int] = []

    def spend() -> None:
        while True:
            try:
                ledger.reserve(Spending("dense", Fraction(1, 20), Fraction(0))).published()
            except BudgetExceeded:
                return
            spent.append(1)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(spent) == 20 and ledger.remaining()[0] == 0
    assert json.loads(next(ledger._storage.rows(0))[0].spending or "")["epsilon"] == "1"
