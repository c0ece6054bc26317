"""The parser, and the options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import dptally
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    from dptally.laws.sampling_schemes import Scheme

    Commands = argparse._SubParsersAction["Parser"]

__all__ = [
    "DATABASES",
    "Parser",
    "add_command",
    "add_confidence",
    "add_output_options",
    "add_privacy",
    "add_release",
    "add_release_options",
    "add_sampling",
    "add_source",
    "add_unit_bound",
    "build_parser",
    "sampling_of",
    "share_or_percentage",
    "source_of",
    "types_of",
    "whole_number",
]

DATABASES = (
    "Databases: postgresql://user@host/database, duckdb:///file and sqlite:///file, with --table or --query.\n"
    "Everyone on this machine can see the arguments of a program, so keep passwords out of the URL: put them\n"
    "into the file that PGPASSFILE names, or into PGPASSWORD."
)
"""What the help of every command with `add_source` says about them."""


class Parser(argparse.ArgumentParser):
    """A parser that knows no abbreviations and reports mistakes like everything else does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            import difflib

            close = difflib.get_close_matches(str(value), map(str, action.choices or ()), 1)
            if not close:
                raise
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} (did you mean '{close[0]}'?)") from None

    def error(self, message: str) -> NoReturn:
        """Refuse the request; `main` prints the sentence."""
        raise InvalidParameter(f"{message}; see {self.prog} --help.")


def build_parser() -> Parser:
    """The parser of the whole command line."""
    from dptally.cli import (
        audit,
        combine,
        example,
        explore,
        federated,
        heavy_hitters,
        ledger,
        plan,
        plot,
        publish,
        quantile,
        read,
        report,
        sanitize,
        sketch,
    )
    from dptally.cli import shell_help as about  # isort: skip
    from dptally.cli.explain import add_explain

    parser = Parser(
        prog="dptally",
        description="Publish tables of private keys and counts under differential privacy.",
        epilog=(
            "Begin with:\n  dptally example\nand see dptally COMMAND --help for each command. --explain says what a\n"
            "command would do, and does nothing. dptally completion and dptally man are for your shell."
        ),
    )
    parser.add_argument("--version", action="version", version=f"dptally {dptally.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    drawing = (publish, sanitize, sketch, heavy_hitters, quantile, federated, ledger)
    for module in (*drawing, read, combine, plot, report, explore, plan, audit, example):
        module.add_commands(commands)
    about.add_commands(commands)
    add_explain(parser)
    return parser


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], None],
    *,
    summary: str,
    details: str,
    example: str,
    also: str = "",
) -> Parser:
    """Add a command with its help, its examples and ``--json``. Its ``--explain`` comes from `dptally.cli.explain`."""
    epilog = f"example:\n  {example}" + (f"\nor:\n  {also}" if also else "")
    parser = commands.add_parser(name, help=summary, description=details, epilog=epilog)
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print one JSON value instead of text")
    return parser


def add_release(parser: Parser) -> None:
    """The release file a command reads."""
    parser.add_argument("release", metavar="RELEASE", help="a file written by dptally publish -o")


def add_source(parser: Parser, *, needed: bool = True) -> None:
    """The files or the database whose private rows a command reads."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="+" if needed else "*",
        help="file or glob (CSV, TSV, JSON lines, Parquet, .gz, .zst), or -, or the URL of a database; a file that is "
        "named twice counts once, and under two names is refused",
    )
    parser.add_argument("--table", metavar="NAME", help="of a database: the table, or schema.table")
    parser.add_argument("--query", metavar="SQL", help="of a database: a SELECT statement instead of a table")
    parser.add_argument(
        "--type",
        metavar="COLUMN=TYPE",
        action="append",
        dest="types",
        help="type of a key or unit column of CSV, JSON or SQLite that declares none, as age=int64 or "
        "price=decimal(10,2) (default: text); other values are read as null; repeat for several",
    )


def source_of(arguments: argparse.Namespace) -> str | list[str]:
    """The source asked for, as the library takes it."""
    given: list[str] = arguments.input
    if len(given) > 1 and any("://" in name for name in given):
        raise InvalidParameter("a database must be the only input.")
    return given[0] if len(given) == 1 else given


def types_of(arguments: argparse.Namespace) -> dict[str, str] | None:
    """The stated types of columns, or None."""
    if arguments.types is None:
        return None
    found: dict[str, str] = {}
    for given in arguments.types:
        name, sign, stated = given.rpartition("=")
        if not sign or not name:
            raise InvalidParameter(f"--type must be COLUMN=TYPE, such as age=int64, got {given!r}.")
        if name in found:
            raise InvalidParameter(f"--type names column '{name}' twice.")
        found[name] = stated
    return found


def add_privacy(parser: Parser, *, keys_only: bool = True, pure: bool = False, sought: bool = False) -> None:
    """What is promised, and whether values are released. The numbers stay text, to be read exactly.

    With `pure` delta may be left out: whether it is needed depends on the mechanism. With `sought` epsilon may be what
    is asked for.
    """
    parser.add_argument(
        "--epsilon",
        metavar="E",
        required=not sought,
        help='how much may show, smaller protects more; read exactly: "0.1" is 1/10, "1/3" works too',
    )
    delta = "well below one over the number of units, as 1e-6"
    parser.add_argument(
        "--delta",
        metavar="D",
        required=not pure,
        help=f"{delta}; none for mechanisms with a universe" if pure else delta,
    )
    if keys_only:
        parser.add_argument("--keys-only", action="store_true", help="release the keys without values")


def add_unit_bound(parser: Parser) -> None:
    """What one unit may touch."""
    parser.add_argument(
        "--max-keys-per-unit",
        metavar="L",
        type=whole_number,
        default=1,
        help="a unit with more keys keeps a random choice of this many (default: 1)",
    )


def add_release_options(parser: Parser, *, pure: bool = False) -> None:
    """What every command takes that reads private data and makes a release."""
    parser.add_argument(
        "--key", metavar="COLUMN", action="append", required=True, help="key column; repeat for several"
    )
    add_privacy(parser, pure=pure)
    parser.add_argument(
        "--nulls", choices=("drop", "keep"), default="drop", help="rows with a null key (default: drop)"
    )
    parser.add_argument(
        "--format", choices=("csv", "tsv", "jsonl", "parquet"), help="where the file name does not tell"
    )
    add_output_options(parser)


def add_output_options(parser: Parser) -> None:
    """Where a release goes, and how it is drawn and shown."""
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the release (Parquet)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    add_confidence(
        parser,
        help="of the printed bounds, as 0.95 or 95%% (default: 0.95); a file's bounds are computed when it is read",
    )
    parser.add_argument(
        "--not-private-seed",
        metavar="N",
        type=whole_number,
        help="repeatable draws for tests: the release is not private",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but what was asked for")
    parser.add_argument("--no-progress", action="store_true", help="show no progress on a terminal")


def add_confidence(parser: Parser, *, help: str = "of the bounds, as 0.95 or 95%% (default: 0.95)") -> None:  # noqa: A002
    """The confidence of bounds, as text."""
    parser.add_argument("--confidence", metavar="C", type=share_or_percentage, default=None, help=help)


def add_sampling(parser: Parser, *, help: str, required: bool = False) -> None:  # noqa: A002
    """How keys are sampled, as text."""
    parser.add_argument("--sampling", metavar="SCHEME", required=required, help=help)


def sampling_of(arguments: argparse.Namespace) -> Scheme | None:
    """The sampling asked for, or None."""
    from dptally.laws.sampling_schemes import read_scheme

    return None if arguments.sampling is None else read_scheme(arguments.sampling)


def share_or_percentage(text: str) -> str:
    """A share as text, to be read exactly; "95%" is 19/20. What is no number is left for the command to refuse.

    >>> share_or_percentage("95%"), share_or_percentage("0.95"), share_or_percentage("much%")
    ('19/20', '0.95', 'much%')
    """
    from dptally.exact import as_fraction

    number = text.strip()
    if not number.endswith("%"):
        return text
    try:
        return str(as_fraction("a percentage", number[:-1]) / 100)
    except InvalidParameter:
        return text


def whole_number(text: str) -> int:
    """Read a whole number, or say that it is none."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text[:40]!r}") from None
