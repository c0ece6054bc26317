"""Write docs/peers.md and its pictures from the results of `run.py`.

python benchmarks/peers/page.py [--results FILE] [--output docs/peers.md]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from catalogue import ENTRIES
from cells import DATA_SETS, DELTA, PROMISED_DELTA, PROMISES, all_cells
from data import ALONE
from summary import Common, Line, Task, summarise

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = {
    "zipf-1e6": "Zipf(1), a million rows",
    "zipf-1e7": "Zipf(1), ten million rows",
    "retail": "Products by customer (Online Retail)",
    "mathoverflow": "Users answered by users (MathOverflow)",
    "headlines": "Words by headline (ABC)",
}
# A rate above delta by six standard deviations is no chance (one in a thousand million).
_SIGMAS = 6


def page(results: dict[str, Any], pictures: list[str], texts: Path = HERE / "texts") -> str:
    """The whole page."""
    tasks = summarise(results)
    facts = results["machine"]
    dates = sorted({run["date"] for runs in results["cells"].values() for run in runs})
    parts = [
        "<!-- Written by benchmarks/peers/page.py from benchmarks/peers/results.json; do not edit. -->",
        (texts / "introduction.md").read_text().strip(),
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} with Python {facts['python']} on "
        f"{facts['cores']} cores with {facts['memory_gb']} GB; load of the machine {_loads(results)}.",
        "## In short",
        _in_short(tasks),
        *_pictures(pictures),
        "## Who keeps delta",
        (texts / "promises.md").read_text().strip(),
        _promises([task for task in tasks if task.data_set == PROMISES]),
        "## Results",
        (texts / "results.md").read_text().strip(),
        _not_measured(results),
        *_tables(tasks, results.get("lines", {})),
        "## Settings",
        _table(["entry", "environment", "setting"], [[e.title, e.environment, e.setting] for e in ENTRIES]),
        (texts / "notes.md").read_text().strip(),
        "## Versions",
        _versions(facts),
    ]
    return "\n\n".join(parts) + "\n"


def _loads(results: dict[str, Any]) -> str:
    loads = [run["load"] for runs in results["cells"].values() for run in runs]
    return f"{min(loads):.1f} to {max(loads):.1f}"


def _in_short(tasks: list[Task]) -> str:
    """What was to be shown, as measured, whether it came out or not."""
    broken = _breakers(tasks)
    lines = []
    for task in tasks:
        ours = _best([line for line in task.lines.values() if line.entry.name.startswith("dptally")])
        peers = [line for line in task.lines.values() if _is_peer(line) and line.entry.name not in broken]
        best = _best(peers)
        if not task.data_set.startswith("zipf") or ours is None or best is None or not ours.keys or not best.keys:
            continue
        text = (
            f"- {NAMES[task.data_set]}, {_keys(task.keys_per_unit)}, epsilon {task.epsilon}: **{ours.keys:,.0f} keys** "
            f"({ours.entry.title}), {ours.keys / best.keys:.2f} times the best peer ({best.entry.title}, "
            f"{best.keys:,.0f}); ceiling {task.facts['optimum']:,.0f}"
        )
        default = task.lines.get("pipelinedp_default")
        if default and default.keys:
            text += f"; {ours.keys / default.keys:.2f} times PipelineDP's default ({default.keys:,.0f})"
        worst = _worst_error(peers, ours.entry.name)
        if worst:
            common, title = worst
            text += (
                f"; error on common keys {common.ratio:.2f} of that of the most accurate peer ({title}), "
                f"plus or minus {common.uncertainty:.2f}"
            )
        lines.append(text + ".")
    for task in tasks:
        base, ours = task.lines.get("plain_polars"), task.lines.get("dptally_default")
        if task.data_set == "zipf-1e7" and base and ours and base.cpu and ours.cpu and base.peak and ours.peak:
            eager = task.lines.get("plain_polars_eager")
            text = (
                f"- Cost at ten million rows, {_keys(task.keys_per_unit)}, epsilon {task.epsilon}: dptally takes "
                f"{ours.cpu / base.cpu:.2f} times the processor time and {ours.peak / base.peak:.2f} times the memory "
                f"of plain Polars, streaming"
            )
            if eager and eager.cpu and eager.peak:
                text += f" ({ours.cpu / eager.cpu:.2f} and {ours.peak / eager.peak:.2f} times, eager)"
            lines.append(text + ".")
    return "\n".join(lines) or "No results yet."


def _is_peer(line: Line) -> bool:
    return line.entry.private and line.keys is not None and not line.entry.name.startswith("dptally")


def _best(lines: list[Line]) -> Line | None:
    return max((line for line in lines if line.keys is not None), key=lambda line: line.keys or 0, default=None)


def _worst_error(peers: list[Line], ours: str) -> tuple[Common, str] | None:
    """Where the error of the same entry of ours whose keys are named compares worst with a peer's."""
    found = [(line.ours[ours], line.entry.title) for line in peers if ours in line.ours]
    return max(found, key=lambda each: each[0].ratio, default=None)


def _not_measured(results: dict[str, Any]) -> str:
    """Cells without a result, so that what was not run is not mistaken for what is not there."""
    missing = [cell for cell in all_cells() if not results["cells"].get(cell.name)]
    if not missing:
        return "Every cell was run."
    entries = Counter((cell.data_set, cell.entry.title) for cell in missing)
    listed = "; ".join(
        f"{data_set}: "
        + ", ".join(f"{title} ({count})" for (found, title), count in entries.items() if found == data_set)
        for data_set in dict.fromkeys(data_set for data_set, _ in entries)
    )
    return f"**Not measured yet**, {len(missing)} of {len(all_cells())} cells: {listed}."


def _breakers(tasks: list[Task]) -> set[str]:
    """Entries that let out more than their delta allows."""
    return {
        line.entry.name
        for task in tasks
        if task.data_set == PROMISES
        for line in task.lines.values()
        if line.betrayed is not None and line.betrayed > _allowed(line.runs)
    }


def _allowed(runs: int) -> float:
    chance = float(PROMISED_DELTA)
    return ALONE * chance + _SIGMAS * (ALONE * chance * (1 - chance) / runs) ** 0.5


def _promises(tasks: list[Task]) -> str:
    rows = []
    for task in tasks:
        for line in task.lines.values():
            if line.betrayed is None:
                rows.append([line.entry.title, str(task.keys_per_unit), "", "", line.note])
                continue
            verdict = "kept" if line.betrayed <= _allowed(line.runs) else "**exceeded**"
            rate = f"{line.betrayed / ALONE:.4f}"
            rows.append([line.entry.title, str(task.keys_per_unit), f"{line.betrayed:,.0f}", rate, verdict])
    return _table(["entry", "keys per unit", "units disclosed", "rate", f"delta = {PROMISED_DELTA}"], rows)


def _tables(tasks: list[Task], code: dict[str, dict[str, int]]) -> list[str]:
    parts = []
    for data_set in DATA_SETS:
        found = [task for task in tasks if task.data_set == data_set and data_set != PROMISES]
        if found:
            parts.append(f"### {NAMES[data_set]}")
        for keys in sorted({task.keys_per_unit for task in found}):
            pair = sorted((task for task in found if task.keys_per_unit == keys), key=lambda task: float(task.epsilon))
            parts.append(_heading(pair))
            parts.append(_task_table(pair, code))
    return parts


def _heading(pair: list[Task]) -> str:
    facts = pair[0].facts
    known = [f"{task.facts['optimum']:,.0f} at epsilon {task.epsilon}" for task in pair if task.facts["optimum"]]
    ceilings = f"; ceiling {' and '.join(known)}" if known else ""
    return (
        f"**{_keys(pair[0].keys_per_unit).capitalize()}**: {facts['rows']:,} rows, {facts['units']:,} units, "
        f"{facts['distinct_keys']:,} distinct keys, delta {DELTA}{ceilings}."
    )


def _task_table(pair: list[Task], code: dict[str, dict[str, int]]) -> str:
    columns = ["entry"]
    for task in pair:
        columns += [f"keys, epsilon {task.epsilon}", "error", "error on common keys: its / dptally's"]
    columns += ["wall s", "CPU s", "start CPU s", "peak MB", "lines"]
    rows = []
    for entry in ENTRIES:
        lines = [task.lines.get(entry.name) for task in pair]
        if not any(lines):
            continue
        row = [entry.title]
        for line in lines:
            row += _accuracy(line)
        shown = next((line for line in lines if line is not None and line.cpu is not None), None)
        row += _cost(shown)
        by_rows = pair[0].keys_per_unit == 1 and pair[0].data_set.startswith("zipf")
        row.append(str(code.get(entry.name, {}).get("by_rows" if by_rows else "by_units", "")))
        rows.append(row)
    return _table(columns, rows)


def _accuracy(line: Line | None) -> list[str]:
    if line is None:
        return ["", "", ""]
    if line.keys is None:
        return [line.note, "", ""]
    common = "; ".join(
        f"{_number(common.theirs)} / {_number(common.ours)}" + (" (Gaussian)" if name.endswith("gaussian") else "")
        for name, common in line.ours.items()
    )
    return [f"{line.keys:,.0f}", _number(line.error) if line.entry.private else "", common]


def _cost(line: Line | None) -> list[str]:
    if line is None or line.wall is None or line.cpu is None or line.start_cpu is None:
        return ["", "", "", ""]
    peak = "" if line.peak is None else f"{line.peak:.0f}"
    return [f"{line.wall:.1f}", f"{line.cpu:.2f}", f"{line.start_cpu:.1f}", peak]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _keys(count: int) -> str:
    return "one key per unit" if count == 1 else f"{count} keys per unit"


def _pictures(names: list[str]) -> list[str]:
    return [f"![{Path(name).stem.replace('-', ', ', 1)}](figures/peers/{name})" for name in names]


def _versions(machine: dict[str, Any]) -> str:
    rows = [["own", f"this tree; Polars {machine['polars']}"]]
    main = {
        "opendp": ("opendp", "polars"),
        "pydp": ("python-dp", "polars"),
        "pipelinedp": ("pipeline-dp", "python-dp"),
        "smartnoise": ("smartnoise-sql", "opendp", "pandas"),
        "tumult": ("tmlt.analytics", "tmlt.core", "pyspark"),
    }
    for name, wanted in main.items():
        lines = (HERE / "environments" / f"{name}.txt").read_text().splitlines()
        pinned = dict(line.split("==") for line in lines if "==" in line)
        rows.append([name, ", ".join(f"{package} {pinned[package]}" for package in wanted)])
    return _table(["environment", "versions"], rows)


def _table(columns: list[str], rows: list[list[str]]) -> str:
    clean: Callable[[str], str] = lambda text: text.replace("|", "\\|").replace("\n", " ")  # noqa: E731
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(clean(cell) for cell in line) + " |" for line in lines)


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "peers.md")
    parser.add_argument("--no-pictures", action="store_true", help="write the text alone; needs no extra")
    asked = parser.parse_args()
    if not asked.results.exists():
        parser.error("there are no results yet: run benchmarks/peers/run.py first.")
    results = json.loads(asked.results.read_text())
    pictures: list[str] = []
    if not asked.no_pictures:
        from charts import draw_charts

        pictures = draw_charts(summarise(results), asked.output.parent / "figures" / "peers")
    asked.output.write_text(page(results, pictures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
