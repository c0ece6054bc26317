"""The laws: P[reported value | true frequency], exact, certified, and free of private data."""

from __future__ import annotations

from dptally.observation_models.base import Estimator, ObservationModel
from dptally.observation_models.sample_and_threshold import SampleAndThreshold
from dptally.observation_models.stability import Stability
from dptally.observation_models.weighted_sample import WeightedSample

__all__ = ["Estimator", "ObservationModel", "SampleAndThreshold", "Stability", "WeightedSample"]
