"""What is fuzzed: for each parser its seeds and a function of bytes that may raise our own errors alone.

A file with a checksum gets it made right after each mutation, and metadata of a Parquet file is mutated by itself and
put back: otherwise a fuzzer would see nothing but the checksum's refusal, or Arrow's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dptally.errors import DptallyError
from dptally.estimates.sql_text import check_sql
from dptally.exact import as_epsilon
from dptally.laws.sampling_schemes import read_scheme
from dptally.randomness import SeededBits
from dptally.universes import read_universe
from tests.abuse.specimens import Specimen, files, messages, metadata, with_checksum, with_metadata

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True)
class Target:
    """A parser under attack.

    Attributes:
        seeds: valid inputs.
        run: takes bytes; returns where they were read, or raises `DptallyError`. Anything else is a finding.
    """

    seeds: tuple[bytes, ...]
    run: Callable[[bytes], object]


_PLACE = TemporaryDirectory(prefix="dptally-fuzz-")


def _as_file(specimen: Specimen, content: bytes) -> object:
    path = Path(_PLACE.name) / f"fuzzed{specimen.suffix}"
    path.write_bytes(content)
    return specimen.read(path)


def _whole(*names: str) -> Target:
    """Files as they are."""
    chosen = [files()[name] for name in names]
    return Target(tuple(part.packed for part in chosen), lambda content: _as_file(chosen[0], content))


def _checked(*names: str) -> Target:
    """Files whose checksum is made right."""
    chosen = [files()[name] for name in names]
    return Target(
        tuple(part.packed[:-32] for part in chosen), lambda content: _as_file(chosen[0], with_checksum(content))
    )


def _facts(*names: str) -> Target:
    """The JSON within files; the first byte says within which."""
    chosen = [files()[name] for name in names]
    seeds = tuple(bytes([place]) + json.dumps(metadata(part)).encode() for place, part in enumerate(chosen))

    def run(content: bytes) -> object:
        part = chosen[content[0] % len(chosen)] if content else chosen[0]
        return _as_file(part, with_metadata(part, content[1:]))

    return Target(seeds, run)


def _message(*names: str) -> Target:
    read = messages()[names[0]][1]
    return Target(tuple(messages()[name][0] for name in names), read)


def _text(read: Callable[[str], object], *seeds: str) -> Target:
    return Target(tuple(seed.encode() for seed in seeds), lambda content: read(content.decode("utf-8", "replace")))


def _rows(suffix: str, *seeds: bytes) -> Target:
    """A source of rows, published."""
    import dptally

    def run(content: bytes) -> object:
        path = Path(_PLACE.name) / f"rows{suffix}"
        path.write_bytes(content)
        return dptally.publish(
            path, key="k", unit="u", epsilon=1, delta="1e-3", randomness=SeededBits(1), progress=False
        )

    return Target(seeds, run)


def _arguments(content: bytes) -> object:
    """A command line of a reading command, its arguments separated by zeros."""
    import contextlib
    import io

    from dptally.cli import main

    path = Path(_PLACE.name) / "release.parquet"
    path.write_bytes(files()["weighted_sample"].packed)
    said = io.StringIO()
    given = [part.decode("utf-8", "replace") for part in content.split(b"\0")]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        status = main([given[0] if given[0] in ("sum", "top", "show", "count") else "sum", str(path), *given[1:]])
    if status not in (0, 1, 2) or "Traceback" in said.getvalue() or "unexpected error" in said.getvalue():
        raise AssertionError(f"status {status}: {said.getvalue()[:300]}")
    return status


TARGETS: dict[str, Callable[[], Target]] = {
    "release": lambda: _whole("weighted_sample", "dense", "sampled", "keys_only"),
    "release_facts": lambda: _facts("weighted_sample", "sampled", "gaussian", "dense", "sparse", "sketch_release"),
    "compact": lambda: _checked("old_polynomial"),
    "compact_facts": lambda: _facts("compact", "old_polynomial"),
    "ranges_facts": lambda: _facts("ranges_dense", "ranges_sample_and_threshold", "old_ranges"),
    "tree_facts": lambda: _facts("tree", "old_prefixes"),
    "sketch": lambda: _checked("sketch_single", "sketch_users", "sketch_numbers", "sketch_summed"),
    "run_state": lambda: _whole("run_state"),
    "call": lambda: _message("call_histogram", "call_heavy_hitters", "call_quantile"),
    "registration": lambda: _message("registration"),
    "ballot": lambda: _message("ballot"),
    "csv": lambda: _rows(".csv", b"k,u\na,1\nb,2\n", b'k,u\n"a\nb",1\n'),
    "json_lines": lambda: _rows(".jsonl", b'{"k": "a", "u": 1}\n{"k": null, "u": [1]}\n'),
    "sql": lambda: _text(
        lambda text: check_sql("where", text), "query LIKE 'a%' AND value > 1", "CAST(x AS int) IN (1, 2)"
    ),
    "numbers": lambda: _text(as_epsilon, "0.1", "1/3", "1e-6"),
    "schemes": lambda: _text(lambda text: read_scheme(text).certain_from, "ppswor:0.01:1/2", "table:0,1/2,1"),
    "universes": lambda: _text(read_universe, "ipv4", "words:12", "strings:4:ACGT", "integers:-5..99"),
    "arguments": lambda: Target(
        (b"sum\0--where\0key = 'a'", b"top\0-n\0003", b"show\0--confidence\0000.9"), _arguments
    ),
}
"""By name; each is made when it is asked for."""


def harmless(target: Target, content: bytes) -> None:
    """Run a target; our own errors are what it should raise."""
    try:
        target.run(content)
    except DptallyError:
        return
