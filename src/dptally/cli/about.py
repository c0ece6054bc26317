"""The commands ``help``, ``completion`` and ``man``, made from the parser."""

from __future__ import annotations

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template

from dptally.cli.commands import build_parser
from dptally.cli.explain import Explanation, described, outputs
from dptally.cli.options import add_overwrite
from dptally.cli.parser import Commands, Parser, add_command, add_value, inner_commands, leaf_commands
from dptally.cli.printing import print_json
from dptally.errors import InvalidParameter
from dptally.files import check_target, complete_or_absent
from dptally.laws.registry import mechanism_names

_SHELLS = ("bash", "zsh", "tcsh", "fish", "powershell")
_FILES = ("FILE", "INPUT", "TABLE", "SAMPLE", "SKETCH", "RELEASE", "LEDGER")


def add_commands(commands: Commands) -> None:
    """Add ``help``, ``completion`` and ``man``."""
    told = add_command(commands, "help", _help, _explain)
    add_value(told, "words", "COMMAND", "a command, with its inner command if it has some", nargs="*")

    completion = add_command(commands, "completion", _completion, _explain)
    completion.add_argument("shell", choices=_SHELLS, help="which shell the script is for")

    manual = add_command(commands, "man", _man, _explain)
    add_value(manual, "-o --output", "FILE", "where to write it (default: standard output)")
    add_overwrite(manual)


def _explain(arguments: Namespace) -> Explanation:
    writes = outputs(arguments, "the manual page") if getattr(arguments, "output", None) else ()
    return Explanation(described(arguments), writes=writes, cost="No privacy is spent.")


def _help(arguments: Namespace) -> None:
    """The help of a command.

    Print the help of a command, as its --help does; of the whole program without one.

    dptally help publish
    dptally help sketch build
    """
    found: Parser | None = build_parser()
    for word in arguments.words:
        found = None if found is None else inner_commands(found).get(word)
    if found is None:
        raise InvalidParameter(f"there is no command {' '.join(arguments.words)[:40]!r}; see dptally --help.")
    _print(arguments, {"command": " ".join(arguments.words), "text": found.format_help()}, "text")


def _completion(arguments: Namespace) -> None:
    """Complete commands and options in a shell.

    Print a script that makes a shell complete commands, options, their values and names of files.
    For bash or zsh: eval "$(dptally completion bash)", best from ~/.bashrc or ~/.zshrc.

    dptally completion bash > ~/.local/share/bash-completion/completions/dptally
    dptally completion fish > ~/.config/fish/completions/dptally.fish
    """
    import shtab

    parser = build_parser()
    for _, command in leaf_commands(parser):
        for action in command._actions:
            if action.dest == "mechanism" and action.choices is None:
                action.choices = mechanism_names()
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar == "DIR":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    script = shtab.complete(parser, shell=arguments.shell)
    _print(arguments, {"shell": arguments.shell, "script": script}, "script")


def _man(arguments: Namespace) -> None:
    """The manual page.

    Print the manual page of all commands, or write it to a file that man can read.

    dptally man -o ~/.local/share/man/man1/dptally.1
    dptally man | man -l -
    """
    import dptally

    output = None if arguments.output is None else Path(arguments.output)
    if output is not None:
        check_target(output, overwrite=arguments.overwrite)
    helps = []
    for path, command in leaf_commands(build_parser()):
        command.formatter_class = partial(RawDescriptionHelpFormatter, width=76)
        helps.append(f'.SS "dptally {_roff(path)}"\n.nf\n{_roff(command.format_help())}.fi')
    template = Template(files("dptally.cli").joinpath("manual.roff").read_text(encoding="utf-8"))
    page = template.substitute(version=_roff(dptally.__version__), commands="\n".join(helps))
    if output is None:
        _print(arguments, {"page": page}, "page")
        return
    with complete_or_absent(output, overwrite=arguments.overwrite) as file:
        file.write(page.encode())
    if arguments.json:
        _print(arguments, {"output": str(output)}, "output")
    else:
        print(f"Wrote {output}.", file=sys.stderr)


def _roff(text: str) -> str:
    """Text in which nothing is an instruction of roff."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)


def _print(arguments: Namespace, facts: dict[str, str], shown: str) -> None:
    if arguments.json:
        print_json(facts)
    else:
        sys.stdout.write(facts[shown])
