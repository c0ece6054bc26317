"""Real valid files and messages of every kind, small, drawn from fixed seeds: what abuse starts from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dptally
from dptally.federated.client import Node
from dptally.federated.histogram import HistogramRounds
from dptally.federated.messages import Call, read_enrolment, read_registration
from dptally.federated.prefix_task import HeavyHitterRounds
from dptally.federated.quantile_task import QuantileSearchRounds
from dptally.federated.server import Server
from dptally.heavy_hitters import publish_heavy_hitters
from dptally.randomness import SeededBits
from dptally.universes.grids import make_grid
from tests.releases.version_1 import NAME_OF, save_1

COUNTS = {"apple": 500, "banana": 300, "cherry": 40, "date": 7}


@dataclass(frozen=True)
class Specimen:
    """A valid input of a parser, and how it is read and then used.

    Attributes:
        packed: the bytes.
        suffix: of a file that holds them.
        read: takes a path, and looks at everything that is cheap to look at.
        metadata_key: of the JSON in the metadata of a Parquet file; None where it is no Parquet file.
    """

    packed: bytes
    suffix: str
    read: Callable[[Path], object]
    metadata_key: bytes | None = None


def use_release(path: Path) -> object:
    """Read a release, and ask it."""
    release = dptally.load(path)
    facts = (repr(release), str(release.guarantee), release.describe(), release.summary(3))
    if isinstance(release, dptally.CompactRelease):
        return facts, release.count(release.universe.key(0))
    return facts, release.top(3), release.sum("value > 3").estimate


def use_ranges(path: Path) -> object:
    """Read a release of ranges, and ask it."""
    release = dptally.load_ranges(path)
    return repr(release), release.describe(), release.quantile("0.5"), release.total()


def use_tree(path: Path) -> object:
    """Read a prefix tree, and show it."""
    tree = dptally.load(path, dptally.PrefixTree)
    return str(tree), tree.describe(), tree.table()


def use_sketch(path: Path) -> object:
    """Read a sketch, and look at its counters."""
    sketch = dptally.load_sketch(path)
    return repr(sketch), len(sketch), sketch.items(), sketch.shortfall


def use_state(path: Path) -> object:
    """Resume a federated run from its state."""
    return Server(_histogram(), state=path, bits=SeededBits(5)).total_spent


def _histogram() -> HistogramRounds:
    return HistogramRounds("1", "1e-6", key="word")


def _saved(made: Any, name: str) -> bytes:
    with TemporaryDirectory() as place:
        path = Path(place) / name
        made.save(path)
        return path.read_bytes()


@cache
def files() -> dict[str, Specimen]:
    """One file of every kind."""
    found: dict[str, Specimen] = {}

    def old(made: Any, read: Callable[[Path], object]) -> None:
        """A file of the same release as version 1 wrote it."""
        with TemporaryDirectory() as place:
            path = Path(place) / "old"
            save_1(made, path)
            name = NAME_OF.get(made.kind)
            suffix = ".parquet" if name else ".compact"
            found[f"old_{made.kind}"] = Specimen(path.read_bytes(), suffix, read, name)

    def released(name: str, **options: Any) -> None:
        made = dptally.publish(options.pop("source", COUNTS), randomness=SeededBits(7), **options)
        found[name] = Specimen(_saved(made, "r.parquet"), ".parquet", use_release, b"dptally")
        if name in ("weighted_sample", "compact"):
            old(made, use_release)

    released("weighted_sample", epsilon=1, delta="1e-6")
    released("sampled", epsilon=1, delta="1e-6", sampling=dptally.Ppswor("0.3"))
    released("stability", epsilon=1, delta="1e-6", mechanism="stability")
    released("gaussian", epsilon=1, delta="1e-6", mechanism="gaussian")
    released("keys_only", epsilon=1, delta="1e-6", values=False)
    released("sample_and_threshold", epsilon=1, delta="1e-6", mechanism="sample_and_threshold")
    numbers = {"source": {5: 400, 9: 30}, "universe": "integers:0..20", "epsilon": 1, "bound": 1000}
    released("dense", mechanism="dense", **numbers)
    released("sparse", mechanism="sparse", **{**numbers, "universe": "uint64", "capacity": 4})
    released("compact", mechanism="compact", **{**numbers, "universe": "uint64", "capacity": 4})

    sketch, users = dptally.MisraGriesSketch(8), dptally.UserMisraGriesSketch(8, 2)
    keys = [key for key, count in COUNTS.items() for _ in range(count)]
    sketch.update(keys)
    users.update([keys[at : at + 2] for at in range(0, len(keys), 2)])
    numbered, other = dptally.MisraGriesSketch(3, kind="integer"), dptally.MisraGriesSketch(8)
    other.update(keys)
    numbered.update([1, 1, 2, 3, 4, 4, 4, -(2**63)])
    forms = {"single": sketch, "users": users, "numbers": numbered, "summed": dptally.sum_sketches([sketch, other])}
    for name, made in forms.items():
        found[f"sketch_{name}"] = Specimen(_saved(made, "s.sketch"), ".sketch", use_sketch)
    release = sketch.publish("1", "1e-6", randomness=SeededBits(7))
    found["sketch_release"] = Specimen(_saved(release, "r.parquet"), ".parquet", use_release, b"dptally")

    values = [value % 50 for value in range(4000)]
    trees: list[tuple[Any, str | None]] = [("sample_and_threshold", "1e-6"), ("dense", None)]
    for mechanism, delta in trees:
        ranges = dptally.publish_quantiles(
            pa.table({"v": values}), value="v", low=0, high=63, epsilon=1, delta=delta, mechanism=mechanism,
            randomness=SeededBits(7),
        )  # fmt: skip
        found[f"ranges_{mechanism}"] = Specimen(_saved(ranges, "r.parquet"), ".parquet", use_ranges, b"dptally")
    tree = publish_heavy_hitters(
        pa.table({"word": keys}), key="word", epsilon=1, delta="1e-6", levels=3, randomness=SeededBits(7)
    )
    found["tree"] = Specimen(_saved(tree, "t.parquet"), ".parquet", use_tree, b"dptally")
    old(ranges, use_ranges)
    old(tree, use_tree)
    found["run_state"] = Specimen(_run_state(), ".json", use_state)
    return found


def _run_state() -> bytes:
    with TemporaryDirectory() as place:
        path = Path(place) / "state.json"
        server = Server(_histogram(), state=path, bits=SeededBits(5))
        node = Node(["a"] * 500, bits=SeededBits(6))
        server.enrol("n", node.enrol(server.registration()))
        for name, call in server.begin_round().items():
            server.receive(name, node.answer(call))
        server.close_round()
        return path.read_bytes()


@cache
def messages() -> dict[str, tuple[bytes, Callable[[bytes], object]]]:
    """One message of every kind of the federated protocol, and who reads it."""
    tasks: dict[str, Any] = {
        "histogram": _histogram(),
        "heavy_hitters": HeavyHitterRounds("1", "1e-6", levels=2),
        "quantile": QuantileSearchRounds(make_grid(0, 63), "0.5", "1", "1e-6"),
    }
    found: dict[str, tuple[bytes, Callable[[bytes], object]]] = {}
    for name, task in tasks.items():
        server, node = Server(task, bits=SeededBits(5)), Node(["7"] * 20, bits=SeededBits(6))
        if name == "histogram":
            found["registration"] = server.registration(), read_registration
            found["enrolment"] = node.enrol(server.registration()), read_enrolment
        server.enrol("n", node.enrol(server.registration()))
        call = server.begin_round()["n"]
        found[f"call_{name}"] = call, _answer
        if name == "histogram":
            ballot = node.answer(call)
            found["ballot"] = ballot, _count
    return found


def _answer(message: bytes) -> bytes:
    """A node's answer to a call, which must be of the size the call asks for."""
    call = Call.read(message)
    ballot = Node(["7"] * 20, bits=SeededBits(6)).answer(message)
    assert len(ballot) == 56 + call.votes * (2 + call.asked.key_bytes)
    return ballot


def _count(message: bytes) -> str:
    """What a server with an open round says to a ballot; and then the round is closed."""
    server, node = Server(_histogram(), bits=SeededBits(5)), Node(["7"] * 20, bits=SeededBits(6))
    server.enrol("n", node.enrol(server.registration()))
    server.begin_round()
    said = server.receive("n", message)
    server.close_round()
    return said


def metadata(specimen: Specimen) -> dict[str, Any]:
    """The JSON in a file."""
    if specimen.metadata_key is None:
        if specimen.suffix == ".compact":
            length = int.from_bytes(specimen.packed[12:16], "little")
            return dict(json.loads(specimen.packed[16 : 16 + length]))
        return dict(json.loads(specimen.packed))
    table = pq.read_table(pa.BufferReader(specimen.packed))
    return dict(json.loads(table.schema.metadata[specimen.metadata_key]))


def with_metadata(specimen: Specimen, text: str | bytes) -> bytes:
    """The file with another JSON text in it, lengths and checksum made right."""
    packed = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if specimen.metadata_key is not None:
        table = pq.read_table(pa.BufferReader(specimen.packed)).replace_schema_metadata({specimen.metadata_key: packed})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        return bytes(sink.getvalue())
    if specimen.suffix == ".compact":
        length = int.from_bytes(specimen.packed[12:16], "little")
        body = specimen.packed[16 + length : -32]
        return with_checksum(specimen.packed[:12] + len(packed).to_bytes(4, "little") + packed + body)
    return packed


def with_checksum(content: bytes) -> bytes:
    """Bytes and their SHA-256, as sketches and compact releases of version 1 end."""
    import hashlib

    return content + hashlib.sha256(content).digest()
