"""How good a release is: keys, errors against the truth, and what the optimal law would release."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dptally.laws.weighted_sample import WeightedSample

__all__ = ["compare", "errors", "expected_keys", "read_release"]


def read_release(file: Path) -> tuple[dict[str, float], pl.DataFrame]:
    """Measurements and released keys with values, as the worker wrote them."""
    with gzip.open(file, "rt") as text:
        written: dict[str, Any] = json.load(text)
    schema = {"key": pl.String, "value": pl.Float64}
    return written["measured"], pl.DataFrame({"key": written["keys"], "value": written["values"]}, schema=schema)


def errors(released: pl.DataFrame, true: pl.DataFrame) -> dict[str, float | None]:
    """Mean absolute error and mean error (bias) over the released keys."""
    found = released.join(true, on="key").select(off=pl.col("value") - pl.col("true"))
    return {
        "error": found.select(pl.col("off").abs().mean()).item(),
        "bias": found.select(pl.col("off").mean()).item(),
    }


def compare(ours: pl.DataFrame, theirs: pl.DataFrame, true: pl.DataFrame) -> dict[str, float | int | None]:
    """Mean absolute errors of both over the keys that both released."""
    both = ours.join(theirs, on="key", suffix="_theirs").join(true, on="key")
    return {
        "keys": len(both),
        "ours": both.select((pl.col("value") - pl.col("true")).abs().mean()).item(),
        "theirs": both.select((pl.col("value_theirs") - pl.col("true")).abs().mean()).item(),
    }


def expected_keys(true: pl.DataFrame, epsilon: str, delta: str) -> float:
    """How many keys the optimal law for one key per unit releases on average; nobody can release more.

    A mechanism that protects units with several keys protects units with one, so it is a ceiling for every number of
    keys per unit.
    The counts must be what is counted: where bounding is random, the law of expected counts is no ceiling.
    """
    law = WeightedSample(epsilon, delta)
    always = law.first_frequency(Fraction(1))
    if always is None:
        raise ValueError("the optimal law without sampling always reports from some frequency on.")
    chances = np.array([float(law.reporting_probability(frequency)) for frequency in range(always + 1)])
    return float(np.interp(true["true"].to_numpy(), np.arange(always + 1), chances).sum())
