"""MAD and MAD2R: units that have few keys get back weight that keys do not need, and spend it on their other keys.

The full paper was not at hand, so this is a reconstruction from its abstract and idea, with a sensitivity that is
proved here. How much of the returned weight may be given again was open: it is what the proof allows for an even
spread. Parameters are those of the paper's experiments, from memory; none was tried on data.

Weights of one round, given a vector g_i of norm at most 1 on the k_i keys that unit i keeps:

- Units with more than d = 50 keys add g_i. The others are adaptive: a part h_i = g_i / sqrt(k_i) of theirs can move.
- With w(u) the sum of h_i(u) over adaptive units, what exceeds tau = threshold + 2 sigma is returned: the share r(u) =
  max(0, 1 - tau / w(u)) of every h_i(u). Unit i gets back e_i = sum over its keys of h_i(u) r(u), and adds the same to
  each of its keys, a vector of norm c e_i / sqrt(d).
- The weight of u is min(w(u), tau) + sum of (g_i - h_i)(u) over adaptive units + what they add + sum of g_i(u) over the
  others.

Statement: adding one unit changes the weights by at most 1 in Euclidean norm if c / sqrt(d) <= g(u) - h(u) / 2 for
every key u of every adaptive unit.

Proof: a unit that is not adaptive adds g and nothing else. Let v be adaptive, and let (1 - a(u)) h(u) be what its
h(u) adds to the excess of u, 0 <= a(u) <= 1; the truncated weight grows by a(u) h(u). All units' returns grow, by q_i
in total sum q = sum of q(u), q(u) = (1 - a(u)) h(u): the excess of u is shared by those who have u, v included. So
what is added to keys grows by a vector of norm at most sum of c q_i / sqrt(d) = c |q|_1 / sqrt(d), and the change is
at most F(q) = |g - q|_2 + c |q|_1 / sqrt(d). F is convex on the box 0 <= q <= h, so its maximum is at a corner, where
q = h on a set A and 0 elsewhere: F <= sqrt(1 - sum over A of (2 g h - h^2)) + c / sqrt(d) sum over A of h <= 1 - sum
over A of h (g - h / 2 - c / sqrt(d)) <= 1.

With g = b(u) / sqrt(k) and b >= b_min, the condition holds for c = b_min (1 - 1 / (2 sqrt(d))), since g - h / 2 = b
(x - x^2 / 2) with x = 1 / sqrt(k) grows with x up to 1. Adding weight only, the change of keys that no other unit has
is at most their part of it.

Reference: Chen, Cohen-Addad, Epasto, Zadimoghaddam: "Scalable Private Partition Selection via Adaptive Weighting", ICML
2025.
"""

from __future__ import annotations

import math

import numpy as np
from accounting import Round, plan_rounds
from data import DataSet
from numpy.typing import NDArray
from pairs import Pairs, all_pairs, cap_keys

__all__ = ["biased_weights", "mad", "mad2r", "rerouted_weights"]

CAP = 100
LARGEST_ADAPTIVE = 50  # d
BETA = 2.0  # excess begins at threshold + beta sigma
SHARES = (0.1, 0.9)
LOWER, UPPER = 1.0, 3.0  # deviations of noise below and above a noisy weight, for bounds of the true one
SMALLEST_BIAS, LARGEST_BIAS = 0.5, 2.0


def mad(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator) -> int:
    """Number of keys that MAD (max adaptive degree) releases, in one round.

    Statement: the weights above for g = 1 / sqrt(k) on each of the at most 100 keys that a unit keeps, Gaussian noise,
    threshold.

    Accounting: one Gaussian mechanism, see `accounting`. Of a unit's keys, t that no other has weigh the same, so at
    most 1 / sqrt(t) each.

    Default: at most 100 keys per unit, d = 50, beta = 2.
    """
    [only] = plan_rounds(epsilon, delta, (1.0,), CAP)
    kept = cap_keys(all_pairs(data), CAP, rng)
    weights = rerouted_weights(kept, 1 / np.sqrt(kept.sizes), data.key_count, only, 1.0)
    return int(_above(weights, kept, only, rng)[0].sum())


def mad2r(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator) -> int:
    """Number of keys that MAD2R releases, in two rounds.

    Statement: the first round is MAD, whose noisy weights x are known to the second for every conceivable key. Keys
    that it releases are removed from all units; so are keys whose weight is hardly enough for the second threshold T,
    x + 3 s_1 < T, s_1 the deviation of the first noise. A key that needs less than it has, x - s_1 > T, gets the bias
    b = max(1 / 2, T / (x - s_1)), all others 1. In the second round a unit that keeps k keys gives b / sqrt(k) to
    those with b < 1 and raises the others alike until the norm is 1 or their weight 2 / sqrt(k). These vectors are g,
    rerouted as above with b_min = 1/2.

    Accounting: the biases depend on the first output alone, so the rounds compose to one Gaussian mechanism, see
    `accounting`; the delta for keys of one unit alone is split as the budget. In the second round t such keys weigh at
    most 2 / sqrt(t) each, plus at most c / sqrt(t d) that is rerouted, and never more than 1.

    Default: shares .1 and .9, here of mu^2; d = 50, beta = 2; bounds 1 and 3 deviations away; biases from 1/2 to 2.
    """
    first, _ = plan_rounds(epsilon, delta, SHARES, CAP)
    _, second = plan_rounds(epsilon, delta, SHARES, CAP, _largest_alone)
    pairs = all_pairs(data)
    kept = cap_keys(pairs, CAP, rng)
    weights = rerouted_weights(kept, 1 / np.sqrt(kept.sizes), data.key_count, first, 1.0)
    found, noisy = _above(weights, kept, first, rng)
    hopeless = noisy + UPPER * first.sigma < second.threshold
    kept = cap_keys(pairs.keep(~(found | hopeless)[pairs.keys]), CAP, rng)
    lower = np.maximum(noisy - LOWER * first.sigma, second.threshold)
    given = biased_weights(kept, np.maximum(SMALLEST_BIAS, second.threshold / lower)[kept.keys])
    weights = rerouted_weights(kept, given, data.key_count, second, SMALLEST_BIAS)
    return int(found.sum() + _above(weights, kept, second, rng)[0].sum())


def rerouted_weights(
    kept: Pairs, given: NDArray[np.float64], key_count: int, only: Round, smallest_bias: float
) -> NDArray[np.float64]:
    """The weights of all keys; `given` has g for each pair, at least `smallest_bias` / sqrt(k)."""
    sizes = kept.sizes
    adaptive = sizes <= LARGEST_ADAPTIVE
    movable = np.where(adaptive, given / np.sqrt(sizes), 0.0)
    sums = np.bincount(kept.keys, weights=movable, minlength=key_count)
    cutoff = only.threshold + BETA * only.sigma
    excess = np.maximum(0.0, 1 - cutoff / np.maximum(sums, cutoff))
    returned = np.bincount(kept.units, weights=movable * excess[kept.keys], minlength=kept.unit_count)
    norm = smallest_bias * (1 - 1 / (2 * math.sqrt(LARGEST_ADAPTIVE))) / math.sqrt(LARGEST_ADAPTIVE)
    added = np.where(adaptive, norm * returned[kept.units] / np.sqrt(sizes), 0.0)
    rest = np.bincount(kept.keys, weights=given - movable + added, minlength=key_count)
    return np.minimum(sums, cutoff) + rest


def biased_weights(kept: Pairs, biases: NDArray[np.float64]) -> NDArray[np.float64]:
    """g for each pair: bias / sqrt(k) where the bias is below 1, and elsewhere as much as norm 1 and b_max allow."""
    sizes = kept.sizes
    lowered = biases < 1
    spent = np.bincount(kept.units, weights=np.where(lowered, biases**2 / sizes, 0.0), minlength=kept.unit_count)
    others = np.bincount(kept.units, weights=~lowered, minlength=kept.unit_count)
    even = np.sqrt(np.maximum(0.0, 1 - spent) / np.maximum(others, 1))[kept.units]
    return np.where(lowered, biases / np.sqrt(sizes), np.minimum(even, LARGEST_BIAS / np.sqrt(sizes)))


def _largest_alone(count: int) -> float:
    return min(1.0, (LARGEST_BIAS + SMALLEST_BIAS / math.sqrt(LARGEST_ADAPTIVE)) / math.sqrt(count))


def _above(
    weights: NDArray[np.float64], kept: Pairs, only: Round, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which keys are released, and the noisy weights of all."""
    present = np.bincount(kept.keys, minlength=len(weights)) > 0
    noisy = weights + rng.normal(0, only.sigma, len(weights))
    return present & (noisy > only.threshold), noisy
