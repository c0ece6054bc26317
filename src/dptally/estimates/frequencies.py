"""The frequency of one key from its reported value: most likely, and bounds by inverting the law exactly.

There are two kinds of confidence intervals. Those of `estimate_frequencies` are for each key on its own, for keys that
are looked up without regard to their values. Those of `estimate_together` hold for all released keys at once, so that
they also hold for rows that were sorted or selected by value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from dptally.errors import InvalidParameter
from dptally.estimates.sampled_counts import bounds_of_sampled
from dptally.exact import as_fraction
from dptally.laws.clamped_noise import ClampedNoise
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.thresholded_noise import ThresholdedNoise
from dptally.laws.top_k_noise import TopKNoise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.estimates.shortfall import Shortfall
    from dptally.laws.base import Law
    from dptally.laws.weighted_sample import WeightedSample

__all__ = [
    "FrequencyEstimates",
    "as_confidence",
    "bound_heaviest",
    "estimate_frequencies",
    "estimate_together",
    "together_in_words",
]


@dataclass(frozen=True)
class FrequencyEstimates:
    """Per reported key: the most likely frequency and its bounds; None where the law says nothing."""

    estimate: NDArray[np.int64] | None
    lower: NDArray[np.int64]
    upper: NDArray[np.int64] | None


def as_confidence(confidence: object) -> Fraction:
    """Read a confidence strictly between 0 and 1."""
    level = as_fraction("confidence", confidence)
    if not 0 < level < 1:
        raise InvalidParameter(f"confidence must be between 0 and 1, got {confidence}.")
    return level


def estimate_frequencies(
    law: Law, values: NDArray[np.int64], confidence: object, shortfall: Shortfall | None = None
) -> FrequencyEstimates:
    """Most likely frequency and bounds for each reported value.

    The estimate is the frequency that makes the value most likely: value + the most likely D.

    The bounds hold *among released keys*: for every true frequency w, of the keys of that frequency that are released,
    at least a share `confidence` has bounds that contain w. (Bounds that ignore the selection, value + a quantile of D,
    would miss too often for rare keys that were released by luck.) With beta = 1 - confidence and pi_w the reporting
    probability, they are

        lower = smallest w with P[value or more | w] > beta/2 pi_w,
        upper = largest w with P[1 .. value | w] > beta/2 pi_w,

    computed in integers (for `SampleAndThreshold` in floating point, on the safe side). A law without values tells
    only that the key exists: lower is 1, the rest is None.

    Counters of a sketch fall short of frequencies. Then w above is the counter, a tenth of the error is given to the
    bound of the shortfall, and that bound is added to `upper`; without a shortfall, bounds are those of the counter.

    A sparse pure release is another matter, since it may hold keys that nobody has; see `bound_heaviest`.
    """
    beta = 1 - as_confidence(confidence)
    if not law.values:
        return FrequencyEstimates(None, np.ones(len(values), dtype=np.int64), None)
    if shortfall is None:
        return _invert(law, values, beta)
    found = _invert(law, values, beta * Fraction(9, 10))
    return replace(found, upper=None if found.upper is None else found.upper + shortfall.upper(beta / 10))


def estimate_together(
    law: Law,
    values: NDArray[np.int64],
    confidence: object,
    shortfall: Shortfall | None = None,
    *,
    among: int | None = None,
) -> FrequencyEstimates:
    """Most likely frequencies, and bounds that hold for all released keys at once, whichever of them are looked at.

    With probability at least `confidence` *every* released key has bounds that contain its frequency. So the bounds of
    rows that were sorted or selected by value hold, too, whatever the rule of selection: the largest n, those above a
    number, or the one that looks odd. The estimates are the same as ever, and selection makes them one-sided: a key is
    at the top of a list also because its noise was, so that most estimates there are too high. Nothing corrects that.

    Proof. Let beta = 1 - confidence. Given which m keys are released, each key's bounds at the error beta / m miss with
    probability at most beta / m: they hold among released keys (`estimate_frequencies`), and values of different keys
    are independent, so that the release of other keys says nothing about this one's value. The probability that any of
    the m misses is at most the sum, beta (Bonferroni). This holds for every set of released keys, and so on average.

    Where one noise is shared by all counters of a sketch (`SharedNoise`), the number k of its counters, which is fixed,
    stands in for m: each counter is released with bounds that miss with probability at most beta / k, independent or
    not. A sparse pure release has `bound_heaviest` with `keys` = `keep`, and its condition. The shortfall of a sketch
    was told once, for all keys, and so has one share of the error, a tenth, for all of them.

    [BY05] would allow the error beta n / m for the n largest values: narrower, but then a share `confidence` of the n
    rows is right on average, and bounds of a key would change with n. Bounds that hold for all keys at once have that
    property, and can also be read row by row.

    Args:
        law: the law the values were drawn from.
        values: of the rows that are looked at.
        confidence: of all bounds together.
        shortfall: as in `estimate_frequencies`.
        among: how many keys were released, of which the rows are some; None if they are all of them.
    """
    beta = 1 - as_confidence(confidence)
    if not law.values or not len(values):
        return estimate_frequencies(law, values, confidence)
    missing = 0 if shortfall is None else shortfall.upper(beta / 10)
    error = beta if shortfall is None else beta * Fraction(9, 10)
    if isinstance(law, TopKNoise):
        found = bound_heaviest(law, values, error, keys=law.keep)
    else:
        keys = law.capacity if isinstance(law, SharedNoise) else len(values) if among is None else among
        found = _invert(law, values, error / keys)
    return replace(found, upper=None if found.upper is None else found.upper + missing)


def together_in_words(
    confidence: Fraction, of: str = "released keys", *, counts: str = "true counts", condition: str = ""
) -> str:
    """What kind of intervals `estimate_together` gives, for readers of a sorted table."""
    sure = f"{float(100 * confidence):.6g} %"
    return (
        f"{sure} confidence intervals that hold after sorting by value: with {sure} confidence, those of all {of} "
        f"contain the {counts} at once{condition}. Estimates at the top of a sorted list are more often too high than "
        "too low."
    )


def _invert(law: Law, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
    if isinstance(law, ThresholdedNoise):
        return _invert_noise(law, values, beta)
    if isinstance(law, ClampedNoise):
        # Every key has a value, so nothing is selected.
        error = law.error_quantile(beta)
        lower, upper = np.maximum(values - error, 0), np.minimum(values, law.bound - error) + error
        return FrequencyEstimates(values.copy(), lower, upper)
    if isinstance(law, SampleAndThreshold):
        return _invert_sampling(law, values, beta)
    if isinstance(law, TopKNoise):
        return bound_heaviest(law, values, beta, keys=1)
    law = cast("WeightedSample", law)
    if law.scheme is not None:
        return _invert_columns(law, values, beta)
    below, above = _value_offsets(law.tails, law.cumulative, beta)
    # From some value on, the reporting probability is 1 and the offsets no longer depend on the value.
    place = np.minimum(values, len(below)) - 1
    estimate = np.maximum(values + law.likely_drop, 1)
    return FrequencyEstimates(estimate, values + below[place], values + above[place])


def bound_heaviest(law: TopKNoise, values: NDArray[np.int64], beta: Fraction, *, keys: int) -> FrequencyEstimates:
    """Estimates and bounds for a sparse pure release, in which keys may be that nobody has.

    With probability 1 - beta two things hold: no key that nobody has reaches the value s (`significant_value` at
    beta / 2, all such keys at once), and the noise of each of `keys` keys, chosen without looking at the release, is at
    most a either way (`noise_error` at beta / (2 `keys`)). Then for all of these keys and all that nobody has

        value - a <= frequency if value >= s,  0 <= frequency always,  frequency <= value + a.

    For keys = 1 this is each key by itself, whether it is released or not: a key that is picked because it was released
    although it is rare has had luck, and more of those miss. With keys = `keep` it holds for all released keys at once,
    if the data has at most that many distinct keys. Frequencies count up to the bound of the release.

    The estimate is the value from `real_from` on, and 0 below: then the key may be one that nobody has.
    """
    error = law.noise_error(beta / (2 * keys))
    real = values >= law.significant_value(beta / 2)
    lower = np.where(real, np.maximum(values - error, 0), 0)
    upper = np.minimum(values, max(0, law.bound - error)) + min(error, law.bound)
    return FrequencyEstimates(np.where(values >= law.real_from, values, 0), lower, upper)


def _invert_noise(law: ThresholdedNoise, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
    """The same for a law "w + Z if at least T", which is "w + s - D if positive" with T - 1 added."""
    below, above = _offsets(law.cumulative, beta)
    moved = values - (law.threshold - 1)
    if len(values) and int(moved.min()) < 1:
        raise InvalidParameter("a value of the release cannot have come from its law.")
    place = np.minimum(moved, len(below)) - 1
    lower = np.maximum(moved + below[place] - law.shift, 1)
    upper = np.maximum(moved + above[place] - law.shift, 1) + law.slack
    return FrequencyEstimates(values.copy(), lower, upper)


def _invert_sampling(law: SampleAndThreshold, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
    """The same for binomial values, in floating point with room for its errors."""
    distinct, places = np.unique(values, return_inverse=True)
    if len(distinct) and int(distinct[0]) < law.threshold:
        raise InvalidParameter("a value of the release cannot have come from its law.")
    estimate = np.array([law.most_likely(value) for value in distinct.tolist()], dtype=np.int64)
    lower, upper = bounds_of_sampled(distinct, float(law.rate), law.threshold, float(beta))
    return FrequencyEstimates(estimate[places], lower[places], upper[places])


def _invert_columns(law: WeightedSample, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
    """The same for a law with a sampling scheme, where every value has tails of its own."""
    distinct, places = np.unique(values, return_inverse=True)
    found = np.empty((3, len(distinct)), dtype=np.int64)
    share, scale = beta.numerator, 2 * beta.denominator
    for at, column in enumerate(law.sampled_rows.columns(distinct.tolist())):
        tails = list(zip(column.at_least, column.above, column.reported, strict=True))
        low = next((i for i, (more, _, all_) in enumerate(tails) if scale * more > share * all_), None)
        high = max((i for i, (_, above, all_) in enumerate(tails) if scale * (all_ - above) > share * all_), default=0)
        if low is None:
            raise InvalidParameter("a value of the release cannot have come from its law.")
        found[:, at] = column.most_likely, column.first + low, column.first + high
    estimate, lower, upper = found[:, places]
    return FrequencyEstimates(estimate, lower, upper)


@lru_cache(maxsize=64)
def _offsets(cumulative: tuple[int, ...], beta: Fraction) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """lower - value and upper - value for the values 1 .. W.

    With c_d = P[D <= d] in units of 1/N, the two tails at w = value + d are c_d / c_{w-1} and 1 - c_{d-1} / c_{w-1}.
    For a larger value c_{w-1} is larger or equal at the same d, so the first d to pass the lower test, and the last d
    to pass the upper test, never fall: two pointers find all of them in one sweep.
    """
    width = len(cumulative)
    share, scale = beta.numerator, 2 * beta.denominator
    below = np.empty(width, dtype=np.int64)
    above = np.empty(width, dtype=np.int64)
    low = high = 0
    for value in range(1, width + 1):
        while scale * cumulative[low] <= share * cumulative[min(low + value, width) - 1]:
            low += 1
        while (
            high < width and (scale - share) * cumulative[min(high + 1 + value, width) - 1] > scale * cumulative[high]
        ):
            high += 1
        below[value - 1], above[value - 1] = low, high
    return below, above


@lru_cache(maxsize=64)
def _value_offsets(
    tails: tuple[int, ...], reports: tuple[int, ...], beta: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """lower - value and upper - value for the values 1 .. W + 1 of the optimal law.

    A key of frequency w = value - 1 + d, d >= 0, has this value or a larger one with probability P[D <= d], or pi_w if
    the value is 1; it has a larger one with probability P[D < d]. Both are compared with pi_w, as in `_offsets`.
    """
    width, reach = len(reports), len(tails)
    share, scale = beta.numerator, 2 * beta.denominator
    below = np.empty(width + 1, dtype=np.int64)
    above = np.empty(width + 1, dtype=np.int64)

    def reported(frequency: int) -> int:
        return reports[min(frequency, width) - 1]

    low = high = 0
    for value in range(1, width + 2):
        if value == 1:
            below[0], high = 0, 1  # the smallest frequency that has the value 1 at all
        else:
            while value - 1 + low < 1 or scale * tails[low] <= share * reported(value - 1 + low):
                low += 1
            below[value - 1] = low - 1
        while high < reach and (scale - share) * reported(value + high) > scale * tails[high]:
            high += 1
        above[value - 1] = high - 1
    return below, above
