"""The commands ``plot`` and ``report``: a release to look at."""

from __future__ import annotations

import argparse
from pathlib import Path

from dptally.cli.explain import Explanation, explain_reading, outputs
from dptally.cli.options import add_confidence, add_overwrite, add_release, confidence_of
from dptally.cli.parser import Commands, add_choice, add_command, add_flag, add_number, add_value
from dptally.cli.printing import print_json, say
from dptally.cli.signals import to_completion
from dptally.files import check_target
from dptally.loading import load
from dptally.releases.base import Release


def add_commands(commands: Commands) -> None:
    """Add ``plot`` and ``report``."""
    plot = add_command(commands, "plot", _plot, explain_reading)
    add_release(plot)
    add_value(plot, "-o --output", "FILE", "picture to write: .png, .svg or .html", required=True)
    add_flag(plot, "--overwrite", "replace the picture if it exists")
    add_number(plot, "-n", "N", "how many keys", default=20)
    add_confidence(plot)

    parser = add_command(commands, "report", _report, _explain)
    add_release(parser)
    add_value(parser, "-o --output", "FILE", "page to write (.html)", required=True)
    add_overwrite(parser)
    add_value(parser, "--title", "TEXT", "heading of the page (default: the names of the key columns)")
    add_number(parser, "-n", "N", "rows of the table", default=200)
    add_value(parser, "--charts", "DIR", "also write the charts as SVG and PNG into this directory")
    kind = "only this kind of chart file (default: both; PNG needs pip install 'dptally[plots]')"
    add_choice(parser, "--chart-format", ("svg", "png"), kind, action="append")
    add_confidence(parser)


def _plot(arguments: argparse.Namespace) -> None:
    """A picture of a release.

    Draw the most frequent released keys with confidence intervals, and the chance of a key to be released,
    by its true count; of other releases, the charts of their report. Pictures hold all they need and load nothing;
    PNG needs pip install 'dptally[plots]'.

    dptally plot release.parquet -o picture.svg
    dptally plot release.parquet -n 50 -o picture.html
    """
    from dptally.report.drawing import check_format

    picture = Path(arguments.output)
    check_format(picture)
    check_target(picture, overwrite=arguments.overwrite)
    confidence = "0.95" if arguments.confidence is None else arguments.confidence
    chart = load(arguments.release, Release).plot(arguments.n, confidence=confidence)
    with to_completion():
        chart.save(picture)
    if arguments.json:
        print_json({"picture": str(picture)})
    else:
        say(f"Picture written to {picture}.")


def _report(arguments: argparse.Namespace) -> None:
    """A page about a release, to show to anyone.

    Write one HTML page: the guarantee in plain words, how it was verified, the most frequent keys with
    bounds, what privacy hides, questions one can ask, how to cite. The page loads nothing, works without
    scripts, and is made from nothing but the release, whose certificate is checked again first.

    dptally report release.parquet -o report.html
    dptally report release.parquet -o report.html --title 'Search queries' --charts charts
    """
    from dptally.report.contents import put_together
    from dptally.report.writing import CHART_FORMATS, check_page, make_report, save_page, write_charts

    place = Path(arguments.output)
    check_page(place, overwrite=arguments.overwrite)
    found = make_report(
        load(arguments.release, Release),
        title=arguments.title,
        n=arguments.n,
        confidence=confidence_of(arguments),
        file=arguments.release,
    )
    charts: list[Path] = []
    if arguments.charts is not None:
        formats = tuple(arguments.chart_format or CHART_FORMATS)
        charts = write_charts(found, arguments.charts, formats=formats, overwrite=arguments.overwrite)
    text = put_together(found)
    with to_completion():
        save_page(text, place, overwrite=arguments.overwrite)
    if arguments.json:
        print_json({"report": str(place), "bytes": place.stat().st_size, "charts": [str(chart) for chart in charts]})
        return
    say(f"Report written to {place}.")
    if charts:
        say(f"Charts: {', '.join(str(chart) for chart in charts)}")


def _explain(arguments: argparse.Namespace) -> Explanation:
    writes = outputs(arguments, "the page, which anyone may see")
    if arguments.charts is not None:
        writes = (*writes, f"{arguments.charts}/: its charts")
    resources = "About a second; some seconds with sampling or a very small epsilon."
    return explain_reading(arguments, writes=writes, resources=resources)
