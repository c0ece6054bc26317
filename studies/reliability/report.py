"""The report: a page with tables to read, and the same as JSON."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from studies.reliability.outcomes import Outcome, Part, Settings

__all__ = ["START", "facts_of", "page", "write"]

START = "<!-- What follows is written by `python -m studies.reliability --report`; do not edit. -->"


def facts_of(settings: Settings, found: Sequence[tuple[Part, Outcome, float]]) -> dict[str, Any]:
    """Everything, as plain data."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "settings": asdict(settings),
        "violations": sum(len(outcome.violations) for _, outcome, _ in found),
        "parts": {
            part.name: {"what": part.what, "took_seconds": round(seconds, 1), **outcome.facts()}
            for part, outcome, seconds in found
        },
    }


def machine() -> dict[str, Any]:
    """What it ran on."""
    return {
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load_average": round(os.getloadavg()[0], 1),
    }


def page(facts: dict[str, Any]) -> str:
    """The tables, in Markdown."""
    ran, settings = facts["machine"], facts["settings"]
    violations = facts["violations"]
    lines = [
        START,
        "",
        f"## Run of {facts['date']}",
        "",
        f"**{violations or 'No'} violation{'' if violations == 1 else 's'}.** {ran['system']}, {ran['processors']} "
        f"processors, load {ran['load_average']} at the end, Python {ran['python']}, SQLite {ran['sqlite']}; "
        + ", ".join(f"{name} {value:g}" for name, value in settings.items())
        + ".",
        "",
        "| part | what was done | counts | violations |",
        "| --- | --- | --- | --- |",
    ]
    for name, part in facts["parts"].items():
        counts = "; ".join(f"{what}: {number:,}" for what, number in part["counts"].items())
        counts = f"skipped: {part['skipped']}" if part["skipped"] else counts
        lines.append(f"| {name} | {part['what']} | {counts} | {len(part['violations'])} |")
    lines += ["", "| part | measured | |", "| --- | --- | --- |"]
    for name, part in facts["parts"].items():
        lines += [f"| {name} | {what.replace('_', ' ')} | {value} |" for what, value in part["measured"].items()]
    for name, part in facts["parts"].items():
        lines += [f"- {name}: {violation}" for violation in part["violations"]]
    return "\n".join(lines) + "\n"


def write(facts: dict[str, Any], target: Path) -> None:
    """Put the tables at the end of a page, in place of those of an earlier run, and JSON beside it."""
    before = target.read_text() if target.exists() else ""
    kept = before.split(START, 1)[0].rstrip("\n")
    target.write_text(f"{kept}\n\n{page(facts)}" if kept else page(facts))
    target.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
