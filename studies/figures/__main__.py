"""Make figures again: ``python -m studies.figures NAME [--output DIR]``; see studies/README.md."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from dptally.errors import DptallyError
from studies.figures import (
    charts,
    estimation,
    histograms,
    mechanism_pages,
    reporting,
    sample_and_threshold,
    screenshots,
)  # fmt: skip
from studies.figures.populations import REAL_DATA, Population, zipf
from studies.figures.tables import Table

__all__ = ["main", "zipf_populations"]

_ZIPF_KEYS = 10**6


def main(arguments: Sequence[str] | None = None) -> int:
    """Write one table per figure, and its picture; say what was left out."""
    parser = argparse.ArgumentParser(prog="python -m studies.figures", description=__doc__)
    parser.add_argument("name", choices=list(_FIGURES), help="a paper, mechanism_pages, or screenshots")
    parser.add_argument("--output", type=Path, metavar="DIR", help="in docs, unless given")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), metavar="DIR", help="for real data")
    parser.add_argument("--no-pictures", action="store_true", help="tables only")
    wanted = parser.parse_args(arguments)
    try:
        if not wanted.no_pictures:
            charts.check_extra()
        folder, make = _FIGURES[wanted.name]
        output = wanted.output or Path(folder)
        output.mkdir(parents=True, exist_ok=True)
        make(output, wanted.data, pictures=not wanted.no_pictures)
    except DptallyError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


def zipf_populations(alphas: Sequence[str], size: int = _ZIPF_KEYS) -> dict[str, Population]:
    """Zipf populations by a label."""
    return {f"Zipf {float(Fraction(alpha)):g}": zipf(size, alpha) for alpha in alphas}


def _say(places: Sequence[Path], started: float) -> None:
    sys.stdout.write(f"{', '.join(place.name for place in places)} ({time.monotonic() - started:.1f} s)\n")


def _weighted_sampling(output: Path, data: Path, *, pictures: bool) -> None:
    made: dict[str, Table] = {}
    steps: list[tuple[str, Callable[[], list[Table]]]] = [
        ("figure_1", lambda: [reporting.by_frequency()]),
        ("figure_2", lambda: [reporting.by_delta("figure_2", zipf_populations(["1", "2"]))]),
        ("figure_4", lambda: [reporting.sampled_by_frequency()]),
        ("figure_5", lambda: [reporting.by_rate("figure_5", zipf_populations(["1/2", "1", "2"]))]),
        ("figure_8", lambda: [estimation.bias_by_frequency(), estimation.error_by_rate()]),
        ("figure_9", lambda: [estimation.variance_by_frequency()]),
    ]
    try:
        real = {name: read(data) for name, read in REAL_DATA.items()}
    except FileNotFoundError:
        sys.stdout.write(f"Figures 3, 6 and 7 need real data, which is not in {data}: skipped.\n")
    else:
        steps += [
            ("figure_3", lambda: [reporting.by_delta("figure_3", real)]),
            ("figure_6", lambda: [reporting.by_rate("figure_6", real)]),
            ("figure_7", lambda: [reporting.ratios_by_rate(made["figure_6"])]),
        ]
    for figure, compute in steps:
        started = time.monotonic()
        tables = compute()
        made.update((table.name, table) for table in tables)
        places = [table.save(output) for table in tables]
        if pictures:
            places.append(output / f"{figure}.png")
            charts.save(charts.figure_chart(made, figure), places[-1])
        _say(places, started)


def _sample_and_threshold(output: Path, data: Path, *, pictures: bool) -> None:
    started = time.monotonic()
    sizes = sample_and_threshold.BUCKETS
    populations = {
        "Binomial": {size: histograms.binomial(size) for size in sizes},
        "Geometric": {size: histograms.geometric(size) for size in sizes},
    }
    try:
        populations["Shakespeare"] = {size: histograms.shakespeare(size, data) for size in sizes}
    except FileNotFoundError:
        sys.stdout.write(f"Shakespeare's words are not in {data}: skipped.\n")
    made = sample_and_threshold.comparison(populations)
    tables = [
        *made.values(),
        sample_and_threshold.expected_errors(populations),
        sample_and_threshold.parameters_table(),
    ]
    places = [table.save(output) for table in tables]
    for figure, shown in sample_and_threshold.SHOWN.items() if pictures else ():
        rows = [row for size in shown for row in made[figure].rows if row["buckets"] == size]
        places.append(output / f"{figure}.png")
        charts.save(charts.chart(Table(figure, rows), figure), places[-1])
    _say(places, started)


def _mechanism_pages(output: Path, data: Path, *, pictures: bool) -> None:
    for name, panels in mechanism_pages.PICTURES.items() if pictures else ():
        started = time.monotonic()
        place = output / f"{name}.svg"
        mechanism_pages.draw(panels()).save(place)
        _say([place], started)


def _screenshots(output: Path, data: Path, *, pictures: bool) -> None:
    started = time.monotonic()
    if pictures:
        _say(screenshots.take(output), started)


_FIGURES: dict[str, tuple[str, Callable[..., None]]] = {
    "weighted_sampling": ("docs/figures/weighted_sampling", _weighted_sampling),
    "sample_and_threshold": ("docs/figures/sample_and_threshold", _sample_and_threshold),
    "mechanism_pages": ("docs/figures/mechanism_pages", _mechanism_pages),
    "screenshots": ("docs", _screenshots),
}

if __name__ == "__main__":
    sys.exit(main())
