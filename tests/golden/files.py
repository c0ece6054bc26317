"""Files of version 1 that stay readable for ever: what reading each of them gives."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dptally
from tests.golden import facts
from tests.golden.outputs import run_json

FILES = Path(__file__).with_name("files")


def _sketch(path: Path) -> dict[str, Any]:
    sketch = dptally.load_sketch(path)
    return {**facts.of_sketch(sketch), "type": type(sketch).__name__}


def _ledger(path: Path) -> dict[str, Any]:
    with TemporaryDirectory() as place:  # opening a ledger may write next to it
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copy(file, place)
        copy = Path(place) / path.name
        ledger = dptally.Ledger(copy, read_only=True)
        found = {
            "ledger_id": ledger.ledger_id,
            "budget": [facts.plain(ledger.epsilon), facts.plain(ledger.delta)],
            "closed": ledger.closed,
            "sources": facts.plain(ledger.sources),
            "history": [
                [entry.number, entry.state, facts.plain(entry.spending.epsilon), facts.plain(entry.spending.delta)]
                for entry in ledger.history()
            ],
            "remaining": facts.plain(ledger.remaining()),
            "totals": [facts.numbers_of(total) for total in ledger.totals()],
            "head": facts.plain(ledger.head),
            "verify": facts.plain(ledger.verify()),
            "finds": {
                name: ledger.find(dptally.load(FILES / name).guarantee).number
                for name in ("paid-table.parquet", "paid-ranges.parquet")
            },
        }
        ledger.disconnect()
        found["show"] = run_json("ledger", "show", copy)
        after = dptally.publish({"common": 1000}, epsilon="1/4", delta="1e-7", ledger=copy, max_keys_per_unit=1)
        ledger = dptally.Ledger(copy)
        found["remaining_after_another"] = facts.plain(ledger.remaining())
        found["number_of_another"] = ledger.find(after.guarantee).number
        ledger.disconnect()
        return dict(facts.rounded(found))


def _federated_state(path: Path) -> dict[str, Any]:
    from dptally.federated import HistogramRounds, Server

    with TemporaryDirectory() as place:
        copy = Path(shutil.copy(path, place))
        server = Server(HistogramRounds("1", "1e-6", key="word"), state=copy)
        return {"spent": facts.plain(server.total_spent), "result": facts.of_table(server.result)}


def _combined() -> dict[str, Any]:
    paths = [FILES / name for name in ("table-weighted-sample.parquet", "table-stability.parquet")]
    found = {}
    for units in ("disjoint", "shared"):
        both = dptally.combine([dptally.load(path) for path in paths], units=units)
        found[units] = {
            "epsilon": facts.plain(both.epsilon),
            "delta": facts.plain(both.delta),
            "certificates": [facts.certificate(part) for part in both.verify()],
            "hidden": both.hidden(),
            "table": facts.plain(both.table()),
            "top": facts.plain(both.top(3)),
        }
    return {**found, "command": run_json("combine", *paths, "--units", "disjoint")}


_READERS: dict[str, Callable[[Path], Any]] = {".sketch": _sketch, ".db": _ledger, ".json": _federated_state}


def read(name: str) -> Any:
    """What a file holds, whatever kind it is."""
    if name == "combined":
        return _combined()
    path = FILES / name
    return _READERS.get(path.suffix, lambda place: facts.of_any(dptally.load(place)))(path)


def names() -> list[str]:
    """The files that are read; a ledger's note is read with its ledger."""
    return [
        "combined",
        *sorted(path.name for path in FILES.iterdir() if path.suffix in (*_READERS, ".parquet", ".compact")),
    ]
