"""The same composition by Google's dp-accounting, in floating point: a second opinion, never a reason to allow.

Each part's profile, as `dptally.ledger.accounting` has it in exact numbers, is handed over as points of a
privacy loss distribution ("connect the dots", which lies above the profile [DGKKM22]), each number rounded up to the
next float. dp-accounting then convolves by floating-point transforms. It cuts tails pessimistically, but the error of
the transforms themselves, of the order of 1e-15 for each convolution, is not bounded by it: that much is added here
for every part, and the result is still called numerical, not proved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from dptally.errors import MissingDependency
from dptally.ledger.accounting import counted_parts, grid_step, part_measures
from dptally.privacy.spending import Spending
from dptally.verifiers.loss_measures import ONE, LossMeasure

_SLACK = 1e-13  # for each part: far above what a transform of doubles loses on masses that add up to 1


def numerical_delta(events: Iterable[Spending], *, epsilon: Fraction) -> float:
    """delta at `epsilon` of all events together, by dp-accounting.

    Raises:
        MissingDependency: without the extra ``accounting``.
    """
    try:
        from dp_accounting.pld import pld_pmf
    except ImportError:
        raise MissingDependency("numerical totals need dp-accounting: pip install 'dptally[accounting]'.") from None
    parts = counted_parts(events)
    if not parts:
        return 0.0
    step = grid_step(parts, epsilon)
    worst = 0.0
    for order in (0, 1):
        whole = None
        for part, times in parts.items():
            masses, beyond = _masses(part_measures(part, step)[order])
            one = pld_pmf.create_pmf(masses, float(step), beyond, pessimistic_estimate=True)
            one = one.to_dense_pmf() if isinstance(one, pld_pmf.SparsePLDPmf) else one
            one = one.self_compose(times) if times > 1 else one
            whole = one if whole is None else whole.compose(one)
        if whole is not None:
            worst = max(worst, float(whole.get_delta_for_epsilon(float(epsilon))))
    return min(1.0, worst + _SLACK * sum(parts.values()))


def _masses(measure: LossMeasure) -> tuple[dict[int, float], float]:
    """The weights as a loss distribution: rounded up, and what is beyond all factors."""
    found = {
        measure.first + place: math.nextafter(weight / ONE, math.inf)
        for place, weight in enumerate(measure.weights)
        if weight
    }
    return found, math.nextafter(measure.beyond / ONE, math.inf)
