"""Releases of sketches as they are drawn, enumerated: noise, thresholds, rounding, and units with several elements.

Sketches are the package's own. Every random number is cut into the pieces of the table that is drawn from, the
package's code is run at both ends of each piece, and the pieces' sizes are the chances.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dptally.estimates.sketch_error import sketch_error
from dptally.exact import exp_bounds
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.shortfall import Shortfall, noise_scale
from dptally.laws.summed_noise import SummedNoise, reduced_distance
from dptally.laws.thresholded_noise import ThresholdedNoise
from dptally.mechanisms import sketches
from dptally.mechanisms.total import draw_total
from dptally.randomness import SeededBits
from dptally.sketches import MisraGriesSketch, UserMisraGriesSketch
from dptally.universes import IntegerRange
from dptally.verifiers.sketches import certify_shared_noise
from dptally.verifiers.tables import exp_lower
from tests.exact import reference_sketches as reference
from tests.exact.enumeration import Choices, OrderedWords, PieceWords, law_of, law_of_pieces, sizes_of
from tests.mechanisms import Made, PrivateMisraGries, PureMisraGries

Stream = tuple[int, ...]
Counters = dict[int, int]
Release = tuple[tuple[int, int], ...]


def noise_of(table: bytes) -> dict[int, Fraction]:
    """P[Z = z], z = R - D."""
    found = sizes_of(table)
    return {len(found) // 2 - place: Fraction(mass, 1 << 128) for place, mass in enumerate(found)}


def streams(keys: int, longest: int) -> Iterator[Stream]:
    """All streams up to a length."""
    for length in range(longest + 1):
        yield from itertools.product(range(keys), repeat=length)


def shorter(stream: Stream, elements: int) -> Iterator[Stream]:
    """The stream without one element, without two, and so on."""
    for removed in range(1, elements + 1):
        for places in itertools.combinations(range(len(stream)), removed):
            yield tuple(key for place, key in enumerate(stream) if place not in places)


def sketch_of(stream: Stream, capacity: int) -> MisraGriesSketch:
    """The package's sketch."""
    sketch = MisraGriesSketch(capacity, kind="integer", bits=SeededBits(1))
    sketch.update(np.array(stream, dtype=np.int64))
    return sketch


def contents(stream: Stream, capacity: int) -> Counters:
    """What a mechanism is handed."""
    found = sketch_of(stream, capacity).contents()
    return dict(zip(found.keys.to_pylist(), found.counters.tolist(), strict=True))


def divergence(first: Mapping[Release, Fraction], second: Mapping[Release, Fraction], epsilon: Fraction) -> Fraction:
    """The hockey-stick divergence."""
    growth, zero = Fraction(*exp_lower(epsilon)), Fraction(0)
    return sum((max(zero, chance - growth * second.get(h, zero)) for h, chance in first.items()), zero)


def stated_law(counters: Counters, law: SharedNoise) -> dict[Release, Fraction]:
    """Counter + L + eta where that is at least the threshold: own noise for each key, and one noise for all."""
    single, found = noise_of(law.table), defaultdict[Release, Fraction](Fraction)
    for shared, chance in single.items():
        outcomes: dict[Release, Fraction] = {(): chance}
        for key, counter in counters.items():
            step = defaultdict[Release, Fraction](Fraction)
            above = {z: mass for z, mass in single.items() if counter + z + shared >= law.threshold}
            hidden = 1 - sum(above.values(), Fraction(0))
            for seen, reached in outcomes.items():
                step[seen] += reached * hidden
                for own, mass in above.items():
                    step[(*seen, (key, counter + own + shared))] += reached * mass
            outcomes = step
        for seen, reached in outcomes.items():
            found[seen] += reached
    return dict(found)


# ---- what is handed over ----


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_mechanism_is_handed_algorithm_1_with_its_zero_counters(capacity: int) -> None:
    """For all small streams what is released from is the printed sketch; dummies have no key and are left out."""
    for stream in streams(4, 4):
        printed, decrements = reference.misra_gries(capacity, stream)
        assert contents(stream, capacity) == {key: count for (real, key), count in printed.items() if real}
        assert sketch_of(stream, capacity).contents().missing == decrements


# ---- own noise, and noise for all ----

COARSE = SharedNoise(8, "0.3", 2)


@pytest.mark.parametrize("counters", [{}, {3: 0}, {0: 1, 5: 2}])
def test_a_release_is_drawn_as_algorithm_2_says(counters: Counters) -> None:
    """Over all random numbers: own noise, shared noise and the threshold, in one law of the whole release."""
    keys, numbers = list(counters), np.array(list(counters.values()), dtype=np.int64)

    def drawn(bits: PieceWords) -> Release:
        values = COARSE.draw(numbers, bits).tolist()
        return tuple((key, value) for key, value in zip(keys, values, strict=True) if value)

    stated = {outcome: chance for outcome, chance in stated_law(counters, COARSE).items() if chance}
    assert law_of_pieces(drawn, sizes_of(COARSE.table)) == stated


@pytest.mark.parametrize("elements", [1, 2])
@pytest.mark.parametrize("capacity", [1, 2])
def test_streams_that_differ_by_a_units_elements_keep_the_guarantee(capacity: int, elements: int) -> None:
    """For all small streams and all ways to take out that many elements the release keeps epsilon and delta.

    And what the verifier states for such streams is no less than what is found.
    """
    law = SharedNoise(8, "0.3", capacity, elements=elements)
    ones, zeros = law.differing
    sketches = {stream: contents(stream, capacity) for stream in streams(3, 4 if elements == 1 else 3)}
    laws = {tuple(found.items()): stated_law(found, law) for found in sketches.values()}
    worst = Fraction(0)
    pairs = {
        (tuple(sketches[stream].items()), tuple(sketches[less].items()))
        for stream in sketches
        for less in shorter(stream, elements)
    }
    for first, second in pairs:
        for one, other in ((first, second), (second, first)):
            worst = max(worst, divergence(laws[one], laws[other], law.epsilon))
    stated = certify_shared_noise(
        law.table,
        threshold=law.threshold,
        ones=ones,
        zeros=zeros,
        elements=elements,
        epsilon=law.epsilon,
        delta=law.delta,
    )
    assert 0 < worst <= stated.total_delta <= law.delta
    growth, single = exp_bounds(law.epsilon / elements, 256)[0], stated.worst_delta
    assert stated.total_delta >= single * sum(growth**step for step in range(elements))


# ---- reduced sketches ----


@pytest.mark.parametrize("elements", [1, 2])
@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_the_distance_that_noise_is_made_for_is_the_largest_there_is(capacity: int, elements: int) -> None:
    """Lemma 16 made exact: reduced counters of all small streams differ by that much and no more, in all."""
    found = {}
    for stream in streams(4, 5):
        reduced = sketch_of(stream, capacity).reduced_contents()
        assert reduced.missing == len(stream) and reduced.missing_parts == capacity + 1
        found[stream] = dict(zip(reduced.keys.to_pylist(), reduced.counters.tolist(), strict=True))
        printed = reference.reduced(capacity, reference.misra_gries(capacity, stream)[0])
        assert found[stream] == {key: value * (capacity + 1) for (_, key), value in printed.items()}
    largest = max(
        sum(abs(found[stream].get(key, 0) - found[less].get(key, 0)) for key in range(4))
        for stream in found
        for less in shorter(stream, elements)
    )
    stated = reduced_distance(capacity, elements)
    assert stated == SummedNoise(1, "1e-6", capacity, elements=elements).distance
    assert Fraction(largest, capacity + 1) <= stated < 2 * elements
    if elements == 1 or capacity == 1:
        assert Fraction(largest, capacity + 1) == stated


def rounded_laws(mechanism: Made, stream: Stream, capacity: int) -> dict[int, dict[int, Fraction]]:
    """For each key of a reduced sketch, the law of the whole number that the package rounds its counter to."""
    reduced = sketch_of(stream, capacity).reduced_contents()
    seen: list[tuple[int, ...]] = []

    def recorded(
        law: object, numbers: NDArray[np.uint64], counts: NDArray[np.int64], bits: object
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        assert numbers.tolist() == sorted(reduced.keys.to_pylist())
        seen.append(tuple(counts.tolist()))
        return numbers[:0], counts[:0]

    def run(choices: Choices) -> tuple[int, ...]:
        bits = OrderedWords(choices, leading=(capacity + 1).bit_length() - 1)
        sketches.draw(mechanism.question, reduced, bits)
        return seen[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sketches, "draw_bins", recorded)
        together = law_of(run)
    laws: dict[int, dict[int, Fraction]] = {}
    for place, key in enumerate(sorted(reduced.keys.to_pylist())):
        one = laws.setdefault(key, defaultdict(Fraction))
        for counts, chance in together.items():
            one[counts[place]] += chance
    independent = {
        counts: math.prod([laws[key][count] for key, count in zip(sorted(laws), counts, strict=True)])
        for counts in together
    }
    assert independent == together or not laws
    return laws


@pytest.mark.parametrize("elements", [1, 2])
@pytest.mark.parametrize("capacity", [1, 3])
def test_noisy_counters_over_a_universe_are_pure_for_a_units_elements(capacity: int, elements: int) -> None:
    """Lemma 22: taking out up to m elements changes no noisy counters of all keys by more than e^epsilon.

    The counters are rounded by the package; keys are independent, so that their largest ratios multiply. The release is
    a function of the noisy counters, which `test_sparse_law.py` shows.
    """
    epsilon = Fraction(1)
    mechanism = PureMisraGries(IntegerRange(0, 9), capacity, epsilon, elements_per_unit=elements, shortfall=None)
    noise = mechanism.law.noise
    values = range(5 + 2)  # beyond the largest counter the ratio stays as it is

    def noisy(law: Mapping[int, Fraction]) -> list[Fraction]:
        return [
            sum((chance * noise.probability(count, value) for count, chance in law.items()), Fraction(0))  # type: ignore[union-attr]
            for value in values
        ]

    nothing = noisy({0: Fraction(1)})
    # The last stream has two counters that one element more brings below a whole number together.
    longest = [*streams(3, 3), (0, 0, 1, 1, 2)]
    rows = {
        stream: {key: noisy(law) for key, law in rounded_laws(mechanism, stream, capacity).items()}
        for stream in {*longest, *itertools.chain.from_iterable(shorter(stream, elements) for stream in longest)}
    }
    worst = Fraction(1)
    for longer, less in ((stream, less) for stream in longest for less in shorter(stream, elements)):
        ratio = Fraction(1)
        for key in rows[longer].keys() | rows[less].keys():
            one, other = rows[longer].get(key, nothing), rows[less].get(key, nothing)
            ratio *= max(max(p / q, q / p) for p, q in zip(one, other, strict=True))
        worst = max(worst, ratio)
    assert worst <= exp_bounds(epsilon, 128)[0]
    assert worst > exp_bounds(epsilon / 3, 128)[1]


# ---- units with several keys ----


@pytest.mark.parametrize(("capacity", "keys"), [(2, 2), (3, 2), (3, 3), (5, 4)])
def test_an_ordinary_sketch_of_units_may_differ_by_all_their_keys(capacity: int, keys: int) -> None:
    """Lemma 25: removing one unit moves one counter by m in the sketch of elements, by one in the sketch of units."""
    cycle = list(itertools.islice(itertools.cycle(range(1, capacity + 1)), capacity * keys))
    before = [cycle[at : at + keys] for at in range(0, len(cycle), keys)]
    removed = list(range(100, 100 + keys))
    after = [[0]] * (2 * keys)
    found = []
    for users in ([*before, removed, *after], [*before, *after]):
        by_element = contents(tuple(itertools.chain.from_iterable(users)), capacity)
        by_unit = UserMisraGriesSketch(capacity, kind="integer", bits=SeededBits(1))
        by_unit.update(users)
        names, counts = by_unit.counters()
        found.append((by_element.get(0, 0), dict(zip(names.to_pylist(), counts.tolist(), strict=True))))
    (longer, of_longer), (less, of_less) = found
    assert longer - less == keys
    differences = {of_longer.get(key, 0) - of_less.get(key, 0) for key in of_longer.keys() | of_less}
    assert differences <= {0, 1} or differences <= {0, -1}


@pytest.mark.parametrize("form", ["merged", "user"])
@pytest.mark.parametrize(
    ("capacity", "minimise"), [(1, "threshold"), (2, "threshold"), (20, "threshold"), (20, "error")]
)
def test_noise_of_merged_sketches_is_made_for_all_counters(form: str, capacity: int, minimise: str) -> None:
    """Up to k counters move by one, in one direction: whichever noise is chosen, it is certified for k counters."""
    mechanism = PrivateMisraGries(form, capacity, 1, "1e-6", minimise=minimise, shortfall=None)  # type: ignore[arg-type]
    certificate = mechanism.certificate
    assert certificate.copies == capacity
    assert certificate.total_epsilon <= 1 and certificate.total_delta <= Fraction("1e-6")


# ---- errors ----


@pytest.mark.parametrize("form", ["single", "standard", "summed", "user"])
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999"])
def test_the_stated_error_is_exceeded_as_seldom_as_stated(form: str, confidence: str) -> None:
    """Lemma 13 and Theorem 14 with the exact noise: no counter of the k is off by more, but for 1 - confidence.

    With one less on either side the noise would exceed it more often.
    """
    capacity = 20
    mechanism = PrivateMisraGries(form, capacity, 1, "1e-6", shortfall=7)  # type: ignore[arg-type]
    law = mechanism.law
    assert isinstance(law, ThresholdedNoise)
    guarantee = mechanism.spec.guarantee(None, private=True)
    error = sketch_error(law, guarantee, Shortfall(7, 0, 1), confidence)
    assert error.sketch == 7 and error.hidden == law.threshold - 1 + error.under
    over, under = error.over - law.slack, error.under - law.slack
    each = (1 - Fraction(confidence)) * Fraction(9, 10) / capacity / 2

    def beyond(most: int, sign: int) -> Fraction:
        return sum((chance for noise, chance in law.noise_law.items() if sign * noise > most), Fraction(0))

    assert beyond(over, 1) <= each < beyond(over - 1, 1)
    assert beyond(under, -1) <= each < beyond(under - 2, -1)


@pytest.mark.parametrize("epsilon", ["1/20", "1"])
def test_what_is_told_of_the_shortfall_is_private(epsilon: str) -> None:
    """The noise that it is told with shrinks by at most e^epsilon per step, and is what is drawn.

    The numbers that words give are counted over one full turn: the number of words before the first that the scale
    divides is geometric, and the difference of two such numbers is the noise.
    """
    scale = noise_scale(Fraction(epsilon))
    low, high = exp_bounds(Fraction(epsilon), 128)
    assert Fraction(scale + 1, scale) <= low
    assert scale == 1 or Fraction(scale, scale - 1) > high  # a smaller scale would not do
    for first, second in itertools.product(range(4), repeat=2):
        words = [[1] * steps + [0] * (64 - steps) for steps in (first, second)]
        assert draw_total(10, Fraction(epsilon), _Rows(words)) == 10 + first - second
    assert draw_total(1, Fraction(epsilon), _Rows([[0] * 64, [1, 1, 1, 1] + [0] * 60])) == 0


class _Rows:
    """Words that are told in advance, as many at a time as are asked for."""

    private = False

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self._rows = iter(rows)

    def words(self, count: int) -> NDArray[np.uint64]:
        row = next(self._rows)
        assert len(row) == count
        return np.array(row, dtype=np.uint64)
