"""Section 5 of [BC22], simulated: sample-and-threshold beside central, local and shuffled histograms.

Each person is kept with probability p; all mechanisms but one see the same sample, of the printed rate, and their
estimates are divided by p. The error is the mean over all buckets of |estimate - true count| / persons.

Of a bucket with n persons, Binomial(n, p) are kept, which is drawn as one number. For sample-and-threshold there are
also expected errors, in closed form, so that the simulation can be held against them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_parameters import RATE_UNIT
from dptally.randomness.thinning import thin_counts
from studies.baselines.histograms import (
    BernoulliShuffle,
    HadamardResponse,
    amplified_epsilon,
    laplace_counts,
)
from studies.baselines.sample_and_threshold import lemma_3_threshold
from studies.figures.histograms import PERSONS, seeded
from studies.figures.tables import Row, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BUCKETS",
    "DELTA",
    "EPSILONS",
    "METHODS",
    "SHOWN",
    "Parameters",
    "comparison",
    "expected_error",
    "expected_errors",
    "parameters",
    "parameters_table",
    "recall",
]

ALPHA, DELTA = 1 / 6, "1e-8"
EPSILONS = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1")
BUCKETS = (1 << 6, 1 << 8, 1 << 10, 1 << 12, 1 << 14)
SHOWN = {"error": (1 << 6, 1 << 10, 1 << 14), "recall": (1 << 8, 1 << 12, 1 << 14)}  # rows of the pictures
METHODS = (
    "sample_threshold_best",
    "sample_threshold_exact",
    "sample_threshold_printed",
    "laplace",
    "laplace_amplified",
    "bernoulli_printed",
    "bernoulli_printed_zero",
    "bernoulli_smallest",
    "hadamard",
)
_REPETITIONS = 10


@dataclass(frozen=True)
class Parameters:
    """What is used at one epsilon.

    Attributes:
        epsilon: as asked for.
        exact: the printed rate, alpha (1 - e^-epsilon) with alpha = 1/6, and the smallest threshold that it needs.
        best: the rate and threshold with the smallest threshold / rate, which has a larger sample.
        printed_threshold: of Lemma 3, for the printed rate.
    """

    epsilon: float
    exact: SampleAndThreshold
    best: SampleAndThreshold
    printed_threshold: int

    @property
    def rate(self) -> float:
        """The printed rate."""
        return float(self.exact.rate)

    def noise_of_coins(self, persons: int) -> dict[str, BernoulliShuffle | None]:
        """Coins for the sample to expect: as printed, and the smallest chance that is enough."""
        sample, delta = round(self.rate * persons), float(DELTA)
        return {
            "bernoulli_printed": BernoulliShuffle.printed(sample, self.epsilon, delta),
            "bernoulli_smallest": BernoulliShuffle.smallest(sample, self.epsilon, delta),
        }


@lru_cache(maxsize=64)
def parameters(epsilon: str) -> Parameters:
    """The parameters at one epsilon, at most 1."""
    rate = -ALPHA * math.expm1(-float(epsilon))
    return Parameters(
        float(epsilon),
        SampleAndThreshold(epsilon, DELTA, rate=rate),
        SampleAndThreshold(epsilon, DELTA),
        lemma_3_threshold(ALPHA, float(DELTA)),
    )


def parameters_table(epsilons: Sequence[str] = EPSILONS) -> Table:
    """Rates, thresholds and noise for a million persons; `least_*` is threshold / rate."""
    rows: list[Row] = []
    for epsilon in epsilons:
        used = parameters(epsilon)
        coins = used.noise_of_coins(PERSONS)
        rows.append(
            {
                "epsilon": epsilon,
                "rate": used.rate,
                "threshold_printed": used.printed_threshold,
                "threshold_exact": used.exact.threshold,
                "rate_best": float(used.best.rate),
                "threshold_best": used.best.threshold,
                "least_printed": used.printed_threshold / used.rate,
                "least_exact": used.exact.threshold / used.rate,
                "least_best": used.best.threshold / float(used.best.rate),
                "laplace_amplified_epsilon": amplified_epsilon(used.epsilon, used.rate),
                **{f"{name}_chance": "" if noise is None else noise.chance for name, noise in coins.items()},
            }
        )
    return Table("parameters", rows)


# ---- simulated ----


def comparison(
    histograms: Mapping[str, Mapping[int, NDArray[np.int64]]],
    *,
    epsilons: Sequence[str] = EPSILONS,
    repetitions: int = _REPETITIONS,
) -> dict[str, Table]:
    """Tables "error" and "recall": means over repetitions, each with a table of their standard errors.

    A cell is empty where a mechanism gives no guarantee. Every row has random bits of its own.

    Args:
        histograms: true counts of all buckets, by name of the data and number of buckets.
        epsilons: at most 1.
        repetitions: at least 2.
    """
    tables: dict[str, list[Row]] = {
        name: [] for name in ("error", "error_standard_error", "recall", "recall_standard_error")
    }
    for population, by_size in histograms.items():
        for buckets, counts in by_size.items():
            for epsilon in epsilons:
                found: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
                for repetition in range(repetitions):
                    for name, estimates in _estimates((population, buckets, epsilon, repetition), counts):
                        error = float(np.abs(estimates - counts).mean()) / int(counts.sum())
                        found[name].append((error, recall(counts, estimates, buckets // 10)))
                setting: Row = {"population": population, "buckets": buckets, "epsilon": epsilon}
                for place, measure in enumerate(("error", "recall")):
                    series = {name: np.array([pair[place] for pair in pairs]) for name, pairs in found.items()}
                    tables[measure].append(
                        {**setting, **{name: float(runs.mean()) if len(runs) else "" for name, runs in series.items()}}
                    )
                    tables[f"{measure}_standard_error"].append(
                        {
                            **setting,
                            **{name: _standard_error(runs) if len(runs) else "" for name, runs in series.items()},
                        }
                    )
                tables["error"][-1]["all_zero"] = 1 / buckets
    return {name: Table(name, rows) for name, rows in tables.items()}


def _standard_error(runs: NDArray[np.float64]) -> float:
    return float(runs.std(ddof=1)) / math.sqrt(len(runs))


def _estimates(
    setting: tuple[str, int, str, int], counts: NDArray[np.int64]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Estimated counts of all buckets, by each mechanism."""
    used = parameters(setting[2])
    rate, best = used.rate, used.best
    sample = thin_counts(counts, int(used.exact.rate * RATE_UNIT), seeded("sample", *setting))
    larger = thin_counts(counts, int(best.rate * RATE_UNIT), seeded("larger sample", *setting))
    persons = int(sample.sum())
    yield "sample_threshold_best", best.report(larger) / float(best.rate)
    yield "sample_threshold_exact", used.exact.report(sample) / rate
    yield "sample_threshold_printed", np.where(sample >= used.printed_threshold, sample, 0) / rate
    yield "laplace", laplace_counts(sample, used.epsilon, seeded("laplace", *setting)) / rate
    spent = amplified_epsilon(used.epsilon, rate)
    yield "laplace_amplified", laplace_counts(sample, spent, seeded("laplace amplified", *setting)) / rate
    for name, noise in used.noise_of_coins(int(counts.sum())).items():
        if noise is None:
            continue
        messages = noise.messages(sample, seeded(name, *setting))
        yield name, noise.unbiased(messages, persons) / rate
        if name == "bernoulli_printed":
            yield "bernoulli_printed_zero", noise.zero_preserving(messages, persons) / rate
    response = HadamardResponse(len(counts), used.epsilon)
    yield "hadamard", response.estimate(response.report(sample, seeded("hadamard", *setting))) / rate


def recall(counts: NDArray[np.int64], estimates: NDArray[np.float64], most: int) -> float:
    """The part of the truly largest buckets that are among the `most` with the largest estimates.

    Empty buckets are not to be found, and a bucket is reported only with an estimate above 0. Buckets as large as the
    last one to be found are as good as it. Of buckets with the same estimate at the end of the list, any are taken, and
    the expectation over which is given.
    """
    wanted = min(most, int(np.count_nonzero(counts)))
    right = counts >= max(1, int(np.partition(counts, -wanted)[-wanted]))
    reported = estimates[estimates > 0]
    if len(reported) <= most:
        found = float(np.count_nonzero(right & (estimates > 0)))
    else:
        last = np.partition(reported, -most)[-most]
        above, tied = estimates > last, estimates == last
        share = np.count_nonzero(right & tied) / np.count_nonzero(tied)
        found = np.count_nonzero(right & above) + (most - np.count_nonzero(above)) * share
    return min(found, wanted) / wanted


# ---- expected ----


def expected_errors(
    histograms: Mapping[str, Mapping[int, NDArray[np.int64]]], *, epsilons: Sequence[str] = EPSILONS
) -> Table:
    """Expected errors of sample-and-threshold, and of the sample alone without a threshold."""
    rows: list[Row] = []
    for population, by_size in histograms.items():
        for buckets, counts in by_size.items():
            for epsilon in epsilons:
                used = parameters(epsilon)
                laws = {
                    "sample_threshold_best": (float(used.best.rate), used.best.threshold),
                    "sample_threshold_exact": (used.rate, used.exact.threshold),
                    "sample_threshold_printed": (used.rate, used.printed_threshold),
                    "sample_alone": (used.rate, 0),
                }
                rows.append(
                    {
                        "population": population,
                        "buckets": buckets,
                        "epsilon": epsilon,
                        **{name: expected_error(counts, *law) for name, law in laws.items()},
                    }
                )
    return Table("error_expected", rows)


def expected_error(counts: NDArray[np.int64], rate: float, threshold: int) -> float:
    """The expectation of mean |estimate - W| / persons, where the estimate is X / p if X >= t, and 0 otherwise.

    X is Binomial(W, p), with probabilities b. Without the threshold, E|X / p - W| = 2 (1 - p) k b(k) / p with
    k = floor(W p) + 1 (De Moivre). Each X below t then has the error W instead of |X / p - W|.
    """
    true, times = np.unique(counts[counts > 0], return_counts=True)
    middle = np.floor(true * rate).astype(np.int64) + 1
    errors = np.zeros(len(true))
    inside = middle <= true  # else b(k) = 0
    errors[inside] = 2 * (1 - rate) * middle[inside] * _masses(true[inside], middle[inside], rate) / rate
    mass = np.exp(true * math.log1p(-rate))  # b(0); where it is too small for a float, so are all b(x) below t
    for kept in range(threshold):
        errors += mass * (true - np.abs(kept / rate - true))
        mass = mass * np.maximum(true - kept, 0) * rate / ((kept + 1) * (1 - rate))
    return float(errors @ times) / len(counts) / int(counts.sum())


def _masses(trials: NDArray[np.int64], numbers: NDArray[np.int64], rate: float) -> NDArray[np.float64]:
    factorial = np.vectorize(lambda number: math.lgamma(number + 1), otypes=[np.float64])
    logarithms = factorial(trials) - factorial(numbers) - factorial(trials - numbers)
    found: NDArray[np.float64] = np.exp(logarithms + numbers * math.log(rate) + (trials - numbers) * math.log1p(-rate))
    return found
