"""The commands that read a release: ``show``, ``top``, ``count``, ``sum``, ``verify``. All of it is public.

JSON:

- show: as ``publish --json`` without `output`, plus `rows` (the first n by key) and `distribution`, a list of objects
  `from`, `to` (estimated frequencies, both included), `keys`;
  for a compact release as ``publish --json`` without `output`; for a tree of counts as ``quantile --json`` without
  `output`; for a tree of prefixes as ``heavy-hitters --json`` without `output`, its `rows` the n heaviest ends, with
  bounds that hold for all nodes at once;
- top: a list of rows, largest first; `lower` and `upper` hold for all released keys at once, and so after sorting;
- count: a list of objects, in the order given: each key column by its name (as given, bytes in hexadecimal), `value`,
  `estimate`, `lower`, `upper`, null where a table does not have the key; of a compact release `key`, `value`, `lower`,
  `upper`;
- sum: `estimate`, `lower`, `upper` for the released keys, null where nothing is known, `keys` (how many of them),
  `complete` (whether all keys there may be are released), `counters` (whether counts are those of a sketch that fall
  short by an untold amount), `extrapolation` (null without ``--kind``), `confidence`, `bounds` (for which questions),
  `text` (all of it in words), `kind`, `of`, `times`, `where`;
- verify: `verified` (true) and `certificate`, with ``--ledger`` also `entry`; a release that fails has exit status 1
  and nothing on standard output.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dptally.cli.explain import Explanation, explain_reading
from dptally.cli.options import add_confidence, add_release, confidence_of, open_ledger
from dptally.cli.parser import add_choice, add_command, add_number, add_value

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands
    from dptally.releases.base import Release
    from dptally.releases.table_release import TableRelease

__all__ = ["add_commands", "load_table"]


def add_commands(commands: Commands) -> None:
    """Add ``show``, ``top``, ``count``, ``sum`` and ``verify``."""
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


def load_table(path: str) -> TableRelease:
    """Read a release that has a table of keys; of another one, say what it is and what it answers."""
    from dptally.errors import InvalidParameter
    from dptally.releases.table_release import TableRelease

    found = _load(path)
    if not isinstance(found, TableRelease):
        raise InvalidParameter(f"{path} is {found.noun.rstrip(',')}, and no table of keys; {found.answers}.")
    return found


def _load(path: str) -> Release:
    """Read a release of any kind; a sketch is none, and is not shown."""
    from dptally.loading import load
    from dptally.releases.base import Release

    return load(path, Release)


def _show(arguments: argparse.Namespace) -> None:
    """What a release guarantees and holds.

    Show the guarantee, the certificate, the first rows and how frequent the released keys are; of a tree by
    dptally quantile its quartiles, of one by dptally heavy-hitters its most frequent values and prefixes.

    dptally show release.parquet
    dptally show release.parquet --json
    """
    from dptally.cli.printing import describe, json_answers, print_bars, print_json, print_table, say, say_guarantee
    from dptally.errors import InvalidParameter

    if arguments.n < 0:
        raise InvalidParameter(f"n must not be negative, got {arguments.n}.")
    release = _load(arguments.release)
    shown = release.summary(arguments.n, confidence=confidence_of(arguments))
    if arguments.json:
        print_json({**describe(release), **json_answers(shown.answers)})
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
        print_bars("Released keys by estimated frequency", shown.bars)


def _top(arguments: argparse.Namespace) -> None:
    """The most frequent released keys.

    The released keys with the largest values, largest first: a table on a terminal, CSV into a pipe.
    The confidence intervals hold after sorting by value: at 95 %, those of all released keys contain the
    true counts at once. They are wider than those of dptally count, which are for keys chosen in advance.

    dptally top release.parquet -n 20
    dptally top release.parquet -n 1000 > top.csv
    """
    from dptally.cli.printing import json_rows, print_json, print_rows, say

    release, confidence = _load(arguments.release), confidence_of(arguments)
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
    import sys

    from dptally.cli.printing import json_rows, print_json, print_table

    release = _load(arguments.release)
    rows = release.look_up(arguments.keys, confidence=confidence_of(arguments))
    if arguments.json:
        print_json(json_rows(rows))
    elif sys.stdout.isatty():
        print_table(rows, keys=len(release.key))
    else:
        sys.stdout.write(rows.write_csv())


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
    from dataclasses import asdict

    from dptally.cli.printing import print_json, say
    from dptally.estimates.functions import frequency_function

    wanted = frequency_function(arguments.of)
    found = _load(arguments.release).sum(
        arguments.where, wanted, times=arguments.times, kind=arguments.kind, confidence=confidence_of(arguments)
    )
    if arguments.json:
        facts = asdict(found)
        by_value = facts.pop("by_value")
        numbers = {name: None if part is None or not math.isfinite(part) else part for name, part in facts.items()}
        bounds = f"for questions that look at {'what was drawn' if by_value else 'keys alone'}"
        asked = {name: getattr(arguments, name) for name in ("kind", "of", "times", "where")}
        print_json({**numbers, "bounds": bounds, "text": str(found), **asked})
    else:
        names = {"count": "Count", "keys": "Number of released keys"}
        label = names.get(arguments.of, f"Sum of {arguments.of}")
        label = label if arguments.times is None else f"{label} times {arguments.times}"
        say(f"{label}: {found}")


def _verify(arguments: argparse.Namespace) -> None:
    """Check the certificate of a release.

    Rebuild the probability table from the release's parameters, compute its exact privacy loss again,
    derive every field of the guarantee from it, and compare; also the certificate, its SHA-256 and the
    rows. That the values were sampled from that table with secret bits, no file can show.

    dptally verify release.parquet
    dptally verify release.parquet --json
    """
    from dptally.cli.printing import print_json, say

    release = _load(arguments.release)
    certificate = release.verify()
    found = {}
    if arguments.ledger is not None:
        found["entry"] = open_ledger(arguments.ledger, read_only=True).find(release.guarantee).number
    if arguments.json:
        print_json({"verified": True, "certificate": release.describe()["certificate"], **found})
        return
    say(f"{arguments.release}: the certificate holds.", style="bold")
    say(f"{certificate}")
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
