"""The registry of commands: which module has which command. A module is imported when its command is asked for."""

from __future__ import annotations

from importlib import import_module

import dptally
from dptally.cli.parser import Parser

_MODULES = {
    "publish": "publish sanitize",
    "sketch": "sketch",
    "trees": "heavy-hitters quantile",
    "series": "series",
    "federated": "federated",
    "ledger": "ledger",
    "read": "show top count sum verify combine",
    "compare": "compare",
    "report": "plot report",
    "explore": "explore",
    "plan": "plan",
    "audit": "audit",
    "example": "example",
    "about": "help completion man",
}
COMMANDS = {command: module for module, commands in _MODULES.items() for command in commands.split()}
"""Every command, in the order of the help, with the module of this package whose `add_commands` adds it."""


def build_parser(command: str | None = None) -> Parser:
    """The parser of the command line: of the module of one command, or of all where that is no command."""
    parser = Parser(
        prog="dptally",
        description="Publish tables of private keys and counts under differential privacy.",
        epilog=(
            "Begin with:\n  dptally example\nand see dptally COMMAND --help for each command. --explain describes\n"
            "what a command would do, without running it. dptally completion and dptally man are for your shell."
        ),
    )
    parser.add_argument("--version", action="version", version=f"dptally {dptally.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    modules = [COMMANDS[command]] if command in COMMANDS else _MODULES
    for module in modules:
        import_module(f"dptally.cli.{module}").add_commands(commands)
    return parser
