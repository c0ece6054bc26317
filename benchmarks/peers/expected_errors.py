"""Expected errors on common keys, without the luck of a draw: dptally's law beside thresholded Laplace noise.

    python benchmarks/peers/expected_errors.py [--cache DIR]

For each key of the Zipf data with one key per unit, both mechanisms draw independently; the mean absolute error of each
is taken over the keys that both release, so a key counts with the product of its two reporting probabilities.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import polars as pl
from cells import DELTA, EPSILONS
from data import make_data, true_counts
from set_up import CACHE

from dptally.laws.weighted_sample import WeightedSample

__all__ = ["expected_errors"]

_STEPS = 200  # of continuous noise, for each unit of its scale
_REACH = 50  # scales; the rest weighs less than 1e-21


def expected_errors(true: pl.DataFrame, epsilon: str, delta: str, *, integers: bool) -> tuple[float, float, float]:
    """Expected errors on common keys of dptally and of Laplace noise, and how many keys the latter releases.

    Noise is released with the count where they are at least a threshold, the smallest that keeps delta: the
    probability that 1 + noise reaches it is at most delta.
    """
    law = WeightedSample(epsilon, delta)
    rate = float(epsilon)
    if integers:
        noise = np.arange(-math.ceil(_REACH / rate), math.ceil(_REACH / rate) + 1, dtype=float)
        chances = np.exp(-rate * abs(noise)) * math.tanh(rate / 2)
        threshold = 1 + math.ceil(-math.log(float(delta) * (1 + math.exp(-rate))) / rate)
    else:
        noise = (np.arange(-_REACH * _STEPS, _REACH * _STEPS) + 0.5) / (_STEPS * rate)
        chances = np.exp(-rate * abs(noise)) / (2 * _STEPS)
        threshold = 1 - math.log(2 * float(delta)) / rate
    ours = theirs = both = released = 0.0
    counted = true.group_by(pl.col("true").cast(pl.Int64)).len()
    for frequency, keys in counted.iter_rows():
        row = {value: float(chance) for value, chance in law.row(min(frequency, law.width + 1)).items() if value}
        moved = frequency - min(frequency, law.width + 1)
        passed = noise >= threshold - frequency
        our_chance, their_chance = sum(row.values()), chances[passed].sum()
        off = {value: abs(value + law.likely_drop + moved - frequency) for value in row}
        ours += keys * their_chance * sum(row[value] * off[value] for value in row)
        theirs += keys * our_chance * (chances[passed] * abs(noise[passed])).sum()
        both += keys * our_chance * their_chance
        released += keys * their_chance
    return ours / both, theirs / both, released


def main() -> None:
    """Print them for both epsilons and both kinds of noise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"for data ({CACHE})")
    true = true_counts(make_data("zipf-1e6-l1", parser.parse_args().cache / "data"), 1, True)
    for epsilon in EPSILONS:
        for integers in (True, False):
            ours, theirs, released = expected_errors(true, epsilon, DELTA, integers=integers)
            kind = "integer" if integers else "continuous"
            print(f"epsilon {epsilon}: dptally {ours:.3f}, {kind} Laplace {theirs:.3f} ({released:,.0f} keys)")


if __name__ == "__main__":
    main()
