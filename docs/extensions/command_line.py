"""The command line as Markdown, from the parser that reads it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from dptally.cli.commands import build_parser

__all__ = ["markdown"]


def markdown() -> str:
    """A section for each command, a smaller one for each command of a command."""
    return "\n\n".join(_command(parser, depth) for parser, depth in _commands(build_parser(), 2))


def _commands(parser: argparse.ArgumentParser, depth: int) -> Iterator[tuple[argparse.ArgumentParser, int]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield child, depth
                yield from _commands(child, depth + 1)


def _command(parser: argparse.ArgumentParser, depth: int) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=84, max_help_position=28)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    parts = [f"{'#' * depth} {parser.prog}"]
    if parser.description:
        parts.append(_text(parser.description))
    parts.append(f"```text\n{formatter.format_help().strip()}\n```")
    rows = [row for action in parser._actions if (row := _row(action))]
    if rows:
        parts.append("| argument | meaning |\n| --- | --- |\n" + "\n".join(rows))
    if parser.epilog:
        title, _, example = parser.epilog.partition("\n")
        parts.append(f"{title.capitalize()}\n\n```bash\n{_dedented(example)}\n```")
    return "\n\n".join(parts)


def _row(action: argparse.Action) -> str | None:
    if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)) or action.help == argparse.SUPPRESS:
        return None
    names = ", ".join(action.option_strings)
    value = ""
    if action.nargs != 0:
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
        value = action.metavar or choices or action.dest.upper()
        value = value if isinstance(value, str) else " ".join(value)
    shown = f"{names} {value}".strip()
    meaning = _text(action.help or "").replace("%%", "%").replace("|", "\\|")
    return f"| `{shown}` | {meaning}{' (required)' if action.required and names else ''} |"


def _text(text: str) -> str:
    """Running text, with options as code, and nothing that Markdown would read as its own."""
    plain = re.sub(r"[<*_]", lambda found: "\\" + found[0], " ".join(text.split()))
    return re.sub(r"(?<![\w-])(--?[a-z][a-z-]*)", r"`\1`", plain)


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())
