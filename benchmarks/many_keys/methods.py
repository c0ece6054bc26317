"""The methods that are compared, each a function of data, epsilon, delta and a generator that counts released keys.

Parameters are the published defaults, as far as they are known, the same for all data sets; no method's were chosen by
results here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from adaptive_degree import mad, mad2r
from data import DataSet
from own import MissingMechanismError, automatic, automatic_with_counts, former_default, former_gaussian
from policies import greedy_laplace, greedy_published, policy_gaussian
from weighted_gaussian import dp_sips, weighted_gaussian

__all__ = ["METHODS", "Method", "MissingMechanismError"]


@dataclass(frozen=True)
class Method:
    """An entry of the comparison.

    Attributes:
        name: in the results.
        title: on the page.
        kind: "ours" is what dptally does by itself, "counts" the same with counts; "former" what it did; "other" is
            compared with; "unproved" is shown and not compared with.
        setting: in a few words, with the source.
        count: the function.
    """

    name: str
    title: str
    kind: Literal["ours", "counts", "former", "other", "unproved"]
    setting: str
    count: Callable[[DataSet, float, float, np.random.Generator], int]


_GOPI = "Gopi and others, Differentially Private Set Union, 2020"
_CARVALHO = "Carvalho and others, Incorporating Item Frequency for Differentially Private Set Union, 2022"
_CHEN = "Chen and others, Scalable Private Partition Selection via Adaptive Weighting, 2025; reconstructed"

METHODS = {
    method.name: method
    for method in (
        Method("dptally", "dptally", "ours", "automatic, keys only", automatic),
        Method("dptally_counts", "dptally, with counts", "counts", "automatic", automatic_with_counts),
        Method("dptally_former", "dptally, weighted sample", "former", "10 keys per unit", former_default),
        Method("dptally_gaussian", "dptally, Gaussian", "former", "10 keys per unit, with counts", former_gaussian),
        Method("weighted_gaussian", "weighted Gaussian", "other", f"100 keys per unit ({_GOPI})", weighted_gaussian),
        Method(
            "dp_sips",
            "DP-SIPS",
            "other",
            "three rounds with shares .05, .15, .8, 100 keys per unit (Swanberg and others, DP-SIPS: A simpler, more "
            "scalable mechanism for differentially private partition selection, 2023)",
            dp_sips,
        ),
        Method(
            "policy_gaussian",
            "policy Gaussian",
            "other",
            f"sequential; 100 keys per unit, alpha = 3 ({_GOPI})",
            policy_gaussian,
        ),
        Method("mad", "MAD", "other", f"100 keys per unit, adaptive up to 50, beta = 2 ({_CHEN})", mad),
        Method("mad2r", "MAD2R", "other", f"two rounds with shares .1, .9, biases from 1/2 to 2 ({_CHEN})", mad2r),
        Method(
            "greedy_laplace",
            "greedy",
            "other",
            f"sequential; 100 keys per unit, alpha = 3, threshold as proved here ({_CARVALHO})",
            greedy_laplace,
        ),
        Method(
            "greedy_published",
            "greedy, published threshold",
            "unproved",
            f"sequential; all keys, alpha = 3 ({_CARVALHO})",
            greedy_published,
        ),
    )
}
