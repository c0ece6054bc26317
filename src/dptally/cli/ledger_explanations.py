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
        "if the budget does not hold it. It is given back only if the command fails before the draw; from the first "
        f"random word on it is spent for ever.{whose}"
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
            "Show the budget, what is left of it, and the total by basic, optimal and tight composition"
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
        does=f"Check every hash of the history: no row was edited, removed, added or moved.{noted}",
        reads=_reads(arguments),
        guarantee="That of the ledger, checked again.",
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
