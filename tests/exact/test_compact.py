"""Compact histograms over tiny fields, enumerated: the judge's number is the loss, and values follow their law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.exact import exp_bounds
from dptally.laws.field_geometric import FIELD_EXPONENTS, STRAY, FieldGeometric, choose_law
from dptally.mechanisms.compact import compact_polynomial, keep_at_random
from dptally.randomness import SeededBits
from dptally.releases.compact_release import CompactRelease
from dptally.verifiers.compact import CompactCertificate, certify_compact
from tests.mechanisms import CompactHistogram, MadeCompact
from tests.universes.integer_range import IntegerRange

Counts = tuple[int, ...]  # by key number
Law = Mapping[Any, Fraction]

SMALL = FieldGeometric(3, 2, Fraction(2), 1, 3)
LARGER = FieldGeometric(5, 2, Fraction(3), 2, 7)


class ScriptedBits:
    """Words that were written down before."""

    private = False

    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ones."""
        taken, self._words = self._words[:count], self._words[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


def judged(law: FieldGeometric, *, epsilon: Fraction = Fraction(32), changes: int = 1) -> CompactCertificate:
    """What the judge says of a law."""
    return certify_compact(
        law.tails,
        size=law.size,
        largest_count=law.largest_count,
        floor=law.floor,
        element_bits=law.element_bits,
        changes=changes,
        epsilon=epsilon,
    )


def element_law(law: FieldGeometric, count: int) -> dict[int, Fraction]:
    """The chance of each element at a key of this count, by running through all random bits."""
    if count == 0:
        return dict.fromkeys(range(law.size), Fraction(1, law.size))
    found: Counter[int] = Counter()
    for value, ways in Counter(law.draw(count, uniform) for uniform in range(law.size)).items():
        for chosen in range(1 << law.element_bits):
            found[law.encode(value, chosen)] += ways
    return {element: Fraction(found[element], law.size << law.element_bits) for element in range(law.size)}


def release_law(law: FieldGeometric, counts: Counts, coefficients: int) -> dict[Any, Fraction]:
    """The chance of each polynomial, by running through all elements and all free coefficients."""
    points = [key for key, count in enumerate(counts) if count]
    free = coefficients - len(points)
    laws = [element_law(law, counts[point]) for point in points]
    found: dict[Any, Fraction] = {}
    for elements in product(range(law.size), repeat=len(points)):
        chance = Fraction(1, law.size**free)
        for one, element in zip(laws, elements, strict=True):
            chance *= one[element]
        for rest in product(range(law.size), repeat=free):
            polynomial = tuple(compact_polynomial(law.size, points, elements, rest))
            assert polynomial not in found
            found[polynomial] = chance
    assert len(found) == law.size**coefficients and sum(found.values()) == 1
    return found


def largest_ratio(first: Law, second: Law) -> Fraction:
    """The largest ratio of two laws, both ways."""
    assert first.keys() == second.keys()
    ratios = (first[outcome] / second[outcome] for outcome in first)
    return max(max(ratio, 1 / ratio) for ratio in ratios)


def data_sets(keys: int, largest: int, distinct: int) -> Iterator[Counts]:
    """All counts with at most so many distinct keys."""
    for counts in product(range(largest + 1), repeat=keys):
        if sum(map(bool, counts)) <= distinct:
            yield counts


def distance(first: Counts, second: Counts) -> int:
    """By how much counts differ, in sum."""
    return sum(abs(here - there) for here, there in zip(first, second, strict=True))


# ---- the law of one count ----


@pytest.mark.parametrize("exponent", [5, 7])
@pytest.mark.parametrize("largest_count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("ratio", "floor"), [("3/2", 1), ("2", 1), ("2", 3), ("5/4", 1), ("7", 2)])
def test_the_judge_finds_the_exact_loss(exponent: int, largest_count: int, ratio: str, floor: int) -> None:
    """Over all counts, all elements and all bits, the largest ratio of neighbouring counts is the certified one."""
    law = FieldGeometric(exponent, largest_count, Fraction(ratio), floor, exponent + 2)
    laws = [element_law(law, count) for count in range(largest_count + 3)]
    if any(not chance for one in laws for chance in one.values()):
        with pytest.raises(PrivacyViolation, match="distinguished with certainty"):
            judged(law)
        return
    found = judged(law)
    assert found.largest_ratio == max(largest_ratio(*pair) for pair in pairwise(laws))
    more, less = (laws[count] for count in found.worst_pair)
    assert found.largest_ratio == max(more[element] / less[element] for element in more)


@pytest.mark.parametrize("law", [SMALL, LARGER, FieldGeometric(5, 6, Fraction(3, 2), 1, 7)], ids=["7", "31", "31, 6"])
def test_values_follow_the_stated_law(law: FieldGeometric) -> None:
    """Drawing from all uniform numbers gives `probability` exactly, rows sum to 1, and `miss` is the worst row's."""
    top = law.largest_count
    rows = []
    for count in range(top + 2):
        drawn = Counter(law.draw(count, uniform) for uniform in range(law.size))
        rows.append([law.probability(value, count) for value in range(top + 1)])
        assert rows[-1] == [Fraction(drawn[value], law.size) for value in range(top + 1)]
        assert sum(rows[-1]) == 1 and law.probability(top + 1, count) == law.probability(-1, count) == 0
    for reach in range(top + 2):
        worst = max(
            sum((chance for value, chance in enumerate(row) if abs(value - count) > reach), Fraction(0))
            for count, row in enumerate(rows[:-1])
        )
        assert law.error_probability(reach) == worst
        if worst:
            assert law.error(worst) <= reach < law.error(worst * Fraction(99, 100))


@pytest.mark.parametrize("law", [SMALL, LARGER], ids=["7", "31"])
def test_cells_are_what_the_decoder_reads(law: FieldGeometric) -> None:
    """Encoding a value reaches exactly the elements that mean it, with chances that differ by less than one unit."""
    for value in range(law.largest_count + 1):
        chosen = Counter(law.encode(value, uniform) for uniform in range(1 << law.element_bits))
        cell = {element for element in range(law.size) if law.decode(element) == value}
        assert set(chosen) == cell
        assert max(chosen.values()) - min(chosen.values()) <= 1


# ---- the release ----


@pytest.mark.parametrize(
    ("law", "keys", "capacity", "largest"), [(SMALL, 3, 2, 2), (LARGER, 3, 1, 3)], ids=["7, two keys", "31, one key"]
)
def test_the_whole_release_has_the_certified_loss(law: FieldGeometric, keys: int, capacity: int, largest: int) -> None:
    """Over all data sets and all polynomials: one step changes chances by at most rho, attained, and k steps by rho^k.

    This covers adding or removing one unit (one step), replacing one (two), and units with several keys.
    """
    laws = {counts: release_law(law, counts, capacity + 1) for counts in data_sets(keys, largest, capacity)}
    rho = judged(law).largest_ratio
    worst = Fraction(1)
    for first, second in combinations(laws, 2):
        steps = distance(first, second)
        if steps <= 2:
            ratio = largest_ratio(laws[first], laws[second])
            assert ratio <= rho**steps
            worst = max(worst, ratio if steps == 1 else Fraction(1))
    assert worst == rho


def test_each_key_has_the_law_of_its_count() -> None:
    """Up to the capacity, every key's value follows `probability` of its count, keys that do not occur included."""
    for counts in data_sets(3, 2, 2):
        releases = release_law(SMALL, counts, 3)
        for key, count in enumerate(counts):
            found = dict.fromkeys(range(3), Fraction(0))
            for polynomial, chance in releases.items():
                assert isinstance(polynomial, tuple)
                element = sum(c * key**power for power, c in enumerate(polynomial)) % SMALL.size
                found[SMALL.decode(element)] += chance
            assert found == {value: SMALL.probability(value, count) for value in range(3)}


def test_as_many_coefficients_as_keys_are_private_but_not_accurate() -> None:
    """With no coefficient to spare the loss is the same, but a key that does not occur no longer has its law."""
    law, counts = SMALL, (1, 1, 0)
    releases = release_law(law, counts, 2)
    neighbour = release_law(law, (1, 0, 0), 2)
    assert largest_ratio(releases, neighbour) <= judged(law).largest_ratio
    found = Counter[int]()
    for polynomial, chance in releases.items():
        assert isinstance(polynomial, tuple)
        found[law.decode((polynomial[0] + 2 * polynomial[1]) % law.size)] += chance  # type: ignore[assignment]
    assert any(found[value] != law.probability(value, 0) for value in range(3))


def mechanism_with(law: FieldGeometric, capacity: int, **options: Any) -> MadeCompact:
    """The mechanism as it is, but with a law small enough to enumerate."""
    made = CompactHistogram(1, universe=IntegerRange(3), capacity=capacity, **options)
    made.law = law
    return made


def test_the_builder_is_the_enumerated_law() -> None:
    """All random words through `build` itself give the law enumerated above, for no key and one key."""
    mechanism = mechanism_with(SMALL, 1, beyond_capacity="refuse")
    high = 64 - SMALL.exponent, 64 - SMALL.element_bits
    for counts in data_sets(2, 3, 1):
        found: Counter[object] = Counter()
        points = sum(map(bool, counts))
        uniforms = product(range(SMALL.size), range(1 << SMALL.element_bits)) if points else [(0, 0)]
        for (uniform, chosen), free in product(uniforms, product(range(SMALL.size), repeat=2 - points)):
            drawn = [uniform << high[0], chosen << high[1]] if points else []
            bits = ScriptedBits(*drawn, *(number << high[0] for number in free))
            found[mechanism.build(dict(enumerate(counts)), bits).coefficients] += 1
        total = sum(found.values())
        expected = release_law(SMALL, counts, 2)
        assert {outcome: Fraction(times, total) for outcome, times in found.items()} == expected


def test_the_number_outside_the_field_is_drawn_again() -> None:
    """2^e - 1 is no element: the next word counts."""
    mechanism = mechanism_with(SMALL, 1)
    words = [7 << 61, 3 << 61, 5 << 61]
    assert mechanism.build({}, ScriptedBits(*words)).coefficients == (5, 3)


# ---- beyond the capacity ----


def subsamples(counts: Counts, capacity: int) -> Iterator[Counts]:
    """Every choice of so many occurrences, each once; all of them if there are no more."""
    occurrences = [key for key, count in enumerate(counts) for _ in range(count)]
    for chosen in combinations(occurrences, min(capacity, len(occurrences))):
        yield tuple(chosen.count(key) for key in range(len(counts)))


@pytest.mark.parametrize(("counts", "capacity"), [((2, 1, 1), 2), ((1, 0, 3), 3), ((2, 3), 1), ((1, 1), 2), ((0,), 1)])
def test_subsamples_are_uniform(counts: Counts, capacity: int) -> None:
    """Over all random numbers, every choice of occurrences comes equally often."""
    total = sum(counts)
    width = total.bit_length() + 64
    lasts = range(total - capacity, total) if total > capacity else range(0)
    found: Counter[Counts] = Counter()
    for places in product(*(range(last + 1) for last in lasts)):
        words = [word for place in places for word in divmod(place << (128 - width), 1 << 64)[::-1]]
        found[tuple(keep_at_random(counts, capacity, ScriptedBits(*words)))] += 1
    expected = Counter(subsamples(counts, capacity))
    ways = sum(found.values())
    assert {kept: Fraction(times, ways) for kept, times in found.items()} == {
        kept: Fraction(times, expected.total()) for kept, times in expected.items()
    }


def test_subsampled_releases_keep_twice_the_loss_for_all_data() -> None:
    """Whatever the size of the data, adding, removing or replacing one occurrence changes chances by rho^2 at most.

    And more than rho: half of epsilon for each step is needed.
    """
    capacity = 1
    kept = {counts: release_law(SMALL, counts, capacity + 1) for counts in data_sets(3, 2, capacity)}
    laws: dict[Counts, dict[Any, Fraction]] = {}
    for counts in product(range(3), repeat=3):
        choices = list(subsamples(counts, capacity))
        mixed: dict[Any, Fraction] = {}
        for polynomial in kept[choices[0]]:
            mixed[polynomial] = sum((kept[choice][polynomial] for choice in choices), Fraction(0)) / len(choices)
        laws[counts] = mixed
    rho = judged(SMALL).largest_ratio
    worst = Fraction(1)
    for first, second in combinations(laws, 2):
        added = abs(sum(first) - sum(second)) == 1 and distance(first, second) == 1
        replaced = sum(first) == sum(second) and distance(first, second) == 2
        if added or replaced:
            ratio = largest_ratio(laws[first], laws[second])
            assert ratio <= rho**2
            worst = max(worst, ratio if added else worst)
    assert worst > rho


# ---- laws as they are chosen ----


@pytest.mark.parametrize("epsilon", ["1/200", "0.1", "1", "3"])
@pytest.mark.parametrize(("universe_size", "largest_count"), [(2**32, 1000), (2**64, 2**32 - 1), (2**128, 2**62 - 1)])
def test_chosen_laws_pass_and_waste_nothing(epsilon: str, universe_size: int, largest_count: int) -> None:
    """The judge accepts the law for its epsilon, refuses it for an epsilon smaller by 2^-50, and the field fits."""
    share = Fraction(epsilon)
    law = choose_law(share, universe_size=universe_size, largest_count=largest_count)
    certificate = judged(law, epsilon=2 * share, changes=2)
    assert 1 <= certificate.largest_ratio <= exp_bounds(share, 256)[1]
    assert certificate.loss == pytest.approx(float(2 * share), rel=1e-9)
    assert law.size >= universe_size and law.mixing <= STRAY
    smaller = [e for e in FIELD_EXPONENTS if e < law.exponent]
    for exponent in smaller:
        size = 2**exponent - 1
        assert size < universe_size or law.floor * (largest_count + 1) > STRAY * size
    with pytest.raises(PrivacyViolation, match="the table exceeds its epsilon"):
        judged(law, epsilon=share * (1 - Fraction(1, 2**50)))


def test_the_largest_epsilon_has_a_law() -> None:
    """At epsilon 32 the noise is as good as none, the rounding of the table is felt, and the judge accepts."""
    law = choose_law(Fraction(32), universe_size=2**32, largest_count=1000)
    assert law.error(Fraction(1, 10**9)) == 0
    assert 31.9 < judged(law).loss <= 32


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_the_error_is_that_of_the_geometric_law(epsilon: str) -> None:
    """Rounding and stray values move no error bound: E is the smallest with 2 r^(E+1) / (1 + r) <= beta, r = 1 / a."""
    law = choose_law(Fraction(epsilon), universe_size=2**64, largest_count=2**32 - 1)
    shrink = 1 / law.ratio
    for beta in (Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)):
        reach = law.error(beta)
        assert 2 * shrink ** (reach + 1) / (1 + shrink) <= beta < 2 * shrink**reach / (1 + shrink)


def test_a_tampered_table_is_refused() -> None:
    """One unit of mass too few at a tail is found, and so is what is no law at all."""
    law = choose_law(Fraction(1), universe_size=2**64, largest_count=100)
    facts = {"size": law.size, "largest_count": 100, "floor": law.floor, "element_bits": law.element_bits}
    tails = list(law.tails)
    tails[3] = tails[3] * 9 // 10
    with pytest.raises(PrivacyViolation, match="differ by a factor of"):
        certify_compact(tails, **facts, changes=1, epsilon=Fraction(1))
    with pytest.raises(PrivacyViolation, match="not a law"):
        certify_compact(tails[::-1], **facts, changes=1, epsilon=Fraction(1))
    with pytest.raises(PrivacyViolation, match="not a law"):
        certify_compact([law.size], **facts, changes=1, epsilon=Fraction(1))


def test_too_few_bits_for_an_element_are_refused() -> None:
    """The choice of an element within a value's cell is part of the loss."""
    law = choose_law(Fraction(1), universe_size=2**61 - 1, largest_count=100)
    coarse = FieldGeometric(law.exponent, 100, law.ratio, law.floor, law.exponent + 1)
    with pytest.raises(PrivacyViolation, match=r"counts (1 and 0|0 and 1) differ"):
        judged(coarse, epsilon=Fraction(1))


def test_laws_that_cannot_be() -> None:
    """Too much noise, too large a universe and too small a field are refused with a reason."""
    with pytest.raises(InvalidParameter, match="epsilon is too small"):
        choose_law(Fraction(1, 10**6), universe_size=100, largest_count=100)
    with pytest.raises(InvalidParameter, match="epsilon is too small"):
        choose_law(Fraction(1, 2**70), universe_size=100, largest_count=100)
    with pytest.raises(InvalidParameter, match=r"no field is large enough.*2\^600"):
        choose_law(Fraction(1), universe_size=2**600, largest_count=100)
    with pytest.raises(InvalidParameter, match="too small for the largest count"):
        FieldGeometric(3, 10, Fraction(2), 1, 3)
    with pytest.raises(InvalidParameter, match="ratio above 1"):
        FieldGeometric(3, 1, Fraction(1), 1, 3)


def test_the_release_judges_the_same_law() -> None:
    """`verify` finds what the mechanism was given before it drew."""
    mechanism = CompactHistogram("0.5", universe=IntegerRange(1000), capacity=2, max_keys_per_unit=3)
    assert mechanism.certificate.changes == 6
    release = mechanism.build({5: 1}, SeededBits(1), unit="user")
    assert isinstance(release, CompactRelease)
    assert release.verify() == release.certificate == mechanism.certificate
