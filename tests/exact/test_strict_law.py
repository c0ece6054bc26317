"""The sparse histogram in strict time, enumerated: every random choice of its own drawing code, in exact fractions.

The coins of `StrictSparseHistogram.draw_bins` are cut into the pieces that its statement says, for noise, order
statistics, labels, the random histogram and the coin that chooses between them. The package's code is run on the first
and on the last number of every piece, which must agree, and the pieces' sizes are the chances. So what is checked is
the law of the program.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import nullcontext
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from dptally.errors import PrivacyViolation
from dptally.exact import exp_bounds
from dptally.laws.tables.fixed_bits_noise import FixedBitsNoise
from dptally.laws.top_k_noise import TopKNoise
from dptally.mechanisms.strict_sparse import StrictDraw, approximate_binomial
from dptally.randomness.integers import whole_numbers
from dptally.universes import IntegerRange
from dptally.verifiers.pure import certify_hidden_difference
from tests.exact.enumeration import Choices, law_of, steps
from tests.exact.mixing_reference import smallest_weight, sufficient_weight
from tests.exact.sparse_reference import Histogram, dense_law, order_statistics_law
from tests.exact.test_sparse_histogram import strict_row
from tests.mechanisms import Made, StrictSparseHistogram

Law = dict[Histogram, Fraction]
Pieces = tuple[int, list[int]]  # how many coins, and where each piece begins
Counts = Mapping[int, int]

MAIN, RANDOM, BOTH, UNUSED = "main", "random", "both", "unused"


def even_pieces(length: int, count: int) -> Pieces:
    """Nearly equal pieces: floor(u count / 2^length)."""
    return length, [-(-(place << length) // count) for place in range(count)]


@cache
def binomial_pieces(scale_bits: int, cap: int, trials: int, chance: Fraction) -> Pieces:
    """Where the package's approximate binomial number changes with its uniform number."""
    found = steps(lambda coins: approximate_binomial(coins + 1, scale_bits, cap, trials, chance), 1 << scale_bits)
    begins = {value: first for value, first, _ in found}
    later = 1 << scale_bits
    starts = []
    for number in reversed(range(cap + 1)):  # numbers that are never returned have a piece of no length
        later = begins.get(number, later)
        starts.append(later)
    return scale_bits, starts[::-1]


def noise_pieces(noise: FixedBitsNoise) -> Pieces:
    """From -bound up."""
    rising = list(reversed(noise.masses))
    return noise.length, [sum(rising[:place]) for place in range(len(rising))]


def pieces_of_a_draw(mechanism: Made, distinct: int) -> Generator[tuple[str, Pieces], int, None]:
    """What the coins of one draw decide, one after the other; which piece was chosen is sent back."""
    law, size, keep, bound = mechanism.law, mechanism.universe.size, mechanism.keep, mechanism.bound
    noise = law.noise
    assert isinstance(noise, FixedBitsNoise)
    for place in range(max(keep, distinct)):
        yield MAIN if place < distinct else UNUSED, noise_pieces(noise)
    yield from order_pieces(mechanism, size - distinct)
    for place in range(min(keep + 1, size - distinct)):
        yield MAIN, even_pieces(law.label_bits, size - distinct - place)
    for _ in range(keep):
        yield RANDOM, even_pieces(size.bit_length() + 1, size)
    for _ in range(keep):
        yield RANDOM, even_pieces((bound + 1).bit_length() + 1, bound + 1)
    yield BOTH, (mechanism.mixing, [0, 1])


def order_pieces(mechanism: Made, draws: int) -> Generator[tuple[str, Pieces], int, None]:
    """From the largest value down, how many of the draws that are left have it [BV19, Alg. 6.7]."""
    noise, left = mechanism.law.noise, min(mechanism.keep + 1, draws)
    assert isinstance(noise, FixedBitsNoise)
    for value in range(mechanism.bound, 0, -1):
        beyond = noise.tails[value + 1] if value < mechanism.bound else 0
        chance = Fraction(noise.tails[value] - beyond, (1 << noise.length) - beyond)
        number = yield MAIN, binomial_pieces(mechanism.law.scale_bits, left, draws, chance)
        left, draws = left - number, draws - number


class Coins:
    """Words that fall into chosen pieces, at the first or at the last number of each.

    Args:
        choices: of this run.
        pieces: of each draw.
        last: which end.
        only: draws of this kind are enumerated; of the others the first piece is taken. All if None.
    """

    private = False

    def __init__(
        self,
        choices: Choices | list[int],
        pieces: Generator[tuple[str, Pieces], int, None],
        last: bool,
        only: str | None = None,
    ) -> None:
        self._choices, self._pieces, self._last, self._only = choices, pieces, last, only
        self.chosen: list[int] = []

    def words(self, count: int) -> NDArray[np.uint64]:
        """The words of one number: all words of a number are asked for at once."""
        kind, (length, starts) = self._pieces.send(self.chosen[-1]) if self.chosen else next(self._pieces)
        ends = [*starts[1:], 1 << length]
        if isinstance(self._choices, list):
            place = self._choices[len(self.chosen)]
        elif kind == BOTH and self._only is not None:
            place = 0 if self._only == RANDOM else 1
        elif self._only in (None, kind):
            sizes = [Fraction(end - start, 1 << length) for start, end in zip(starts, ends, strict=True)]
            place = self._choices.among(sizes)
        else:
            place = 0
        self.chosen.append(place)
        spare = 64 * count - length
        assert 0 <= spare < 64
        number = ((ends[place] - 1) << spare) + (1 << spare) - 1 if self._last else starts[place] << spare
        return np.frombuffer(number.to_bytes(8 * count, "little"), dtype="<u8").astype(np.uint64)

    def used_up(self) -> bool:
        """Whether nothing that the statement has was left undrawn."""
        try:
            self._pieces.send(self.chosen[-1]) if self.chosen else next(self._pieces)
        except StopIteration:
            return True
        return False


def release(mechanism: Made, counts: Counts, coins: Coins) -> Histogram:
    """One draw of the package."""
    numbers = whole_numbers(sorted(counts), mechanism.universe.size)
    frequencies = np.array([counts[key] for key in sorted(counts)], dtype=np.int64)
    keys, values = mechanism.draw_bins(numbers, frequencies, coins)
    assert coins.used_up()
    return frozenset(zip(keys.tolist(), values.tolist(), strict=True))


def drawn_law(mechanism: Made, counts: Counts, only: str | None = None) -> Law:
    """The law of the package's draw; `only` one of the two that are mixed, given that the coin chooses it."""

    def run(choices: Choices) -> Histogram:
        first = Coins(choices, pieces_of_a_draw(mechanism, len(counts)), last=False, only=only)
        outcome = release(mechanism, counts, first)
        again = Coins(first.chosen, pieces_of_a_draw(mechanism, len(counts)), last=True)
        assert release(mechanism, counts, again) == outcome  # a piece is a piece
        return outcome

    law = law_of(run)
    assert sum(law.values()) == 1
    return law


def mixed(mechanism: Made, counts: Counts) -> Law:
    """The law of a release, from the laws of the two that are mixed; for more keys than can be enumerated together."""
    weight = Fraction(1, 1 << mechanism.mixing)
    main, random = drawn_law(mechanism, counts, MAIN), drawn_law(mechanism, {}, RANDOM)
    return {
        h: (1 - weight) * main.get(h, Fraction(0)) + weight * random.get(h, Fraction(0)) for h in main.keys() | random
    }


def largest_ratio(first: Mapping[Histogram, Fraction], second: Mapping[Histogram, Fraction]) -> Fraction | None:
    """The largest ratio of chances of one release, either way; None if one of them is 0 alone."""
    if {h for h, p in first.items() if p} != {h for h, p in second.items() if p}:
        return None
    return max(max(first[h] / second[h], second[h] / first[h]) for h in first if first[h])


def strict(epsilon: str, size: int, keep: int, bound: int, mixing: int, units: int = 1) -> Made:
    """A mechanism over the numbers below `size`."""
    universe = IntegerRange(0, size - 1)
    return StrictSparseHistogram(
        epsilon, universe=universe, keep=keep, bound=bound, mixing=mixing, max_keys_per_unit=units
    )


def stated_distance(mechanism: Made) -> Fraction:
    """d: how far the draw may be from the exact release."""
    law, size, keep = mechanism.law, mechanism.universe.size, mechanism.keep
    orders = Fraction(mechanism.bound * size * (keep + 2), 1 << law.scale_bits)
    return orders + Fraction((keep + 1) * size, 1 << law.label_bits)


def all_histograms(size: int, keep: int, bound: int) -> list[Histogram]:
    """Every release there may be."""
    return [
        frozenset(zip(keys, values, strict=True))
        for number in range(keep + 1)
        for keys in combinations(range(size), number)
        for values in product(range(1, bound + 1), repeat=number)
    ]


SMALL = ("1", 3, 1, 1, 2)
LARGER = ("1/2", 4, 2, 2, 1)
DATA: list[tuple[tuple[str, int, int, int, int], Counts, Counts]] = [
    (SMALL, {}, {2: 1}),
    (SMALL, {0: 1}, {0: 1, 2: 1}),
    (("3", 3, 1, 2, 1), {0: 1}, {0: 2}),
    (LARGER, {}, {1: 1}),
    (LARGER, {1: 1}, {1: 2}),
    (LARGER, {1: 1}, {1: 1, 3: 1}),
]


@pytest.mark.parametrize(("settings", "counts", "more"), DATA)
def test_the_release_is_pure_and_without_the_random_histogram_it_is_not(
    settings: tuple[str, int, int, int, int], counts: Counts, more: Counts
) -> None:
    """Neighbours' releases, as they are drawn, differ by at most e^epsilon.

    The approximate draw alone differs by more where a key is added: there the number of keys that are drawn together
    changes, and with it what is rounded.
    """
    mechanism = strict(*settings)
    low, _ = exp_bounds(mechanism.spec.epsilon, 256)
    ratio = largest_ratio(mixed(mechanism, counts), mixed(mechanism, more))
    assert ratio is not None and ratio <= low
    alone = largest_ratio(drawn_law(mechanism, counts, MAIN), drawn_law(mechanism, more, MAIN))
    assert alone is None or (alone > low) == (len(counts) < len(more))


@pytest.mark.parametrize("counts", [{}, {1: 1}, {0: 1, 2: 1}])
def test_a_draw_is_the_mixture_that_is_stated(counts: Counts) -> None:
    """All coins together: with chance 2^-g the random histogram is released, otherwise the approximate draw."""
    mechanism = strict(*SMALL)
    law, expected = drawn_law(mechanism, counts), mixed(mechanism, counts)
    assert {h: p for h, p in law.items() if p} == {h: p for h, p in expected.items() if p}


def test_a_unit_with_two_keys_is_protected_as_well() -> None:
    """With at most two keys per unit, removing such a unit changes no release by more than e^epsilon."""
    mechanism = strict("1", 3, 1, 1, 2, units=2)
    for counts, more in (({}, {0: 1, 2: 1}), ({1: 1}, {0: 1, 1: 1, 2: 1})):
        ratio = largest_ratio(mixed(mechanism, counts), mixed(mechanism, more))
        assert ratio is not None and ratio <= exp_bounds(Fraction(1), 256)[0]


@pytest.mark.parametrize(
    ("settings", "counts"), [(SMALL, {}), (SMALL, {0: 1, 1: 1}), (("3", 3, 1, 2, 1), {1: 2}), (LARGER, {1: 2})]
)
def test_the_approximate_draw_is_as_close_as_stated(settings: tuple[str, int, int, int, int], counts: Counts) -> None:
    """Its statistical distance from noise for every key is at most d, which is what the random histogram must hide."""
    mechanism = strict(*settings)
    exact = dense_law(mechanism.universe.size, counts, mechanism.keep, lambda count: strict_row(mechanism, count))
    drawn = drawn_law(mechanism, counts, MAIN)
    assert all(len(h) <= mechanism.keep for h in drawn)
    distance = sum(abs(drawn.get(h, Fraction(0)) - exact.get(h, Fraction(0))) for h in drawn.keys() | exact) / 2
    assert 0 < distance <= stated_distance(mechanism)


@pytest.mark.parametrize("settings", [SMALL, LARGER, ("1", 5, 2, 3, 1)])
def test_every_release_has_the_chance_that_the_verifier_counts_on(settings: tuple[str, int, int, int, int]) -> None:
    """The random histogram gives every histogram of at most `keep` keys at least (4 |X| (bound + 1))^-keep."""
    mechanism = strict(*settings)
    size, keep, bound = mechanism.universe.size, mechanism.keep, mechanism.bound
    random = drawn_law(mechanism, {}, RANDOM)
    assert random.keys() == set(all_histograms(size, keep, bound))
    assert min(random.values()) >= Fraction(1, (4 * size * (bound + 1)) ** keep)


@pytest.mark.parametrize("settings", [SMALL, LARGER])
def test_the_weight_is_more_than_these_laws_need(settings: tuple[str, int, int, int, int]) -> None:
    """The smallest weight that makes the two drawn laws private is positive, and at most the one that is used."""
    mechanism = strict(*settings)
    random = drawn_law(mechanism, {}, RANDOM)
    outcomes = sorted(random, key=sorted)
    base = [random[h] for h in outcomes]
    for counts, more in (({}, {1: 1}), ({0: 1}, {0: 1, 2: 1})):
        laws = [drawn_law(mechanism, each, MAIN) for each in (counts, more)]
        rows = [[law.get(h, Fraction(0)) for h in outcomes] for law in laws]
        assert 0 < smallest_weight(rows, mechanism.spec.epsilon, base) <= Fraction(1, 1 << mechanism.mixing)


@pytest.mark.parametrize("epsilon", ["1/3", "1", "4"])
@pytest.mark.parametrize(("size", "keep", "bound", "mixing"), [(3, 1, 1, 1), (5, 2, 3, 7), (1 << 32, 4, 100, 20)])
def test_the_verifier_decides_by_what_the_random_histogram_hides(
    size: int, keep: int, bound: int, mixing: int, epsilon: str
) -> None:
    """It accepts if, and only if, 3 d <= min(epsilon, 1) 2^-g q; then Lemma 3.2 asks for no more weight than 2^-g."""
    allowed = Fraction(epsilon)
    law = TopKNoise(allowed, size=size, keep=keep, bound=bound, mixing=mixing)
    least = Fraction(1, (4 * size * (bound + 1)) ** keep)
    verdicts = set()
    for fewer, other in product(range(-1, 8), repeat=2):
        scale_bits, label_bits = law.scale_bits - fewer, law.label_bits - other
        distance = Fraction(bound * size * (keep + 2), 1 << scale_bits) + Fraction((keep + 1) * size, 1 << label_bits)
        hidden = 3 * distance <= min(allowed, Fraction(1)) * least / (1 << mixing)
        verdicts.add(hidden)
        if hidden:
            assert sufficient_weight(distance, allowed, least) <= Fraction(1, 1 << mixing)
        with nullcontext() if hidden else pytest.raises(PrivacyViolation, match="not close enough"):
            certify_hidden_difference(
                size=size,
                keep=keep,
                bound=bound,
                mixing=mixing,
                scale_bits=scale_bits,
                label_bits=label_bits,
                epsilon=allowed,
            )
    assert verdicts == {True, False}


@pytest.mark.parametrize(("settings", "draws"), [(SMALL, 3), (("1", 5, 2, 3, 1), 5), (("1", 5, 4, 2, 1), 3)])
def test_order_statistics_are_as_close_as_stated(settings: tuple[str, int, int, int, int], draws: int) -> None:
    """Algorithm 6.20 as it is drawn: within bound * draws * (keep + 2) / s of the largest of all draws."""
    mechanism = strict(*settings)

    def run(choices: Choices) -> tuple[int, ...]:
        coins = Coins(choices, order_pieces(mechanism, draws), last=False)
        found = tuple(StrictDraw(mechanism.law)._order_statistics(draws, coins))
        assert coins.used_up()
        assert found == tuple(
            StrictDraw(mechanism.law)._order_statistics(
                draws, Coins(coins.chosen, order_pieces(mechanism, draws), True)
            )
        )
        return found

    drawn = law_of(run)
    exact = order_statistics_law(strict_row(mechanism, 0), draws, mechanism.keep + 1)
    assert sum(drawn.values()) == 1 and drawn.keys() <= exact.keys()
    distance = sum(abs(drawn.get(values, Fraction(0)) - chance) for values, chance in exact.items()) / 2
    assert distance <= Fraction(mechanism.bound * draws * (mechanism.keep + 2), 1 << mechanism.law.scale_bits)


@pytest.mark.parametrize("taken", [[], [1], [0, 3]])
def test_labels_are_nearly_uniform_sequences(taken: list[int]) -> None:
    """Algorithm A.3 as it is drawn: every sequence of distinct labels outside comes, within (keep + 1) |X| / 2^k."""
    mechanism = strict("1", 5, 2, 2, 1)
    free = [label for label in range(5) if label not in taken]

    def run(choices: Choices) -> tuple[int, ...]:
        pieces = ((MAIN, even_pieces(mechanism.law.label_bits, len(free) - place)) for place in range(3))
        return tuple(StrictDraw(mechanism.law)._labels(taken, Coins(choices, pieces, last=False)))  # type: ignore[arg-type]

    drawn = law_of(run)
    sequences = {labels for labels in product(free, repeat=3) if len(set(labels)) == 3}
    assert drawn.keys() == sequences
    distance = sum(abs(chance - Fraction(1, len(sequences))) for chance in drawn.values()) / 2
    assert distance <= Fraction(3 * 5, 1 << mechanism.law.label_bits)


def test_the_noise_follows_its_masses() -> None:
    """Over all numbers of D bits, at both ends of every piece, the noise is the one that the masses say."""
    noise = FixedBitsNoise(Fraction(1), 3)
    length, starts = noise_pieces(noise)
    for place, (start, end) in enumerate(pairwise([*starts, 1 << length])):
        assert noise.from_uniform(start) == noise.from_uniform(end - 1) == place - 3
