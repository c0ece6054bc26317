"""Write docs/group-by-peers.md from the results of `run.py`.

python benchmarks/group_by/page.py [--results FILE] [--output docs/group-by-peers.md]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "peers"))

from run import NUMBERS, OURS, RESULTS
from statements import COST, ENTRIES, choose_cells

ROOT = Path(__file__).parents[2]
TITLES = {entry.name: entry.title for entry in ENTRIES}
PLAIN = ("plain_two_sums", "plain_clipped_sums")
_BAR = 0.8
_INTRODUCTION = """\
# Counts, sums and means: comparison with other libraries

OpenDP, PipelineDP, Tumult Analytics and dptally answer the same statement when the keys are private:

```sql
SELECT key, COUNT(DISTINCT unit), SUM(x), AVG(x) FROM events GROUP BY key
```

All read the same Parquet file, with one row for each pair of a privacy unit (the person or entity that is protected) and a key, clip x into the same public range, 0 to 100, and guarantee the same (epsilon, delta) for adding or removing one unit; delta is 1e-6. The code of each entry is in [`benchmarks/group_by/entries`](../benchmarks/group_by/entries), short enough to read.

```bash
python benchmarks/peers/set_up.py opendp pipelinedp tumult     # a virtual environment for each peer; network
python benchmarks/group_by/run.py --runs 3                     # can be stopped and continued, and run in parts
python benchmarks/group_by/page.py                             # this page
```"""  # noqa: E501
_DATA = """\
## Data

- products: Online Retail, 4,372 customers and 3,684 products; x is what a customer spent on a product, in pounds. Customers have 61 products on average; libraries that need a bound get 10 or 30, stated without looking at the data.
- countries: the same customers by country; x is what a customer spent, in hundreds of pounds. One key per unit, nearly always.
- zipf-3e5: 300,000 rows of [the comparison of keys](peers.md), exactly 10 keys per unit, so that nothing is lost to a bound; x is log-normal around a level of the key."""  # noqa: E501
_READING = """\
An error is the mean absolute difference from the answer to the statement on clipped values, with all keys of all units: what a bound leaves out is an error, too. It is compared with each peer on the keys that both release; a ratio is dptally's error over that of the peer, and the largest one over all peers counts. No peer is centred by hand: PipelineDP's `MEAN` counts from the middle of the range by itself, the others from 0. Peers have no NULLs to count; dptally pays for a count of them, though there are none. OpenDP adds up values rounded to whole numbers.

The shares of "dptally, values" were chosen after looking at results on these same data; the other entries had no such help. "Measured" and "stated" were run when three quarters of the budget went to the selection of keys; since then the default with sums or means is a quarter, chosen after these results, and was not measured here."""  # noqa: E501


def page(results: dict[str, Any]) -> str:
    """The whole page."""
    cells = {name: [run for run in runs if run["status"] == "done"] for name, runs in results["cells"].items()}
    tasks = [task for task in dict.fromkeys(cell.task for cell in choose_cells([])) if not task.startswith(COST)]
    counts = sorted({len(runs) for name, runs in cells.items() if runs and not name.startswith(COST)})
    machine = results["machine"]
    parts = [
        "<!-- Written by benchmarks/group_by/page.py from benchmarks/group_by/results.json; do not edit. -->",
        _INTRODUCTION,
        f"Means of {counts[0]} to {counts[-1]} runs, with Python {machine['python']} on {machine['cores']} cores.",
        "## In short",
        _READING,
        _in_short(cells, tasks),
        _cost(cells),
        "## Results",
        *(_task(cells, task) for task in tasks),
        _failures(results["cells"]),
        _DATA,
        "## Settings",
        _table(["entry", "setting"], [[entry.title, entry.setting] for entry in ENTRIES]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _runs(cells: dict[str, Any], task: str, entry: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cells.get(f"{task}/{entry}", [])
    return found


def _keys(cells: dict[str, Any], task: str, entry: str) -> float:
    return statistics.mean([run["keys"] for run in _runs(cells, task, entry)] or [0])


def _ratio(cells: dict[str, Any], task: str, ours: str, peer: str, number: str) -> float | None:
    """Our error over theirs, each added up over the runs, on keys that both have."""
    common = [run["common"].get(ours) for run in _runs(cells, task, peer)]
    both = [each for each in common if each and each["keys"]]
    return sum(b["ours"][number] for b in both) / sum(b["theirs"][number] for b in both) if both else None


def _in_short(cells: dict[str, Any], tasks: list[str]) -> str:
    rows = []
    peers = [name for name in TITLES if name not in OURS]
    for task in tasks:
        most = max(_keys(cells, task, peer) for peer in peers)
        for ours in (name for name in OURS if _runs(cells, task, name)):
            line = [_name(task), TITLES[ours], f"{_keys(cells, task, ours):,.0f}", f"{most:,.0f}"]
            for number in NUMBERS:
                ratios = [(_ratio(cells, task, ours, peer, number), peer) for peer in peers]
                known = [(ratio, peer) for ratio, peer in ratios if ratio is not None]
                ratio, peer = max(known, default=(None, ""))
                shown = "" if ratio is None else f"{ratio:.2f} ({TITLES[peer]})"
                line.append(f"**{shown}**" if ratio is not None and ratio <= _BAR else shown)
            rows.append(line)
    head = ["data", "entry", "keys", "most keys of a peer", *(f"error of {name}s" for name in NUMBERS)]
    return f"Bold: at most {_BAR} of the error of every peer.\n\n" + _table(head, rows)


def _name(task: str) -> str:
    data_set, keys, epsilon = task.split("/")
    return f"{data_set}, {keys[1:]} keys per unit, epsilon {epsilon[1:]}"


def _task(cells: dict[str, Any], task: str) -> str:
    rows = []
    for name, title in TITLES.items():
        runs = _runs(cells, task, name)
        if not runs:
            continue
        means = []
        for number in NUMBERS:
            found = [run["errors"][number] for run in runs if number in run["errors"]]
            means.append(f"{statistics.mean(found):,.1f}" if found else "")
        common = [statistics.mean(run["common"].get(ours, {"keys": 0})["keys"] for run in runs) for ours in OURS]
        shared = [] if name in OURS else [f"{keys:,.0f}" for keys in common]
        ratios = [] if name in OURS else [_ratios(cells, task, ours, name) for ours in OURS]
        pairs = [f"{ratio} on {keys}" if ratio else "" for ratio, keys in zip(ratios, shared, strict=True)]
        rows.append([title, f"{_keys(cells, task, name):,.0f}", *means, *(pairs or [""] * len(OURS))])
    head = ["entry", "keys", *(f"error of {name}s" for name in NUMBERS), *(f"{TITLES[name]} over it" for name in OURS)]
    return f"### {_name(task)}\n\n" + _table(head, rows)


def _ratios(cells: dict[str, Any], task: str, ours: str, peer: str) -> str:
    found = [_ratio(cells, task, ours, peer, number) for number in NUMBERS]
    return " / ".join(f"{ratio:.2f}" for ratio in found if ratio is not None)


def _cost(cells: dict[str, Any]) -> str:
    found = {name.rpartition("/")[2]: runs for name, runs in cells.items() if name.startswith(COST) and runs}
    if len(found) < 3:
        return "**Not measured yet**: the cost of two sums."

    def median(entry: str, what: str) -> float:
        return statistics.median(run[what] for run in found[entry])

    cpu, wall = median("dptally_two_sums", "cpu"), median("dptally_two_sums", "wall")
    plain, clipped = ((cpu / median(name, "cpu"), wall / median(name, "wall")) for name in PLAIN)
    loads = [run["load"] for runs in found.values() for run in runs]
    return (
        "Cost of `COUNT(DISTINCT unit)`, `SUM(x)` and `SUM(y)` at ten million rows with 10 keys per unit: dptally "
        f"takes {plain[0]:.2f} times the processor time and {plain[1]:.2f} times the time of the plain statement in "
        f"Polars, streaming, and {clipped[0]:.2f} and {clipped[1]:.2f} times those of the same with clipped values "
        f"of each pair of unit and key ({cpu:.1f} CPU s in a second call: a first one builds and verifies the plan; "
        f"load of the machine {min(loads)} to {max(loads)})."
    )


def _failures(cells: dict[str, Any]) -> str:
    failed = {name: run for name, runs in cells.items() for run in runs if run["status"] != "done"}
    lines = [
        f"- {name}: {run['status']}{': ' + run['reason'] if 'reason' in run else ''}" for name, run in failed.items()
    ]
    return "\n".join(["Not done:\n", *lines]) if lines else ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "group-by-peers.md")
    asked = parser.parse_args(arguments)
    asked.output.write_text(page(json.loads(asked.results.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
