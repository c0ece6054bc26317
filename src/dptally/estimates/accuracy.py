"""How far estimates of sums are from the truth: exact expectations over the law, for a given population.

Nothing here looks at a release. A population is given by its frequencies; whoever gives true ones sees private data,
whoever gives supposed ones (a Zipf law, a plan) does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.estimates.functions import frequency_function
from dptally.laws.base import EstimatorKind, FrequencyFunction, Law

if TYPE_CHECKING:
    import polars as pl

Frequencies = NDArray[np.int64] | Sequence[int] | Mapping[int, int]

__all__ = ["Accuracy", "accuracy_by_frequency", "count_frequencies", "population_accuracy"]


@dataclass(frozen=True)
class Accuracy:
    """How an estimate of a sum errs.

    Attributes:
        truth: the sum itself, s.
        bias: expectation of the estimate minus s.
        variance: of the estimate.
    """

    truth: float
    bias: float
    variance: float

    @property
    def mse(self) -> float:
        """Mean squared error: variance + bias^2."""
        return self.variance + self.bias**2

    @property
    def nrmse(self) -> float:
        """Normalised root mean squared error: sqrt(mse) / s; not a number for s = 0."""
        return math.sqrt(self.mse) / self.truth if self.truth else math.nan


def count_frequencies(frequencies: Frequencies) -> dict[int, int]:
    """How many keys there are of each frequency, in ascending order of frequency.

    Args:
        frequencies: one per key, or a mapping from frequency to number of keys.

    Raises:
        InvalidParameter: unless frequencies are whole and at least 1, and numbers of keys whole and at least 0.
    """
    if isinstance(frequencies, Mapping):
        given, counts = np.array(list(frequencies.keys())), np.array(list(frequencies.values()))
    else:
        given, counts = np.asarray(frequencies), np.ones(1, dtype=np.int64)
    if not given.size:
        return {}
    if given.ndim != 1 or given.dtype.kind not in "iu" or counts.dtype.kind not in "iu":
        raise InvalidParameter("frequencies must be whole numbers: one per key, or a mapping to numbers of keys.")
    if given.min() < 1 or counts.min() < 0:
        raise InvalidParameter("frequencies must be at least 1, and numbers of keys must not be negative.")
    if not isinstance(frequencies, Mapping):
        given, counts = np.unique(given, return_counts=True)
    return dict(
        sorted((frequency, keys) for frequency, keys in zip(given.tolist(), counts.tolist(), strict=True) if keys)
    )


def population_accuracy(
    law: Law,
    frequencies: Frequencies,
    *,
    of: FrequencyFunction | str | None = None,
    kind: EstimatorKind = "mle",
) -> Accuracy:
    """Bias, variance and error of the estimated sum of g over a population [CGSS21, (12)].

        s = sum_x g(w_x),  Bias = sum_x Bias_{w_x},  Var = sum_x Var_{w_x},

    where w_x is the frequency of key x, g is `of`, and Bias_i, Var_i are those of the estimator for one key, exact
    fractions over the law. Each frequency is looked at once. Exactness ends when its numbers are added up: each is
    rounded to a float once, and the sum of the floats is rounded once.

    Args:
        law: the law of the release.
        frequencies: of the keys of the selection: one per key, or a mapping from frequency to number of keys.
        of: the function g; see `dptally.estimates.functions`.
        kind: of estimator.
    """
    weigh = law.estimator(kind, wanted := frequency_function(of))
    rows = [
        (
            float(keys * Fraction(frequency if wanted is None else wanted(frequency))),
            float(keys * weigh.bias(frequency)),
            float(keys * weigh.variance(frequency)),
        )
        for frequency, keys in count_frequencies(frequencies).items()
    ]
    truth, bias, variance = (math.fsum(row[part] for row in rows) for part in range(3))
    return Accuracy(truth, bias, variance)


def accuracy_by_frequency(
    law: Law,
    frequencies: Frequencies,
    *,
    of: FrequencyFunction | str | None = None,
    kind: EstimatorKind = "mle",
) -> pl.DataFrame:
    """The same for one key of each frequency.

    Returns:
        polars.DataFrame: `frequency`, `reported` (probability), `truth`, `bias`, `variance`, `mse`, `nrmse`.
    """
    import polars as pl

    rows = []
    for frequency in count_frequencies(frequencies):
        one = population_accuracy(law, [frequency], of=of, kind=kind)
        reported = float(law.reporting_probability(frequency))
        rows.append((frequency, reported, one.truth, one.bias, one.variance, one.mse, one.nrmse))
    columns = ("reported", "truth", "bias", "variance", "mse", "nrmse")
    return pl.DataFrame(rows, schema={"frequency": pl.Int64, **dict.fromkeys(columns, pl.Float64)}, orient="row")
