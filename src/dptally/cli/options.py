"""Options that several commands share, and what they come down to. It imports no command."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.cli.parser import Parser, add_choice, add_flag, add_number, add_value
from dptally.errors import InvalidParameter
from dptally.exact import as_fraction
from dptally.laws.registry import mechanism_class, mechanism_names

if TYPE_CHECKING:
    from dptally.laws.sampling_schemes import Scheme
    from dptally.ledger import Account, Ledger

DATABASES = (
    "Databases: postgresql://user@host/database, duckdb:///file and sqlite:///file, with --table or --query.\n"
    "Everyone on this machine can see the arguments of a program, so keep passwords out of the URL: put them\n"
    "into the file that PGPASSFILE names, or into PGPASSWORD."
)
"""What the help of every command with `add_source` says about them."""

FILTER = "where since until time_column"
"""The options of `add_filter`."""

EPSILON = "privacy-loss bound; smaller is more private. Parsed exactly: 0.1 means 1/10, and 1/3 works too"
DELTA = "probability that the bound fails; choose it well below one over the number of units, such as 1e-6"


class MechanismNames:
    """Names of mechanisms, and others, as argparse wants choices; one of an installed package is found on asking."""

    def __init__(self, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> None:
        self._before, self._after = before, after

    def __iter__(self) -> Iterator[str]:
        return iter((*self._before, *mechanism_names(), *self._after))

    def __contains__(self, name: object) -> bool:
        if name in self._before or name in self._after:
            return True
        try:
            mechanism_class(name)
        except InvalidParameter:
            return False
        return True


MECHANISMS = MechanismNames()
"""What publishes tables."""


def given(arguments: argparse.Namespace, names: str) -> dict[str, Any]:
    """The arguments of these names, separated by blanks, as the library takes them."""
    return {name: getattr(arguments, name) for name in names.split()}


def add_release(parser: Parser) -> None:
    """The release file a command reads."""
    add_value(parser, "release", "RELEASE", "a file written by dptally publish -o")


def add_source(parser: Parser, *, needed: bool = True) -> None:
    """The files or the database whose private rows a command reads."""
    files = (
        "file or glob (CSV, TSV, JSON lines, Parquet, .gz, .zst), or -, or the URL of a database; a file that is "
        "named twice counts once, and under two names is refused"
    )
    types = (
        "type of a key, unit or filter column of CSV, JSON or SQLite that declares none, as age=int64 or "
        "price=decimal(10,2) (default: text); other values are read as null; repeat for several"
    )
    add_value(parser, "input", "INPUT", files, nargs="+" if needed else "*")
    add_value(parser, "--table", "NAME", "of a database: the table, or schema.table")
    add_value(parser, "--query", "SQL", "of a database: a SELECT statement instead of a table")
    add_value(parser, "--type", "COLUMN=TYPE", types, action="append", dest="types")
    add_filter(parser)


def add_filter(parser: Parser) -> None:
    """Which rows a command reads."""
    where = (
        "read only rows that meet this SQL condition, as \"day = DATE '2026-11-15'\"; a row on which it is null or "
        "fails is left out; public, and recorded in the release"
    )
    add_value(parser, "--where", "CONDITION", where)
    add_value(parser, "--since", "TIME", "read only rows from this date or time on (UTC), with --time-column")
    add_value(parser, "--until", "TIME", "and before this one, which is not included")
    add_value(parser, "--time-column", "COLUMN", "the dates, timestamps or ISO 8601 text of --since and --until")


def source_of(arguments: argparse.Namespace) -> str | list[str]:
    """The source asked for, as the library takes it."""
    names: list[str] = arguments.input
    if len(names) > 1 and any("://" in name for name in names):
        raise InvalidParameter("a database must be the only input.")
    return names[0] if len(names) == 1 else names


def types_of(arguments: argparse.Namespace) -> dict[str, str] | None:
    """The stated types of columns, or None."""
    if arguments.types is None:
        return None
    found: dict[str, str] = {}
    for text in arguments.types:
        name, sign, stated = text.rpartition("=")
        if not sign or not name:
            raise InvalidParameter(f"--type must be COLUMN=TYPE, such as age=int64, got {text!r}.")
        if name in found:
            raise InvalidParameter(f"--type names column '{name}' twice.")
        found[name] = stated
    return found


def add_unit(parser: Parser) -> None:
    """Whose privacy it is."""
    text = "column that identifies the protected person or entity (default: every row is protected on its own)"
    add_value(parser, "--unit", "COLUMN", text)


def add_unit_bound(parser: Parser, *, measured: bool = False) -> None:
    """What one unit may touch; `measured` where leaving it out means to measure it."""
    text = "keys counted for each unit; a unit with more keeps a uniform random choice of them"
    if measured:
        text += " (default: measured privately with --unit, for mechanisms that do so; else 1)"
    add_number(parser, "--max-keys-per-unit", "L", text, default=None if measured else 1)


def add_privacy(parser: Parser, *, keys_only: bool = True, pure: bool = False, sought: bool = False) -> None:
    """What is guaranteed, and whether values are released. The numbers stay text, to be read exactly.

    With `pure` delta may be left out: whether it is needed depends on the mechanism. With `sought` epsilon may be what
    is asked for.
    """
    add_value(parser, "--epsilon", "E", EPSILON, required=not sought)
    delta = f"{DELTA}; 0 for mechanisms with a universe, where it is left out" if pure else DELTA
    add_value(parser, "--delta", "D", delta, required=not pure)
    if keys_only:
        add_flag(parser, "--keys-only", "release the keys without values")


def add_columns(parser: Parser) -> None:
    """Sums and means of columns, and totals."""
    summed = "sum of a column for every key; what each unit has is clipped into the range; repeat"
    add_value(parser, "--sum", "COLUMN:LOW..HIGH", summed, action="append", dest="sums")
    add_value(parser, "--mean", "COLUMN:LOW..HIGH", "the same for a mean over units", action="append", dest="means")
    add_flag(parser, "--totals", "release how many units there are, and what keys that are not released add up to")


def add_statistics(parser: Parser) -> None:
    """What is released of found keys beside their counts."""
    add_columns(parser)
    rows = "rows that count for one unit and key, with --count rows"
    add_number(parser, "--max-rows-per-unit-and-key", "M", rows)
    combined = "what becomes of several rows of a unit and key (default: add for sums, average for means)"
    add_choice(parser, "--combine-rows", ("add", "average"), combined)
    share = "share of the budget for selection, counts, totals, or a column such as sum_amount; repeat"
    add_value(parser, "--share", "PART=SHARE", share, action="append", dest="shares")


def statistics_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Sums, means, totals and shares, as the library takes them."""
    rules = given(arguments, "max_rows_per_unit_and_key combine_rows")
    return {**columns_of(arguments), **rules, "shares": _shares_of(arguments.shares)}


def columns_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Sums, means and totals, as the library takes them."""
    sums, means = _ranges_of("--sum", arguments.sums), _ranges_of("--mean", arguments.means)
    return {"sums": sums, "means": means, "totals": arguments.totals}


def _ranges_of(name: str, texts: list[str] | None) -> dict[str, tuple[str, str]] | None:
    if texts is None:
        return None
    found: dict[str, tuple[str, str]] = {}
    for text in texts:
        column, colon, ends = text.rpartition(":")
        low, dots, high = ends.partition("..")
        if not (column and colon and low and dots and high):
            raise InvalidParameter(
                f"{name} must be COLUMN:LOW..HIGH, such as amount:0..100, got {text!r}; where the range is not known, "
                "dptally quantile of the column, with the same ledger, finds one privately."
            )
        if column in found:
            raise InvalidParameter(f"{name} names column '{column}' twice.")
        found[column] = (low, high)
    return found


def _shares_of(texts: list[str] | None) -> dict[str, str] | None:
    if texts is None:
        return None
    found: dict[str, str] = {}
    for text in texts:
        part, sign, share = text.rpartition("=")
        if not (part and sign and share) or part in found:
            raise InvalidParameter(f"--share must be PART=SHARE, once for each part, such as counts=0.2, got {text!r}.")
        found[part] = share
    return found


def add_counting(parser: Parser, *, rows: bool = False) -> None:
    """How files are read and counted; `rows` where rows of a unit may be counted, too."""
    counted = "counts, for data that is already aggregated"
    if rows:
        counted += "; with --unit: units (the default), or rows"
    add_value(parser, "--count", "COLUMN", counted)
    add_format(parser)
    add_value(parser, "--memory-limit", "SIZE", "for the counting engine, such as 2GB")


def add_release_options(parser: Parser, *, pure: bool = False) -> None:
    """What every command takes that reads private data and makes a table of keys."""
    add_value(parser, "--key", "COLUMN", "key column; repeat for several", action="append", required=True)
    add_privacy(parser, pure=pure)
    add_choice(parser, "--nulls", ("drop", "keep"), "rows with a null key", default="drop")


def add_format(parser: Parser) -> None:
    """How files are written."""
    add_choice(parser, "--format", ("csv", "tsv", "jsonl", "parquet"), "of files whose name does not show it")


def add_output_options(parser: Parser, *, quiet: str = "-q --quiet") -> None:
    """Where a release goes, and how it is drawn and shown."""
    add_value(parser, "-o --output", "FILE", "where to write the release (Parquet)")
    add_overwrite(parser)
    add_confidence(parser, "of the printed confidence intervals; those of a file are computed when it is read")
    add_number(parser, "--not-private-seed", "N", "repeatable randomness for tests: the release is NOT private")
    add_flag(parser, quiet, "print only the requested output")
    add_flag(parser, "--no-progress", "show no progress on a terminal")


def add_overwrite(parser: Parser) -> None:
    """Whether files are replaced."""
    add_flag(parser, "--overwrite", "replace the output file if it exists")


def add_confidence(parser: Parser, text: str = "of the confidence intervals") -> None:
    """The confidence of intervals, as text."""
    text = f"{text}, as 0.95 or 95%% (default: 0.95)"
    add_value(parser, "--confidence", "C", text, type=share_or_percentage)


def confidence_of(arguments: argparse.Namespace) -> Fraction:
    """The confidence asked for."""
    from dptally.estimates.frequencies import as_confidence

    return as_confidence("0.95" if arguments.confidence is None else arguments.confidence)


def sampling_of(arguments: argparse.Namespace) -> Scheme | None:
    """The sampling asked for, or None."""
    from dptally.laws.sampling_schemes import read_scheme

    return None if arguments.sampling is None else read_scheme(arguments.sampling)


def share_or_percentage(text: str) -> str:
    """A share as text, to be read exactly; "95%" is 19/20. What is no number is left for the command to refuse.

    >>> share_or_percentage("95%"), share_or_percentage("0.95"), share_or_percentage("much%")
    ('19/20', '0.95', 'much%')
    """
    number = text.strip()
    if not number.endswith("%"):
        return text
    try:
        return str(as_fraction("a percentage", number[:-1]) / 100)
    except InvalidParameter:
        return text


def add_ledger_options(parser: Parser) -> None:
    """What a command takes that spends from a budget."""
    add_value(parser, "--ledger", "FILE", "spend from the budget in this file; see dptally ledger")
    add_value(parser, "--ledger-source", "NAME", "name of the data source in the ledger")
    part = "only units of this part are in the data, as country=it; no unit may be in two parts of a division"
    add_value(parser, "--ledger-part", "DIVISION=PART", part)
    add_value(parser, "--ledger-unit", "NAME", "what units are, where sources name them differently")
    add_value(parser, "--ledger-who", "NAME", "who spends it, for the ledger's history")


def ledger_of(arguments: argparse.Namespace) -> Account | None:
    """The account that the options ask for, or None."""
    partitioning, part = ledger_part(arguments) or (None, None)
    if arguments.ledger is None:
        return None
    named = {name: getattr(arguments, f"ledger_{name}") for name in ("source", "unit", "who")}
    return open_ledger(arguments.ledger).account(**named, partitioning=partitioning, part=part)


def open_ledger(path: str, *, read_only: bool = False) -> Ledger:
    """The ledger of a file, which must exist."""
    from dptally.ledger import Ledger

    if not Path(path).exists():
        raise InvalidParameter(f"{path} does not exist; make it with dptally ledger create.")
    return Ledger(path, read_only=read_only)


def ledger_part(arguments: argparse.Namespace) -> tuple[str, str] | None:
    """The division and the part that the options ask for, or None; options that do not fit together are refused."""
    text = arguments.ledger_part
    named = (text, arguments.ledger_source, arguments.ledger_unit, arguments.ledger_who)
    if arguments.ledger is None and any(option is not None for option in named):
        raise InvalidParameter("--ledger-source, --ledger-unit, --ledger-part and --ledger-who need --ledger.")
    if text is None:
        return None
    partitioning, equals, part = text.partition("=")
    if not equals:
        raise InvalidParameter(f"--ledger-part must be written as DIVISION=PART, got {text[:40]!r}.")
    return partitioning, part
