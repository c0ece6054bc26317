"""publish: every bad request is refused before data is read, and good ones go through."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import dptally
from dptally.errors import InvalidParameter
from dptally.randomness import SeededBits


class Untouchable:
    """A source that must not be read."""

    def __iter__(self) -> Any:
        raise AssertionError("the data was read")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive number, got 0"),
        ({"epsilon": float("nan")}, "epsilon must be a finite number, got nan"),
        ({"epsilon": float("inf")}, "epsilon must be a finite number, got inf"),
        ({"epsilon": "1e-9", "delta": "1e-15"}, "epsilon is too small"),
        ({"delta": 0}, "with delta = 0 no private key can ever be reported"),
        ({"delta": 1}, "delta must be at least 0 and below 1"),
        ({"delta": -1e-6}, "delta must be at least 0 and below 1"),
        ({"max_keys_per_unit": 0, "unit": "u"}, "max_keys_per_unit must be at least 1, got 0"),
        ({"max_keys_per_unit": 2.5, "unit": "u"}, "max_keys_per_unit must be a whole number"),
        ({"max_keys_per_unit": 3}, "max_keys_per_unit needs a unit"),
        ({"mechanism": "laplace"}, "mechanism must be one of 'weighted_sample', 'stability', .* got 'laplace'"),
        ({"sampling": object()}, "sampling must be a scheme such as dptally.Ppswor"),
        ({"ledger": object()}, "ledger must be a dptally.Ledger"),
    ],
)
def test_bad_requests_are_refused_before_data_is_read(wrong: dict[str, Any], message: str) -> None:
    """Each bad parameter gets its own sentence and the source stays untouched."""
    with pytest.raises(InvalidParameter, match=message):
        dptally.publish(Untouchable(), **{"epsilon": 1, "delta": 1e-6, **wrong})


@pytest.mark.parametrize("name", ["value", "estimate", "lower", "upper"])
def test_reserved_column_names(name: str) -> None:
    """A key column that would collide with a column of the release is refused by name."""
    with pytest.raises(InvalidParameter, match=f"may not be named '{name}'"):
        dptally.publish(pl.DataFrame({name: ["a"]}), key=name, epsilon=1, delta=1e-6)


def test_units_are_bounded_and_counted_once() -> None:
    """A unit with a thousand rows of one key counts once for it."""
    frame = pl.DataFrame({"user": [0] * 1000 + list(range(1, 201)), "word": ["spam"] * 1000 + ["ham"] * 200})
    release = dptally.publish(frame, key="word", unit="user", epsilon=1, delta="1e-6", randomness=SeededBits(2))
    assert release.table()["word"].to_list() == ["ham"]
    assert release.table()["lower"][0] <= 200 <= release.table()["upper"][0]


def test_progress_is_reported() -> None:
    """A function given as progress is told about stages."""
    stages: list[str] = []
    dptally.publish(
        pl.DataFrame({"k": ["a"] * 100}),
        key="k",
        epsilon=1,
        delta=1e-6,
        progress=lambda stage, fraction: stages.append(stage),
    )
    assert stages


def test_seeded_releases_repeat_themselves() -> None:
    """The same seed gives the same release, another seed another one."""
    counts = {f"key {i}": 20 + i % 30 for i in range(500)}
    first, again, other = (
        dptally.publish(counts, epsilon=1, delta="1e-6", randomness=SeededBits(seed)).table() for seed in (1, 1, 2)
    )
    assert first.equals(again) and not first.equals(other)


@pytest.mark.parametrize("scheme", [dptally.Ppswor("0.001"), dptally.Priority("0.001")])
def test_no_true_frequency_is_left_in_the_law(scheme: Any) -> None:
    """A law that samples remembers the rows it has drawn from; the one in the release has drawn nothing."""
    release = dptally.publish({"a": 100_000, "b": 7, "c": 777_777}, epsilon=1, delta="1e-6", sampling=scheme)
    seen: set[int] = set()
    waiting: list[Any] = [release.law]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            waiting += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set):
            assert len(thing) < 100_000
            waiting += thing
        elif isinstance(thing, int):
            assert thing not in (100_000, 777_777)
        elif type(thing).__module__.startswith("dptally"):
            waiting += vars(thing).values() if hasattr(thing, "__dict__") else []
    assert release.table().height == 2
