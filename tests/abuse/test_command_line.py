"""Any arguments for any command: exit status 0, 1 or 2, one sentence at most, nothing written elsewhere, no network."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptally.cli import main
from dptally.cli.commands import build_parser
from tests.abuse.limits import examples, time_limit
from tests.abuse.specimens import files

# Those that start servers, wait for devices, run for minutes by design, or write more files than they are told are not
# for random arguments, nor are options that do: ledgers and audits have tests of their own.
LEFT_OUT = ("federated", "example", "explore", "audit", "ledger")
LEFT_OUT_OPTIONS = ("engine", "ledger", "charts")
VALUES = st.sampled_from(
    "k u v a 0 1 2 -1 1e-6 0.5 1/3 1e999999999 nan inf 99999999999999999999 9999999999999 x ' \" ; -- ../x /dev/null "  # noqa: SIM905
    "/proc/self/mem %s {0} key=value ppswor:0.01 priority:1/9:1/1000 ppswor:size=3 uint64 ipv4 words:3 "
    "strings:256:ab integers:0..9 integers:9..0 dense sparse compact stability gaussian 1GB 1e9GB 0B csv parquet "
    "2020-01-01 postgresql://127.0.0.1:9/x sqlite:///nosuch http://127.0.0.1:9/x.csv s3://b/x.parquet power:0.5 "
    "capped:0 count log $HOME * \u202e \ud800 \x00 \x1b[31m".split(" ")
) | st.sampled_from(("", "value > 1", "(SELECT 1)", "read_csv('/etc/passwd')", "9" * 5000))


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of every command, by its words."""
    found: dict[str, argparse.ArgumentParser] = {}

    def walk(parser: argparse.ArgumentParser, words: str) -> None:
        inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for action in inner:
            for name, below in action.choices.items():
                walk(below, f"{words} {name}".strip())
        if not inner:
            found[words] = parser

    walk(build_parser(), "")
    return {words: parser for words, parser in found.items() if not words.startswith(LEFT_OUT)}


COMMANDS = commands()


@st.composite
def arguments(draw: st.DrawFn, parser: argparse.ArgumentParser) -> list[str]:
    """Some of the options a command has, most of those it must have, with sensible or nasty values."""
    given: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._VersionAction):
            continue
        if action.dest.startswith(LEFT_OUT_OPTIONS):
            continue
        if not draw(st.integers(0, 9)) < (9 if action.required else 3):
            continue
        values = [] if action.nargs == 0 else [draw(_value(action))]
        if action.option_strings:
            given += [draw(st.sampled_from(action.option_strings)), *values]
        else:
            given = [*values, *given]
    return given + draw(st.lists(VALUES, max_size=1))


def _value(action: argparse.Action) -> st.SearchStrategy[str]:
    usual = {
        "input": ("rows.csv", "rows.jsonl", "rows.parquet", "broken.csv", "*.csv"),
        "release": ("release.parquet", "release.compact", "broken.parquet"),
        "sketch": ("s.sketch", "broken.sketch"),
        "output": ("out/new", "out/new.parquet", "release.parquet", "nosuch/x"),
        "checkpoint": ("out/checkpoint",),
        "epsilon": ("1", "0.5"),
        "delta": ("1e-6", "0.01"),
        "key": ("k",),
        "value": ("v",),
        "low": ("0",),
        "high": ("9",),
        "sampling": ("ppswor:0.3",),
        "count": ("v",),
    }.get(action.dest)
    if action.choices is not None:
        return st.sampled_from(sorted(map(str, action.choices))) | VALUES
    return VALUES if usual is None else st.sampled_from(usual) | st.sampled_from(usual) | VALUES


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with inputs of every kind, which is where the commands run."""
    place = tmp_path_factory.mktemp("room")
    (place / "out").mkdir()
    (place / "rows.csv").write_text("k,u,v\na,1,3\na,2,4\nb,3,5\n")
    (place / "rows.jsonl").write_text('{"k": "a", "u": 1, "v": 2}\n')
    (place / "broken.csv").write_bytes(b'k,u,v\n"a,1\n\xff\xfe,2,3,4\n')
    (place / "release.parquet").write_bytes(files()["weighted_sample"].packed)
    (place / "rows.parquet").write_bytes(files()["dense"].packed)
    (place / "broken.parquet").write_bytes(files()["weighted_sample"].packed[:-100])
    (place / "release.compact").write_bytes(files()["compact"].packed)
    (place / "s.sketch").write_bytes(files()["sketch_single"].packed)
    (place / "broken.sketch").write_bytes(files()["sketch_single"].packed[:-1])
    before = Path.cwd()
    os.chdir(place)
    yield place
    os.chdir(before)


def contents(place: Path) -> dict[str, bytes]:
    """Every file but those in the directory for output."""
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file() and path.parent.name != "out"}


def run(given: list[str]) -> tuple[int, str]:
    """The exit status, and what went to standard error."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said), time_limit():
        status = main(given)
    return status, said.getvalue()


@pytest.mark.parametrize("words", sorted(COMMANDS))
@examples(25)
@given(data=st.data())
def test_random_arguments(words: str, room: Path, data: st.DataObject) -> None:
    """Whatever is asked for, a command does it or says in one sentence why not."""
    given = data.draw(arguments(COMMANDS[words]))
    allowed = {"release.parquet"} if "--overwrite" in given else set()
    before = contents(room)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _never)
        patch.setattr(os, "environ", {**os.environ, "DPTALLY_DEBUG": "0"})
        status, said = run([*words.split(), *given])
    assert status in (0, 1, 2)
    assert "Traceback" not in said and "unexpected error" not in said and "panicked" not in said, said
    if status:
        last = said.strip().splitlines()[-1]
        assert last.startswith("dptally: ") and len(last) < 3000
    changed = {name for name, content in contents(room).items() if before.get(name) != content}
    named = {part for part in given if part.strip()}
    assert {Path(name).name for name in changed} <= allowed | {Path(part).name for part in named}
    for name in changed:
        path = Path(name)
        path.write_bytes(before[name]) if name in before else path.unlink()
    for path in (room / "out").iterdir():
        path.unlink()


def _never(*_: object, **__: Any) -> None:
    raise AssertionError("the network was asked")
