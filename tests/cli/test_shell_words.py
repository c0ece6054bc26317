from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dptally
from dptally.cli.shell_words import in_shell_words
from dptally.errors import DptallyError
from dptally.files import check_target
from dptally.ledger import Ledger
from dptally.planning import plan
from dptally.sources.engine import explain

COUNTS = {"apple": 500}


def _written(place: Path) -> Path:
    (place / "unnamed").write_text("k\na\n")
    return place / "unnamed"


def _two_units(place: Path) -> None:
    (place / "rows.csv").write_text("user,key\n1,a\n")
    ledger = Ledger(place / "budget.db", epsilon=10, delta="1e-3")
    dptally.publish(place / "rows.csv", key="key", epsilon=1, delta="1e-6", ledger=ledger)
    dptally.publish(place / "rows.csv", key="key", unit="user", epsilon=1, delta="1e-6", ledger=ledger)


@pytest.mark.parametrize(
    ("request_for", "words"),
    [
        (lambda place: check_target(_written(place), overwrite=False), "say --overwrite to replace it"),
        (
            lambda place: dptally.publish(_written(place), key="k", epsilon=1, delta="1e-6"),
            "give --format csv, tsv, jsonl or parquet.",
        ),
        (_two_units, "a ledger for each, or --ledger-unit if both mean the same units"),
        (lambda place: Ledger(place / "nope.db"), "is not there; make it with dptally ledger create."),
        (lambda _: dptally.sanitize(COUNTS, dptally.Ppswor(size=5), epsilon=1, delta="1e-6"), "such as ppswor:0.01"),
        (lambda _: plan(epsilon=1, delta="1e-6", sampling=3), "such as ppswor:RATE"),
        (lambda _: _raise(explain(MemoryError())), "raise --memory-limit."),
        (lambda _: plan(delta="1e-6"), "--epsilon is missing; leave it out only with --need, such as --need 30:95%."),
        (
            lambda _: dptally.publish(COUNTS, epsilon=1, delta="1e-6", max_keys_per_unit=3),
            "--max-keys-per-unit needs --unit: without one",
        ),
        (
            lambda _: dptally.publish(COUNTS, epsilon=1, mechanism="sparse", universe="ipv4", values=False),
            "leave --keys-only out",
        ),
        (
            lambda _: dptally.publish(COUNTS, epsilon=1, delta="1e-6", mechanism="sample_and_threshold", values=False),
            "leave --keys-only out",
        ),
        (lambda _: dptally.publish(COUNTS, epsilon=1, delta="1e-6", strict_time=True), "--strict-time is for the"),
        (lambda _: plan(epsilon=1, delta="1e-6", asked_for="any"), "--asked-for is for plans with a universe"),
    ],
)
def test_errors_of_the_library_name_options(tmp_path: Path, request_for: Callable[[Path], object], words: str) -> None:
    """What the library says of its arguments is said of the options at the shell; a reworded error is noticed here."""
    with pytest.raises(DptallyError) as error:
        request_for(tmp_path)
    assert words not in str(error.value)
    assert words in in_shell_words(str(error.value))


def _raise(error: Exception) -> None:
    raise error


def test_kinds_of_estimate_are_options() -> None:
    """Every kind that is advised is written as an option."""
    text = "the unbiased estimator is computed for values up to 5 only; use kind='mle' or kind='lower'."
    assert in_shell_words(text).endswith("; use --kind mle or --kind lower.")


@pytest.mark.parametrize("text", ["overwrite.csv does not exist.", "there is no column 'memory_limit' in x.csv."])
def test_names_are_left_alone(text: str) -> None:
    """Names of files and columns are no words of Python."""
    assert in_shell_words(text) == text
