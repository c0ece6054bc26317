"""Exact numbers: parameters as fractions, and rational bounds of the exponential."""

from __future__ import annotations

from dptally.exact.exponential import exp_bounds
from dptally.exact.parameters import as_count, as_delta, as_epsilon, as_fraction

__all__ = ["as_count", "as_delta", "as_epsilon", "as_fraction", "exp_bounds"]
