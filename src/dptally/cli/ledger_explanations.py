"""What the commands of a ledger would do, and what ``--ledger`` adds to others. See `dptally.cli.explain`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dptally.cli.explain import Explanation, explains

if TYPE_CHECKING:
    import argparse
    from fractions import Fraction

__all__ = ["with_ledger"]

_HISTORY = "Less than a second; some tens of microseconds for each entry, as every hash is checked."


def with_ledger(
    explanation: Explanation, arguments: argparse.Namespace, spent: tuple[Fraction, Fraction] | None
) -> Explanation:
    """The explanation of a command that draws, and of the ledger that pays for it.

    Args:
        explanation: without a ledger.
        arguments: with the options of `dptally.cli.ledger.add_ledger_options`.
        spent: epsilon and delta; None where a task of a file says how much.

    Raises:
        InvalidParameter: for options of a ledger that the command would refuse.
    """
    from dptally.cli.ledger import ledger_part

    part = ledger_part(arguments)
    if arguments.ledger is None:
        return explanation
    size = (
        "what the task of the file states"
        if spent is None
        else f"epsilon = {float(spent[0]):g}, delta = {float(spent[1]):g}"
    )
    whose = "" if part is None else f" Only units of the part {part[1]!r} of {part[0]!r} pay, who are in no other part."
    ledger = (
        f"The ledger {arguments.ledger} is spent first: {size} is reserved in it before any data is read, and refused "
        "if the budget does not hold it. It is given back only if the command fails before the first row is read; "
        f"after that it stays spent, unless you take back a failure by hand (dptally ledger void).{whose}"
    )
    return replace(
        explanation,
        cost=f"{explanation.cost} {ledger}",
        writes=(*explanation.writes, f"{arguments.ledger}: the entry that pays, before anything is drawn"),
    )


@explains("ledger create")
def _create(arguments: argparse.Namespace) -> Explanation:
    from dptally.exact import as_delta, as_epsilon, as_fraction

    epsilon, delta = as_epsilon(arguments.epsilon), as_fraction("delta", arguments.delta)
    delta = delta and as_delta(delta)
    rule = (
        "Epsilons and deltas of releases are added up, which holds however releases are chosen."
        if arguments.accounting == "basic"
        else "The best of three ways to add up decides. You state that mechanisms, epsilons and deltas of releases are "
        "fixed without looking at earlier releases."
    )
    sources = f" Data sources: {', '.join(arguments.source)}." if arguments.source else ""
    return Explanation(
        does=(
            f"Make a ledger with a budget of epsilon = {float(epsilon):g}, delta = {float(delta):g}, which can never "
            f"be changed. {rule}{sources}"
        ),
        writes=(f"{arguments.ledger}: the ledger, for its owner only, if it does not exist yet",),
        guarantee=(
            "All releases that are paid from it keep the budget together, for each unit. A release made without the "
            "ledger is not in it."
        ),
        cost="Nothing is spent: the budget is what later releases may spend.",
        resources="Less than a second.",
    )


@explains("ledger show")
def _show(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does=(
            "Show the budget, what is left of it under its accounting, and the total by basic, optimal and tight "
            "composition"
            + (", with a second opinion by dp-accounting in floating point." if arguments.numerical else ".")
        ),
        reads=_reads(arguments),
        guarantee="That of the ledger; its history is checked first.",
        cost="Nothing is spent.",
        resources=f"{_HISTORY} Tight composition takes up to seconds for many different laws.",
    )


@explains("ledger history")
def _history(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does="Print every spending with its time, mechanism, epsilon, delta, who, and what became of it, in order.",
        reads=_reads(arguments),
        guarantee="That of the ledger; its history is checked first.",
        cost="Nothing is spent.",
        resources=_HISTORY,
    )


@explains("ledger verify")
def _verify(arguments: argparse.Namespace) -> Explanation:
    noted = (
        " Whether it was cut short or written anew, only a hash noted earlier can tell: give it with --head."
        if arguments.head is None
        else " And that the hash noted earlier is in it: then it was neither cut short before it nor written anew."
    )
    return Explanation(
        does=(
            "Check every hash of the history: no row was edited, removed, added or moved. Check that it ends where the "
            f"note beside it says.{noted}"
        ),
        reads=_reads(arguments),
        guarantee="That of the ledger, checked again.",
        cost="Nothing is spent.",
        resources=_HISTORY,
    )


@explains("ledger void")
def _void(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does=(
            f"Take back entry {arguments.entry}, if it failed, or was reserved and never drawn from. You state that "
            "nobody learns anything from the failure; the reason stays in the history."
        ),
        reads=_reads(arguments),
        writes=(f"{arguments.ledger}: that the entry is void, and why",),
        guarantee="That of the ledger, if your statement is true.",
        cost="Nothing is spent; what the entry has spent is given back.",
        resources=_HISTORY,
    )


@explains("ledger restore-note")
def _restore_note(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does=(
            "Write the note beside the ledger again, if it is missing, garbled or says something else. You state that "
            "nothing was spent that is not in the ledger; the reason stays in its history."
        ),
        reads=_reads(arguments),
        writes=(
            f"{arguments.ledger}: that the note was restored, and why",
            f"{arguments.ledger}-head: the note",
        ),
        guarantee="That of the ledger, if your statement is true.",
        cost="Nothing is spent.",
        resources=_HISTORY,
    )


@explains("ledger close")
def _close(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does="Close the ledger: nothing more can be spent from it, for ever. It stays readable.",
        reads=_reads(arguments),
        writes=(f"{arguments.ledger}: the last entry",),
        guarantee="What was published keeps the budget, and nothing can be added.",
        cost="Nothing is spent; what was left of the budget cannot be used any more.",
        resources=_HISTORY,
    )


def _reads(arguments: argparse.Namespace) -> tuple[str, ...]:
    return (f"{arguments.ledger} (the ledger: no data, but who spent what)",)
