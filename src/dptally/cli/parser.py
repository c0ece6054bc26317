"""The parser: how commands and options are declared, and how they are walked over. It imports no command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    from dptally.cli.explain import Explanation

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
Run: TypeAlias = Callable[[argparse.Namespace], None]
Explain: TypeAlias = "Callable[[argparse.Namespace], Explanation]"

_QUOTES = "\"'"


class Parser(argparse.ArgumentParser):
    """A parser that knows no abbreviations and reports mistakes like everything else does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            import difflib

            close = difflib.get_close_matches(str(value), map(str, action.choices or ()), 1)
            if not close:
                raise
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} (did you mean '{close[0]}'?)") from None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; of an option that there is not, name the one that is written almost so."""
        found, rest = super().parse_known_args(args, namespace)
        for word in rest:
            if word.startswith("--"):
                import difflib

                close = difflib.get_close_matches(word.partition("=")[0], self._option_string_actions, 1)
                if close:
                    self.error(f"unrecognized arguments: {' '.join(rest)} (did you mean '{close[0]}'?)")
        return found, rest

    def written(self, name: str, value: str) -> str:
        """A parameter of the library as an option of this command, if it has it, and as in Python otherwise."""
        for action in self._actions:
            if action.dest == name and action.option_strings:
                option = action.option_strings[-1]
                return option if action.nargs == 0 or not value else f"{option} {value.strip(_QUOTES)}"
        return f"{name}={value}" if value else name

    def error(self, message: str) -> NoReturn:
        """Refuse the request; `main` prints the sentence."""
        raise InvalidParameter(f"{message}; see {self.prog} --help.")


def add_group(commands: Commands, name: str, *, summary: str, details: str, example: str) -> Commands:
    """Add a command that has commands of its own, and return where they go."""
    group = commands.add_parser(name, help=summary, description=details, epilog=f"example:\n  {example}")
    return group.add_subparsers(title="commands", dest="inner_command", metavar="COMMAND", required=True)


def add_command(commands: Commands, name: str, run: Run, explain: Explain, *, further: str = "") -> Parser:
    """Add a command with ``--json`` and ``--explain``.

    The docstring of the function that runs it is its help: a sentence for the list of commands, the description, which
    ends with `further`, and two command lines. The function that explains it reads nothing but the arguments.
    """
    parts = cleandoc(run.__doc__ or "").split("\n\n")  # Python without docstrings has commands without help
    details = "\n\n".join([*parts[1:-1], *([further] if further else [])])
    example, _, also = parts[-1].partition("\n")
    parser = commands.add_parser(
        name,
        help=parts[0][:1].lower() + parts[0][1:].removesuffix("."),
        description=details,
        epilog=f"example:\n  {example}\nor:\n  {also}",
    )
    parser.set_defaults(run=run, explanation=explain, parser=parser)
    add_flag(parser, "--json", "print one JSON value instead of text")
    add_flag(parser, "--explain", "describe the effect, the guarantee and the cost of this command, without running it")
    return parser


def add_value(parser: argparse._ActionsContainer, names: str, metavar: str | None, text: str, **options: Any) -> None:
    """Add an option with a value, such as ``"-o --output"``, or a positional argument, by its name in lower case."""
    default = options.get("default")
    if default is not None and "default" not in text:
        text = f"{text} (default: {default})"
    parser.add_argument(*names.split(), metavar=metavar, help=text, **options)


def add_number(parser: argparse._ActionsContainer, names: str, metavar: str, text: str, **options: Any) -> None:
    """Add an option whose value is a whole number."""
    add_value(parser, names, metavar, text, type=whole_number, **options)


def add_choice(
    parser: argparse._ActionsContainer, names: str, choices: Sequence[str], text: str, **options: Any
) -> None:
    """Add an option whose value is one of some words."""
    add_value(parser, names, None, text, choices=choices, **options)


def add_flag(parser: argparse._ActionsContainer, names: str, text: str) -> None:
    """Add an option without a value."""
    parser.add_argument(*names.split(), action="store_true", help=text)


def whole_number(text: str) -> int:
    """Read a whole number, or say that it is none."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text[:40]!r}") from None


def inner_commands(parser: Parser) -> dict[str, Parser]:
    """The commands directly below, by name."""
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0]) if found else {}


def leaf_commands(parser: Parser) -> Iterator[tuple[str, Parser]]:
    """The commands that do something, with their path, such as ``"sketch build"``."""
    for name, inner in inner_commands(parser).items():
        if inner_commands(inner):
            yield from ((f"{name} {path}", leaf) for path, leaf in leaf_commands(inner))
        else:
            yield name, inner
