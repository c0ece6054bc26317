"""Heavy hitters: rounds enumerated outcome by outcome, their composition judged, and what is not private shown so."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

from dptally.errors import PrivacyViolation
from dptally.laws.prefix_plans import plan_trie
from dptally.laws.prefix_rounds import Round, TrieRounds, answer
from dptally.laws.round_parameters import choose_round_law
from dptally.releases.prefix_tree import PrefixTree
from dptally.verifiers import rounds as rounds_judge
from dptally.verifiers.rounds import _total_variation, certify_rounds, composed_delta
from dptally.verifiers.sampling import certify_sampling
from dptally.verifiers.tables import certify_copies
from tests.exact.reference import divergence, growth

UNIT = 1 << 32
MOST = Fraction(999_999, 1_000_000)
Row = dict[Any, Fraction]


def rate_of(number: float) -> Fraction:
    """The multiple of 2^-32 below."""
    return Fraction(math.floor(number * UNIT), UNIT)


def rows_of(rate: Fraction, threshold: int, last: int) -> list[Row]:
    """Rows 0 .. last of one round, as fractions."""
    found = []
    for k in range(last + 1):
        row: Row = {None: Fraction(0)}
        for v in range(k + 1):
            outcome = v if v >= threshold else None
            chance = math.comb(k, v) * rate**v * (1 - rate) ** (k - v)
            row[outcome] = row.get(outcome, Fraction(0)) + chance
        found.append(row)
    return found


def adaptive_worst(rate: Fraction, threshold: int, epsilon: Fraction, last: int) -> float:
    """The largest divergence of two rounds, where the count in the second depends on the outcome of the first."""
    rows, factor = [{x: float(p) for x, p in row.items()} for row in rows_of(rate, threshold, last)], math.exp(epsilon)
    worst = 0.0
    for step in (1, -1):
        pairs = [(rows[k], rows[k - 1]) if step > 0 else (rows[k - 1], rows[k]) for k in range(1, last + 1)]

        def profile(a: float, pairs: list[tuple[dict[object, float], dict[object, float]]] = pairs) -> float:
            return max(sum(max(0.0, p - a * other.get(x, 0.0)) for x, p in here.items()) for here, other in pairs)

        for here, other in pairs:
            total = 0.0
            for x, p in here.items():
                q = other.get(x, 0.0)
                total += 0.0 if not p else p if not q else p * profile(factor * q / p)
            worst = max(worst, total)
    return worst


@pytest.mark.parametrize(("rate", "threshold", "epsilon"), [(0.1, 3, "1"), (0.3, 4, "1/2"), (0.5, 3, "1")])
def test_one_round_is_the_judge_of_one_round(rate: float, threshold: int, epsilon: str) -> None:
    """For a single round the profile gives the same delta as the judge of one round, up to its rounding."""
    p, e = rate_of(rate), Fraction(epsilon)
    one = certify_sampling(p, threshold, epsilon=e, delta=MOST).worst_delta
    total, _ = composed_delta(p, threshold, rounds=1, epsilon=e, delta=Fraction(1, 10**6))
    assert one <= total + Fraction(1, 2**190) and total <= one * Fraction(1_000_001, 1_000_000)


@pytest.mark.parametrize(
    ("rate", "threshold", "epsilon"), [(0.1, 3, "1"), (0.3, 4, "1/2"), (0.25, 3, "1"), (0.6, 4, "1")]
)
def test_two_rounds_against_enumeration(rate: float, threshold: int, epsilon: str) -> None:
    """Two rounds, the second chosen in the worst way after the first, stay within the bound, and near it."""
    p, e = rate_of(rate), Fraction(epsilon)
    wanted = adaptive_worst(p, threshold, e, 36)
    total, _ = composed_delta(p, threshold, rounds=2, epsilon=e, delta=Fraction(1, 10**6), steps=48)
    assert wanted <= float(total) * (1 + 1e-9)
    assert float(total) <= 1.25 * wanted


def test_profile_at_one_is_the_total_variation() -> None:
    """At the factor 1 the bound is the largest distance in total variation of neighbouring rows."""
    for rate, threshold in ((0.1, 3), (0.5, 2), (0.7, 5), (0.3, 1)):
        p = rate_of(rate)
        rows = rows_of(p, threshold, 60)
        wanted = max(divergence(rows[k], rows[k - 1], Fraction(1)) for k in range(1, 61))
        found = Fraction(_total_variation(p, threshold), 1 << 320)
        assert wanted <= found <= wanted * Fraction(11, 10)


def test_composition_is_never_below_products_of_rounds() -> None:
    """For four rounds with equal counts the exact divergence of the product law is within the bound."""
    p, threshold, e = rate_of(0.3), 2, Fraction(1)
    rows = [{x: float(c) for x, c in row.items()} for row in rows_of(p, threshold, 12)]
    total, _ = composed_delta(p, threshold, rounds=4, epsilon=e, delta=Fraction(1, 1000))
    for k in (2, 4, 6):
        for here, other in ((rows[k], rows[k - 1]), (rows[k - 1], rows[k])):
            outcomes = sorted(set(here) | set(other), key=str)
            found = sum(
                max(
                    0.0,
                    math.prod(here.get(x, 0.0) for x in chosen) - math.e * math.prod(other.get(x, 0.0) for x in chosen),
                )
                for chosen in itertools.product(outcomes, repeat=4)
            )
            assert found <= float(total) * (1 + 1e-9)


def test_composed_judge_refuses_the_next_rate() -> None:
    """The chosen rate is within two thousandths of one that is refused, and "exact" beats the other compositions."""
    e, d = Fraction(1), Fraction(1, 10**6)
    law = choose_round_law(e, d, 5)
    assert law.certificate.total_delta <= d
    with pytest.raises(PrivacyViolation, match="5 rounds exceed their delta"):
        certify_rounds(rate_of(float(law.rate) * 1.002), law.threshold, rounds=5, epsilon=e, delta=d)
    reach: dict[str, Fraction] = {"exact": law.threshold / law.rate}
    for other in ("optimal", "basic"):
        chosen = choose_round_law(e, d, 5, other)
        reach[other] = chosen.threshold / chosen.rate
    assert 2.5 * reach["exact"] < reach["optimal"] <= reach["basic"]


def test_printed_advanced_composition_is_false() -> None:
    """1000 mechanisms, each (.01, 1e-9)-private, exceed 2 L delta at the epsilon printed in the proof of Lemma 7."""
    rounds, e, d = 1000, Fraction(1, 100), Fraction(1, 10**9)
    printed = Fraction(rounds * float(e) ** 2 + float(e) * math.sqrt(rounds * math.log(1 / float(d * rounds))))
    one = certify_sampling(rate_of(0.001), 3, epsilon=e, delta=MOST)
    kept = type(one)(**{**vars(one), "worst_delta": d, "epsilon": e})
    found = certify_copies(kept, copies=rounds, epsilon=printed, delta=MOST)  # tight for such mechanisms
    assert found.total_delta > 2 * (2 * rounds * d)


def enumerate_tree(counts: dict[str, int], make: TrieRounds) -> Row:
    """The exact law of the released tree, from all numbers of kept votes in each round."""
    law: Row = {}

    def go_on(rounds: TrieRounds, asked: Round, chance: Fraction) -> None:
        votes: dict[str, int] = {}
        for value, units in counts.items():
            node = answer(value, asked)
            if node is not None:
                votes[node] = votes.get(node, 0) + units
        p = asked.rate
        for kept in itertools.product(*(range(units + 1) for units in votes.values())):
            weight = chance
            for v, k in zip(kept, votes.values(), strict=True):
                weight *= math.comb(k, v) * p**v * (1 - p) ** (k - v)
            copy = TrieRounds(rounds.plan)
            copy._nodes, copy._received = list(rounds._nodes), rounds._received
            after = copy.receive(dict(zip(votes, kept, strict=True)))
            if after is None:
                reported = PrefixTree.of_rounds(copy).reported
                law[reported] = law.get(reported, Fraction(0)) + weight
            else:
                go_on(copy, after, weight)

    go_on(make, make.start(), Fraction(1))
    return law


def test_whole_trees_by_enumeration() -> None:
    """The exact law of whole trees of two levels keeps the certificate for every unit that is added or removed."""
    plan = plan_trie("1", "0.02", levels=[1, 2])
    factor = growth(plan.epsilon)
    assert plan.law.threshold <= 4
    data = {"aa": 5, "ab": 2, "b": 4, "a": 1}
    whole = enumerate_tree(data, TrieRounds(plan))
    assert sum(whole.values()) == 1
    worst = Fraction(0)
    for value in data:
        less = enumerate_tree({key: units - (key == value) for key, units in data.items()}, TrieRounds(plan))
        worst = max(worst, divergence(whole, less, factor), divergence(less, whole, factor))
    assert 0 < worst <= plan.law.certificate.total_delta <= plan.delta


def two_levels(same: int, other: int, rate: Fraction, threshold: int, *, one_sample: bool) -> Row:
    """The law of the counts of "a*" and "ab$": `same` units have "ab", `other` have "ac"."""
    both = {v: math.comb(same, v) * rate**v * (1 - rate) ** (same - v) for v in range(same + 1)}
    rest = {v: math.comb(other, v) * rate**v * (1 - rate) ** (other - v) for v in range(other + 1)}
    upper: Row = {}
    law: Row = {}
    for (v, p), (w, q) in itertools.product(both.items(), rest.items()):
        if one_sample:
            shown = v + w if v + w >= threshold else None, v if v >= threshold else None
            law[shown] = law.get(shown, Fraction(0)) + p * q
        else:
            here = v + w if v + w >= threshold else None
            upper[here] = upper.get(here, Fraction(0)) + p * q
    if one_sample:
        return law
    for (first, p), (v, q) in itertools.product(upper.items(), both.items()):
        fresh = first, v if v >= threshold and first is not None else None
        law[fresh] = law.get(fresh, Fraction(0)) + p * q
    return law


def test_one_sample_for_all_levels_is_not_private() -> None:
    """With the same kept units at all levels, one unit that differs is betrayed with about the rate, at any epsilon.

    With fresh coins at each level the same data keeps the certificate.
    """
    plan = plan_trie("1", "0.01", levels=[1, 2])
    p, threshold = plan.law.rate, plan.law.threshold
    many = 3 * math.ceil(threshold / p)
    with_it, without = (two_levels(many, other, p, threshold, one_sample=True) for other in (1, 0))
    assert divergence(with_it, without, growth(Fraction(20))) > Fraction(99, 100) * p > 10 * plan.delta
    fresh, fresh_without = (two_levels(many, other, p, threshold, one_sample=False) for other in (1, 0))
    for pair in ((fresh, fresh_without), (fresh_without, fresh)):
        assert divergence(*pair, growth(plan.epsilon)) <= plan.law.certificate.total_delta


def test_unjudged_laws_are_refused() -> None:
    """A rate that is no multiple of 2^-32, or a threshold of 0, is not judged."""
    for rate, threshold in ((Fraction(1, 3), 5), (Fraction(1, 4), 0)):
        with pytest.raises(PrivacyViolation, match="does not have a rate in units"):
            certify_rounds(rate, threshold, rounds=2, epsilon=Fraction(1), delta=MOST)


def test_merging_far_losses_only_raises_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where losses far from 0 are merged, the bound is above the one without merging, and hardly so by default."""
    p = rate_of(0.15)
    bounds = []
    for lowest, highest in ((1000, 1000), (6, 12), (1, 2)):
        monkeypatch.setattr(rounds_judge, "_LOWEST", lowest)
        monkeypatch.setattr(rounds_judge, "_HIGHEST", highest)
        bounds.append(composed_delta(p, 8, rounds=6, epsilon=Fraction(1, 2), delta=Fraction(1, 1000), steps=8)[0])
    assert bounds[0] <= bounds[1] <= bounds[2]
    assert bounds[1] <= bounds[0] * Fraction(1001, 1000)
