"""``--explain`` on every command: what would be done, with which guarantee and at what cost, without doing it.

Nothing is read but the command line, and nothing is written. A command joins by a function that turns its arguments
into an `Explanation`, registered under the command's path::

    @explains("ledger show")
    def _explain_show(arguments: argparse.Namespace) -> Explanation:
        return Explanation("Show what was spent.", reads=(arguments.ledger,), cost="Nothing: ...")

It may stand in the command's own module, in `dptally.cli.explanations` or in `dptally.cli.ledger_explanations`. A test
fails for a command without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dptally.cli.command_tree import leaf_commands

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Parser

__all__ = ["Explanation", "add_explain", "explain", "explained_commands", "explains"]

_HELP = "say in words what would be done, with which guarantee and at what cost, and do nothing"


@dataclass(frozen=True)
class Explanation:
    """What a command would do.

    Attributes:
        does: what would be done, in sentences.
        reads: what would be read: files, standard input; with what they are.
        writes: what would be written.
        guarantee: what would be promised to whom; empty where nothing private is touched.
        cost: of privacy: what is spent.
        resources: time and memory, roughly.
        expect: what the result would be like; may be empty.
    """

    does: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    guarantee: str = ""
    cost: str = "No privacy is spent: what is read is public already."
    resources: str = "Less than a second and a few hundred megabytes at most."
    expect: str = ""


_Explainer = Callable[["argparse.Namespace"], Explanation]
_EXPLAINERS: dict[str, _Explainer] = {}


def explains(*commands: str) -> Callable[[_Explainer], _Explainer]:
    """Register the explanation of commands, such as ``"sketch build"``."""

    def register(explainer: _Explainer) -> _Explainer:
        for command in commands:
            _EXPLAINERS[command] = explainer
        return explainer

    return register


def add_explain(parser: Parser) -> None:
    """Give every command its ``--explain``."""
    for path, command in leaf_commands(parser):
        command.add_argument("--explain", action="store_true", help=_HELP)
        command.set_defaults(command_path=" ".join(path))


def explained_commands() -> set[str]:
    """The commands that have an explanation."""
    import dptally.cli.explanations
    import dptally.cli.ledger_explanations  # noqa: F401 - they register those of the commands that come with the package

    return set(_EXPLAINERS)


def explain(arguments: argparse.Namespace) -> None:
    """Print the explanation of a command.

    JSON: `command`, `does`, `reads`, `writes` (lists), `guarantee`, `cost`, `resources`, `expect` (sentences), and
    `done`, which is false.
    """
    from dataclasses import asdict

    from dptally.cli.printing import print_json, say
    from dptally.errors import InvalidParameter
    from dptally.labels import without_credentials

    command = arguments.command_path
    if command not in explained_commands():
        raise InvalidParameter(f"dptally {command} has no explanation.")
    found = _EXPLAINERS[command](arguments)
    found = replace(found, reads=tuple(map(without_credentials, found.reads)))
    if getattr(arguments, "json", False):
        print_json({"command": command, **asdict(found), "done": False})
        return
    say(f"dptally {command} would do this; nothing has been done.", style="bold")
    for label, text in (
        ("", found.does),
        ("Reads", "; ".join(found.reads) or "nothing"),
        ("Writes", "; ".join(found.writes) or "standard output only"),
        ("Guarantee", found.guarantee or "none is needed: nothing private is touched."),
        ("Privacy", found.cost),
        ("Expect", found.expect),
        ("Time and memory", found.resources),
    ):
        if text:
            say(f"{label}: {text}" if label else text)
