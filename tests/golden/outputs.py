"""What is pinned: seeded releases of every mechanism, plans, commands, reports. Through the public interface alone."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dptally
from dptally.randomness import SeededBits
from tests.golden import facts

PRIVACY: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


@cache
def visits() -> pa.Table:
    """6,500 rows by arithmetic alone: words, numbers and users, some words frequent and most of them rare."""
    words, numbers = [], []
    for rank in range(1, 200):
        words += [f"word {rank}"] * (1100 // rank)
    rows = len(words)
    numbers = [(row * row // 7 + row) % 41 for row in range(rows)]
    return pa.table({
        "word": words,
        "number": pa.array(numbers, pa.int64()),
        "user": pa.array([row * 7919 % 2003 for row in range(rows)], pa.int64()),
        "price": pa.array([(row * 37 % 1009) / 8 for row in range(rows)], pa.float64()),
    })  # fmt: skip


_MANY = {"unit": "user", "max_keys_per_unit": 3}
TABLES: dict[str, dict[str, Any]] = {
    "weighted_sample": {"key": "word"},
    "weighted_sample_keys_only": {"key": "word", "values": False},
    "weighted_sample_of_units": {"key": "word", "unit": "user", "mechanism": "weighted_sample"},
    "weighted_sample_of_several_keys": {"key": "word", "mechanism": "weighted_sample", **_MANY},
    "weighted_sample_of_two_columns": {"key": ["word", "number"], "nulls": "keep"},
    "weighted_sample_by_ppswor": {"key": "word", "sampling": dptally.Ppswor("0.05")},
    "weighted_sample_by_ppswor_keys_only": {"key": "word", "sampling": dptally.Ppswor("0.05"), "values": False},
    "weighted_sample_by_priority": {"key": "word", "sampling": dptally.Priority("0.05")},
    "weighted_sample_by_priority_of_a_size": {"key": "word", "sampling": dptally.Priority(size=60)},
    "weighted_sample_by_ppswor_of_several_keys": {"key": "word", "sampling": dptally.Ppswor("0.1"), **_MANY},
    "stability": {"key": "word", "mechanism": "stability"},
    "stability_of_several_keys": {"key": "number", "mechanism": "stability", **_MANY},
    "gaussian": {"key": "word", "mechanism": "gaussian"},
    "gaussian_of_several_keys": {"key": "word", "mechanism": "gaussian", **_MANY},
    "sample_and_threshold": {"key": "word", "mechanism": "sample_and_threshold"},
    "sample_and_threshold_of_units": {"key": "number", "unit": "user", "mechanism": "sample_and_threshold"},
    "misra_gries": {"key": "word", "mechanism": "misra_gries", "capacity": 250},
}
# Sketches without room for all keys, and the keys that are kept of a unit in a stream, depend on the order of rows,
# which is the engine's own.
ON_ONE_ENGINE: dict[str, dict[str, Any]] = {
    "misra_gries_in_little_room": {"key": "word", "mechanism": "misra_gries", "capacity": 60},
    "misra_gries_of_units": {"key": "word", "mechanism": "misra_gries", "capacity": 60, **_MANY},
}
_LIST = {"key": "number", "epsilon": "1/2", "delta": None, "universe": "integers:0..40"}
_HUGE = {"key": "number", "epsilon": 1, "delta": None, "universe": "uint64", "bound": 1000}
PURE: dict[str, dict[str, Any]] = {
    "dense": {"mechanism": "dense", **_LIST},
    "dense_of_units": {"mechanism": "dense", "bound": 500, **_LIST, **_MANY},
    "sparse": {"mechanism": "sparse", "capacity": 30, **_HUGE},
    "sparse_of_words": {"mechanism": "sparse", "capacity": 20, **_HUGE, "key": "word", "universe": "words:9"},
    "sparse_in_strict_time": {"mechanism": "sparse", "capacity": 5, "strict_time": True, **_HUGE},
    "compact": {"mechanism": "compact", "capacity": 40, "beyond_capacity": "subsample", **_HUGE},
    "compact_of_units": {"mechanism": "compact", "capacity": 50, "beyond_capacity": "refuse", **_HUGE, **_MANY},
}
ENGINES = ("duckdb", "polars")
EXPECTED = Path(__file__).with_name("expected")


def publish(name: str, source: Any, seed: int = 18, **more: Any) -> Any:
    """One release of the lists above."""
    return dptally.publish(
        source, randomness=SeededBits(seed), **{**PRIVACY, **{**TABLES, **ON_ONE_ENGINE, **PURE}[name], **more}
    )


def publish_tree(source: Any, **options: Any) -> Any:
    """Heavy hitters by their public name, or by the names that they had before there was one."""
    homes = ("dptally", "publish_heavy_hitters"), ("dptally.heavy_hitters", "publish_tree")
    for home, name in (*homes, ("dptally.trie_pipeline", "publish_tree")):
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(home), name)(source, **options)
    raise AssertionError("heavy hitters have no public name")


def run(*arguments: object) -> str:
    """What `python -m dptally` prints, run in this process."""
    said, before = io.StringIO(), sys.argv
    heard = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    sys.argv = ["dptally", *map(str, arguments)]
    sys.modules.pop("dptally.__main__", None)
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_module("dptally", run_name="__main__")
    except SystemExit as end:
        assert not end.code, f"{arguments} ended with {end.code}"
    finally:
        sys.argv = before
        for number, handler in heard.items():  # a program that ends hears no more of them, other tests do
            signal.signal(number, handler)
    return said.getvalue()


def run_json(*arguments: object) -> Any:
    """The JSON that a command prints, without its words."""
    return facts.data_of(json.loads(run(*arguments, "--json")))


@cache
def _sources() -> dict[str, Any]:
    return {"duckdb": visits(), "polars": pl.DataFrame(visits())}


@cache
def released(name: str) -> Any:
    """A release of one of the lists, made once."""
    return publish(name, visits())


def _table(name: str, engine: str) -> dict[str, Any]:
    made = released(name) if engine == "duckdb" else publish(name, _sources()[engine], engine=engine)
    return facts.of_any(made)


def _sketch_cases() -> dict[str, Callable[[], Any]]:
    def sketch() -> Any:
        made = dptally.MisraGriesSketch(40)
        made.update(visits()["word"].to_pylist())
        return made

    def numbers() -> Any:
        made = dptally.MisraGriesSketch(20, kind="integer")
        made.update(visits()["number"].to_pylist())
        return made

    def users() -> Any:
        words = visits()["word"].to_pylist()
        made = dptally.UserMisraGriesSketch(40, 3)
        made.update([words[at : at + 3] for at in range(0, len(words), 3)])
        return made

    def merged() -> Any:
        other = dptally.MisraGriesSketch(40)
        other.update(visits()["word"].to_pylist()[:2000])
        return sketch().merge(other)

    def summed() -> Any:
        other = dptally.MisraGriesSketch(40)
        other.update(visits()["word"].to_pylist()[:2000])
        return dptally.sum_sketches([sketch(), other])

    def both(made: Any, **options: Any) -> dict[str, Any]:
        release = made.publish(randomness=SeededBits(3), **{**PRIVACY, **options})
        return {"sketch": facts.of_sketch(made), "release": facts.of_table(release)}

    return {
        "sketch": lambda: both(sketch()),
        "sketch_without_shortfall": lambda: both(sketch(), shortfall=None),
        "sketch_of_elements": lambda: both(sketch(), elements_per_unit=3, minimise="error"),
        "sketch_of_a_universe": lambda: both(numbers(), delta=None, universe="integers:0..40"),
        "sketch_of_users": lambda: both(users()),
        "sketch_merged": lambda: both(merged()),
        "sketch_summed": lambda: both(summed()),
        "sketch_file": lambda: facts.plain(_sketch_through_a_file(sketch())),
    }


def _sketch_through_a_file(made: Any) -> dict[str, Any]:
    with TemporaryDirectory() as place:
        path = Path(place) / "words.sketch"
        made.save(path)
        return facts.of_sketch(dptally.load_sketch(path))


_INTERVAL = {"value": "number", "low": 0, "high": 63}
RANGES: dict[str, dict[str, Any]] = {
    "ranges_sample_and_threshold": {**PRIVACY, **_INTERVAL},
    "ranges_sample_and_threshold_at_a_rate": {**PRIVACY, **_INTERVAL, "rate": "0.1", "branching": 2},
    "ranges_weighted_sample": {**PRIVACY, **_INTERVAL, "mechanism": "weighted_sample", "unit": "user"},
    "ranges_dense": {**_INTERVAL, "epsilon": 1, "mechanism": "dense", "branching": 8},
    "ranges_of_prices": {
        "value": "price", "low": 0.0, "high": 100.0, "resolution": 64, "outside": "drop",
        "epsilon": 1, "mechanism": "dense",
    },
}  # fmt: skip


@cache
def ranges(name: str) -> Any:
    """A tree of counts, made once."""
    return dptally.publish_quantiles(visits(), randomness=SeededBits(5), **RANGES[name])


def _found(**options: Any) -> dict[str, Any]:
    answer = dptally.find_quantile(visits(), "0.4", randomness=SeededBits(6), **{**_INTERVAL, **options})
    return {
        **facts.numbers_of(answer),
        "guarantee": facts.guarantee(answer.guarantee),
        "certificate": facts.certificate(answer.certificate),
    }


TREES: dict[str, dict[str, Any]] = {
    "heavy_hitters": {"key": "word", "levels": [2, 5, 6, 7]},
    "heavy_hitters_of_units": {"key": "word", "unit": "user", "levels": 4, "step": 2, "domain": "utf8"},
    "heavy_hitters_of_bits": {"key": "number", "domain": "bits", "width": 6, "levels": 6, "composition": "basic"},
    "heavy_hitters_in_one_round": {"key": "word", "levels": [5, 7], "single_round": True},
}


@cache
def tree(name: str) -> Any:
    """A tree of prefixes, made once."""
    return publish_tree(visits(), randomness=SeededBits(7), **{**PRIVACY, **TREES[name]})


def _sanitized(**options: Any) -> dict[str, Any]:
    sample = {f"word {rank}": 1100 // rank for rank in range(1, 60) if rank % 7}
    made = dptally.sanitize(sample, "ppswor:0.2", randomness=SeededBits(8), **{**PRIVACY, **options})
    return facts.of_table(made)


_USUAL = ("--epsilon", 1, "--delta", "1e-6")
_WEAK = ("--epsilon", "0.5", "--delta", "1e-7")
PLANS: dict[str, tuple[object, ...]] = {
    "plan": _USUAL,
    "plan_of_a_population": (*_WEAK, "--units", 5000, "--keys", 300, "--max-keys-per-unit", 2),
    "plan_with_sampling": (*_USUAL, "--sampling", "ppswor:0.1", "--rows", 5000, "--zipf", "1.2"),
    "plan_with_a_universe": ("--epsilon", 1, "--universe", "ipv4", "--capacity", 100, "--asked-for", "any"),
    "plan_of_levels": (*_USUAL, "--levels", 4, "--rows", 4000),
    "plan_for_a_need": ("--delta", "1e-6", "--need", "30:95%"),
    "plan_keys_only": (*_USUAL, "--keys-only", "--mechanism", "weighted_sample"),
}  # fmt: skip


def _commands(made: Any) -> dict[str, Any]:
    """What the commands say of a release, as JSON."""
    with TemporaryDirectory() as place:
        path = Path(place) / "release"
        made.save(path)
        found = {"show": run_json("show", path), "verify": run_json("verify", path)}
        if hasattr(made, "shortfall"):  # a table of keys
            found["top"] = run_json("top", path, "-n", 3)
            found["sum"] = run_json("sum", path)
            if made.key == ("word",):
                where = ("--where", "word LIKE 'word 1%'")
                found["sum_of_some"] = run_json("sum", path, *where, "--of", "keys", "--kind", "mle")
                found["count"] = run_json("count", path, "word 1")
        return found


def _quantile_command() -> Any:
    with TemporaryDirectory() as place:
        path = Path(place) / "ranges.parquet"
        ranges("ranges_dense").save(path)
        return run_json("quantile", "--from", path, "-q", "0.3")


def _plan(*arguments: Any) -> dict[str, Any]:
    """A plan, without the mechanism that came after the numbers were pinned."""
    found = dict(run_json("plan", *arguments))
    found["forecasts"] = [line for line in found["forecasts"] if line.get("mechanism") != "rounds"]
    for part in ("left_out", "curves"):
        (found.get(part) or {}).pop("rounds", None)
    return found


def _plan_of_an_example() -> dict[str, Any]:
    with TemporaryDirectory() as place:
        path = Path(place) / "visits.parquet"
        pq.write_table(visits(), path)
        return _plan(*_USUAL, "--example", path, "--key", "word")


def _pairs() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name in (*TABLES, *PURE):
        for engine in ENGINES:
            yield f"{name}@{engine}", lambda name=name, engine=engine: _table(name, engine)
    for name in ON_ONE_ENGINE:
        yield f"{name}@duckdb", lambda name=name: _table(name, "duckdb")
    yield from _sketch_cases().items()
    for name in RANGES:
        yield name, lambda name=name: facts.of_ranges(ranges(name))
    yield "quantile_sample_and_threshold", lambda: _found(**PRIVACY)
    yield "quantile_weighted_sample", lambda: _found(**PRIVACY, mechanism="weighted_sample", unit="user", rounds=4)
    yield "quantile_dense", lambda: _found(epsilon=1, mechanism="dense", confidence="0.8")
    for name in TREES:
        yield name, lambda name=name: facts.of_prefixes(tree(name))
    yield "sanitized", _sanitized
    yield "sanitized_keys_only", lambda: _sanitized(values=False)
    for name, arguments in PLANS.items():
        yield name, lambda arguments=arguments: _plan(*arguments)
    yield "plan_of_an_example", _plan_of_an_example
    yield "command_quantile", _quantile_command
    shown = (
        "weighted_sample",
        "weighted_sample_keys_only",
        "gaussian",
        "misra_gries_of_units",
        "sparse",
        "dense",
        "compact",
    )
    for name in shown:
        yield f"commands_{name}", lambda name=name: _commands(released(name))
        yield f"report_{name}", lambda name=name: facts.of_report(released(name))
    for name in ("ranges_sample_and_threshold", "ranges_dense"):
        yield f"commands_{name}", lambda name=name: _commands(ranges(name))
        yield f"report_{name}", lambda name=name: facts.of_report(ranges(name))
    yield "commands_heavy_hitters", lambda: _commands(tree("heavy_hitters"))
    yield "report_heavy_hitters", lambda: facts.of_report(tree("heavy_hitters"))


def of_spark_sketch(frame: Any) -> dict[str, Any]:
    """Sketches of partitions are merged, which has a law of its own."""
    return facts.of_table(publish("misra_gries", frame))


OUTPUTS: dict[str, Callable[[], Any]] = dict(_pairs())


def home(name: str) -> str:
    """The file that holds an output: the engines share one, as a seed gives one release on each."""
    return name.partition("@")[0]


def check(name: str, found: Any, *, only: str | None = None) -> None:
    """Compare with the file of a name, or with one part of it, and say where they differ."""
    expected = json.loads((EXPECTED / f"{name}.json").read_text())
    wrong = facts.differences(expected if only is None else {only: expected[only]}, json.loads(json.dumps(found)))
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:10])
