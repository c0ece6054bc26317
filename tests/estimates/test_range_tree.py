"""Trees of counts: parts, agreement of nodes, and the walk that bounds a quantile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptally.estimates.range_tree import RangeTree
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.sample_and_threshold import SampleAndThreshold

SAMPLED = SampleAndThreshold("1/2", "1e-4")
NOISY = DyadicGeometric("1/2", 1 << 30)


def levels_of(leaves: list[int], fan: int) -> list[np.ndarray]:
    """True counts of all levels, slowly."""
    levels = [leaves]
    while len(levels[0]) > fan:
        below = levels[0]
        levels.insert(0, [sum(below[at : at + fan]) for at in range(0, len(below), fan)])
    return [np.array(level, dtype=np.int64) for level in levels]


def tree(leaves: list[int], fan: int, law: SampleAndThreshold | DyadicGeometric = NOISY) -> RangeTree:
    """A tree that reports these counts themselves, where the law may report them."""
    values = levels_of(leaves, fan)
    if isinstance(law, SampleAndThreshold):
        values = [law.report(level) for level in values]
        return RangeTree(law.node_sums(), fan, values, [level > 0 for level in values])
    return RangeTree(law.node_sums(), fan, values, [np.ones(len(level), dtype=bool) for level in values])


counts = st.lists(st.integers(0, 60), min_size=2, max_size=70)
fans = st.integers(2, 5)


@given(counts, fans, st.data())
def test_parts_are_the_leaves_asked_for_in_few_nodes(leaves: list[int], fan: int, data: st.DataObject) -> None:
    """A part adds up to its leaves and takes at most 2 (fan - 1) nodes of a level, at most fan of the first one."""
    made = tree(leaves, fan)
    first = data.draw(st.integers(0, len(leaves) - 1))
    after = data.draw(st.integers(first + 1, len(leaves)))
    part = made.part(first, after)
    assert part.sums[0] == sum(leaves[first:after])
    assert 1 <= part.nodes[0] <= 2 * (fan - 1) * (len(made.values) - 1) + fan


@given(counts, fans)
def test_both_sides_of_all_edges_are_the_parts(leaves: list[int], fan: int) -> None:
    """What is computed for all edges at once is what the slow walk finds for each of them."""
    made = tree(leaves, fan, SAMPLED)
    edges = np.arange(1, len(leaves))
    before, after = made._beside(edges, left=True), made._beside(edges, left=False)
    for place, edge in enumerate(edges.tolist()):
        for many, one in ((before, made.part(0, edge)), (after, made.part(edge, len(leaves)))):
            assert [many.sums[place], many.nodes[place], many.hidden[place]] == [
                one.sums[0],
                one.nodes[0],
                one.hidden[0],
            ]


@settings(max_examples=60)
@given(st.lists(st.integers(-30, 60), min_size=2, max_size=70), fans, st.integers(0, 2**32), st.booleans())
def test_children_add_up_and_nothing_is_negative(leaves: list[int], fan: int, seed: int, sampled: bool) -> None:
    """Whatever was released, consistent estimates of children add up to their parent, and none is negative."""
    noise = np.random.default_rng(seed)
    law = SAMPLED if sampled else NOISY
    levels = [level + noise.integers(-20, 20, len(level)) for level in levels_of(leaves, fan)]
    if sampled:
        levels = [SAMPLED.report(level) for level in levels]
    made = RangeTree(law.node_sums(), fan, levels, [level > 0 if sampled else level == level for level in levels])
    for parents, children in zip(made.consistent, made.consistent[1:], strict=False):
        padded = np.zeros(len(parents) * fan)
        padded[: len(children)] = children
        assert padded.reshape(-1, fan).sum(axis=1) == pytest.approx(parents, abs=1e-6)
    assert all((level >= 0).all() for level in made.consistent)
    assert (np.diff(made.cumulative) >= 0).all()


@given(counts, fans)
def test_hidden_nodes_cost_a_rank_linearly_in_the_threshold(leaves: list[int], fan: int) -> None:
    """At most (fan - 1) nodes of a level are before an edge, and each hides at most t - 1 kept units: Lemma 9, exactly.

    So thresholding takes at most L (fan - 1) (t - 1) kept units off any rank, L levels, and the upper bound adds as
    many as are hidden.
    """
    made = tree(leaves, fan, SAMPLED)
    edges = np.arange(1, len(leaves))
    before = made._beside(edges, left=True)
    lost = np.cumsum(leaves)[:-1] - before.sums
    most = SAMPLED.threshold - 1
    assert (lost >= 0).all() and (lost <= before.hidden * most).all()
    assert (before.hidden <= (fan - 1) * len(made.values)).all()
    bounds = SAMPLED.node_sums()
    reached = bounds.upper(before.sums, before.nodes, before.hidden, 0.1)
    assert reached == pytest.approx(bounds.upper(before.sums + before.hidden * most, before.nodes, 0 * edges, 0.1))


@given(counts, fans)
def test_counts_that_agree_stay_as_they_are(leaves: list[int], fan: int) -> None:
    """Without noise, consistent estimates are the counts."""
    assert tree(leaves, fan).consistent[-1] == pytest.approx(leaves, abs=1e-6)


def test_agreement_is_weighted_least_squares() -> None:
    """Where nothing is clipped and all variances are equal, the two passes give the least squares solution."""
    noise = np.random.default_rng(5)
    levels = [level + noise.integers(-3, 4, len(level)) for level in levels_of([100 + 7 * at for at in range(27)], 3)]
    made = RangeTree(NOISY.node_sums(), 3, levels, [np.ones(len(level), dtype=bool) for level in levels])
    design = np.concatenate([np.kron(np.eye(len(level)), np.ones(27 // len(level))) for level in levels])
    leaves = np.linalg.lstsq(design, np.concatenate(levels).astype(float), rcond=None)[0]
    assert made.consistent[-1] == pytest.approx(leaves, abs=1e-6)


def test_a_hidden_child_takes_most_of_the_remainder() -> None:
    """Of what reported children leave of their parent, a hidden sibling gets more than they give way."""
    values = [np.array([100]), np.array([80, 0])]
    made = RangeTree(SAMPLED.node_sums(), 2, values, [level > 0 for level in values])
    alone = 80 / float(SAMPLED.rate)
    reported, hidden = made.consistent[1]
    assert hidden > 0
    assert reported + hidden == pytest.approx(made.consistent[0][0])
    assert alone <= reported + hidden <= 100 / float(SAMPLED.rate)


@given(counts, fans, st.floats(0.01, 0.99))
def test_quantile_bounds_hold_the_quantile_of_true_counts(leaves: list[int], fan: int, q: float) -> None:
    """Released counts without noise are the likeliest case: the true leaf is within the bounds."""
    if not sum(leaves):
        return
    cumulative = np.cumsum(leaves)
    true = int(np.searchsorted(cumulative, q * cumulative[-1] * (1 - 1e-12)))
    first, last = tree(leaves, fan).quantile_bounds(q, 0.05)
    assert first <= true <= last
