"""The frequency of one key from its reported value: most likely, and bounds by inverting the law exactly.

There are two kinds of confidence intervals. Those of `estimate_frequencies` are for each key on its own, for keys that
are looked up without regard to their values. Those of `estimate_together` hold for all released keys at once, so that
they also hold for rows that were sorted or selected by value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.laws.base import Law, as_confidence
from dptally.laws.inversion import FrequencyEstimates
from dptally.laws.shortfall import Shortfall

__all__ = ["as_confidence", "estimate_frequencies", "estimate_together", "together_in_words"]


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

    A sparse pure release is another matter, since it may hold keys that nobody has; see `TopKNoise.invert`.
    """
    beta = 1 - as_confidence(confidence)
    if not law.values:
        return FrequencyEstimates(None, np.ones(len(values), dtype=np.int64), None)
    return _raised(lambda error: law.invert(values, error), beta, shortfall)


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
    not. For a sparse pure release see `TopKNoise.invert_together`, and its condition. The shortfall of a sketch was
    told once, for all keys, and so has one share of the error, a tenth, for all of them.

    [BY05] would allow the error beta n / m for the n largest values: narrower, but then a share `confidence` of the n
    rows is right on average, and bounds of a key would change with n. Bounds that hold for all keys at once have that
    property, and can also be read row by row.

    The rows whose `values` are looked at are some of `among` released keys; None if they are all of them.
    """
    beta = 1 - as_confidence(confidence)
    if not law.values or not len(values):
        return estimate_frequencies(law, values, confidence)
    released = len(values) if among is None else among
    return _raised(lambda error: law.invert_together(values, error, among=released), beta, shortfall)


def _raised(
    invert: Callable[[Fraction], FrequencyEstimates], beta: Fraction, shortfall: Shortfall | None
) -> FrequencyEstimates:
    """Bounds at beta, with a tenth of it for how far counters fall short."""
    if shortfall is None:
        return invert(beta)
    found = invert(beta * Fraction(9, 10))
    return replace(found, upper=None if found.upper is None else found.upper + shortfall.upper(beta / 10))


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
