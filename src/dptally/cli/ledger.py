"""The commands of ``ledger``."""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

from dptally.cli.explain import Explanation, described
from dptally.cli.options import given, open_ledger
from dptally.cli.parser import (
    Commands,
    Explain,
    Parser,
    Run,
    add_choice,
    add_command,
    add_flag,
    add_group,
    add_number,
    add_value,
)
from dptally.cli.printing import print_json, print_table_or_csv, say
from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon, as_fraction
from dptally.ledger import Ledger
from dptally.ledger.budget import MOST_FITTING
from dptally.ledger.renewal import PERIODS

_MOST_DIGITS = 4000
_MOST_PARTS = 20  # that are shown
_SHOWN = ("entry", "time", "state", "mechanism", "epsilon", "delta", "who", "source", "unit", "partitioning")
_HISTORY = (*_SHOWN, "part", "release_id", "entry_hash", "note")


def add_commands(commands: Commands) -> None:
    """Add ``ledger`` with its own commands."""
    inner = add_group(
        commands,
        "ledger",
        summary="budgets: plan, create, show, history, verify, void, restore-note, close",
        details="A budget for all releases of one data set, written to disk before anything is released.",
        example="dptally ledger create budget.db --epsilon 1 --delta 1e-6",
    )
    create = _add(inner, "create", _create, _explain_create)
    add_value(create, "--epsilon", "E", "of the budget. Parsed exactly: 0.1 means 1/10", required=True)
    add_value(create, "--delta", "D", "of the budget; 0 for releases with delta 0 only", required=True)
    add_choice(create, "--accounting", ("basic", "tight"), "how spending is composed", default="basic")
    renew = "each period has the whole budget for its own rows, by --time-column; see above"
    add_choice(create, "--renew", PERIODS, renew)
    add_value(create, "--time-column", "COLUMN", "the dates or times that tell the period of a row, with --renew")
    add_value(create, "--source", "NAME", "a data source; repeat for several", action="append")
    plan = add_command(inner, "plan", _plan, _explain_plan)
    add_number(plan, "--releases", "N", "how many releases there will be, as 365", required=True)
    add_value(plan, "--epsilon", "E", "of the budget. Parsed exactly: 0.1 means 1/10", required=True)
    add_value(plan, "--delta", "D", "of the budget", required=True)
    add_value(plan, "--delta-each", "D", "of each release (default: half of the budget's delta, shared between them)")
    add_flag(_add(inner, "show", _show), "--numerical", "add a second opinion by dp-accounting, in floating point")
    _add(inner, "history", _history)
    add_value(_add(inner, "verify", _verify), "--head", "HASH", "the hash of a row, noted earlier")
    void = _add(inner, "void", _void)
    add_value(void, "entry", "ENTRY", "the number of the entry, as in dptally ledger history")
    _add_reason(void)
    _add_reason(_add(inner, "restore-note", _restore_note))
    _add(inner, "close", _close)


def _add(commands: Commands, name: str, run: Run, explain: Explain | None = None) -> Parser:
    parser = add_command(commands, name, run, explain or _explain)
    add_value(parser, "ledger", "LEDGER", "the file of the ledger")
    return parser


def _add_reason(parser: Parser) -> None:
    add_value(parser, "--reason", "TEXT", "why; it stays in the history", required=True)
    add_value(parser, "--who", "NAME", "who says so, for the history")


def _create(arguments: argparse.Namespace) -> None:
    """Make a new ledger with a budget.

    Make a ledger. Its budget can never be changed. All data about the same people belongs in one ledger.
    With --accounting tight, you state that parameters of releases (mechanism, epsilon, delta) are fixed
    without looking at earlier releases, as by a plan or a schedule; more then fits in the budget.

    With --renew month --time-column day each month has the whole budget, for rows of that month: releases must
    say which rows they read, by --since and --until or by a --where on that column. The guarantee is then for
    all rows of one unit within one month, and not for a unit over several months. A release over several months
    draws on each, twice its epsilon and more of delta if it has a unit, as other rows of the unit stay.

    dptally ledger create budget.db --epsilon 1 --delta 1e-6
    dptally ledger create people.db --epsilon 2 --delta 1e-6 --source events --source orders
    """
    if Path(arguments.ledger).exists():
        raise InvalidParameter(f"{arguments.ledger} already exists; a ledger is never replaced.")
    ledger = Ledger(
        arguments.ledger, **given(arguments, "epsilon delta accounting renew time_column"), sources=arguments.source
    )
    _print_state(arguments, ledger, f"Made {arguments.ledger}.")


def _plan(arguments: argparse.Namespace) -> None:
    """Which epsilon each of many releases may have.

    Answer which epsilon each of N equal releases may have, so that all of them fit into a budget: under basic
    accounting, where epsilons are added up, and under tight accounting, where all parameters are fixed without
    looking at earlier releases. Numbers are rounded down. No ledger is read or made.

    dptally ledger plan --releases 365 --epsilon 10 --delta 1e-5
    dptally ledger plan --releases 52 --epsilon 4 --delta 1e-6 --delta-each 1e-9 --json
    """
    plan = Ledger.plan(**given(arguments, "releases epsilon delta delta_each"))
    if arguments.json:
        names = ("epsilon", "delta", "delta_each", "basic", "tight")
        print_json(
            {"releases": plan.releases, **{k: v for name in names for k, v in _both(name, getattr(plan, name)).items()}}
        )
        return
    say(str(plan))


def _explain_plan(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        described(arguments),
        guarantee="None: nothing is released.",
        cost="Nothing is spent.",
        resources="Less than a second; some seconds for very many releases.",
    )


def _show(arguments: argparse.Namespace) -> None:
    """What remains, and what was spent by each kind of composition.

    Show the budget, what remains of it under the ledger's accounting, for the whole data and for parts of
    it, how many more releases like the last one fit, and the total by basic, optimal and tight composition.

    dptally ledger show budget.db
    dptally ledger show budget.db --json
    """
    ledger = open_ledger(arguments.ledger, read_only=True)
    totals = ledger.totals()
    numerical: dict[str, float] = {}
    if arguments.numerical:
        from dptally.ledger.numerical import numerical_delta

        numerical["numerical_delta"] = numerical_delta(ledger.worst_history(), epsilon=ledger.epsilon)
    if arguments.json:
        shown = [
            {"method": each.method, **_both("delta", each.delta), **_both("epsilon", each.epsilon)} for each in totals
        ]
        print_json({**_facts(ledger), "fitting": ledger.fitting(), "totals": shown, **numerical})
        return
    _say_state(ledger)
    fitting = ledger.fitting()
    if fitting is not None:
        number = f"{MOST_FITTING:,} or more" if fitting == MOST_FITTING else f"{fitting:,}"
        say(f"Releases like the last one that still fit: {number}.")
    for total in totals:
        at_delta = "" if total.epsilon is None else f"; epsilon {_number(total.epsilon)} at the budget's delta"
        at_epsilon = "more than any delta" if total.delta >= 1 else f"delta {_number(total.delta)}"
        say(f"{total.method:>8}: {at_epsilon} at the budget's epsilon{at_delta}.")
    for found in numerical.values():
        say(f"dp-accounting, not proved: delta {found:.6g} at the budget's epsilon.")


def _history(arguments: argparse.Namespace) -> None:
    """Every spending and what became of it.

    Print every spending, in order: a table on a terminal, CSV into a pipe, JSON with --json.

    dptally ledger history budget.db
    dptally ledger history budget.db > history.csv
    """
    import polars as pl

    rows = []
    for entry in open_ledger(arguments.ledger, read_only=True).history():
        spent = {"entry": entry.number, "mechanism": entry.spending.mechanism}
        numbers = {"epsilon": str(entry.spending.epsilon), "delta": str(entry.spending.delta)}
        facts = {**vars(entry), **spent, **numbers}
        rows.append({name: facts[name] for name in _HISTORY})
    if arguments.json:
        print_json(rows)
        return
    frame = pl.DataFrame({name: [None if row[name] is None else str(row[name]) for row in rows] for name in _HISTORY})
    print_table_or_csv(frame.cast(pl.String), keys=len(_SHOWN), shown=frame.select(_SHOWN).fill_null(""))


def _verify(arguments: argparse.Namespace) -> None:
    """Check that the history was not altered.

    Check every hash of the history, and the note beside the ledger. With --head, check also that a hash
    noted earlier is in it: that shows a history that was cut short or written again, by anyone who could
    write all files here.

    dptally ledger verify budget.db
    dptally ledger verify budget.db --head HASH
    """
    noted = arguments.head
    if noted is not None and not re.fullmatch("[0-9a-fA-F]{64}", noted.strip()):
        raise InvalidParameter(f"--head must be a hash of 64 hexadecimal digits, got {noted[:70]!r}.")
    sequence, digest = open_ledger(arguments.ledger, read_only=True).verify(noted)
    if arguments.json:
        print_json({"verified": True, "rows": sequence + 1, "head": {"sequence": sequence, "hash": digest}})
        return
    rows = f"{sequence + 1:,} rows follow from each other." if sequence else "The one row is as it was written."
    say(rows, style="bold green")
    say(f"Keep the hash of the last one where no one can change it: {digest}")


def _void(arguments: argparse.Namespace) -> None:
    """Take back what failed, and say why.

    Take back a spending that failed after data was read, or that a killed process had reserved. Whether a
    request fails then may depend on the data; you state that no one learns anything from it. The reason
    stays in the history. What was published, or sampled and not known to have failed, stays spent.

    dptally ledger void budget.db 3 --reason "the disk was unplugged"
    dptally ledger void budget.db 3 --reason "the disk was unplugged" --who ada --json
    """
    if not re.fullmatch("[0-9]{1,9}", arguments.entry):
        raise InvalidParameter(f"ENTRY must be the number of an entry, got {arguments.entry[:40]!r}.")
    ledger = open_ledger(arguments.ledger)
    ledger.void(int(arguments.entry), reason=arguments.reason, who=arguments.who)
    _print_state(arguments, ledger, f"Entry {int(arguments.entry)} is void.")


def _restore_note(arguments: argparse.Namespace) -> None:
    """Accept a ledger without its note, and say why.

    Write the note beside a ledger again, if it is missing, garbled or says something else: after a move
    without it, or from a backup. You state that nothing was spent that is not in the ledger. The reason
    stays in the history.

    dptally ledger restore-note budget.db --reason "restored from the backup of Monday"
    dptally ledger restore-note budget.db --reason "moved to another disk" --who ada --json
    """
    ledger = Ledger.restore_note(arguments.ledger, reason=arguments.reason, who=arguments.who)
    _print_state(arguments, ledger, f"The note of {arguments.ledger} is written again.")


def _close(arguments: argparse.Namespace) -> None:
    """End all spending, for ever.

    Close a ledger: nothing more can be spent from it. It stays readable.

    dptally ledger close budget.db
    dptally ledger close budget.db --json
    """
    ledger = open_ledger(arguments.ledger)
    ledger.end_spending()
    _print_state(arguments, ledger, f"Closed {arguments.ledger}.")


def _print_state(arguments: argparse.Namespace, ledger: Ledger, text: str) -> None:
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
        **_both("epsilon", ledger.epsilon),
        **_both("delta", ledger.delta),
        "accounting": ledger.accounting,
        "sources": list(ledger.sources),
        "renew": None if ledger.renewal is None else vars(ledger.renewal),
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


def _both(name: str, number: Fraction | None) -> dict[str, Any]:
    """A number in full, and as a float."""
    if number is None:
        return {name: None, f"{name}_float": None}
    return {name: _exact(number, up=True), f"{name}_float": float(number)}


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
    say(f"Budget: epsilon {_number(ledger.epsilon)}, delta {_number(ledger.delta)}, accounting {ledger.accounting}.")
    parts = _parts(ledger)
    whose = " for releases of the whole data" if parts else ""
    if ledger.renewal is None:
        say(f"Left{whose}: {_left(ledger, ledger.remaining())}.")
    else:
        say(str(ledger.renewal))
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
    if max(abs(number.numerator), number.denominator) >= 10**_MOST_DIGITS:
        scale = 10 ** (_MOST_DIGITS // 2)
        number = Fraction((math.ceil if up else math.floor)(number * scale), scale)
    return str(number)


def _number(number: Fraction) -> str:
    return f"{float(number):.6g}"


def _explain_create(arguments: argparse.Namespace) -> Explanation:
    epsilon, delta = as_epsilon(arguments.epsilon), as_fraction("delta", arguments.delta)
    delta = delta and as_delta(delta)
    rule = (
        "Epsilons and deltas of releases are added up, which holds however releases are chosen."
        if arguments.accounting == "basic"
        else "The best of three composition theorems decides. You state that mechanisms, epsilons and deltas of "
        "releases are fixed without looking at earlier releases."
    )
    sources = f" Data sources: {', '.join(arguments.source)}." if arguments.source else ""
    return Explanation(
        f"Make a ledger with a budget of epsilon = {float(epsilon):g}, delta = {float(delta):g}, which can never be "
        f"changed. {rule}{sources}",
        writes=(f"{arguments.ledger}: the ledger, for its owner only, if it does not exist yet",),
        guarantee="All releases paid from it stay within the budget together, for each unit. A release made without "
        "the ledger is not in it.",
        cost="Nothing is spent: the budget is what later releases may spend.",
    )


def _explain(arguments: argparse.Namespace) -> Explanation:
    written = arguments.run in (_void, _restore_note, _close)
    return Explanation(
        described(arguments),
        reads=(f"{arguments.ledger} (the ledger: no data, but who spent what)",),
        writes=(f"{arguments.ledger}: one more row, and {arguments.ledger}-head: the note",) if written else (),
        guarantee="That of the ledger, whose history is verified first, and of what you state.",
        cost="Nothing is spent.",
        resources="Less than a second; some tens of microseconds for each entry, and up to seconds for composition.",
    )
