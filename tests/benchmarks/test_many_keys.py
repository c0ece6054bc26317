"""The comparison for units with many keys: what methods release, their noise, what one unit changes, the page."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

import dptally

SCRIPTS = Path(__file__).parents[2] / "benchmarks" / "many_keys"
MODULES = (
    "accounting",
    "adaptive_degree",
    "charts",
    "data",
    "methods",
    "own",
    "page",
    "pairs",
    "policies",
    "run",
    "weighted_gaussian",
)
COMMON, UNITS = 4, 2000
NAMES = (
    "dptally",
    "dptally_counts",
    "dptally_former",
    "dptally_gaussian",
    "weighted_gaussian",
    "dp_sips",
    "policy_gaussian",
    "mad",
    "mad2r",
    "greedy_laplace",
    "greedy_published",
)


@pytest.fixture(scope="module")
def many() -> Iterator[dict[str, ModuleType]]:
    """The scripts as modules; they are no package, and are forgotten afterwards."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(SCRIPTS))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def tiny(many: dict[str, ModuleType]) -> Any:
    """Every unit has the four common keys, one of them twice, and two that no other unit has."""
    rows = [
        (unit, key)
        for unit in range(UNITS)
        for key in ("a", "a", "b", "c", "d", f"own {2 * unit}", f"own {2 * unit + 1}")
    ]
    return many["data"].from_frame("tiny", pl.DataFrame(rows, schema=["unit", "key"], orient="row"))


def _count(many: dict[str, ModuleType], name: str, data: Any, epsilon: float, seed: int = 1) -> int:
    try:
        return many["methods"].METHODS[name].count(data, epsilon, 1e-6, np.random.default_rng(seed))
    except many["methods"].MissingMechanismError as error:
        pytest.skip(str(error))


def test_data_is_grouped_by_unit(many: dict[str, ModuleType], tiny: Any) -> None:
    """Pairs are distinct, occurrences are counted, and the table for dptally has the same pairs."""
    assert (tiny.unit_count, tiny.key_count, len(tiny.keys)) == (UNITS, COMMON + 2 * UNITS, 6 * UNITS)
    assert set(tiny.sizes) == {6}
    assert np.bincount(tiny.occurrences).tolist() == [0, 5 * UNITS, UNITS]
    frame = many["data"].as_frame(tiny)
    assert frame.columns == ["unit", "key"]
    assert frame.n_unique() == frame.height == 6 * UNITS
    assert sorted(frame["key"].value_counts()["count"])[-5:] == [1, *[UNITS] * COMMON]


def test_zipf_units_have_as_many_keys_as_they_should(many: dict[str, ModuleType]) -> None:
    """100,000 units with exactly three distinct keys, the same in every run."""
    data = many["data"].load("zipf-3")
    assert data.unit_count == 100_000
    assert set(data.sizes) == {3}
    assert np.array_equal(many["data"].load.__wrapped__("zipf-3").keys, data.keys)


def test_every_method_is_listed(many: dict[str, ModuleType]) -> None:
    """The names that are tested are those of the catalogue."""
    assert tuple(many["methods"].METHODS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_common_keys_are_found(many: dict[str, ModuleType], tiny: Any, name: str) -> None:
    """All common keys and no others; the greedy policies stop at a cutoff, where the noise loses one in forty."""
    found = _count(many, name, tiny, 3.0)
    assert COMMON - name.startswith("greedy") <= found <= COMMON


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_released_where_epsilon_is_tiny(many: dict[str, ModuleType], tiny: Any, name: str) -> None:
    """At epsilon 0.005 the thresholds are beyond two thousand units; rounds refuse it."""
    if name in ("dptally", "dptally_counts"):
        with pytest.raises(dptally.InvalidParameter, match="epsilon must be at least"):
            _count(many, name, tiny, 0.005, 0)
        return
    assert [_count(many, name, tiny, 0.005, seed) for seed in range(3)] == [0, 0, 0]


def test_noise_is_that_of_the_closed_form(many: dict[str, ModuleType]) -> None:
    """All rounds together are the Gaussian mechanism with the least noise, whatever the shares."""
    accounting = many["accounting"]
    scale = (0.5, 1 / math.sqrt(2))
    assert accounting.gaussian_delta(1.0, 0.0) == pytest.approx(math.erf(scale[0] * scale[1]), rel=1e-12)
    shares = ((1.0,), many["weighted_gaussian"].SIPS_SHARES, many["adaptive_degree"].SHARES)
    for epsilon in (0.1, 1.0, 3.0):
        for delta in (1e-6, 1e-10):
            mu = accounting.largest_mu(epsilon, delta)
            assert accounting.gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-5)
            for parts in shares:
                rounds = accounting.plan_rounds(epsilon, delta, parts, 100)
                assert math.sqrt(sum(each.sigma**-2 for each in rounds)) == pytest.approx(mu, rel=1e-12)
                ratios = [(rounds[-1].sigma / each.sigma) ** 2 * parts[-1] for each in rounds]
                assert ratios == pytest.approx(parts)


def test_keys_of_one_unit_alone_stay_within_delta(many: dict[str, ModuleType]) -> None:
    """For every number of keys, shared or not, one round keeps delta, and at both ends it uses all of it."""
    accounting = many["accounting"]
    for epsilon in (0.1, 1.0, 3.0):
        [only] = accounting.plan_rounds(epsilon, 1e-6, (1.0,), 100)
        found = [
            accounting.mixed_delta(only, epsilon, keys, alone)
            for keys in (1, 2, 3, 5, 10, 30, 60, 99, 100)
            for alone in range(keys + 1)
        ]
        assert max(found) <= 1e-6 * (1 + 1e-5)
        assert accounting.mixed_delta(only, epsilon, 100, 0) == pytest.approx(1e-6, rel=1e-5)
        assert accounting.mixed_delta(only, epsilon, 100, 100) == pytest.approx(1e-6, rel=1e-5)


def test_rerouting_changes_weights_by_at_most_one(many: dict[str, ModuleType]) -> None:
    """Adding one unit changes the weights of MAD and of MAD2R's second round by at most 1 in Euclidean norm."""
    module, pairs = many["adaptive_degree"], many["pairs"]
    only = many["accounting"].Round(sigma=0.5, threshold=1.0)
    rng, moved, largest = np.random.default_rng(5), 0, 0.0
    for trial in range(600):
        key_count, unit_count = int(rng.integers(1, 70)), int(rng.integers(1, 60))
        chosen = rng.random((unit_count, key_count)) < rng.random((unit_count, 1))
        chosen[:, 0] |= ~chosen.any(axis=1)
        biases = np.where(rng.random(key_count) < 0.5, rng.uniform(0.5, 1.0, key_count), 1.0)
        weights = []
        for rows in (chosen, chosen[:-1]):
            units, keys = np.nonzero(rows)
            kept = pairs.Pairs(units, keys, np.ones_like(keys), len(rows))
            even = 1 / np.sqrt(kept.sizes)
            given = even if trial % 2 else module.biased_weights(kept, biases[keys])
            norms = np.bincount(units, weights=given**2, minlength=len(rows))
            assert norms.max(initial=0) <= 1 + 1e-12
            assert (given >= even / 2 - 1e-12).all()
            assert (given <= 2 * even + 1e-12).all()
            weights.append(module.rerouted_weights(kept, given, key_count, only, 1.0 if trial % 2 else 0.5))
        change = weights[0] - weights[1]
        assert change.min() >= -1e-9
        largest = max(largest, float(np.linalg.norm(change)))
        moved += bool((change[~chosen[-1]] > 1e-9).any())
    assert 0.99 < largest <= 1 + 1e-9
    assert moved > 50  # in so many cases a unit changed keys that it does not have


def test_the_greedy_policy_changes_weights_by_at_most_one(many: dict[str, ModuleType]) -> None:
    """Leaving out one unit changes the weights by at most 1 in sum, and none of them upwards."""
    rng = np.random.default_rng(6)
    for _ in range(300):
        key_count = int(rng.integers(1, 9))
        units = [rng.permutation(key_count)[: rng.integers(1, key_count + 1)].tolist() for _ in range(30)]
        left_out = int(rng.integers(len(units)))
        cutoff = float(rng.uniform(1, 5))
        change = many["policies"].greedy_weights(units, cutoff, key_count)
        change -= many["policies"].greedy_weights(units[:left_out] + units[left_out + 1 :], cutoff, key_count)
        assert change.min() >= -1e-9
        assert change.sum() <= 1 + 1e-9


def test_the_greedy_threshold_keeps_delta_and_the_published_one_does_not(many: dict[str, ModuleType]) -> None:
    """A unit can bring in two keys of weight 1/2 that others hold: together they exceed delta."""
    policies, epsilon = many["policies"], 0.1
    threshold = 120.5
    delta = math.exp(-epsilon * (threshold - 1)) / 2
    assert policies.greedy_threshold(epsilon, delta, 1) == pytest.approx(threshold)
    cutoff = threshold + policies.ALPHA / epsilon
    assert cutoff == 150.5
    u, y, x = (0, 1), (2, 3), (4, 5)
    full = [[key] for key in (*u, *y) for _ in range(150)]  # each lacks half a unit's weight
    later = [[u[0], y[0], x[0]], [u[1], y[1], x[1]]]
    without = policies.greedy_weights([*full, *later], cutoff, 6)
    with_unit = policies.greedy_weights([*full, [u[0], u[1]], *later], cutoff, 6)
    assert without[list(x)].tolist() == [0, 0]  # so they cannot be released
    assert with_unit[list(x)].tolist() == [0.5, 0.5]
    released = 1 - (1 - math.exp(-epsilon * (threshold - 0.5)) / 2) ** 2
    assert released > 1.9 * delta
    proved = policies.greedy_threshold(1.0, 1e-6, 100)
    tails = math.exp(1 - proved) / 2 + 99 * math.exp(-proved) / 2
    assert tails == pytest.approx(1e-6, rel=1e-4)


def test_a_run_is_continued_and_skips_what_is_missing(
    many: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs are added to those that are there, seeded by their number; a method that is missing gets a sentence."""
    run, file = many["run"], tmp_path / "results.json"
    calls = []

    def count(data: Any, epsilon: float, delta: float, rng: np.random.Generator) -> int:
        calls.append((data.name, epsilon, delta))
        return int(rng.integers(1000))

    def refuse(*_: object) -> int:
        raise many["methods"].MissingMechanismError("not there.")

    for name, function in (("mad", count), ("dptally", refuse)):
        method = many["methods"].METHODS[name]
        changed = type(method)(method.name, method.title, method.kind, method.setting, function)
        monkeypatch.setitem(many["methods"].METHODS, name, changed)
    asked = ["--results", str(file), "--data", "zipf-3", "--epsilon", "1", "--delta", "1e-6"]
    run.main([*asked, "--runs", "2", "--methods", "dptally", "mad"])
    first = json.loads(file.read_text())["cells"]
    assert list(first) == ["zipf-3/e1/d1e-06/mad"]
    assert "dptally is skipped: not there." in capsys.readouterr().out
    run.main([*asked, "--runs", "4", "--methods", "mad"])
    cell = json.loads(file.read_text())["cells"]["zipf-3/e1/d1e-06/mad"]
    assert len(calls) == 4
    assert cell["keys"][:2] == first["zipf-3/e1/d1e-06/mad"]["keys"]
    assert cell["mean"] == sum(cell["keys"]) / 4
    run.main([*asked, "--runs", "4", "--methods", "mad", "--again"])
    assert json.loads(file.read_text())["cells"]["zipf-3/e1/d1e-06/mad"]["keys"] == cell["keys"]


def test_the_page_says_who_is_ahead(many: dict[str, ModuleType], tmp_path: Path) -> None:
    """The best is bold, leads and gaps are in percent, what is unproved is no rival, and a picture is drawn."""
    means = {
        "customers/e1/d1e-06": {"dptally": 660, "dptally_counts": 600, "mad2r": 250, "weighted_gaussian": 264},
        "customers/e3/d1e-06": {"dptally": 1800, "policy_gaussian": 2000, "greedy_published": 3000},
        "customers/e0.1/d1e-06": {"dptally": 0, "mad": 0},
    }
    cells = {
        f"{place}/{method}": {"keys": [mean] * 5, "mean": mean, "deviation": 0.0, "seconds": 0.1, "date": "2026-11-18"}
        for place, found in means.items()
        for method, mean in found.items()
    }
    facts = {"customers": {"units": 4372, "keys": 3684, "pairs": 267615, "median": 35, "largest": 1794}}
    file, output = tmp_path / "results.json", tmp_path / "docs" / "many-keys.md"
    output.parent.mkdir()
    file.write_text(json.dumps({"machine": {}, "data": facts, "cells": cells}))
    many["page"].main(["--results", str(file), "--output", str(output)])
    text = output.read_text()
    assert "more keys than every other method in 1, as many in 1, fewer in 1." in text
    assert "epsilon 3, delta 1e-06: 1,800.0 keys, policy Gaussian 2,000.0 (-10.0 %)" in text
    assert "With counts dptally releases 0.91 to 0.91 of the keys" in text
    assert "| **660** |" in text
    assert "| **2,000** |" in text
    assert "| 3,000 |" in text
    assert "+150.0 % (weighted Gaussian)" in text
    assert "](figures/many-keys/keys-epsilon-1.svg)" in text
    assert (output.parent / "figures" / "many-keys" / "keys-epsilon-1.svg").read_text().startswith("<svg")
    del cells["customers/e1/d1e-06/dptally"]
    without = {"machine": {}, "data": facts, "cells": {name: cells[name] for name in cells if "/e1/" in name}}
    assert "was not measured yet" in many["page"].page(without, [])
