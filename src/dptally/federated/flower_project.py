"""Flower projects and processes for a federation: written, started, watched and ended from here.

All of Flower's own files (its configuration, unpacked apps, logs) go into a private directory that is removed at the
end. The SuperLink keeps messages in memory: it is never given a database on disk, where votes would be stored.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from dptally.errors import DptallyError, InvalidParameter, MissingDependency
from dptally.federated.flower_app import require_flower

Settings = Mapping[str, str | int | float | bool]
Echo = Callable[[str], None]
_PACKAGE = "dptally_federation"
_START_SECONDS = 90
_END_SECONDS = 20
_PAUSE_SECONDS = 2
_GAVE_UP = "SuperNode terminated gracefully"


def write_project(directory: str | Path, settings: Settings, *, own_task: tuple[str | Path, str] | None = None) -> Path:
    """Write a small Flower project that runs a dptally task, and return its directory.

    Settings are those of `dptally.federated.flower_app`. A task that dptally does not know by itself is `own_task`: a
    Python file, which becomes part of the project, and the name of the task's class in it.
    """
    for name in ("task", "output"):
        if name not in settings:
            raise InvalidParameter(f"the settings of a run need {name!r}.")
    place = Path(directory)
    (place / _PACKAGE).mkdir(parents=True, exist_ok=True)
    lines = "\n".join(f"{name} = {json.dumps(part, ensure_ascii=False)}" for name, part in settings.items())
    template = Template(files("dptally.federated").joinpath("project.toml").read_text(encoding="utf-8"))
    project = template.substitute(package=_PACKAGE, settings=lines)
    (place / "pyproject.toml").write_text(project, encoding="utf-8")
    (place / _PACKAGE / "__init__.py").write_text('"""A dptally federation."""\n')
    imported, passed = "", ""
    if own_task is not None:
        shutil.copyfile(own_task[0], place / _PACKAGE / "own_task.py")
        imported, passed = f"\nfrom {_PACKAGE}.own_task import {own_task[1]}", own_task[1]
    (place / _PACKAGE / "app.py").write_text(
        '"""The two ends of a dptally federation."""\n\n'
        f"from dptally.federated.flower_app import make_client_app, make_server_app{imported}\n\n"
        f"client = make_client_app({passed})\n"
        f"server = make_server_app({passed})\n"
    )
    return place


def flower_environment(home: Path) -> dict[str, str]:
    """The environment for Flower's processes: its files in `home`, and no calls home."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def run_simulation(
    project: Path, *, nodes: int, cores: int = 2, seconds: float = 3600, echo: Echo | None = None
) -> str:
    """Run a project in Flower's simulation engine, with a process for each core, and return Flower's log.

    `echo` is called with each line of the log as it comes.
    """
    federation = (
        f"num-supernodes={nodes} client-resources-num-cpus=1 init-args-num-cpus={cores} init-args-log-to-driver=false"
    )
    with _home() as home, _superlink(home, ["--insecure", "--simulation"], port=free_port()) as address:
        return submit(project, home, address, ["--federation-config", federation], seconds=seconds, echo=echo)


def run_server(
    project: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    security: Sequence[str] = ("--insecure",),
    root_certificates: str | None = None,
    seconds: float = 3600,
    echo: Echo | None = None,
) -> str:
    """Start a SuperLink, run a project on it, end it, and return Flower's log.

    `security` is what the SuperLink is told about TLS and authentication, such as ``--ssl-certfile``; its certificate
    is checked with `root_certificates`, None with ``--insecure``.
    """
    with _home() as home, _superlink(home, security, port=port, host=host) as address:
        return submit(project, home, address, seconds=seconds, echo=echo, root_certificates=root_certificates)


def run_client(
    superlink: str, node_settings: Settings, *, security: Sequence[str] = ("--insecure",), echo: Echo | None = None
) -> int:
    """Run a SuperNode for a local table until it is stopped; returns the exit status of one that ended by itself.

    A SuperLink that was started again does not know the nodes it had, and a SuperNode that is told so gives up without
    ending (Flower 1.41). It is then started anew, so that a node outlives its server.
    """
    with _home() as home:
        while True:
            process = subprocess.Popen(
                supernode_command(superlink, node_settings, security),
                env=flower_environment(home),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                gave_up = any(_GAVE_UP in line for line in _lines(process, echo))
                if not gave_up:
                    return process.wait()
            finally:
                end_group([process])
            time.sleep(_PAUSE_SECONDS)


def supernode_command(superlink: str, node_settings: Settings, security: Sequence[str]) -> list[str]:
    """The command that starts a SuperNode, its own interface at a free port."""
    parts = " ".join(f"{name}={json.dumps(part, ensure_ascii=False)}" for name, part in node_settings.items())
    return [
        *(_program("flower-supernode"), *security, "--superlink", superlink, "--port", str(free_port())),
        *("--node-config", parts),
    ]


def submit(
    project: Path,
    home: Path,
    address: str,
    options: Sequence[str] = (),
    *,
    seconds: float,
    echo: Echo | None = None,
    root_certificates: str | None = None,
) -> str:
    """Send a project to a SuperLink, wait for its end, and return Flower's log."""
    trust = "insecure = true" if root_certificates is None else f"root-certificates = {json.dumps(root_certificates)}"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "dptally"\n\n[superlink.dptally]\naddress = "{address}"\n{trust}\n'
    )
    command = [_program("flwr"), "run", str(project), "dptally", "--stream", *options]
    process = subprocess.Popen(command, env=flower_environment(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    expired = threading.Event()

    def give_up() -> None:
        expired.set()
        process.kill()

    limit = threading.Timer(seconds, give_up)
    limit.start()
    try:
        log = "".join(_lines(process, echo))
        process.wait()
    finally:
        limit.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
    if expired.is_set():
        raise DptallyError(f"the run did not end within {seconds:g} seconds.")
    if process.returncode:
        raise DptallyError(f"Flower refused the run: {_last_line(log)}")
    return log


def _lines(process: subprocess.Popen[bytes], echo: Echo | None) -> Iterator[str]:
    """What a process writes, line by line, as it comes."""
    for line in process.stdout or ():
        text = line.decode(errors="replace")
        if echo is not None:
            echo(text.rstrip("\n"))
        yield text


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    require_flower()
    with tempfile.TemporaryDirectory(prefix="dptally-flower-", ignore_cleanup_errors=True) as home:  # mode 0700
        yield Path(home)


@contextlib.contextmanager
def _superlink(home: Path, options: Sequence[str], *, port: int, host: str = "127.0.0.1") -> Iterator[str]:
    log = home / "superlink.log"
    secure = "--insecure" not in options
    command = [_program("flower-superlink"), *options, "--host", host, "--port", str(port)]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=flower_environment(home), stdout=file, stderr=file, start_new_session=True
        )
    try:
        _wait_until_healthy(process, port, log, secure=secure)
        yield f"127.0.0.1:{port}"
    finally:
        end_group([process])


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int, log: Path, *, secure: bool) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise DptallyError(f"the SuperLink could not start: {_last_line(log.read_text(errors='replace'))}")
        with contextlib.suppress(OSError, urllib.error.URLError):
            if secure:  # a listening port is all that can be seen without its certificate
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        time.sleep(0.2)
    raise DptallyError(f"the SuperLink did not answer within {_START_SECONDS} seconds.")


def end_group(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes that lead a session of their own, with all that they started: first politely, then all the same."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_END_SECONDS)


def _program(name: str) -> str:
    """Where Flower's program is: beside the running interpreter, or on the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise MissingDependency("a federation needs Flower: pip install 'dptally[federated]'.")
    return found


def _last_line(log: str) -> str:
    lines = [line.strip(" \t│╭╮╰╯─") for line in log.splitlines()]
    return next((line for line in reversed(lines) if line), "it said nothing.")
