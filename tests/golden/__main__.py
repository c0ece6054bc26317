"""Write what is pinned: ``python -m tests.golden OUTPUT...``, each output a name of `tests.golden.outputs`.

Everything here was written by commit b2df065, before the package was rebuilt, with ``python -m tests.golden all`` in a
checkout of that commit. Written again it pins nothing: only new outputs are added, by their names. The files in
`files/` cannot be written again at all, as their bits were secret; `python -m tests.golden files` made them.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

import dptally
from tests.golden import files
from tests.golden.outputs import EXPECTED, OUTPUTS, PRIVACY, home, publish_tree, visits


def write(place: Path, found: Any) -> None:
    """One line for each part, so that a change shows where it is."""
    lines = (f" {json.dumps(name)}: {json.dumps(part, ensure_ascii=False)}" for name, part in found.items())
    place.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_outputs(names: list[str]) -> None:
    """Compute outputs and write them; outputs of several engines must agree."""
    found: dict[str, Any] = {}
    for name in names:
        made = json.loads(json.dumps(OUTPUTS[name]()))
        if found.setdefault(home(name), made) != made:
            raise SystemExit(f"{name} differs from that of another engine")
    for name, made in found.items():
        write(EXPECTED / f"{name}.json", made)


def _older(whole: bytes, version: int) -> bytes:
    """A sketch file as versions 1 and 2 wrote it: the first had no names, neither had streams."""
    header, names = struct.calcsize("<16sHBBIQQQQQQ"), struct.pack("<I", 12) + b"[null, null]"
    after = header + len(names)
    streams = 4 + 16 * struct.unpack_from("<I", whole, after)[0]
    old = bytearray(whole[:header] + (names if version == 2 else b"") + whole[after + streams : -32])
    old[16] = version
    return bytes(old) + hashlib.sha256(bytes(old)).digest()


def _make_files(place: Path) -> None:
    place.mkdir()
    rows = visits()
    tables: dict[str, dict[str, Any]] = {
        "weighted-sample": {},
        "keys-only": {"values": False},
        "ppswor": {"sampling": dptally.Ppswor("0.1")},
        "priority": {"sampling": dptally.Priority(size=50), "values": False},
        "stability": {"mechanism": "stability"},
        "gaussian": {"mechanism": "gaussian", "unit": "user", "max_keys_per_unit": 3},
        "sample-and-threshold": {"mechanism": "sample_and_threshold"},
        "misra-gries": {"mechanism": "misra_gries", "capacity": 80},
        "misra-gries-of-units": {"mechanism": "misra_gries", "capacity": 80, "unit": "user", "max_keys_per_unit": 2},
    }
    for name, options in tables.items():
        dptally.publish(rows, key="word", **PRIVACY, **options).save(place / f"table-{name}.parquet")
    dptally.publish(rows, key=["word", "number"], **PRIVACY).save(place / "table-two-columns.parquet")
    sample = {"word 1": 900, "word 2": 90}
    dptally.sanitize(sample, "ppswor:0.2", **PRIVACY).save(place / "table-sanitized.parquet")
    pure: dict[str, Any] = {"key": "number", "epsilon": 1, "bound": 1000}
    listed: dict[str, Any] = {**pure, "universe": "integers:0..40"}
    dptally.publish(rows, mechanism="dense", **listed).save(place / "table-dense.parquet")
    huge: dict[str, Any] = {**pure, "universe": "uint64"}
    dptally.publish(rows, mechanism="sparse", capacity=20, **huge).save(place / "table-sparse.parquet")
    strict = dptally.publish(rows, mechanism="sparse", capacity=4, strict_time=True, **huge)
    strict.save(place / "table-strict.parquet")
    for beyond in ("subsample", "refuse"):
        made = dptally.publish(rows, mechanism="compact", capacity=50, beyond_capacity=beyond, **huge)
        made.save(place / f"{beyond}.compact")
    for mechanism in ("sample_and_threshold", "weighted_sample", "dense"):
        privacy = {"epsilon": 1} if mechanism == "dense" else PRIVACY
        ranges = dptally.publish_quantiles(rows, value="number", low=0, high=63, mechanism=mechanism, **privacy)
        ranges.save(place / f"ranges-{mechanism.replace('_', '-')}.parquet")
    publish_tree(rows, key="word", levels=[2, 5, 7], **PRIVACY).save(place / "prefixes.parquet")
    publish_tree(rows, key="number", domain="bits", width=6, levels=3, step=2, **PRIVACY).save(
        place / "prefixes-of-bits.parquet"
    )
    _make_sketches(place)
    _make_ledger(place)
    _make_state(place)
    for leftover in place.glob("*-journal"):
        leftover.unlink()
    for file in place.iterdir():
        file.chmod(0o644)
    write(EXPECTED / "files.json", {name: files.read(name) for name in files.names()})


def _make_sketches(place: Path) -> None:
    words = visits()["word"].to_pylist()
    one, other = dptally.MisraGriesSketch(20), dptally.MisraGriesSketch(20)
    one.update(words)
    other.update(words[:2000])
    numbers = dptally.MisraGriesSketch(20, kind="integer")
    numbers.update(visits()["number"].to_pylist())
    users = dptally.UserMisraGriesSketch(20, 3)
    users.update([words[at : at + 3] for at in range(0, len(words), 3)])
    one.save(place / "single.sketch")
    for version in (1, 2):
        (place / f"single-version-{version}.sketch").write_bytes(_older(one.to_bytes(), version))
    numbers.save(place / "numbers.sketch")
    users.save(place / "users.sketch")
    one.merge(other).save(place / "merged.sketch")
    dptally.sum_sketches([one, other]).save(place / "summed.sketch")
    for made, name in ((one, "single"), (users, "users")):
        made.publish(**PRIVACY).save(place / f"table-of-sketch-{name}.parquet")


def _make_ledger(place: Path) -> None:
    path = place / "budget.db"
    ledger = dptally.Ledger(path, epsilon=4, delta="1e-5")
    paid = dptally.publish(visits(), key="word", **PRIVACY, ledger=ledger)
    paid.save(place / "paid-table.parquet")
    ranges = dptally.publish_quantiles(
        visits(), value="number", low=0, high=63, epsilon="1/2", mechanism="dense", ledger=ledger
    )
    ranges.save(place / "paid-ranges.parquet")
    dptally.publish(visits(), key="word", mechanism="gaussian", **PRIVACY, ledger=ledger)
    ledger.disconnect()


def _make_state(place: Path) -> None:
    from dptally.federated import HistogramRounds, Node, Server

    server = Server(HistogramRounds("1", "1e-6", key="word"), state=place / "federated-state.json")
    node = Node(["a"] * 500 + ["b"] * 200 + ["c"])
    server.enrol("n", node.enrol(server.registration()))
    for name, call in server.begin_round().items():
        server.receive(name, node.answer(call))
    server.close_round()


def _make_spark() -> None:
    from dptally.spark import local_session
    from tests.golden.outputs import of_spark_sketch

    session = local_session(master="local[2]", memory="1g")
    write(EXPECTED / "spark.json", {"misra_gries": of_spark_sketch(session.createDataFrame(visits()))})
    session.stop()


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    if sys.argv[1:] == ["files"]:
        _make_files(files.FILES)
    elif sys.argv[1:] == ["spark"]:
        _make_spark()
    else:
        write_outputs(list(OUTPUTS) if sys.argv[1:] == ["all"] else sys.argv[1:])
