"""Laws by the names that release files hold, imported on use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from dptally.laws.base import Law

__all__ = ["LAWS", "law_from_facts"]

LAWS = {  # names in files never change
    "WeightedSample": "dptally.laws.weighted_sample:WeightedSample",
    "Stability": "dptally.laws.stability:Stability",
    "SharedNoise": "dptally.laws.shared_noise:SharedNoise",
    "SummedNoise": "dptally.laws.summed_noise:SummedNoise",
    "GaussianHistogram": "dptally.laws.gaussian_histogram:GaussianHistogram",
    "DyadicGeometric": "dptally.laws.bounded_geometric:DyadicGeometric",
    "SampleAndThreshold": "dptally.laws.sample_and_threshold:SampleAndThreshold",
    "HeaviestNoise": "dptally.laws.top_k_noise:TopKNoise",
}


def law_from_facts(facts: dict[str, Any]) -> Law:
    """Make the law that `facts`, the name and parameters of `law.facts()`, describe.

    Raises:
        KeyError: for a law of another name, or a parameter that is missing.
        InvalidParameter: for a parameter that the law refuses.
    """
    module, _, name = LAWS[facts["name"]].partition(":")
    return cast("Law", getattr(import_module(module), name).from_facts(facts))
