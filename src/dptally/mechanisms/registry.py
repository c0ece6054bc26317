"""The private halves by the name of their mechanism, imported on use. The keys are those of `dptally.laws.registry`."""

from __future__ import annotations

from importlib import import_module
from typing import Any, cast

from dptally.errors import InvalidParameter
from dptally.laws.spec import Question
from dptally.mechanisms.base import Draw
from dptally.randomness import BitSource

DRAWS = {
    "weighted_sample": "dptally.mechanisms.weighted_sample",
    "stability": "dptally.mechanisms.independent_keys",
    "gaussian": "dptally.mechanisms.independent_keys",
    "rounds": "dptally.mechanisms.rounds",
    "sample_and_threshold": "dptally.mechanisms.independent_keys",
    "misra_gries": "dptally.mechanisms.sketches",
    "dense": "dptally.mechanisms.dense",
    "sparse": "dptally.mechanisms.sparse",
    "compact": "dptally.mechanisms.compact",
    "ranges": "dptally.mechanisms.ranges",
    "prefixes": "dptally.mechanisms.prefixes",
}


_OUTSIDE: dict[str, Draw] = {}


def add_draw(mechanism: str, function: Draw) -> None:
    """Add the private half of a mechanism from outside; see `dptally.register`.

    Raises InvalidParameter if there is one already.
    """
    if mechanism in DRAWS or _OUTSIDE.get(mechanism, function) is not function:
        raise InvalidParameter(f"there is a mechanism {mechanism!r} already, and it cannot be replaced.")
    _OUTSIDE[mechanism] = function


def draw(mechanism: str, question: Question, summary: Any, bits: BitSource) -> Any:
    """Sample the output of one stage.

    Raises InvalidParameter if contributions were not bounded as the law was certified for; nothing was drawn.
    """
    bounded = getattr(summary, "max_keys_per_unit", question.max_keys_per_unit)
    if bounded > question.max_keys_per_unit:
        raise InvalidParameter(
            f"the mechanism protects units with at most {question.max_keys_per_unit} keys, "
            f"but contributions were bounded at {bounded}."
        )
    if mechanism in _OUTSIDE:
        return _OUTSIDE[mechanism](question, summary, bits)
    return cast("Draw", import_module(DRAWS[mechanism]).draw)(question, summary, bits)
