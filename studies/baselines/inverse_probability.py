"""Estimates from a sample without privacy, by inverse probabilities: what privacy is compared with.

Everything here SEES PRIVATE DATA: exact frequencies of sampled keys, or of a whole population. None of it may be
published. A sample holds each key of frequency i, with its exact frequency, with probability q_i, independently. The
estimate [CGSS21, (8) and (9)], after Horvitz and Thompson, of s = sum_x L(x) g(w_x) is

    s^ = sum over sampled keys of L(x) a_{w_x},  a_i = g(i) / q_i,  Var[s^] = sum_x L(x)^2 g(w_x)^2 (1 / q_{w_x} - 1),

where w_x is the frequency of key x, g is `of`, L are the `factors`, and q_i is the `scheme`'s. It has no bias as long
as every q_i is positive. In floating point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter
from dptally.estimates.accuracy import Accuracy, count_frequencies
from dptally.estimates.functions import frequency_function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.estimates.accuracy import Frequencies
    from dptally.laws.base import FrequencyFunction
    from dptally.laws.sampling_schemes import Scheme

__all__ = ["SampleSum", "estimate_sum_from_sample", "inverse_probability_accuracy"]

_BITS = 256


@dataclass(frozen=True)
class SampleSum:
    """An estimate from a sample that is not private.

    Attributes:
        estimate: of the sum over all keys, sampled or not.
        variance: estimated from the sample, without bias: sum over sampled keys of L^2 g^2 (1 - q) / q^2.
        keys: how many sampled keys were added up.
    """

    estimate: float
    variance: float
    keys: int


def estimate_sum_from_sample(
    frequencies: NDArray[np.int64],
    scheme: Scheme,
    *,
    of: FrequencyFunction | str | None = None,
    factors: NDArray[np.float64] | None = None,
) -> SampleSum:
    """Estimate sum_x L(x) g(w_x) over all keys from the exact frequencies of sampled ones. Sees private data.

    Args:
        frequencies: of the sampled keys of a selection.
        scheme: how the sample was drawn.
        of: the function g; see `dptally.estimates.functions`.
        factors: L, one per sampled key; None for ones.

    Raises:
        InvalidParameter: if a frequency cannot be in such a sample.
    """
    given = np.asarray(frequencies)
    times = np.ones(len(given)) if factors is None else np.asarray(factors, dtype=np.float64)
    if times.shape != given.shape:
        raise InvalidParameter("factors must be one number for each sampled key.")
    distinct = list(count_frequencies(given))
    chances = [_probability(scheme, frequency) for frequency in distinct]
    if not all(chances):
        raise InvalidParameter("the sample holds a key of a frequency that the scheme never takes.")
    wanted = [_exact(of, frequency) for frequency in distinct]
    places = np.searchsorted(distinct, given)
    weights = np.array([float(g / q) for g, q in zip(wanted, chances, strict=True)])
    spread = np.array([float(g**2 * (1 - q) / q**2) for g, q in zip(wanted, chances, strict=True)])
    return SampleSum(
        math.fsum(weights[places] * times) if len(given) else 0.0,
        math.fsum(spread[places] * times**2) if len(given) else 0.0,
        len(given),
    )


def inverse_probability_accuracy(
    scheme: Scheme, frequencies: Frequencies, *, of: FrequencyFunction | str | None = None
) -> Accuracy:
    """Bias (0 where q is positive, -g where it is 0), variance and NRMSE for a population. Sees private data.

    Args:
        scheme: how samples are drawn.
        frequencies: of all keys: one per key, or a mapping from frequency to number of keys.
        of: the function g; see `dptally.estimates.functions`.
    """
    truth, bias, variance = [], [], []
    for frequency, keys in count_frequencies(frequencies).items():
        wanted, chance = _exact(of, frequency), _probability(scheme, frequency)
        truth.append(float(keys * wanted))
        if chance:
            variance.append(float(keys * wanted**2 * (1 / chance - 1)))
        else:
            bias.append(-truth[-1])
    return Accuracy(math.fsum(truth), math.fsum(bias), math.fsum(variance))


def _probability(scheme: Scheme, frequency: int) -> Fraction:
    """q, from below, to 256 bits: 1 - q keeps its digits where q is near 1."""
    return scheme.bounds(frequency, _BITS)[0]


def _exact(of: FrequencyFunction | str | None, frequency: int) -> Fraction:
    wanted = frequency_function(of)
    return Fraction(frequency if wanted is None else wanted(frequency))
