"""The laws: P[reported value | true frequency], exact, certified, and free of private data."""

from __future__ import annotations

from dptally.observation_models.base import Estimator, ObservationModel
from dptally.observation_models.bounded_geometric import BoundedGeometric, DyadicGeometric, FastGeometric
from dptally.observation_models.gaussian_histogram import GaussianHistogram
from dptally.observation_models.sample_and_threshold import SampleAndThreshold
from dptally.observation_models.shared_noise import SharedNoise
from dptally.observation_models.stability import Stability
from dptally.observation_models.summed_noise import SummedNoise
from dptally.observation_models.weighted_sample import WeightedSample

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
