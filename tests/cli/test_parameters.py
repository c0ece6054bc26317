"""Errors carry their parameter: the library writes it as in Python, the command line as an option."""

from __future__ import annotations

import argparse
import pickle
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import dptally
from dptally.cli.commands import build_parser
from dptally.cli.parser import leaf_commands
from dptally.errors import DptallyError, InvalidParameter
from dptally.files import check_target
from dptally.ledger import Ledger
from dptally.plan_requests import plan
from dptally.sources.engine import explain
from tests.cli.conftest import Run

COUNTS = {"apple": 500}
COMMANDS = dict(leaf_commands(build_parser()))


def test_a_sentence_carries_its_parameter() -> None:
    """The first word of "epsilon must be ..." is the parameter; other sentences have none, or the one that is given."""
    error = InvalidParameter("max_keys_per_unit must be at least 1, got 0.")
    assert error.parameter == "max_keys_per_unit"
    assert str(error) == "max_keys_per_unit must be at least 1, got 0."
    assert error.worded(lambda name, _: f"--{name.replace('_', '-')}").startswith("--max-keys-per-unit must")
    assert InvalidParameter("a key must be text.").parameter is None
    assert InvalidParameter("overwrite.csv does not exist.").parameter is None
    assert InvalidParameter("a database must be the only input.", parameter="source").parameter == "source"
    with pytest.raises(InvalidParameter) as raised:
        dptally.publish(COUNTS, epsilon=-1, delta="1e-6")
    assert raised.value.parameter == "epsilon"


def test_marks_survive_copies_and_are_not_shown() -> None:
    """A marked parameter is shown without its mark, and is still known after a trip to another process."""
    error = DptallyError("x.csv already exists; use `overwrite=True` to replace it.")
    for each in (error, pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert str(each) == "x.csv already exists; use overwrite=True to replace it."
        assert each.worded(COMMANDS["publish"].written).endswith("use --overwrite to replace it.")


def test_names_are_written_as_options_of_the_command() -> None:
    """A flag without a value, an option with it, and as in Python what a command does not have."""
    written = COMMANDS["sum"].written
    assert written("kind", "'mle'") == "--kind mle"
    assert written("kind", "") == "--kind"
    assert written("memory_limit", "") == "memory_limit"
    assert written("collect", "False") == "collect=False"
    assert COMMANDS["man"].written("overwrite", "True") == "--overwrite"
    assert COMMANDS["top"].written("n", "") == "-n"


def _unnamed(place: Path) -> Path:
    (place / "unnamed").write_text("k\na\n")
    return place / "unnamed"


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("request_for", "command", "words"),
    [
        (lambda place: check_target(_unnamed(place), overwrite=False), "publish", "use --overwrite to replace it."),
        (
            lambda place: dptally.publish(_unnamed(place), key="k", epsilon=1, delta="1e-6"),
            "publish",
            "give --format as csv, tsv, jsonl or parquet.",
        ),
        (lambda _: _raise(explain(MemoryError())), "publish", "raise --memory-limit."),
        (
            lambda _: dptally.publish(COUNTS, epsilon=1, delta="1e-6", max_keys_per_unit=3),
            "publish",
            "--max-keys-per-unit needs a --unit: without one",
        ),
        (
            lambda _: dptally.publish(COUNTS, epsilon=1, delta="1e-6", strict_time=True),
            "publish",
            "--strict-time is for the",
        ),
        (lambda _: plan(epsilon=1, delta="1e-6", asked_for="any"), "plan", "--asked-for is for plans with a universe"),
    ],
)
def test_errors_of_the_library_name_options(
    tmp_path: Path, request_for: Callable[[Path], object], command: str, words: str
) -> None:
    """What the library says of its arguments is said of the options at the shell; a reworded error is noticed here."""
    with pytest.raises(DptallyError) as error:
        request_for(tmp_path)
    assert words not in str(error.value)
    assert words in error.value.worded(COMMANDS[command].written)


def test_a_ledger_that_does_not_exist_is_made_by_a_command(tmp_path: Path, run: Run) -> None:
    """The library says what to give, the shell which command to use."""
    with pytest.raises(InvalidParameter, match="give epsilon and delta to make a new ledger"):
        Ledger(tmp_path / "nope.db")
    assert run("ledger", "show", tmp_path / "nope.db").err.endswith(
        "nope.db does not exist; make it with dptally ledger create.\n"
    )


def test_an_epsilon_is_missing_at_the_shell(run: Run) -> None:
    """The advice is an option, not a parameter of Python."""
    done = run("plan", "--delta", "1e-6")
    assert (done.status, done.err) == (
        2,
        "dptally: --epsilon is missing; leave it out only with --need, such as --need 30:95%.\n",
    )


# Values that hardly any option takes. Commands that start servers, or run for minutes, are only explained.
NONSENSE = ("-7", "nonsense=", "1e999999999")
ONLY_EXPLAINED = ("federated", "explore", "audit", "example")


def _cases() -> list[tuple[str, str]]:
    return [
        (path, action.option_strings[-1])
        for path, command in COMMANDS.items()
        for action in command._actions
        if action.option_strings and action.nargs != 0 and action.choices is None and action.metavar != "FILE"
    ]


@pytest.mark.parametrize(("path", "option"), _cases())
def test_every_option_is_named_as_it_is_typed(
    path: str, option: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is said about a wrong value, no option appears under its name in Python."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("query,user_id,n\na,1,2\n")
    command = COMMANDS[path]
    example = shlex.split((command.epilog or "").split("\n")[1].split(">")[0])[1:]
    words = ["rows.csv" if word.endswith((".csv", ".parquet", ".sketch")) else word for word in example]
    words = [word for word in words if word != "-o"] if "-o" not in example else words
    python = {
        action.dest
        for action in command._actions
        if action.option_strings and f"--{action.dest}" not in action.option_strings and "_" in action.dest
    }
    for value in NONSENSE:
        said = run(*words, f"{option}={value}" if option.startswith("--") else f"{option}{value}", *_explained(path))
        assert said.status in (0, 1, 2) and said.err.count("\n") <= 1 + said.err.count("%")
        assert not python & set(re.findall(r"[a-z_]+", said.err)), said.err
        if said.status == 2 and re.match(rf"dptally: {re.escape(option.lstrip('-'))} (must|needs|is)\b", said.err):
            pytest.fail(f"not named as it is typed: {said.err}")


def _explained(path: str) -> tuple[str, ...]:
    return ("--explain",) if path.split()[0] in ONLY_EXPLAINED else ()


def test_parsers_name_every_destination_once() -> None:
    """A parameter is one option of a command, so that it can be written as such."""
    for path, command in COMMANDS.items():
        names = [action.dest for action in command._actions if not isinstance(action, argparse._SubParsersAction)]
        assert len(names) == len(set(names)), path
