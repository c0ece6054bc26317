"""The laws: P[reported value | true frequency], exact, certified, and free of private data."""

from __future__ import annotations

from dptally.laws.base import Law as ObservationModel
from dptally.laws.bounded_geometric import BoundedGeometric, DyadicGeometric, FastGeometric
from dptally.laws.estimators import Estimator
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.stability import Stability
from dptally.laws.summed_noise import SummedNoise
from dptally.laws.weighted_sample import WeightedSample

__all__ = [
    "BoundedGeometric",
    "DyadicGeometric",
    "Estimator",
    "FastGeometric",
    "GaussianHistogram",
    "ObservationModel",
    "SampleAndThreshold",
    "SharedNoise",
    "Stability",
    "SummedNoise",
    "WeightedSample",
]
