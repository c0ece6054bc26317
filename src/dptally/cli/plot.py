"""The command ``plot``.

JSON: `picture`, the path that was written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli.explain import explain_reading
from dptally.cli.options import add_confidence, add_release
from dptally.cli.parser import add_command, whole_number
from dptally.cli.signals import to_completion

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``plot``."""
    parser = add_command(commands, "plot", _plot, explain_reading)
    add_release(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="picture to write: .png, .svg or .html")
    parser.add_argument("--overwrite", action="store_true", help="replace the picture if it exists")
    parser.add_argument("-n", metavar="N", type=whole_number, default=20, help="how many keys (default: 20)")
    add_confidence(parser)


def _plot(arguments: argparse.Namespace) -> None:
    """A picture of a release.

    Draw the most frequent released keys with confidence intervals, and the chance of a key to be released,
    by its true count; of other releases, the charts of their report. Pictures hold all they need and load nothing;
    PNG needs pip install 'dptally[plots]'.

    dptally plot release.parquet -o picture.svg
    dptally plot release.parquet -n 50 -o picture.html
    """
    from dptally.cli.printing import print_json, say
    from dptally.files import check_target
    from dptally.loading import load
    from dptally.releases.base import Release
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
