"""dptally publishes tables of private keys and counts under differential privacy.

The public names, loaded when first used so that importing the package stays cheap:

- `publish(source, key=, epsilon=, delta=, ...)` makes a `Release`; `load(path)` reads one back;
- `sanitize(sample, scheme, epsilon=, delta=)` makes a sample private that somebody has drawn already;
- `publish_quantiles(source, value=, low=, high=, epsilon=, ...)` makes a `RangeRelease`, which answers quantiles and
  ranges; `load_ranges(path)` reads one back; `find_quantile` searches one quantile;
- `plan(epsilon=, delta=, ...)` says what to expect before any data is read;
- `observation_models`, `randomness`, `errors` are the stages one may want to reach directly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dptally.errors import (
        DptallyError,
        InvalidParameter,
        InvalidSource,
        MissingDependency,
        PrivacyViolation,
        UnreadableRelease,
    )
    from dptally.observation_models.sampling_schemes import Ppswor, Priority, SamplingScheme
    from dptally.pipeline import publish, sanitize
    from dptally.planning import Plan, plan
    from dptally.privacy import Certificate, Guarantee
    from dptally.range_release import RangeRelease
    from dptally.range_release_file import load_ranges
    from dptally.ranges import find_quantile, publish_quantiles
    from dptally.release import Release
    from dptally.release_file import load

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "DptallyError",
    "Guarantee",
    "InvalidParameter",
    "InvalidSource",
    "MissingDependency",
    "Plan",
    "Ppswor",
    "Priority",
    "PrivacyViolation",
    "RangeRelease",
    "Release",
    "SamplingScheme",
    "UnreadableRelease",
    "__version__",
    "find_quantile",
    "load",
    "load_ranges",
    "plan",
    "publish",
    "publish_quantiles",
    "sanitize",
]

_HOMES = {
    "Certificate": "dptally.privacy",
    "DptallyError": "dptally.errors",
    "Guarantee": "dptally.privacy",
    "InvalidParameter": "dptally.errors",
    "InvalidSource": "dptally.errors",
    "MissingDependency": "dptally.errors",
    "Plan": "dptally.planning",
    "Ppswor": "dptally.observation_models.sampling_schemes",
    "Priority": "dptally.observation_models.sampling_schemes",
    "PrivacyViolation": "dptally.errors",
    "RangeRelease": "dptally.range_release",
    "Release": "dptally.release",
    "SamplingScheme": "dptally.observation_models.sampling_schemes",
    "UnreadableRelease": "dptally.errors",
    "find_quantile": "dptally.ranges",
    "load": "dptally.release_file",
    "load_ranges": "dptally.range_release_file",
    "plan": "dptally.planning",
    "publish": "dptally.pipeline",
    "publish_quantiles": "dptally.ranges",
    "sanitize": "dptally.pipeline",
}
_STAGES = ("errors", "estimates", "exact", "observation_models", "plots", "privacy", "randomness")


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _STAGES:
        return importlib.import_module(f"dptally.{name}")
    raise AttributeError(f"module 'dptally' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_STAGES})
