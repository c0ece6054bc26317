"""A real PostgreSQL server for the tests that need one."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Server:
    """Where the server is, and the password of its owner."""

    port: int
    password: str

    @property
    def address(self) -> str:
        """Host, port and database."""
        return f"127.0.0.1:{self.port}/postgres"

    @property
    def url(self) -> str:
        """The URL of its owner."""
        return f"postgresql://owner:{self.password}@{self.address}"

    def connect(self) -> Any:
        """A connection that may do anything."""
        dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
        return dbapi.connect(self.url, autocommit=True)

    def run(self, *statements: str) -> list[Any]:
        """Run statements and return the rows of the last."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server of its own, on loopback, with passwords; skips where it cannot start."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="dptally-postgresql-"))
    as_user: list[str] = []
    if os.getuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "nobody")
        as_user = ["runuser", "-u", "nobody", "--"]
    password = "pw-" + secrets.token_hex(8)
    (folder / "password").write_text(password)
    (folder / "password").chmod(0o644)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off -c shared_buffers=16MB"
    data = str(folder / "data")
    make = [str(programs / "initdb"), "-D", data, "-U", "owner", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"]
    make += ["--locale=C.UTF-8", f"--pwfile={folder / 'password'}"]
    control = [*as_user, str(programs / "pg_ctl"), "-D", data, "-w", "-t", "30"]
    try:
        for command in (
            [*as_user, *make],
            [*control, "-o", options, "-l", str(folder / "log"), "start"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=folder)
            if done.returncode:
                pytest.skip(f"PostgreSQL cannot start here: {done.stderr.strip().splitlines()[-1:]}")
        yield Server(port, password)
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], capture_output=True, check=False, timeout=60, cwd=folder)
        shutil.rmtree(folder, ignore_errors=True)
