"""The exact privacy profiles of laws, as measures that accounting adds up."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from dptally.errors import InvalidParameter
from dptally.laws.registry import law_from_facts
from dptally.verifiers.loss_measures import LossMeasure, measure_above

__all__ = ["law_measures"]


@lru_cache(maxsize=256)
def law_measures(law: tuple[tuple[str, Any], ...], step: Fraction) -> tuple[LossMeasure, LossMeasure]:
    """The measures above the profile of one draw from a law, for both orders of the two data sets.

    Args:
        law: name and parameters, as `law.facts()` has them.
        step: g.

    Raises:
        InvalidParameter: for a law whose profile is not known.
    """
    try:
        up, down = law_from_facts(dict(law)).profile(step)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidParameter("a part of an event has a law that cannot be accounted for.") from None
    return measure_above(up, down, step), measure_above(down, up, step)
