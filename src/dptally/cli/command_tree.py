"""All commands of a parser with their options: what help, completion, manual and tests walk over."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from dptally.cli.parser import Parser

__all__ = ["find_command", "inner_commands", "leaf_commands", "options_of", "positionals_of", "walk_commands"]


def inner_commands(parser: Parser) -> dict[str, Parser]:
    """The commands directly below, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return cast("dict[str, Parser]", dict(action.choices))
    return {}


def walk_commands(parser: Parser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Parser]]:
    """Every command with its path, the program itself first, groups before what is in them."""
    yield path, parser
    for name, inner in inner_commands(parser).items():
        yield from walk_commands(inner, (*path, name))


def leaf_commands(parser: Parser) -> Iterator[tuple[tuple[str, ...], Parser]]:
    """The commands that do something."""
    return ((path, each) for path, each in walk_commands(parser) if path and not inner_commands(each))


def find_command(parser: Parser, path: list[str]) -> Parser | None:
    """The command of this path, or None."""
    found: Parser | None = parser
    for name in path:
        found = None if found is None else inner_commands(found).get(name)
    return found


def options_of(parser: Parser) -> list[argparse.Action]:
    """What starts with a dash."""
    return [action for action in parser._actions if action.option_strings]


def positionals_of(parser: Parser) -> list[argparse.Action]:
    """What stands by its place, without inner commands."""
    return [
        action
        for action in parser._actions
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction)
    ]
