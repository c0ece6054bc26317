"""Write docs/many-keys.md and its pictures from the results of `run.py`.

python benchmarks/many_keys/page.py [--results FILE] [--output docs/many-keys.md]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from charts import draw_charts
from data import DATA_SETS
from methods import METHODS, Method
from run import DELTAS, EPSILONS, RESULTS, cell_name

ROOT = Path(__file__).parents[2]
_INTRODUCTION = """\
# Units with many keys: comparison of methods

How many keys does each method release where a privacy unit (the person or entity that is protected) has many keys? The guarantee asked of each is (epsilon, delta)-differential privacy for adding or removing one unit with all its keys; what is proved of it is under [accounting](#accounting).

```bash
python benchmarks/many_keys/run.py      # can be stopped and continued, and run in parts
python benchmarks/many_keys/page.py     # this page
```

"dptally" is `dptally.publish(pairs, key="key", unit="unit", epsilon=..., delta=..., values=False)`: no bound, no mechanism, one rule for all data. Its constants (shares of rounds, of sizes and of new keys, noise cut, resolution of weights) were chosen after looking at results on these same data sets, about forty variants; the other methods had no such help. Its figures with counts were measured before the order of its tables was raised and its rule for sizes refined. Every other method has one setting for all data: the published defaults, as far as they are known ([settings](#settings)). The methods were implemented from their published descriptions, in [`benchmarks/many_keys`](../benchmarks/many_keys); each docstring has statement, accounting and source."""  # noqa: E501
_ACCOUNTING = """\
## Accounting

- dptally's figures are of releases whose certificate was verified in exact arithmetic.
- The other methods are computed in floating point. Those with Gaussian noise get less of it than their papers give them: rounds are composed as one Gaussian mechanism, and both demands of a threshold mechanism (privacy of the noise, and keys that no other unit has) are met with all of delta, where the papers give half to each. Each demand is necessary, so for the weighted Gaussian, DP-SIPS, policy Gaussian and MAD no valid accounting with the same shares of rounds releases more keys. That both together suffice was checked for the weighted Gaussian only; for several rounds it is not proved, so these figures may be slightly too high, and by the accounting never too low. The second threshold of MAD2R uses an upper bound of the weights.
- The full papers on DP-SIPS, MAD and MAD2R were not at hand: the shares of rounds and the parameters are from memory, and MAD and MAD2R are reconstructions from abstract and idea. The bound on what one unit changes is proved in `adaptive_degree.py`. The authors' programs may release more keys or fewer.
- The published threshold of the greedy policy is shown and not compared with: as read here (the paper was not at hand; the threshold is that of a public implementation) it counts on a unit bringing in at most one key, but a unit can displace the weight of later ones to further keys. For a given order of units there is data for which the probability of releasing a key that is impossible without that unit is 1.9 delta at epsilon 0.1 (in the tests). "Greedy" has a threshold that is proved in `policies.py`."""  # noqa: E501


def page(results: dict[str, Any], pictures: list[str]) -> str:
    """The whole page."""
    dates = sorted({cell["date"] for cell in results["cells"].values()})
    runs = sorted({len(cell["keys"]) for cell in results["cells"].values()})
    parts = [
        "<!-- Written by benchmarks/many_keys/page.py from benchmarks/many_keys/results.json; do not edit. -->",
        _INTRODUCTION,
        f"Means of {_range(runs)} runs, measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))}. Bold: the most "
        "keys, the greedy policy with its published threshold left out.",
        "## In short",
        _in_short(results["cells"]),
        *(f"![{Path(name).stem.replace('-', ' ')}](figures/many-keys/{name})" for name in pictures),
        "## Results",
        *(_results(results, delta) for delta in DELTAS),
        _ACCOUNTING,
        "## Data",
        _data(results["data"]),
        "## Settings",
        _table(["method", "setting"], [[method.title, method.setting] for method in METHODS.values()]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def lead(cells: dict[str, Any], name: str, epsilon: float, delta: float) -> tuple[float, float, Method] | None:
    """Mean of dptally, mean of the best other method, and which that is; None where one of them was not run."""
    ours = cells.get(cell_name(name, epsilon, delta, "dptally"))
    others = [method for method in METHODS.values() if method.kind == "other"]
    found = [(cell["mean"], method) for method in others if (cell := _cell(cells, name, epsilon, delta, method))]
    if ours is None or not found:
        return None
    best, method = max(found, key=lambda each: each[0])
    return ours["mean"], best, method


def _cell(cells: dict[str, Any], name: str, epsilon: float, delta: float, method: Method) -> dict[str, Any] | None:
    return cells.get(cell_name(name, epsilon, delta, method.name))


def _in_short(cells: dict[str, Any]) -> str:
    """Where dptally is ahead and where it is behind, and by how much."""
    places = [(name, epsilon, delta) for name in DATA_SETS for epsilon in EPSILONS for delta in DELTAS]
    found = [(place, led) for place in places if (led := lead(cells, *place))]
    if not found:
        return "dptally's automatic choice was not measured yet: the installed package did not have it."
    behind = [(place, led) for place, led in found if led[0] < led[1]]
    even = sum(led[0] == led[1] for _, led in found)
    lines = [
        f"- Of {len(found)} cells (data, epsilon, delta) dptally releases more keys than every other method in "
        f"{len(found) - len(behind) - even}, as many in {even}, fewer in {len(behind)}."
    ]
    for (name, epsilon, delta), (ours, best, method) in behind:
        lines.append(
            f"- Behind: {DATA_SETS[name]}, epsilon {epsilon:g}, delta {delta:g}: {ours:,.1f} keys, {method.title} "
            f"{best:,.1f} ({_percent(ours, best)})."
        )
    shares = [
        counted["mean"] / led[0]
        for (name, epsilon, delta), led in found
        if led[0] >= 100 and (counted := cells.get(cell_name(name, epsilon, delta, "dptally_counts")))
    ]
    if shares:
        lines.append(
            f"- With counts dptally releases {min(shares):.2f} to {max(shares):.2f} of the keys of keys only, in cells "
            "with at least 100 keys."
        )
    return "\n".join(lines)


def _results(results: dict[str, Any], delta: float) -> str:
    cells, shown = results["cells"], [*METHODS.values()]
    shown = [method for method in shown if any(name.endswith("/" + method.name) for name in cells)]
    rows = []
    for name, title in DATA_SETS.items():
        for epsilon in EPSILONS:
            found = {method.name: _cell(cells, name, epsilon, delta, method) for method in shown}
            if not any(found.values()):
                continue
            ranked = [cell["mean"] for method in shown if method.kind != "unproved" and (cell := found[method.name])]
            best = max(ranked, default=0.0)
            row = [title, f"{epsilon:g}"]
            for method in shown:
                cell = found[method.name]
                row.append(_number(cell, best if method.kind != "unproved" else None))
            led = lead(cells, name, epsilon, delta)
            row.append(f"{_percent(led[0], led[1])} ({led[2].title})" if led else "not measured")
            rows.append(row)
    if not rows:
        return ""
    columns = ["data", "epsilon", *(method.title for method in shown), "dptally and the best other method"]
    return f"### delta = {delta:g}\n\n{_table(columns, rows)}"


def _number(cell: dict[str, Any] | None, best: float | None) -> str:
    if cell is None:
        return ""
    text = f"{cell['mean']:,.0f}" if cell["mean"] >= 100 else f"{cell['mean']:.1f}"
    return f"**{text}**" if best and cell["mean"] == best else text


def _percent(ours: float, best: float) -> str:
    """How far ahead (+) or behind (-)."""
    if best == 0:
        return "even" if ours == 0 else f"{ours:.1f} to 0"
    return f"{100 * (ours / best - 1):+.1f} %"


def _data(facts: dict[str, dict[str, int]]) -> str:
    rows = [
        [DATA_SETS[name], *(f"{facts[name][fact]:,}" for fact in ("units", "keys", "pairs", "median", "largest"))]
        for name in DATA_SETS
        if name in facts
    ]
    notes = (
        "Pairs are distinct pairs of unit and key. Customers: rows with a customer. Baskets: all invoices. "
        "MathOverflow: interactions of users with themselves are left in. Zipf: 100,000 units, keys sampled from "
        "100,000 with probability proportional to 1 / rank, fixed seed."
    )
    columns = ["data", "units", "distinct keys", "pairs", "keys of a unit, median", "largest"]
    return f"{_table(columns, rows)}\n\n{notes}"


def _range(numbers: list[int]) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "many-keys.md")
    asked = parser.parse_args(arguments)
    if not asked.results.exists():
        parser.error("there are no results yet: run benchmarks/many_keys/run.py first.")
    results = json.loads(asked.results.read_text())
    pictures = draw_charts(results, asked.output.parent / "figures" / "many-keys")
    asked.output.write_text(page(results, pictures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
