"""One contract for all registered mechanisms: certificate, draw, save, load, verify, plan, explain, report, ledger."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dptally
from dptally.laws.registry import LAWS, MECHANISMS, mechanism_class, mechanism_names, read_mechanism, references_of
from dptally.laws.spec import Mechanism, Request
from dptally.mechanisms.registry import DRAWS
from dptally.randomness import SeededBits

NAMES = mechanism_names()
DATA = pl.DataFrame({"word": [f"{chr(97 + n % 7)}" for n in range(7000)], "who": [n // 2 for n in range(7000)]})


def asked(name: str, **more: Any) -> dict[str, Any]:
    """A request that the mechanism meets."""
    chosen = mechanism_class(name)
    known: dict[str, Any] = {"key": "word", "epsilon": 1, "mechanism": name, **more}
    if not chosen.pure:
        known["delta"] = "1e-6"
    if chosen.measures:
        known["unit"] = "who"
    taken = {option.name for option in chosen.options()}
    if "universe" in taken:
        known["universe"] = "words:2"
    if "capacity" in taken:
        known["capacity"] = 20_000 if chosen.kind != "table" else 100
    return known


def test_two_registries_have_the_same_names() -> None:
    """Every mechanism has both halves; trees and prefixes, which have calls of their own, have a private half more."""
    assert set(DRAWS) - set(MECHANISMS) == {"ranges", "prefixes"}
    assert not set(MECHANISMS) - set(DRAWS)
    assert all(place.startswith("dptally.laws.") for place in (*MECHANISMS.values(), *LAWS.values()))


@pytest.mark.parametrize("name", NAMES)
def test_words_and_options(name: str) -> None:
    """Title, summary, references, options with help; the object made from options is the one made from the name."""
    chosen = mechanism_class(name)
    assert chosen.name == name and chosen.title and chosen.summary and chosen.references == references_of(name)
    assert all(option.help for option in chosen.options())
    assert issubclass(chosen, Mechanism) and getattr(dptally, chosen.__name__) is chosen
    options = {key: value for key, value in asked(name).items() if key in {each.name for each in chosen.options()}}
    assert read_mechanism(name, **options) == chosen(**options)


@pytest.mark.parametrize("name", NAMES)
def test_publish_save_load_verify(name: str, tmp_path: Path) -> None:
    """By name and as an object: one release; it is read back as it was, and verified from what its file says."""
    by_name = dptally.publish(DATA, randomness=SeededBits(3), **asked(name))
    options = {key: value for key, value in asked(name).items() if key in ("universe", "capacity")}
    rest = {key: value for key, value in asked(name).items() if key not in (*options, "mechanism")}
    typed = dptally.publish(DATA, randomness=SeededBits(3), mechanism=mechanism_class(name)(**options), **rest)
    for place, release in (("a", by_name), ("b", typed)):
        release.save(tmp_path / place)
    first, second = (dptally.load(tmp_path / place) for place in "ab")
    assert first.guarantee == second.guarantee == by_name.guarantee
    assert first.verify() == second.verify() == by_name.verify()
    if mechanism_class(name).kind == "table":
        assert first.table().equals(second.table()) and first.table().equals(by_name.table())
    private = dptally.publish(DATA, **asked(name))
    assert private.guarantee.private and private.guarantee.mechanism == name


@pytest.mark.parametrize("name", NAMES)
def test_draws_follow_the_law(name: str) -> None:
    """What is drawn for one key many times has the law's own frequencies, up to 6 standard deviations.

    20,000 seeded draws of one count; a wrong row, that of half the count, is rejected.
    """
    spec = read_mechanism(name, **_options(name)).plan(Request(*_privacy(name)))
    law = spec.law
    if not hasattr(law, "row") or spec.summary != "keys" or law.universe is not None or law.complete:
        pytest.skip("not one of keys that are reported or not")
    runs, count = 20_000, max(2, law.first_frequency(law.epsilon / law.epsilon / 2) or 2)
    drawn = law.draw(np.full(runs, count, dtype=np.int64), SeededBits(5))
    reported = float(np.count_nonzero(drawn))

    def expected(frequency: int) -> float:
        return float(law.reporting_probability(frequency))

    deviation = (runs * expected(count) * (1 - expected(count)) + 1) ** 0.5
    assert abs(reported - runs * expected(count)) < 6 * deviation
    assert abs(reported - runs * expected(count // 2)) > 6 * deviation


def _options(name: str) -> dict[str, Any]:
    known = {key: value for key, value in asked(name).items() if key in ("universe", "capacity")}
    if mechanism_class(name).listed:
        from dptally.universes import read_universe

        known["universe"] = read_universe("words:2")
    return known


def _privacy(name: str) -> tuple[Any, Any]:
    from fractions import Fraction

    return Fraction(1), None if mechanism_class(name).pure else Fraction(1, 10**6)


@pytest.mark.parametrize("name", NAMES)
def test_ledgers_take_it(name: str, tmp_path: Path) -> None:
    """What is spent is what is guaranteed, and the release names its record."""
    ledger = dptally.Ledger(tmp_path / "l.db", epsilon=3, delta="1e-5")
    release = dptally.publish(DATA, ledger=ledger, **asked(name))
    assert release.guarantee.record is not None
    [spent] = ledger.history()
    assert (spent.spending.epsilon, spent.spending.delta) == (release.guarantee.epsilon, release.guarantee.delta)


@pytest.mark.parametrize("name", NAMES)
def test_the_planner_knows_it(name: str) -> None:
    """A plan has a line for it, or the reason why it does not apply."""
    plan = dptally.plan(epsilon=1, delta="1e-6", universe="words:2", capacity=100)
    assert any(each.mechanism == name for each in plan.forecasts) != (name in plan.left_out)
    without = dptally.plan(epsilon=1, delta="1e-6")
    assert (name in without.left_out) == mechanism_class(name).pure


@pytest.mark.parametrize("name", NAMES)
def test_the_command_line_knows_it(name: str, tmp_path: Path) -> None:
    """Help lists it; --explain says what would be done, and does nothing; the report shows its references."""
    DATA.write_parquet(tmp_path / "d.parquet")
    known = asked(name)
    words = ["--key", "word", "--epsilon", "1", "--mechanism", name]
    for option in ("delta", "universe", "capacity", "unit"):
        words += [f"--{option}", str(known[option])] if option in known else []
    done = _dptally(tmp_path, "publish", "d.parquet", *words, "--explain")
    assert done.returncode == 0 and name in done.stdout, done.stderr
    assert name in _dptally(tmp_path, "publish", "--help").stdout
    dptally.publish(DATA, **known).save(tmp_path / "r")
    made = _dptally(tmp_path, "report", "r", "-o", "r.html")
    assert made.returncode == 0, made.stderr
    assert json.loads(_dptally(tmp_path, "verify", "r", "--json").stdout)


def _dptally(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dptally", *words], capture_output=True, text=True, cwd=place, check=False, timeout=120
    )
