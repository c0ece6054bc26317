"""Exact audits of mechanisms in several rounds or levels: prefixes round by round, and trees of counts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dptally.audit.exact_keys import binomial, compare_sampling_rows, compare_shift_rows
from dptally.audit.exact_pure import compare_dense_rows
from dptally.audit.examination import Examination
from dptally.audit.random_settings import RandomSettings
from dptally.laws.range_trees import make_tree_law
from dptally.laws.registry import mechanism_class, mechanism_names
from dptally.laws.round_parameters import choose_round_law
from dptally.privacy.composition import share_between_keys

_LONGEST = 300


def audit_rounds(check: Examination, choose: RandomSettings) -> None:
    """Heavy hitters: the same unit in every round, in a prefix of any frequency.

    Rounds are independent given what was asked, so a unit that has a part in all of them is examined by products of
    binomial rows: written out for two short ones, bounded from below otherwise.
    """
    # Few settings, each of which costs a second to choose a law for: they are kept by the chooser of laws.
    epsilon, delta = Fraction(choose.one_of((1, 2, 3)), 2), Fraction(1, 10 ** choose.one_of((2, 4, 6)))
    rounds, composition = choose.one_of((1, 1, 2, 3, 5)), choose.one_of(("exact", "optimal", "basic"))
    check.claim(epsilon, delta, {"rounds": rounds, "composition": composition})
    law = choose_round_law(*check.made_for(epsilon, delta), rounds, composition)  # type: ignore[arg-type]
    threshold = law.threshold
    kept = 1 - (1 - float(law.rate)) * math.exp(-float(epsilon))
    turn = math.floor(threshold / kept)
    for count in sorted({threshold, turn, turn + 1, *choose.some(threshold, 2 * turn + 4, 2)}):
        if not threshold <= count <= _LONGEST:
            continue
        rows: list[dict[Any, int]] = [binomial(trials, law.rate, threshold) for trials in (count, count - 1)]
        for order in (0, 1):
            pair = (rows[order], rows[1 - order])
            check.several([(*pair, rounds)], f"{rounds} rounds of frequencies {count} and {count - 1}")


def audit_ranges(check: Examination, choose: RandomSettings) -> None:
    """Trees of counts: one node of each level, by the law of each."""
    epsilon, delta = choose.spread(0.5, 5), choose.spread(1e-9, 0.05)
    levels = choose.one_of((1, 2, 3, 5, 8))
    mechanism = choose.one_of([name for name in mechanism_names() if mechanism_class(name).trees])
    pure = mechanism_class(mechanism).pure
    delta = Fraction(0) if pure else delta
    check.claim(epsilon, delta, {"levels": levels, "mechanism": mechanism})
    made_epsilon, made_delta = check.made_for(epsilon, delta)
    law: Any = make_tree_law(made_epsilon, made_delta or None, levels=levels, mechanism=mechanism).law
    if pure:
        check.require(levels * law.epsilon <= epsilon, "levels together spend more than epsilon")
        compare_dense_rows(check, law, epsilon / levels)
        return
    claimed = share_between_keys(epsilon, delta, levels)
    if law.rate is not None:
        compare_sampling_rows(check, law.rate, law.threshold, claimed, law=law)
    else:
        compare_shift_rows(check, law, law.width, claimed)
    check.together(levels, claimed[0])
