"""The process that forks others: everything imported, nothing done, one thread."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, NoReturn

from dptally.cli.commands import build_parser

__all__ = ["main"]

_IMPORTED = (
    "duckdb", "numpy", "polars", "pyarrow.compute", "pyarrow.parquet",
    "dptally.cli.publish", "dptally.cli.printing", "dptally.publishing", "dptally.ledger",
    "dptally.releases.release_file",
    "dptally.mechanisms.independent_keys", "dptally.laws.specs.stability",
    "dptally.sources.text_files", "dptally.summaries.frequencies",
    "studies.reliability.workers",
)  # fmt: skip


def main() -> None:
    """Answer questions on standard input, a line each, until it ends."""
    for name in _IMPORTED:
        importlib.import_module(name)
    build_parser()  # which imports every command
    said: dict[int, int] = {}
    for line in sys.stdin:
        question = json.loads(line)
        if "start" in question:
            reading, writing = os.pipe()
            number = os.fork()
            if number == 0:
                os.close(reading)
                _work(question["start"], writing)
            os.close(writing)
            said[number] = reading
            answer: dict[str, Any] = {"process": number}
        else:
            number = question["reap"]
            status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
            with os.fdopen(said.pop(number), errors="replace") as pipe:
                answer = {"status": status, "said": pipe.read()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _work(job: dict[str, Any], writing: int) -> NoReturn:
    """Be the process of a job; never returns."""
    code = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        os.dup2(writing, 2)
        os.close(writing)
        # Other files than the parent's.
        sys.stdin, sys.stdout, sys.stderr = (open(n, "w" if n else "r", closefd=False) for n in range(3))  # noqa: SIM115
        code = _do(job)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)  # not the end of the parent's program


def _do(job: dict[str, Any]) -> int:
    if job["temporary"] is not None:
        os.environ["TMPDIR"] = job["temporary"]
    if job["clock"] is not None:
        from dptally.ledger import ledger

        setattr(ledger, "_now", lambda: job["clock"])  # noqa: B010 - for the type checker
    if job["largest_file"] is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (job["largest_file"],) * 2)
    if job["ordinary"]:
        _obey_permissions()
    if job["function"] is None:
        from dptally.cli import main as command

        return command(job["arguments"])
    module, name = job["function"].split(":")
    getattr(importlib.import_module(module), name)(*job["arguments"])
    return 0


def _obey_permissions() -> None:
    """Give up what lets root write and read regardless of permissions: capget(2) and capset(2), two bits cleared."""
    import ctypes

    system = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same for capabilities from 32 on
    if system.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for place in range(3):
        sets[place] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    if system.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    main()
