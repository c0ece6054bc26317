"""Run all audits and write their results into a page: ``python -m studies.audits docs/audits.md``.

What stands between the two marks of the page is replaced; everything else of it stays. The exit status is 1 if a
guarantee is broken or a control was missed.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import dptally
from dptally.audit import (
    BlackBoxFinding,
    ExactAudit,
    SideChannel,
    audit_black_box,
    audit_controls,
    audit_exactly,
    audit_side_channels,
)
from dptally.errors import InvalidParameter

__all__ = ["main", "replace_results", "results"]

START, END = "<!-- results: begin -->", "<!-- results: end -->"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the audits and write the page."""
    parser = argparse.ArgumentParser(prog="python -m studies.audits", description=__doc__)
    parser.add_argument("page", help="the page with the two marks")
    parser.add_argument("--settings", type=int, default=10_000, help="of the exact audit (default: 10000)")
    parser.add_argument("--processes", type=int, default=1, help="that do the exact audit (default: 1)")
    parser.add_argument("--runs", type=int, default=None, help="samples of each data set in the black-box audit")
    parser.add_argument("--seed", type=int, default=8, help="of everything (default: 8)")
    arguments = parser.parse_args(argv)
    page = Path(arguments.page)
    text = page.read_text(encoding="utf-8")
    replace_results(text, "")  # refuses a page without marks before minutes are spent

    def tell(name: str) -> None:
        print(f"auditing {name} ...", file=sys.stderr)

    began = time.perf_counter()
    tell(f"{arguments.settings} settings")
    exact = audit_exactly(settings=arguments.settings, seed=arguments.seed, processes=arguments.processes)
    seconds = time.perf_counter() - began
    kept = audit_black_box(runs=arguments.runs, seed=arguments.seed, progress=tell)
    controls = audit_controls(seed=arguments.seed, progress=tell)
    channels = audit_side_channels(seed=arguments.seed)
    command = " ".join(["python -m studies.audits", *(sys.argv[1:] if argv is None else argv)])
    page.write_text(
        replace_results(text, results(exact, seconds, kept, controls, channels, arguments.seed, command)),
        encoding="utf-8",
    )
    broken = any(finding.violated for finding in kept) or any(channel.leaks for channel in channels)
    return 0 if exact.passed and not broken and all(finding.violated for finding in controls) else 1


def replace_results(text: str, new: str) -> str:
    """The page with other results.

    Raises:
        InvalidParameter: if the page does not have both marks, once each, in order.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise InvalidParameter("the page does not have the marks between which results stand.")
    return f"{before}{START}\n{new}{END}{after}"


def results(
    exact: ExactAudit,
    seconds: float,
    kept: Sequence[BlackBoxFinding],
    controls: Sequence[BlackBoxFinding],
    channels: Sequence[SideChannel],
    seed: int,
    command: str,
) -> str:
    """The results as tables in Markdown."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    lines = [
        f"Written on {today} by `{command}`: dptally {dptally.__version__}, Python {platform.python_version()}, "
        f"seed {seed}.",
        "",
        f"**Exact.** {exact.settings.total():,} settings, {exact.comparisons:,} pairs of laws, {seconds:.0f} s: "
        f"{len(exact.violations)} violations, {len(exact.missed)} controls missed.",
        "",
        "| mechanism | settings | violations | controls: found in so many settings |",
        "| --- | ---: | ---: | --- |",
    ]
    for name, number in exact.settings.items():
        found = [
            f"{what} {hits}/{tried}" for (subject, what), (hits, tried) in exact.controls.items() if subject == name
        ]
        broken = sum(finding.mechanism.endswith(name) for finding in exact.violations)
        lines.append(f"| {name} | {number:,} | {broken} | {', '.join(found)} |")
    lines += [
        "",
        f"**Black box.** Lower bounds of epsilon at confidence {kept[0].confidence if kept else 1:.6f} each.",
        "",
        "| mechanism | control | claimed epsilon | delta | lower bound | samples | event | verdict |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for finding in [*kept, *controls]:
        good, bad = ("found", "MISSED") if finding.control else ("VIOLATED", "kept")
        lines.append(
            f"| {finding.name} | {finding.control or '-'} | {float(finding.epsilon):.4g} | "
            f"{float(finding.delta):.4g} | {finding.bound.epsilon:.3f} | {2 * finding.bound.runs[0]:,} | "
            f"{finding.bound.event}; {finding.bound.neighbours} | {good if finding.violated else bad} |"
        )
    lines += ["", "**Side channels.**", "", "| channel | looked at | found | verdict |", "| --- | --- | --- | --- |"]
    for channel in channels:
        verdict = {True: "LEAKS", False: "closed", None: "none"}[channel.leaks]
        lines.append(f"| {channel.name} | {channel.looked_at} | {channel.found} | {verdict} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
