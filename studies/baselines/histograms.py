"""Other private histograms over known buckets, to compare with: central, local and shuffled. NOT CERTIFIED.

Nothing can be published from this module. Everything is floating point, and noise comes from 53-bit uniform numbers:
right for the size of an error, no ground for a guarantee. All take the counts of those who take part in, and neighbours
differ in one person, who is added or removed, so that one bucket changes by one. (Where persons are replaced, two
buckets change, and every noise here would have to be for half of epsilon and delta.)

No loop runs over persons. Persons act independently, so it is enough to draw the sums that are looked at: of coins with
one chance, tossed by all, the sum is a binomial number, drawn at once by `binomial_numbers`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.randomness import BitSource

__all__ = [
    "BernoulliShuffle",
    "HadamardResponse",
    "amplified_epsilon",
    "binomial_numbers",
    "laplace_counts",
    "shifted_binomial_delta",
    "uniform_numbers",
]

_REACH = 12  # standard deviations of a binomial law that are listed; beyond, its mass is below 1e-30
_BISECTIONS = 40


def uniform_numbers(count: int, bits: BitSource) -> NDArray[np.float64]:
    """Independent numbers, uniform over the odd multiples of 2^-54 between 0 and 1."""
    found: NDArray[np.float64] = ((bits.words(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return found


# ---- central ----


def laplace_counts(counts: NDArray[np.int64], epsilon: float, bits: BitSource) -> NDArray[np.float64]:
    """Counts with Laplace noise of scale 1 / epsilon in every bucket, empty ones too: epsilon-private, centrally."""
    uniform = uniform_numbers(len(counts), bits) - 0.5
    noise: NDArray[np.float64] = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform)) / epsilon
    return counts + noise


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """The epsilon to spend on a secret sample of this rate, so that all of the population has `epsilon`.

    If a mechanism is e-private, then it is ln(1 + p (exp(e) - 1))-private when each person is kept with probability p
    by a secret coin; this is the inverse, ln(1 + (exp(epsilon) - 1) / p).
    """
    return math.log1p(math.expm1(epsilon) / rate)


# ---- local ----


@dataclass(frozen=True)
class HadamardResponse:
    """Hadamard response [ASZ19]: each person sends one of up to 2 B symbols, more likely one of her bucket's half.

    Let K be the smallest power of two above B. Bucket x = 0 .. B - 1 has row r = x + 1 of the Hadamard matrix, whose
    entry at y is (-1)^popcount(r & y), and the K / 2 symbols y where it is 1. These are sent with a chance of
    e^epsilon / Z each, the others with 1 / Z, where Z = (1 + e^epsilon) K / 2. (The paper has a second version with
    several groups of symbols, for large epsilon. Up to 1, this one has the smaller error.)

    Guarantee:
        epsilon-differential privacy of each report (local), for any change of a person's bucket.

    Error:
        Any two rows differ at half of the symbols. So the sum of signs of row x + 1 over all reports has expectation
        X g for a bucket of count X, with g = (e^epsilon - 1) / (e^epsilon + 1): all other buckets cancel. Hence
        `estimate` is unbiased. Signs are coins, with expectation g in the bucket and 0 outside, which gives `variance`.

    Args:
        buckets: B, at least 1.
        epsilon: positive.
    """

    buckets: int
    epsilon: float

    @cached_property
    def symbols(self) -> int:
        """K."""
        return 1 << self.buckets.bit_length()

    @cached_property
    def gain(self) -> float:
        """The expected sign g of somebody in the bucket, (e^epsilon - 1) / (e^epsilon + 1)."""
        return math.tanh(self.epsilon / 2)

    def report(self, counts: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """How often each symbol is sent.

        One word for a person, K up to 2^32. The law of a report is a mixture: a symbol of the bucket's half, uniformly,
        with probability g, and any symbol, uniformly, otherwise. A uniform symbol of the other half is moved into
        this one by changing one binary digit that the row looks at, which maps the halves onto each other.
        """
        rows = np.repeat(np.arange(1, self.buckets + 1, dtype=np.uint64), counts)
        words = bits.words(len(rows))
        anywhere = words & np.uint64(self.symbols - 1)
        odd = (np.bitwise_count(rows & anywhere) & 1).astype(np.uint64)
        lowest = rows & (~rows + np.uint64(1))
        from_half = (words >> np.uint64(32)) < np.uint64(round(self.gain * 2.0**32))
        sent = np.where(from_half, anywhere ^ (odd * lowest), anywhere)
        return np.bincount(sent.astype(np.int64), minlength=self.symbols)

    def estimate(self, reports: NDArray[np.int64]) -> NDArray[np.float64]:
        """Unbiased counts of all buckets, from how often each symbol was sent."""
        return _hadamard(reports.astype(np.float64))[1 : self.buckets + 1] / self.gain

    def variance(self, true_count: float, persons: float) -> float:
        """Of the estimate for a bucket of this count: (m - X g^2) / g^2, when m persons report."""
        return persons / self.gain**2 - true_count


def _hadamard(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The Hadamard matrix times a vector whose length is a power of two: sums and differences of halves."""
    half = 1
    while half < len(vector):
        pairs = vector.reshape(-1, 2, half)
        vector = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return vector


# ---- shuffled ----


@dataclass(frozen=True)
class BernoulliShuffle:
    """Noise of many coins [BC20]: for each bucket, each person sends an extra message with probability 1 - c.

    The messages of a bucket are then X + m - N, with its count X, m persons, and N a Binomial(m, c) number. Only
    this number of messages is seen after shuffling.

    Args:
        chance: c, up to 1/2: that a person does NOT send the extra message.
    """

    chance: float

    @classmethod
    def printed(cls, persons: float, epsilon: float, delta: float) -> BernoulliShuffle | None:
        """c = 50 ln(2 / delta) / (epsilon^2 m) [BC20]; None unless c <= 1/2: the paper needs it, and epsilon <= 1.

        This is (epsilon, delta) for one bucket.
        """
        chance = 50 * math.log(2 / delta) / (epsilon**2 * persons)
        return cls(chance) if chance <= 0.5 and epsilon <= 1 else None

    @classmethod
    def smallest(cls, persons: int, epsilon: float, delta: float) -> BernoulliShuffle | None:
        """The smallest c by the divergence of the noise from itself moved by one; None if not even 1/2 is enough."""
        if shifted_binomial_delta(persons, 0.5, epsilon) > delta:
            return None
        low, high = 0.0, math.log(persons / 2)  # of ln(1 / (2 c))
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            private = shifted_binomial_delta(persons, math.exp(-middle) / 2, epsilon) <= delta
            low, high = (middle, high) if private else (low, middle)
        return cls(math.exp(-low) / 2)

    def messages(self, counts: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """How many messages each bucket gets, everyone with a bucket being a person."""
        persons = int(counts.sum())
        return counts + persons - binomial_numbers(persons, self.chance, len(counts), bits)

    def unbiased(self, messages: NDArray[np.int64], persons: int) -> NDArray[np.float64]:
        """Messages less the expected number of extra ones; the variance is m c (1 - c) whatever the count."""
        return messages.astype(np.float64) - persons * (1 - self.chance)

    def zero_preserving(self, messages: NDArray[np.int64], persons: int) -> NDArray[np.float64]:
        """The same, and 0 unless there are more than m messages, so that empty buckets stay 0 [BC20].

        This hides a bucket unless X > N: counts up to about m c = 50 ln(2 / delta) / epsilon^2 are mostly lost.
        """
        return np.where(messages > persons, self.unbiased(messages, persons), 0.0)

    def variance(self, persons: float) -> float:
        """m c (1 - c): of the unbiased estimate."""
        return persons * self.chance * (1 - self.chance)


def shifted_binomial_delta(trials: int, chance: float, epsilon: float) -> float:
    """The hockey-stick divergence of Binomial(n, c) from itself moved by one, the larger of both directions."""
    _, masses = _binomial_masses(trials, chance)
    padded = np.concatenate([[0.0], masses, [0.0]])
    here, moved = padded[1:], padded[:-1]
    factor = math.exp(epsilon)
    return max(float(np.maximum(here - factor * moved, 0).sum()), float(np.maximum(moved - factor * here, 0).sum()))


def binomial_numbers(trials: int, chance: float, count: int, bits: BitSource) -> NDArray[np.int64]:
    """Independent Binomial(trials, chance) numbers, by inversion of the listed law."""
    first, masses = _binomial_masses(trials, chance)
    places = np.searchsorted(np.cumsum(masses), uniform_numbers(count, bits))
    return first + np.minimum(places, len(masses) - 1).astype(np.int64)


@lru_cache(maxsize=64)
def _binomial_masses(trials: int, chance: float) -> tuple[int, NDArray[np.float64]]:
    """The first number listed, and the chances from it on. From ratios, so that no factorials are needed."""
    reach = math.ceil(_REACH * math.sqrt(trials * chance * (1 - chance))) + 60
    first, last = max(0, math.floor(trials * chance) - reach), min(trials, math.ceil(trials * chance) + reach)
    numbers = np.arange(first + 1, last + 1)
    steps = np.log((trials - numbers + 1) / numbers) + math.log(chance) - math.log1p(-chance)
    logarithms = np.concatenate([[0.0], np.cumsum(steps)])
    masses = np.exp(logarithms - logarithms.max())
    return first, masses / masses.sum()
