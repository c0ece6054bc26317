"""Scripts that complete commands, options and their values in a shell, made from the parser."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dptally.cli.command_tree import inner_commands, options_of, positionals_of, walk_commands

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Parser

__all__ = ["SHELLS", "completion_script"]

SHELLS = ("bash", "zsh", "fish")
_FILES = {"FILE", "DIR", "DIRECTORY", "INPUT", "TABLE", "SAMPLE", "SKETCH", "RELEASE"}
_MECHANISMS = (
    "weighted_sample", "stability", "gaussian", "sample_and_threshold", "misra_gries", "dense", "sparse", "compact",
)  # fmt: skip
_SUGGESTED = {
    ("publish", "--mechanism"): _MECHANISMS,
    ("plan", "--mechanism"): (*_MECHANISMS, "heavy_hitters"),
    ("quantile", "--mechanism"): ("sample_and_threshold", "weighted_sample", "dense"),
}


def completion_script(parser: Parser, shell: str) -> str:
    """The script for one of `SHELLS`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](parser)


def _values(path: tuple[str, ...], action: argparse.Action) -> tuple[str, ...] | None:
    """What may stand after an option or at a place: words, () for anything, None for names of files."""
    if action.choices is not None:
        return tuple(str(choice) for choice in action.choices)
    for name in action.option_strings:
        if (" ".join(path), name) in _SUGGESTED:
            return _SUGGESTED[" ".join(path), name]
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return None if metavar in _FILES else ()


def _takes_value(action: argparse.Action) -> bool:
    return bool(action.option_strings) and action.nargs != 0


def _cases(parser: Parser, *, words: str, files: str) -> tuple[list[str], list[str], list[str], list[str]]:
    """Lines for ``case``: paths, values after options, options, and what stands without a dash.

    `words` and `files` are shell commands that offer words (put in for ``%s``) and names of files.
    """
    paths, values, options, places = [], [], [], []
    for path, command in walk_commands(parser):
        here = " ".join(path)
        if path:
            paths.append(f"{shlex.quote(_step(path))}) found={shlex.quote(here)} ;;")
        names = [name for action in options_of(command) for name in action.option_strings]
        options.append(f"{shlex.quote(here)}) {words % ' '.join(names)} ;;")
        for action in options_of(command):
            if not _takes_value(action):
                continue
            offered = _values(path, action)
            pattern = "|".join(shlex.quote(f"{here}/{name}") for name in action.option_strings)
            offer = files if offered is None else words % " ".join(offered) if offered else ":"
            values.append(f"{pattern}) {offer}; return ;;")
        inner = inner_commands(command)
        if inner:
            places.append(f"{shlex.quote(here)}) {words % ' '.join(inner)} ;;")
            continue
        offers = [_values(path, action) for action in positionals_of(command)]
        listed = [word for offered in offers if offered for word in offered]
        if listed:
            places.append(f"{shlex.quote(here)}) {words % ' '.join(listed)} ;;")
        elif None in offers:
            places.append(f"{shlex.quote(here)}) {files} ;;")
    return paths, values, options, places


def _bash(parser: Parser) -> str:
    paths, values, options, places = _cases(
        parser,
        words='mapfile -t COMPREPLY < <(compgen -W "%s" -- "$current")',
        files='compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current")',
    )
    return _script(
        "# Completion of dptally for bash. Load it with: source <(dptally completion bash)",
        "_dptally() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" found="" index',
        "    COMPREPLY=()",
        "    for (( index = 1; index < COMP_CWORD; index++ )); do",
        '        case "$found/${COMP_WORDS[index]}" in',
        *_indented(paths, 12),
        "        esac",
        "    done",
        '    case "$found/$previous" in',
        *_indented(values, 8),
        "    esac",
        '    if [[ "$current" == -* ]]; then',
        '        case "$found" in',
        *_indented(options, 12),
        "        esac",
        "        return",
        "    fi",
        '    case "$found" in',
        *_indented(places, 8),
        "    esac",
        "}",
        "complete -F _dptally dptally",
    )


def _zsh(parser: Parser) -> str:
    paths, values, options, places = _cases(parser, words="compadd -- %s", files="_files")
    return _script(
        "#compdef dptally",
        "# Completion of dptally for zsh. Load it with: source <(dptally completion zsh), after compinit;",
        "# or write it to a file named _dptally in a directory of $fpath.",
        "_dptally() {",
        '    local found="" index',
        "    for (( index = 2; index < CURRENT; index++ )); do",
        '        case "$found/${words[index]}" in',
        *_indented(paths, 12),
        "        esac",
        "    done",
        '    case "$found/${words[CURRENT-1]}" in',
        *_indented(values, 8),
        "    esac",
        '    if [[ "${words[CURRENT]}" == -* ]]; then',
        '        case "$found" in',
        *_indented(options, 12),
        "        esac",
        "        return",
        "    fi",
        '    case "$found" in',
        *_indented(places, 8),
        "    esac",
        "}",
        "(( $+functions[compdef] )) && compdef _dptally dptally",
    )


def _fish(parser: Parser) -> str:
    lines = [
        "# Completion of dptally for fish. Load it with: dptally completion fish | source",
        "function __dptally_at",
        '    set -l found ""',
        "    for word in (commandline -opc)[2..-1]",
        '        switch "$found/$word"',
    ]
    for path, _ in walk_commands(parser):
        if path:
            lines += [
                f"            case {_fish_word(_step(path))}",
                f"                set found {_fish_word(' '.join(path))}",
            ]
    lines += ["        end", "    end", '    test "$found" = "$argv[1]"', "end", "complete -c dptally -f"]
    for path, command in walk_commands(parser):
        here = _fish_word(" ".join(path))
        start = f"complete -c dptally -n {_fish_word(f'__dptally_at {here}')}"
        for name, inner in inner_commands(command).items():
            lines.append(f"{start} -a {_fish_word(name)} -d {_fish_word(_first_line(inner.description))}")
        for action in options_of(command):
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings
            )
            line = f"{start} {names} -d {_fish_word(_first_line(action.help))}"
            if _takes_value(action):
                offered = _values(path, action)
                line += " -r -F" if offered is None else f" -x -a {_fish_word(' '.join(offered))}" if offered else " -x"
            lines.append(line)
        for action in positionals_of(command):
            offered = _values(path, action)
            if offered is None:
                lines.append(f"{start} -F")
            elif offered:
                lines.append(f"{start} -a {_fish_word(' '.join(offered))}")
    return _script(*lines)


def _step(path: tuple[str, ...]) -> str:
    """The last word of a path after those before it, as scripts write it."""
    return f"{' '.join(path[:-1])}/{path[-1]}"


def _script(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def _indented(lines: list[str], width: int) -> list[str]:
    return [" " * width + line for line in lines]


def _first_line(text: str | None) -> str:
    return (text or "").split("\n")[0].replace("%%", "%")


def _fish_word(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
