"""The manual page of all commands, in the language of man, made from the parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.cli.command_tree import leaf_commands, options_of, positionals_of

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Parser

__all__ = ["manual_page"]


def manual_page(parser: Parser, version: str) -> str:
    """The page as text, for man(1)."""
    lines = [
        f'.TH DPTALLY 1 "" "dptally {_text(version)}" "User Commands"',
        ".SH NAME",
        "dptally \\- publish tables of private keys and counts under differential privacy",
        ".SH SYNOPSIS",
        "\\fBdptally\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR ...]",
        ".SH DESCRIPTION",
        _text(parser.description or ""),
        "Every command takes \\fB\\-\\-json\\fR, which prints one JSON value, and \\fB\\-\\-explain\\fR, which says "
        "what would be done and does nothing.",
        ".SH COMMANDS",
    ]
    for path, command in leaf_commands(parser):
        name = _text(" ".join(path))
        lines += [f'.SS "dptally {name}"', *_paragraphs(command.description or "")]
        for action in (*positionals_of(command), *options_of(command)):
            lines += [".TP", _heading(action), _text((action.help or "").replace("%%", "%"))]
        lines += [".PP", ".nf", *_paragraphs(command.epilog or ""), ".fi"]
    lines += [
        ".SH EXIT STATUS",
        "0: done; 1: something failed; 2: a request that cannot be met; 130: interrupted.",
        ".SH ENVIRONMENT",
        ".TP",
        "DPTALLY_DEBUG=1",
        "Show the text of unexpected errors, which may quote data.",
    ]
    return "\n".join(lines) + "\n"


def _heading(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return f"\\fI{_text(metavar)}\\fR"
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in action.option_strings)
    if action.nargs == 0:
        return names
    if action.choices is not None and action.metavar is None:
        return f"{names} {_text('|'.join(str(choice) for choice in action.choices))}"
    return f"{names} \\fI{_text(metavar)}\\fR"


def _paragraphs(text: str) -> list[str]:
    return [".PP" if not line.strip() else _text(line) for line in text.split("\n")]


def _text(text: str) -> str:
    """Text in which nothing is an instruction."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    lines = [f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.split("\n")]
    return "\n".join(lines)
