"""The command ``example``: the whole way on a small real data set, the words of Shakespeare's Hamlet, line by line.

The text is in the public domain; where the copy comes from is in ``example_files/README.md``.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
import shlex
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.cli.explain import Explanation, described
from dptally.cli.outputs import summarize
from dptally.cli.parser import Commands, add_command, add_flag, add_value
from dptally.cli.printing import describe, json_rows, print_frame, print_json, say
from dptally.errors import MissingDependency
from dptally.files import check_target

if TYPE_CHECKING:
    from dptally.releases.table_release import TableRelease

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


REQUEST: dict[str, Any] = {"key": "word", "unit": "line", "max_keys_per_unit": 3, "epsilon": "1", "delta": "1e-6"}
"""How the example is published."""


def add_commands(commands: Commands) -> None:
    """Add ``example``."""
    parser = add_command(commands, "example", _example, _explain)
    where = "where the files go (default: dptally-example, whose files are replaced)"
    add_value(parser, "--directory", "DIR", where)
    add_flag(parser, "--overwrite", "replace files in the directory given")
    add_flag(parser, "--no-picture", "draw no picture")


def _example(arguments: argparse.Namespace) -> None:
    """Publish a small real data set, end to end.

    Write the words of Shakespeare's Hamlet, line by line, publish them with the line as the privacy
    unit, show the result and write a report page. The files stay for you to try the other commands on.

    dptally example
    dptally example --directory /tmp/hamlet --no-picture
    """
    from dptally import report
    from dptally.publishing import publish

    directory = Path(arguments.directory or "dptally-example")
    overwrite = arguments.overwrite or arguments.directory is None
    directory.mkdir(parents=True, exist_ok=True)
    data, output, page = (directory / name for name in ("hamlet.csv", "release.parquet", "report.html"))
    pictures = [] if arguments.no_picture else [directory / "release.svg", directory / "release.png"]
    for target in (data, output, page, *pictures):
        check_target(target, overwrite=overwrite)
    rows = write_words(data)
    release = publish(str(data), **REQUEST)
    release.save(output, overwrite=overwrite)
    report.write(release, page, title="Words of Shakespeare's Hamlet", file=output, overwrite=overwrite)
    drawn, missing = _draw(release, pictures)
    command = _command(data, output)
    if arguments.json:
        facts = {**describe(release), "output": str(output), "rows": json_rows(release.top(10))}
        made = {"data": str(data), "report": str(page), "pictures": [str(picture) for picture in drawn]}
        print_json({**facts, **made, "command": command})
        return
    say(f"{data} holds {rows:,} rows: every word of every line of Shakespeare's Hamlet.")
    say("Each line is a unit, of which at most three words are counted. Published as by")
    say(f"\n  {shlex.join(command)}\n", style="cyan")
    print_frame(release, release.top(10))
    say(f"\n{release.top_in_words()}\n")
    summarize(release, output, remark=False)
    say(f"Report: {page}, a page about the release to open in a browser and to show to anyone.")
    if drawn:
        say(f"Picture: {' and '.join(str(picture) for picture in drawn)}")
    if missing:
        say(missing)


def _draw(release: TableRelease, pictures: list[Path]) -> tuple[list[Path], str | None]:
    """The pictures that were drawn, and what is missing for the others."""
    drawn: list[Path] = []
    try:
        for picture in pictures:
            release.plot().save(picture)
            drawn.append(picture)
    except MissingDependency as missing:
        return drawn, str(missing)
    return drawn, None


def _command(data: Path, output: Path) -> list[str]:
    options = [part for name, given in REQUEST.items() for part in (f"--{name.replace('_', '-')}", str(given))]
    return ["dptally", "publish", str(data), *options, "-o", str(output)]


def _explain(arguments: argparse.Namespace) -> Explanation:
    directory = arguments.directory or "dptally-example"
    return Explanation(
        described(arguments),
        reads=("a text that comes with the package",),
        writes=(f"{directory}/: the data, the release, the page{'' if arguments.no_picture else ', pictures'}",),
        guarantee=f"(epsilon = {REQUEST['epsilon']}, delta = {REQUEST['delta']})-differential privacy for each line.",
        cost="None: Hamlet has been public for some time.",
        resources="A few seconds.",
    )


def words() -> Iterator[tuple[int, str]]:
    """Every word of the play in lower case, with the number of its line.

    >>> list(words())[:3]
    [(1, 'hamlet'), (2, 'dramatis'), (2, 'personae')]
    """
    packed = files("dptally").joinpath("cli/example_files/hamlet.txt.gz").read_bytes()
    for number, line in enumerate(gzip.decompress(packed).decode("utf-8").splitlines(), start=1):
        for word in _WORD.findall(line.lower()):
            yield number, word


def write_words(path: Path) -> int:
    """Write the words as CSV with the columns `line` and `word`, and return the number of rows."""
    rows = list(words())
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("line", "word"))
        writer.writerows(rows)
    return len(rows)
