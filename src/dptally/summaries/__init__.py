"""Smaller than the data, and still private."""

from __future__ import annotations

from dptally.summaries.frequencies import Frequencies, count_keys
from dptally.summaries.weighted_sample import SampledFrequencies, sample_keys

__all__ = ["Frequencies", "SampledFrequencies", "count_keys", "sample_keys"]
