"""The commands of ``ledger``, and the options of other commands that spend from one.

JSON:

- create, show, void, restore-note, close: `path`, `ledger_id`, `epsilon`, `delta` (exact, with `..._float` beside
  them), `accounting`, `sources`, `closed`, `clock_set_back`, `entries` (how many), `head` (`sequence`, `hash`),
  `remaining` (`epsilon`, `delta` of a release of the whole data that is still allowed under the ledger's accounting),
  `remaining_parts` (the same for each part that something was spent on, as `partitioning` and `part`; with `part` null
  for the parts that nothing was spent on), `notes_restored` (`time`, `reason`, `who`), and for show also `totals`: for
  each rule `method`, `delta` at the budget's epsilon, `epsilon` at the budget's delta (null where there is none); with
  ``--numerical`` also `numerical_delta`. Numbers are exact as long as they have at most 4000 digits; longer ones are
  rounded, what remains down and what was spent up;
- history: a list of objects with the parts of an entry;
- verify: `verified` (true), `rows` and `head`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dptally.cli.parser import Parser, add_command
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse
    from fractions import Fraction

    from dptally.cli.parser import Commands
    from dptally.ledger import Account, Ledger

__all__ = ["add_commands", "add_ledger_options", "ledger_of", "ledger_part"]

_MOST_DIGITS = 4000
_MOST_PARTS = 20  # that are shown


def add_ledger_options(parser: Parser) -> None:
    """What a command takes that spends from a budget."""
    parser.add_argument("--ledger", metavar="FILE", help="spend from this budget; see dptally ledger")
    parser.add_argument("--ledger-source", metavar="NAME", help="name of the data source in the ledger")
    parser.add_argument(
        "--ledger-part",
        metavar="DIVISION=PART",
        help="only units of this part are in the data, as country=it; no unit may be in two parts of a division",
    )
    parser.add_argument("--ledger-unit", metavar="NAME", help="what units are, where sources name them differently")
    parser.add_argument("--ledger-who", metavar="NAME", help="who spends it, for the ledger's history")


def ledger_of(arguments: argparse.Namespace) -> Account | None:
    """The account that the options ask for, or None."""
    given = ledger_part(arguments)
    if arguments.ledger is None:
        return None
    from dptally.ledger import Ledger

    partitioning, part = (None, None) if given is None else given
    return Ledger(arguments.ledger).account(
        source=arguments.ledger_source,
        unit=arguments.ledger_unit,
        partitioning=partitioning,
        part=part,
        who=arguments.ledger_who,
    )


def ledger_part(arguments: argparse.Namespace) -> tuple[str, str] | None:
    """The division and the part that the options ask for, or None; options that do not fit together are refused."""
    given = arguments.ledger_part
    named = (given, arguments.ledger_source, arguments.ledger_unit, arguments.ledger_who)
    if arguments.ledger is None and any(option is not None for option in named):
        raise InvalidParameter("--ledger-source, --ledger-unit, --ledger-part and --ledger-who need --ledger.")
    if given is None:
        return None
    partitioning, equals, part = given.partition("=")
    if not equals:
        raise InvalidParameter(f"--ledger-part must be written as DIVISION=PART, got {given[:40]!r}.")
    return partitioning, part


def add_commands(commands: Commands) -> None:
    """Add ``ledger`` with its own commands."""
    group = commands.add_parser(
        "ledger",
        help="budgets: create, show, history, verify, void, restore-note, close",
        description="A budget for all releases of one data set, on disk before anything is drawn.",
        epilog="example:\n  dptally ledger create budget.db --epsilon 1 --delta 1e-6",
    )
    inner = group.add_subparsers(title="commands", dest="ledger_command", metavar="COMMAND", required=True)
    create = add_command(
        inner,
        "create",
        _create,
        summary="make a new ledger with a budget",
        details=(
            "Make a ledger. Its budget can never be changed. All data about the same people belongs in one ledger.\n"
            "With --accounting tight, whoever makes it states that parameters of releases (mechanism, epsilon, delta)\n"
            "are fixed without looking at earlier releases, as by a plan or a schedule; more then fits in the budget."
        ),
        example="dptally ledger create budget.db --epsilon 1 --delta 1e-6",
        also="dptally ledger create people.db --epsilon 2 --delta 1e-6 --source events --source orders",
    )
    _add_file(create)
    create.add_argument("--epsilon", metavar="E", required=True, help='of the budget; read exactly: "0.1" is 1/10')
    create.add_argument("--delta", metavar="D", required=True, help="of the budget; 0 for releases with delta 0 only")
    create.add_argument(
        "--accounting",
        choices=("basic", "tight"),
        default="basic",
        help="how spending is added up to decide; default: basic",
    )
    create.add_argument("--source", metavar="NAME", action="append", help="a data source; repeat for several")
    show = add_command(
        inner,
        "show",
        _show,
        summary="what is left, and what was spent by each way to add it up",
        details=(
            "Show the budget, what is left of it under the ledger's accounting, for the whole data and for parts of\n"
            "it, and the total by basic, optimal and tight composition."
        ),
        example="dptally ledger show budget.db",
        also="dptally ledger show budget.db --json",
    )
    _add_file(show)
    show.add_argument("--numerical", action="store_true", help="add a second opinion by dp-accounting")
    history = add_command(
        inner,
        "history",
        _history,
        summary="every spending and what became of it",
        details="Print every spending, in order: a table on a terminal, CSV into a pipe, JSON with --json.",
        example="dptally ledger history budget.db",
        also="dptally ledger history budget.db > history.csv",
    )
    _add_file(history)
    verify = add_command(
        inner,
        "verify",
        _verify,
        summary="check that the history was not altered",
        details=(
            "Check every hash of the history, and the note beside the ledger. With --head, check also that a hash\n"
            "noted earlier is in it: that shows a history that was cut short or written again, by anyone who could\n"
            "write all files here."
        ),
        example="dptally ledger verify budget.db",
        also="dptally ledger verify budget.db --head HASH",
    )
    _add_file(verify)
    verify.add_argument("--head", metavar="HASH", help="the hash of a row, noted earlier")
    void = add_command(
        inner,
        "void",
        _void,
        summary="take back what failed, and say why",
        details=(
            "Take back a spending that failed after data was read, or that a killed process had reserved. Whether a\n"
            "request fails then may depend on the data; you state that nobody learns anything from it. The reason\n"
            "stays in the history. What was published, or drawn and not known to have failed, stays spent."
        ),
        example='dptally ledger void budget.db 3 --reason "the disk was unplugged"',
        also='dptally ledger void budget.db 3 --reason "the disk was unplugged" --who ada --json',
    )
    _add_file(void)
    void.add_argument("entry", metavar="ENTRY", help="the number of the entry, as in dptally ledger history")
    _add_reason(void)
    restore = add_command(
        inner,
        "restore-note",
        _restore_note,
        summary="accept a ledger without its note, and say why",
        details=(
            "Write the note beside a ledger again, if it is missing, garbled or says something else: after a move\n"
            "without it, or from a backup. You state that nothing was spent that is not in the ledger. The reason\n"
            "stays in the history."
        ),
        example='dptally ledger restore-note budget.db --reason "restored from the backup of Monday"',
        also='dptally ledger restore-note budget.db --reason "moved to another disk" --who ada --json',
    )
    _add_file(restore)
    _add_reason(restore)
    close = add_command(
        inner,
        "close",
        _close,
        summary="let nothing more be spent, for ever",
        details="Close a ledger: nothing more can be spent from it. It stays readable.",
        example="dptally ledger close budget.db",
        also="dptally ledger close budget.db --json",
    )
    _add_file(close)


def _add_file(parser: Parser) -> None:
    parser.add_argument("ledger", metavar="LEDGER", help="the file of the ledger")


def _add_reason(parser: Parser) -> None:
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it stays in the history")
    parser.add_argument("--who", metavar="NAME", help="who says so, for the history")


def _create(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from dptally.ledger import Ledger

    if Path(arguments.ledger).exists():
        raise InvalidParameter(f"{arguments.ledger} exists; a ledger is never replaced.")
    ledger = Ledger(
        arguments.ledger,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        accounting=arguments.accounting,
        sources=arguments.source,
    )
    _print_state(arguments, ledger, f"Made {arguments.ledger}.")


def _show(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import print_json, say
    from dptally.ledger import Ledger

    ledger = Ledger(arguments.ledger, read_only=True)
    totals = ledger.totals()
    numerical: dict[str, float] = {}
    if arguments.numerical:
        from dptally.ledger.accounting.numerical import numerical_delta

        numerical["numerical_delta"] = numerical_delta(ledger.worst_history(), epsilon=ledger.epsilon)
    if arguments.json:
        shown = [
            {
                "method": total.method,
                "delta": _exact(total.delta, up=True),
                "delta_float": float(total.delta),
                "epsilon": None if total.epsilon is None else _exact(total.epsilon, up=True),
                "epsilon_float": None if total.epsilon is None else float(total.epsilon),
            }
            for total in totals
        ]
        print_json({**_facts(ledger), "totals": shown, **numerical})
        return
    _say_state(ledger)
    for total in totals:
        at_delta = "" if total.epsilon is None else f"; epsilon {_number(total.epsilon)} at the budget's delta"
        at_epsilon = "more than any delta" if total.delta >= 1 else f"delta {_number(total.delta)}"
        say(f"{total.method:>8}: {at_epsilon} at the budget's epsilon{at_delta}.")
    for found in numerical.values():
        say(f"dp-accounting, not proved: delta {found:.6g} at the budget's epsilon.")


def _history(arguments: argparse.Namespace) -> None:
    import sys

    import polars as pl

    from dptally.cli.printing import print_json, print_table
    from dptally.ledger import Ledger

    rows = [
        {
            "entry": entry.number,
            "time": entry.time,
            "state": entry.state,
            "mechanism": entry.spending.mechanism,
            "epsilon": str(entry.spending.epsilon),
            "delta": str(entry.spending.delta),
            "who": entry.who,
            "source": entry.source,
            "unit": entry.unit,
            "partitioning": entry.partitioning,
            "part": entry.part,
            "release_id": entry.release_id,
            "entry_hash": entry.entry_hash,
            "note": entry.note,
        }
        for entry in Ledger(arguments.ledger, read_only=True).history()
    ]
    if arguments.json:
        print_json(rows)
        return
    names = ["entry", "time", "state", "mechanism", "epsilon", "delta", "who", "source", "unit"]
    names += ["partitioning", "part", "release_id", "entry_hash", "note"]
    frame = pl.DataFrame({name: [None if row[name] is None else str(row[name]) for row in rows] for name in names})
    if sys.stdout.isatty():
        print_table(frame.select(names[:10]).fill_null(""), keys=10)
    else:
        sys.stdout.write(frame.cast(pl.String).write_csv())


def _verify(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import print_json, say
    from dptally.ledger import Ledger

    noted = arguments.head
    if noted is not None and not re.fullmatch("[0-9a-fA-F]{64}", noted.strip()):
        raise InvalidParameter(f"--head must be a hash of 64 hexadecimal digits, got {noted[:70]!r}.")
    sequence, digest = Ledger(arguments.ledger, read_only=True).verify(noted)
    if arguments.json:
        print_json({"verified": True, "rows": sequence + 1, "head": {"sequence": sequence, "hash": digest}})
        return
    rows = f"{sequence + 1:,} rows follow from each other." if sequence else "The one row is as it was written."
    say(rows, style="bold green")
    say(f"Keep the hash of the last one where nobody can change it: {digest}")


def _void(arguments: argparse.Namespace) -> None:
    from dptally.ledger import Ledger

    if not re.fullmatch("[0-9]{1,9}", arguments.entry):
        raise InvalidParameter(f"ENTRY must be the number of an entry, got {arguments.entry[:40]!r}.")
    ledger = Ledger(arguments.ledger)
    ledger.void(int(arguments.entry), reason=arguments.reason, who=arguments.who)
    _print_state(arguments, ledger, f"Entry {int(arguments.entry)} is void.")


def _restore_note(arguments: argparse.Namespace) -> None:
    from dptally.ledger import Ledger

    ledger = Ledger.restore_note(arguments.ledger, reason=arguments.reason, who=arguments.who)
    _print_state(arguments, ledger, f"The note of {arguments.ledger} is written again.")


def _close(arguments: argparse.Namespace) -> None:
    from dptally.ledger import Ledger

    ledger = Ledger(arguments.ledger)
    ledger.end_spending()
    _print_state(arguments, ledger, f"Closed {arguments.ledger}.")


def _print_state(arguments: argparse.Namespace, ledger: Ledger, text: str) -> None:
    from dptally.cli.printing import print_json, say

    if arguments.json:
        print_json(_facts(ledger))
        return
    say(text, style="bold")
    _say_state(ledger)


def _facts(ledger: Ledger) -> dict[str, Any]:
    sequence, digest = ledger.head
    return {
        "path": str(ledger.path),
        "ledger_id": ledger.ledger_id,
        "epsilon": str(ledger.epsilon),
        "epsilon_float": float(ledger.epsilon),
        "delta": str(ledger.delta),
        "delta_float": float(ledger.delta),
        "accounting": ledger.accounting,
        "sources": list(ledger.sources),
        "closed": ledger.closed,
        "clock_set_back": ledger.clock_set_back,
        "entries": len(ledger.history()),
        "head": {"sequence": sequence, "hash": digest},
        "remaining": _pair(ledger.remaining()),
        "remaining_parts": [
            {"partitioning": partitioning, "part": part, **_pair(left)} for partitioning, part, left in _parts(ledger)
        ],
        "notes_restored": [{"time": one.time, "reason": one.reason, "who": one.who} for one in ledger.restored],
    }


def _pair(left: tuple[Fraction, Fraction]) -> dict[str, str]:
    return {"epsilon": _exact(left[0], up=False), "delta": _exact(left[1], up=False)}


def _parts(ledger: Ledger) -> list[tuple[str, str | None, tuple[Fraction, Fraction]]]:
    """What is left for each part; the part None stands for those that nothing was spent on."""
    found: list[tuple[str, str | None, tuple[Fraction, Fraction]]] = []
    spent_on = ledger.parts()
    for partitioning in dict.fromkeys(name for name, _ in spent_on):
        known = [part for name, part in spent_on if name == partitioning]
        untouched = next(name for name in map(str, range(len(known) + 1)) if name not in known)
        found += [(partitioning, part, ledger.remaining(partitioning, part)) for part in known]
        found.append((partitioning, None, ledger.remaining(partitioning, untouched)))
    return found


def _say_state(ledger: Ledger) -> None:
    from collections import Counter

    from dptally.cli.printing import say

    say(f"Budget: epsilon {_number(ledger.epsilon)}, delta {_number(ledger.delta)}, accounting {ledger.accounting}.")
    parts = _parts(ledger)
    whose = " for releases of the whole data" if parts else ""
    say(f"Left{whose}: {_left(ledger, ledger.remaining())}.")
    for number, (partitioning, part, left) in enumerate(parts):
        if part is None:
            say(f"Left for any other part of {partitioning}: {_left(ledger, left)}.")
        elif number < _MOST_PARTS:
            say(f"Left for the part {part} of {partitioning}: {_left(ledger, left)}.")
    if len(parts) > _MOST_PARTS:
        say("Not all parts are shown; --json has them.")
    states = Counter(entry.state for entry in ledger.history())
    if states:
        say("Entries: " + ", ".join(f"{number:,} {state}" for state, number in sorted(states.items())) + ".")
    if ledger.closed:
        say("Closed: nothing more can be spent.", style="bold")
    if ledger.clock_set_back:
        say("The clock was set back at some time: entries are in the order of spending, not of their times.")
    for one in ledger.restored:
        say(f"Its note was restored on {one.time[:10]}{f' by {one.who}' if one.who else ''}: {one.reason}")
    say(f"Last row: {ledger.head[0]}, hash {ledger.head[1]}.")


def _left(ledger: Ledger, left: tuple[Fraction, Fraction]) -> str:
    """What is left, in words: a budget that can be spent in pieces, or the size of one release that still fits."""
    amount = f"epsilon {_number(left[0])}, delta {_number(left[1])}"
    if ledger.accounting == "basic":
        return amount
    return f"one release of {amount} still fits" if left[0] else "nothing"


def _exact(number: Fraction, *, up: bool) -> str:
    """A number in full; one with thousands of digits, which Python does not print, rounded."""
    import math
    from fractions import Fraction

    if max(abs(number.numerator), number.denominator) >= 10**_MOST_DIGITS:
        scale = 10 ** (_MOST_DIGITS // 2)
        number = Fraction((math.ceil if up else math.floor)(number * scale), scale)
    return str(number)


def _number(number: Fraction) -> str:
    return f"{float(number):.6g}"
