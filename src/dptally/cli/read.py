"""The commands that read releases: ``show``, ``top``, ``count``, ``sum``, ``verify``, ``combine``. All is public."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli.explain import Explanation, explain_reading
from dptally.cli.options import add_confidence, add_overwrite, add_release, confidence_of, given, open_ledger
from dptally.cli.parser import Commands, add_choice, add_command, add_flag, add_number, add_value
from dptally.cli.printing import (
    bytes_in_hexadecimal,
    describe,
    json_rows,
    print_json,
    print_rows,
    print_table,
    print_table_or_csv,
    say,
    say_guarantee,
)
from dptally.cli.signals import to_completion
from dptally.errors import InvalidParameter
from dptally.files import check_target, complete_or_absent
from dptally.labels import quoted
from dptally.loading import load
from dptally.releases.base import Release

if TYPE_CHECKING:
    import polars as pl

    from dptally.releases.combined_releases import CombinedReleases
    from dptally.releases.table_release import TableRelease

TABLE_FORMATS = (".csv", ".json", ".parquet")


def add_commands(commands: Commands) -> None:
    """Add ``show``, ``top``, ``count``, ``sum``, ``verify`` and ``combine``."""
    show = add_command(commands, "show", _show, explain_reading)
    add_release(show)
    add_number(show, "-n", "N", "how many rows", default=10)
    add_confidence(show)

    top = add_command(commands, "top", _top, explain_reading)
    add_release(top)
    add_number(top, "-n", "N", "how many keys", default=10)
    add_confidence(top)

    count = add_command(commands, "count", _count, explain_reading)
    add_release(count)
    keys = "keys to ask for; with several key columns a value for each, key after key; bytes in hexadecimal"
    add_value(count, "keys", "KEY", keys, nargs="+")
    add_confidence(count)

    total = add_command(commands, "sum", _sum, explain_reading)
    add_release(total)
    add_value(total, "--where", "SQL", "a condition on the columns of the release (default: all keys)")
    add_value(total, "--of", "G", "what to add up", default="count")
    add_value(total, "--times", "SQL", "a number that each key's part is multiplied by (default: 1)")
    add_choice(total, "--kind", ("mle", "lower", "unbiased"), "of extrapolation, see above (default: none)")
    add_confidence(total)

    verify = add_command(commands, "verify", _verify, _explain_verify)
    add_release(verify)
    add_value(verify, "--ledger", "FILE", "check also that this ledger has what the release spent")

    parser = add_command(commands, "combine", _combine, _explain_combine)
    add_value(parser, "release", "RELEASE", "files written by dptally publish -o", nargs="+")
    whose = "whether a unit is in one stream only, or may be in all of them; see above"
    add_choice(parser, "--units", ("disjoint", "shared"), whose, required=True)
    add_number(parser, "-n", "N", "how many keys to print", default=10)
    add_value(parser, "-o --output", "FILE", "where to write all keys: .csv, .json or .parquet")
    add_overwrite(parser)
    add_confidence(parser)
    add_flag(parser, "-q --quiet", "print only the requested output")


def load_table(path: str) -> TableRelease:
    """Read a release that has a table of keys; of another one, say what it is and what it answers."""
    from dptally.releases.table_release import TableRelease

    found = load(path, Release)
    if not isinstance(found, TableRelease):
        raise InvalidParameter(f"{path} is {found.noun.rstrip(',')}, and no table of keys; {found.answers}.")
    return found


def _show(arguments: argparse.Namespace) -> None:
    """What a release guarantees and holds.

    Show the guarantee, the certificate, the first rows and how frequent the released keys are; of a tree by
    dptally quantile its quartiles, of one by dptally heavy-hitters its most frequent values and prefixes.

    dptally show release.parquet
    dptally show release.parquet --json
    """
    if arguments.n < 0:
        raise InvalidParameter(f"n must not be negative, got {arguments.n}.")
    release = load(arguments.release, Release)
    shown = release.summary(arguments.n, confidence=confidence_of(arguments))
    if arguments.json:
        answers = {name: part if isinstance(part, list) else json_rows(part) for name, part in shown.answers.items()}
        print_json({**describe(release), **answers})
        return
    say(f"{arguments.release}: {shown.title}", style="bold")
    say_guarantee(release)
    if shown.rows is not None and len(shown.rows):
        say()
        print_table(shown.rows, keys=shown.words)
    for note in shown.notes:
        say(note)
    if shown.bars:
        say()
        _print_bars("Released keys by estimated frequency", shown.bars)


def _print_bars(title: str, bars: Sequence[tuple[str, int]]) -> None:
    say(title, style="bold")
    label_width = max((len(label) for label, _ in bars), default=0)
    largest = max((number for _, number in bars), default=0)
    for label, number in bars:
        length = math.ceil(40 * number / largest) if largest else 0
        say(f"{label:>{label_width}}  {'█' * length} {number:,}")


def _top(arguments: argparse.Namespace) -> None:
    """The most frequent released keys.

    The released keys with the largest values, largest first: a table on a terminal, CSV into a pipe.
    The confidence intervals hold after sorting by value: at 95 %, those of all released keys contain the
    true counts at once. They are wider than those of dptally count, which are for keys chosen in advance.

    dptally top release.parquet -n 20
    dptally top release.parquet -n 1000 > top.csv
    """
    release, confidence = load(arguments.release, Release), confidence_of(arguments)
    rows = release.top(arguments.n, confidence=confidence)
    if arguments.json:
        print_json(json_rows(rows))
        return
    print_rows(release, rows)
    if release.law.values and len(rows):
        say(release.top_in_words(confidence=confidence), remark=True)


def _count(arguments: argparse.Namespace) -> None:
    """The counts of given keys.

    The value of each key with bounds. A compact release answers any key of its universe, a table those it
    has. Bounds hold for keys that were chosen without looking at the release. A table with several key
    columns takes one value for each of them: dptally count release.parquet 22423 France 85123A Spain.

    dptally count release.compact 192.0.2.1 198.51.100.7
    dptally count release.parquet apple pear
    """
    release = load(arguments.release, Release)
    rows = release.look_up(arguments.keys, confidence=confidence_of(arguments))
    if arguments.json:
        print_json(json_rows(rows))
    else:
        print_table_or_csv(rows, keys=len(release.key))
        _say_bounding(release)


def _sum(arguments: argparse.Namespace) -> None:
    """The sum of counts over released keys.

    Sum of counts over the released keys of a selection, with a confidence interval. Keys that were not
    released are not included: a release does not tell how many there are, or what they add up to.
    What is added up: count, keys, power:P (count to the power P), capped:C (at most C per key), log.

    --kind adds an extrapolation: keys stand for others like them by their reporting probability. It has no
    interval, and is no estimate of what is hidden, since the rarest keys leave no trace in a release.
    Its weights: mle, lower (never over in expectation), unbiased (large variance).

    dptally sum release.parquet --where "query LIKE 'a%'"
    dptally sum release.parquet --of keys
    """
    from dptally.estimates.functions import frequency_function

    wanted = frequency_function(arguments.of)
    release = load(arguments.release, Release)
    found = release.sum(
        arguments.where, wanted, times=arguments.times, kind=arguments.kind, confidence=confidence_of(arguments)
    )
    if arguments.json:
        facts = asdict(found)
        by_value, total = facts.pop("by_value"), facts.pop("total")
        numbers = {name: None if part is None or not math.isfinite(part) else part for name, part in facts.items()}
        bounds = f"for questions that look at {'what was drawn' if by_value else 'keys alone'}"
        print_json(
            {**numbers, "total": total, "bounds": bounds, "text": str(found), **given(arguments, "kind of times where")}
        )
    else:
        names = {"count": "Count", "keys": "Number of released keys"}
        label = names.get(arguments.of, f"Sum of {arguments.of}")
        label = label if arguments.times is None else f"{label} times {arguments.times}"
        say(f"{label}: {found}")
        _say_bounding(release)


def _say_bounding(release: Release) -> None:
    if release.guarantee.after_bounding:
        say(f"Counts are those{release.guarantee.after_bounding}.", remark=True)


def _verify(arguments: argparse.Namespace) -> None:
    """Check the certificate of a release.

    Rebuild the probability table from the release's parameters, compute its exact privacy loss again,
    derive every field of the guarantee from it, and compare; also the certificate, its SHA-256 and the
    rows. That the values were sampled from that table with secret bits, no file can show.

    dptally verify release.parquet
    dptally verify release.parquet --json
    """
    release = load(arguments.release, Release)
    certificate = release.verify()
    found = {}
    if arguments.ledger is not None:
        ledger = open_ledger(arguments.ledger, read_only=True)
        found["entry"] = ledger.find(release.guarantee, release.law).number
    if arguments.json:
        facts = {name: part for name, part in release.describe()["guarantee"].items() if name == "where"}
        print_json({"verified": True, "certificate": release.describe()["certificate"], **facts, **found})
        return
    say(f"{arguments.release}: the certificate holds.", style="bold")
    say(f"{certificate}")
    if release.guarantee.where is not None:
        condition = quoted(release.guarantee.where)
        say(f"The publisher states that only rows with {condition} were read; no file can show it.")
    if found:
        say(f"{arguments.ledger} has what it spent, as entry {found['entry']}.")
    if not release.guarantee.private:
        say(str(release.guarantee), style="bold red")


def _explain_verify(arguments: argparse.Namespace) -> Explanation:
    ledger = () if arguments.ledger is None else (f"{arguments.ledger} (ledger, for the entry that paid)",)
    return explain_reading(
        arguments,
        reads=(f"{arguments.release} (public)", *ledger),
        guarantee="That of the release, verified again.",
        resources="Usually below a second; some seconds with sampling or a very small epsilon.",
    )


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
            write_table(table, output, overwrite=arguments.overwrite)
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
    places = [Path(path).resolve() for path in arguments.release]
    for number, path in enumerate(arguments.release):
        if places[number] in places[:number]:
            raise InvalidParameter(f"{path} is named twice; a release is added up once.")
    if arguments.output is None:
        return None
    output = Path(arguments.output)
    if output.suffix.lower() not in TABLE_FORMATS:
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


def write_table(table: pl.DataFrame, output: Path, *, overwrite: bool) -> None:
    """Write rows in the format that the name ends in."""
    with complete_or_absent(output, overwrite=overwrite) as file:
        kind = output.suffix.lower()
        if kind == ".parquet":
            table.write_parquet(file)
        elif kind == ".csv":
            bytes_in_hexadecimal(table).write_csv(file)
        else:
            file.write(json.dumps(json_rows(table), indent=2).encode() + b"\n")


def _explain_combine(arguments: argparse.Namespace) -> Explanation:
    guarantees = {
        "disjoint": "The weakest of the releases', provided that every unit is in one stream only, as you state.",
        "shared": "Epsilons and deltas of the releases added up, since a unit may be in all streams.",
    }
    return explain_reading(arguments, guarantee=guarantees[arguments.units])
