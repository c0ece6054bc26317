"""The commands ``help``, ``completion`` and ``man``: what there is to say about commands.

JSON: help: `command`, `text`; completion: `shell`, `script`; man: `page` (the text), or with ``-o`` `output`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli.completion import SHELLS, completion_script
from dptally.cli.parser import add_command
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``help``, ``completion`` and ``man``."""
    told = add_command(
        commands,
        "help",
        _help,
        summary="the help of a command",
        details="Print the help of a command, as its --help does; of the whole program without one.",
        example="dptally help publish",
        also="dptally help sketch build",
    )
    told.add_argument("words", metavar="COMMAND", nargs="*", help="a command, with its inner command if it has some")

    completion = add_command(
        commands,
        "completion",
        _completion,
        summary="complete commands and options in a shell",
        details=(
            "Print a script that makes a shell complete commands, options, their values and names of files.\n"
            "For bash: source <(dptally completion bash), best from ~/.bashrc."
        ),
        example="dptally completion bash > ~/.local/share/bash-completion/completions/dptally",
        also="dptally completion fish > ~/.config/fish/completions/dptally.fish",
    )
    completion.add_argument("shell", choices=SHELLS, help="which shell the script is for")

    manual = add_command(
        commands,
        "man",
        _man,
        summary="the manual page",
        details="Print the manual page of all commands, or write it to a file that man can read.",
        example="dptally man -o ~/.local/share/man/man1/dptally.1",
        also="dptally man | man -l -",
    )
    manual.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: standard output)")
    manual.add_argument("--overwrite", action="store_true", help="replace the file if it exists")


def _help(arguments: argparse.Namespace) -> None:
    from dptally.cli.command_tree import find_command
    from dptally.cli.parser import build_parser

    found = find_command(build_parser(), arguments.words)
    if found is None:
        raise InvalidParameter(f"there is no command {' '.join(arguments.words)[:40]!r}; see dptally --help.")
    if arguments.json:
        from dptally.cli.printing import print_json

        print_json({"command": " ".join(arguments.words), "text": found.format_help()})
        return
    sys.stdout.write(found.format_help())


def _completion(arguments: argparse.Namespace) -> None:
    from dptally.cli.parser import build_parser

    script = completion_script(build_parser(), arguments.shell)
    if arguments.json:
        from dptally.cli.printing import print_json

        print_json({"shell": arguments.shell, "script": script})
        return
    sys.stdout.write(script)


def _man(arguments: argparse.Namespace) -> None:
    import dptally
    from dptally.cli.manual import manual_page
    from dptally.cli.parser import build_parser
    from dptally.files import check_target, complete_or_absent

    output = None if arguments.output is None else Path(arguments.output)
    if output is not None:
        check_target(output, overwrite=arguments.overwrite)
    page = manual_page(build_parser(), dptally.__version__)
    if output is not None:
        with complete_or_absent(output, overwrite=arguments.overwrite) as file:
            file.write(page.encode())
    if arguments.json:
        from dptally.cli.printing import print_json

        print_json({"page": page} if output is None else {"output": str(output)})
    elif output is None:
        sys.stdout.write(page)
    else:
        print(f"Wrote {output}.", file=sys.stderr)
