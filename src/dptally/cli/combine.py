"""The command ``combine``: releases of several streams added up. All of it is public.

JSON: `releases` (the paths), `guarantee` with `epsilon`, `delta`, `units` (fractions as strings, floats beside them),
`guarantee_text`, `keys` (how many any of them reports), `hidden` (what a key that none of them reports may have at
most), `hidden_text`, `confidence`, `output` (the path, or null), and `rows`, the n largest sums: as those of a release,
with `reported_by`, and with bounds that hold for all keys at once, and so after sorting. The file has bounds for each
key on its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli.explain import Explanation, explain_reading
from dptally.cli.options import add_confidence, add_overwrite, confidence_of
from dptally.cli.parser import add_choice, add_command, add_flag, add_number, add_value
from dptally.cli.signals import to_completion
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse
    from fractions import Fraction

    import polars as pl

    from dptally.cli.parser import Commands
    from dptally.releases.combined_releases import CombinedReleases

__all__ = ["add_commands"]

_FORMATS = (".csv", ".json", ".parquet")


def add_commands(commands: Commands) -> None:
    """Add ``combine``."""
    parser = add_command(commands, "combine", _combine, _explain)
    add_value(parser, "release", "RELEASE", "files written by dptally publish -o", nargs="+")
    whose = "whether a unit is in one stream only, or may be in all of them; see above"
    add_choice(parser, "--units", ("disjoint", "shared"), whose, required=True)
    add_number(parser, "-n", "N", "how many keys to print", default=10)
    add_value(parser, "-o --output", "FILE", "where to write all keys: .csv, .json or .parquet")
    add_overwrite(parser)
    add_confidence(parser)
    add_flag(parser, "-q --quiet", "print only the requested output")


def _combine(arguments: argparse.Namespace) -> None:
    """Add up releases of several streams.

    Add up what several owners have published, each a stream of their own, when no one may see more of a
    stream than its release. Each release is verified first. The keys with the largest sums are printed:
    a table on a terminal, CSV into a pipe. What is guaranteed about all releases together, and how much of
    a key may be hidden, goes to standard error. With -o all keys are written: .csv, .json or .parquet.
    Noise and thresholds add up; where one place may see all sketches, dptally sketch merge --sum leads to
    less of both.

    --units says whose privacy it is, which no file can tell. disjoint: every unit is in one stream only,
    and what holds for one release holds for all together. shared: a unit may be in all of them, and
    epsilons and deltas are added up. If you do not know, it is shared.

    dptally combine monday.parquet tuesday.parquet --units shared -o both.csv
    dptally combine shop-a.parquet shop-b.parquet shop-c.parquet --units disjoint -n 20
    """
    from dptally.cli.printing import json_rows, print_json, print_rows, say
    from dptally.cli.read import load_table
    from dptally.estimates.frequencies import together_in_words
    from dptally.releases.combined_releases import combine

    confidence = confidence_of(arguments)
    output = _checked_output(arguments)
    combined = combine([load_table(path) for path in arguments.release], units=arguments.units)
    combined.verify()
    top = combined.top(arguments.n, confidence=confidence)
    table = combined.table(confidence=confidence)
    hidden = _hidden_in_words(combined, confidence)
    if output is not None:
        with to_completion():
            _write(table, output, overwrite=arguments.overwrite)
    if arguments.json:
        stated = {name: str(getattr(combined, name)) for name in ("epsilon", "delta", "units")}
        floats = {"epsilon_float": float(combined.epsilon), "delta_float": float(combined.delta)}
        print_json(
            {
                "releases": arguments.release,
                "guarantee": {**stated, **floats},
                "guarantee_text": combined.in_words(),
                "keys": len(table),
                "hidden": combined.hidden(confidence=confidence),
                "hidden_text": hidden,
                "confidence": float(confidence),
                "output": None if output is None else str(output),
                "rows": json_rows(top),
            }
        )
        return
    print_rows(combined.releases[0], top)  # all have its key columns
    if arguments.quiet:
        return
    if len(top) < len(table) and output is None:
        say(f"... and {len(table) - len(top):,} more; ask for them with -n, or write all with -o.", remark=True)
    if len(top):
        counts = "counters of the sketches, and what is hidden of them," if any(_untold(combined)) else "true counts"
        say(together_in_words(confidence, "keys", counts=counts), remark=True)
    if output is not None:
        say(f"Wrote {output}: {len(table):,} {'key' if len(table) == 1 else 'keys'}.", style="bold", remark=True)
    say(combined.in_words(), remark=True)
    say(hidden, remark=True)


def _checked_output(arguments: argparse.Namespace) -> Path | None:
    """Refuse files that cannot be added up or written, before any is read."""
    from dptally.files import check_target

    places = [Path(path).resolve() for path in arguments.release]
    for number, path in enumerate(arguments.release):
        if places[number] in places[:number]:
            raise InvalidParameter(f"{path} is named twice; a release is added up once.")
    if arguments.output is None:
        return None
    output = Path(arguments.output)
    if output.suffix.lower() not in _FORMATS:
        raise InvalidParameter(f"-o writes .csv, .json or .parquet, and {output} is named otherwise.")
    check_target(output, overwrite=arguments.overwrite)
    return output


def _hidden_in_words(combined: CombinedReleases, confidence: Fraction) -> str:
    most = f"at most {combined.hidden(confidence=confidence):,} in all streams together"
    beyond = ", beyond what sketches fall short of frequencies, which is not told" if any(_untold(combined)) else ""
    return f"A key that no release reports has a frequency of {most} ({float(100 * confidence):g} % sure){beyond}."


def _untold(combined: CombinedReleases) -> list[bool]:
    """Which releases are of sketches that do not tell how far they fall short."""
    return [each.guarantee.sketch_capacity is not None and each.shortfall is None for each in combined.releases]


def _write(table: pl.DataFrame, output: Path, *, overwrite: bool) -> None:
    """Write all rows, by the name of the file."""
    from dptally.cli.printing import bytes_in_hexadecimal, json_rows
    from dptally.files import complete_or_absent

    with complete_or_absent(output, overwrite=overwrite) as file:
        kind = output.suffix.lower()
        if kind == ".parquet":
            table.write_parquet(file)
        elif kind == ".csv":
            bytes_in_hexadecimal(table).write_csv(file)
        else:
            file.write(json.dumps(json_rows(table), indent=2).encode() + b"\n")


def _explain(arguments: argparse.Namespace) -> Explanation:
    guarantees = {
        "disjoint": "The weakest of the releases', provided that every unit is in one stream only, as you state.",
        "shared": "Epsilons and deltas of the releases added up, since a unit may be in all streams.",
    }
    return explain_reading(arguments, guarantee=guarantees[arguments.units])
