"""A plan as one HTML page: no network, no scripts, light and dark, readable on a phone. Everything is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dptally.planning.plans import PUBLIC_EXAMPLE, mechanism_cells
from dptally.svg_curves import curves_picture

if TYPE_CHECKING:
    from dptally.planning.plans import Plan

__all__ = ["plan_page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #59636e; --paper: #ffffff; --line: #d1d9e0; --mark: #e6f0ff;
  --c0: #0b5cad; --c1: #b3430e; --c2: #1a7f37; --c3: #8250df; --c4: #bf3989; --c5: #7d4e00; --c6: #0f766e;
  --c7: #57606a }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #9ea7b3; --paper: #0d1117; --line: #3d444d;
  --mark: #12263f; --c0: #6cb0ff; --c1: #ffa572; --c2: #56d364; --c3: #c297ff; --c4: #ff8bd1; --c5: #e3b341;
  --c6: #4fd6c8; --c7: #b1bac4 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.2rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif }
h1 { font-size: 1.5rem; line-height: 1.25 } h2 { font-size: 1.15rem; margin-top: 2rem }
.answer { border-left: 4px solid var(--c0); padding: .4rem .9rem; background: var(--mark) }
.warning { border-left: 4px solid var(--c1); padding: .4rem .9rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } tr.best { background: var(--mark); font-weight: 600 }
dt { font-weight: 600; margin-top: .6rem } dd { margin: 0; color: var(--faint) }
p.small { color: var(--faint); font-size: .9rem } svg { width: 100%; max-width: 42rem; height: auto; display: block }
@media print { body { max-width: none; padding: 0 } }
"""


def plan_page(plan: Plan) -> str:
    """The page as text."""
    curves = plan.curves()
    frequencies = curves.get_column("frequency").to_list()
    drawn = {name: curves.get_column(name).to_list() for name in curves.columns if name != "frequency"}
    names, *rows = mechanism_cells(plan)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>dptally: a plan</title><style>{_STYLE}</style></head><body><main>",
        "<h1>What to expect, before any data is read</h1>",
    ]
    if plan.need is not None:
        parts.append(f'<p class="answer">{escape(str(plan.need))}</p>')
    parts.append(f"<p>{escape(plan.sentence)}</p>")
    if plan.recommendation not in plan.sentence:
        parts.append(f'<p class="answer"><strong>Recommendation:</strong> {escape(plan.recommendation)}</p>')
    if plan.population is not None:
        parts.append(f"<p>Supposed: {escape(plan.population.told)}.</p>")
        if plan.population.from_example:
            parts.append(f'<p class="warning" role="note">{escape(PUBLIC_EXAMPLE)}</p>')
    if drawn:
        parts.append("<h2>Chance that a key is reported, by its frequency</h2>")
        parts.append(curves_picture(frequencies, drawn))
    parts.append("<h2>Mechanisms</h2>")
    parts.append('<div class="scroll" tabindex="0" role="region" aria-label="Table of mechanisms"><table>')
    parts.append("<thead><tr>" + "".join(f'<th scope="col">{escape(name)}</th>' for name in names) + "</tr></thead>")
    parts.append("<tbody>")
    for row in rows:
        best = ' class="best"' if row[0] == plan.recommended else ""
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        parts.append(f'<tr{best}><th scope="row">{escape(row[0])}</th>{cells}</tr>')
    parts.append("</tbody></table></div>")
    parts.append(f'<p class="small">{escape(_legend(plan))}</p><dl>')
    for each in plan.forecasts:
        if each.note:
            parts.append(f"<dt>{escape(each.mechanism)}</dt><dd>{escape(each.note)}</dd>")
    parts.append("</dl>")
    if plan.left_out:
        parts.append("<h2>Mechanisms that do not apply</h2><dl>")
        parts += [f"<dt>{escape(name)}</dt><dd>{escape(reason)}</dd>" for name, reason in plan.left_out.items()]
        parts.append("</dl>")
    parts.append("</main></body></html>\n")
    return "\n".join(parts)


def _legend(plan: Plan) -> str:
    text = (
        "50 %, 95 %, 99.9 %: the smallest frequency at which a key is reported with this probability, exact from the "
        "law. Mean error: of the estimate of a reported key. Bounds: half the width of 95 % bounds."
    )
    if plan.population is None:
        return text
    share = "all keys" if plan.share == 1 else f"{plan.share:.3g} of the keys"
    return (
        f"{text} Keys: how many are expected to be released. Sum error: of the estimated sum over {share}, "
        "relative. Time and memory are estimates from measured runs on one machine."
    )
