"""Flower as the transport.

The fast tests need no Flower. The slow ones start real processes and take minutes; in an environment with
``pip install '.[test,federated]'``::

    python -m pytest tests/federated/test_flower.py -m slow -s
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import dptally
from dptally.cli import main
from dptally.errors import DptallyError, InvalidParameter, MissingDependency
from dptally.federated import HistogramRounds
from dptally.federated.flower_app import make_client_app, make_server_app
from dptally.federated.flower_project import (
    end_group,
    flower_environment,
    free_port,
    run_server,
    run_simulation,
    supernode_command,
    write_project,
)

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("prefix_rounds.py")
TASK = HistogramRounds("1", "1e-6", key="word")


def settings(directory: Path, **changes: Any) -> dict[str, str | int | float | bool]:
    """The settings of a histogram run."""
    task = json.dumps({"task": "histogram", **TASK.to_dict()})
    own = {"task": task, "output": str(directory / "release.parquet"), "state": str(directory / "state.json")}
    return {**own, **{name.replace("_", "-"): part for name, part in changes.items()}}


def test_a_missing_flower_is_answered_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Apps and commands say the exact line; nothing else of the package needs Flower."""
    for name in ("flwr", "flwr.clientapp", "flwr.serverapp"):
        monkeypatch.setitem(sys.modules, name, None)
    for make in (make_client_app, make_server_app):
        with pytest.raises(MissingDependency, match=r"pip install 'dptally\[federated\]'"):
            make()
    table = tmp_path / "t.csv"
    table.write_text("word\na\n")
    privacy = ["--epsilon", "1", "--delta", "1e-6", "-o", str(tmp_path / "r.parquet")]
    for command in (
        ["simulate", str(table), "--key", "word", *privacy],
        ["serve", "--insecure", *privacy],
        ["client", str(table), "--key", "word", "--superlink", "127.0.0.1:1", "--insecure"],
    ):
        assert main(["federated", *command]) == 1
        assert "pip install 'dptally[federated]'" in capsys.readouterr().err


def test_project_holds_the_settings(tmp_path: Path) -> None:
    """A project is plain TOML and a few lines of Python; texts survive as they are."""
    given = settings(tmp_path, nodes=3, simulated_key='a "quoted" wörd \\ 🙂')
    project = write_project(tmp_path / "project", given, own_task=(STAND_IN, "PrefixRounds"))
    parsed = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    assert parsed["tool"]["flwr"]["app"]["config"] == given
    compile((project / "dptally_federation" / "app.py").read_text(), "app.py", "exec")
    with pytest.raises(InvalidParameter, match="the settings of a run need 'task'"):
        write_project(tmp_path / "other", {"output": "x"})


@pytest.mark.parametrize(
    ("command", "match"),
    [
        (["serve", "--epsilon", "1", "--delta", "1e-6", "-o", "r"], "--insecure to go without"),
        (["serve", "--insecure", "--ssl-certfile", "x", "-o", "r"], "--insecure to go without"),
        (["client", "t.csv", "--key", "word", "--superlink", "x:1"], "--insecure to go without"),
    ],
)
def test_going_without_encryption_must_be_said(
    command: list[str], match: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no silent default: certificates, or the word insecure."""
    assert main(["federated", *command]) == 2
    assert match in capsys.readouterr().err


def test_bad_requests_are_refused_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Privacy that is not stated, or not kept, and outputs that cannot be written are refused in one sentence."""
    pytest.importorskip("flwr", reason="Flower is not installed: pip install 'dptally[federated]'")
    (tmp_path / "task.json").write_text("[]")
    output = str(tmp_path / "r.parquet")
    base = ["federated", "simulate", "t.csv", "--key", "word"]
    for options, status, match in [
        (["-o", output], 2, "give --epsilon and --delta, or a --task"),
        (["-o", str(tmp_path), "--epsilon", "1", "--delta", "1e-6"], 2, "is a directory"),
        (["-o", output, "--task", str(tmp_path / "task.json")], 2, "must hold one JSON object"),
        (["-o", output, "--task", "x", "--epsilon", "1"], 2, "--task has all parameters"),
        (["-o", output, "--epsilon", "1", "--delta", "1e-6", "--rate", "0.5", "--threshold", "3"], 1, "dptally: "),
    ]:
        assert main([*base, *options]) == status
        assert match in capsys.readouterr().err


# ---- real runs ----


@pytest.fixture
def _flower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr", reason="Flower is not installed: pip install 'dptally[federated]'")
    # Flower's processes find the same dptally as this one.
    source = str(Path(dptally.__file__).parents[1])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "answered"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]))


@pytest.mark.slow
@pytest.mark.usefixtures("_flower")
def test_simulated_thousand_nodes_and_five_rounds(tmp_path: Path) -> None:
    """A thousand simulated nodes of five devices answer five rounds in less than two minutes, on two free cores."""
    words = ["apple", "apply", "angle", "mango", "zebra"]
    (tmp_path / "t.csv").write_text("word\n" + "".join(f"{word}\n" for word in words * 1000))
    output = tmp_path / "levels.json"
    given = {
        **settings(tmp_path, nodes=1000, simulated_source=str(tmp_path / "t.csv"), simulated_key="word"),
        "task": json.dumps({"task": "test_prefixes", "levels": 5, "epsilon": "1", "delta": "1e-6"}),
        "output": str(output),
    }
    project = write_project(tmp_path / "project", given, own_task=(STAND_IN, "PrefixRounds"))
    started = time.monotonic()
    log = run_simulation(project, nodes=1000, seconds=400)
    took = time.monotonic() - started
    sys.stdout.write(f"\n{took:.1f} s wall\n{log}")
    levels = json.loads(output.read_text())
    assert sorted(levels[0]) == ["a", "m", "z"] and sorted(levels[4]) == sorted(words)
    rate = float(TASK.law.rate)
    for level in levels:  # 5,000 devices; a standard deviation is about 31
        assert abs(sum(level.values()) - 5000 * rate) < 6 * (5000 * rate * (1 - rate)) ** 0.5
    assert took < float(os.environ.get("DPTALLY_SIMULATION_SECONDS", "120"))


class Processes:
    """SuperNodes with a table each, ended at the end of the test."""

    def __init__(self, directory: Path) -> None:
        """Start none."""
        self._directory = directory
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self, superlink: str, words: list[str], *, by_command: bool = False, options: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """Start a node whose devices hold these words, as Flower does or by our own command with these options."""
        home = self._directory / f"home-{len(self.started)}"
        home.mkdir()
        table = home / "table.csv"
        table.write_text("word\n" + "".join(f"{word}\n" for word in words))
        command = supernode_command(superlink, {"source": str(table), "key": "word"}, ["--insecure"])
        if by_command:
            command = [sys.executable, "-m", "dptally", "federated", "client", str(table), "--key", "word"]
            command += ["--insecure", "--superlink", superlink, *options]
        with (home / "node.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=flower_environment(home), stdout=log, stderr=log, start_new_session=True
            )
        self.started.append(process)
        return process


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Real SuperNodes."""
    started = Processes(tmp_path)
    yield started
    end_group(started.started)


@pytest.mark.slow
@pytest.mark.usefixtures("_flower")
def test_superlink_and_real_supernodes(tmp_path: Path, processes: Processes) -> None:
    """Four SuperNode processes of 300 devices each, and one that never answers, give a private release."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    for i in range(4):
        processes.start(address, ["common"] * 200 + ["other"] * 100 + [f"only-on-{i}"])
    processes.start(address, ["x" * 9] * 20_000)  # more devices than the server takes of one node
    project = write_project(tmp_path / "project", settings(tmp_path, nodes=5, wait_seconds=200, round_seconds=90))
    log = run_server(project, port=port, seconds=500)
    sys.stdout.write(log)
    release = dptally.load(tmp_path / "release.parquet")
    assert release.guarantee.private and release.verify()
    rows = {row["word"]: row for row in release.table(confidence="0.999999").iter_rows(named=True)}  # type: ignore[call-arg]
    assert rows.keys() == {"common", "other"}
    assert rows["common"]["lower"] <= 800 <= rows["common"]["upper"]
    assert rows["other"]["lower"] <= 400 <= rows["other"]["upper"]
    kept = (tmp_path / "state.json").read_text() + log
    assert "only-on" not in kept and b"only-on".hex() not in kept


@pytest.mark.slow
@pytest.mark.usefixtures("_flower")
def test_a_killed_server_is_started_again(tmp_path: Path, processes: Processes) -> None:
    """A run given up in its first round leaves its spending; another finishes the task, with the same node."""
    port = free_port()
    processes.start(f"127.0.0.1:{port}", ["common"] * 300, by_command=True)
    project = write_project(tmp_path / "project", settings(tmp_path, nodes=1, wait_seconds=100, round_seconds=90))
    state = tmp_path / "state.json"

    class Killed(Exception):  # noqa: N818
        pass

    def kill_when_asked(line: str) -> None:
        if "enrolment took" in line:
            raise Killed

    with pytest.raises((Killed, DptallyError)):
        run_server(project, port=port, seconds=200, echo=kill_when_asked)
    assert not (tmp_path / "release.parquet").exists()
    assert [part["finished"] for part in json.loads(state.read_text())["attempts"]] == [False]
    sys.stdout.write(run_server(project, port=port, seconds=300))
    assert [part["finished"] for part in json.loads(state.read_text())["attempts"]] == [False, True]
    assert dptally.load(tmp_path / "release.parquet").table()["word"].to_list() == ["common"]


@pytest.mark.slow
@pytest.mark.usefixtures("_flower")
def test_a_node_counts_its_answers_over_runs(tmp_path: Path, processes: Processes) -> None:
    """A node that may answer once answers the first of two runs, each of its own SuperLink, and not the second."""
    port = free_port()
    processes.start(f"127.0.0.1:{port}", ["common"] * 300, by_command=True, options=["--most-answers", "1"])
    found = []
    for run in ("first", "second"):
        place = tmp_path / run
        place.mkdir()
        project = write_project(place / "project", settings(place, nodes=1, wait_seconds=100, round_seconds=90))
        sys.stdout.write(run_server(project, port=port, seconds=300))
        found.append(dptally.load(place / "release.parquet").table()["word"].to_list())
    assert found == [["common"], []]
    assert b"has answered 1 calls, and may answer no more" in (tmp_path / "home-0" / "node.log").read_bytes()
