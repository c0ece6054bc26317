"""dptally publishes tables of private keys and counts under differential privacy.

The public names, loaded when first used so that importing the package stays cheap:

- `publish(source, key=, epsilon=, delta=, ...)` makes a `Release`; `load(path)` reads any file back;
- `sanitize(sample, scheme, epsilon=, delta=)` makes a sample private that somebody has drawn already;
- `MisraGriesSketch(capacity)` and `UserMisraGriesSketch(capacity, max_keys_per_unit)` hold streams in bounded memory;
  `sum_sketches` adds them up, `load_sketch(path)` reads one back, `combine(releases)` adds up what was published;
- `publish_quantiles(source, value=, low=, high=, epsilon=, ...)` makes a `RangeRelease`, which answers quantiles and
  ranges; `load_ranges(path)` reads one back and nothing else; `find_quantile` searches one quantile;
- `publish_heavy_hitters(source, key=, epsilon=, ...)` finds frequent strings, as a tree of prefixes;
- `WeightedSample`, `Stability`, `Gaussian`, `Rounds`, `SampleAndThreshold`, `MisraGries`, `Dense`, `Sparse` and
  `Compact` are mechanisms with their options, for ``publish(mechanism=...)``;
- `Series.create(path, key=, unit=, periods=, ...)` is a table that grows period by period under one guarantee;
- `plan(epsilon=, delta=, ...)` says what to expect before any data is read;
- `Ledger(path, epsilon=, delta=)` is a budget that releases spend, on disk before anything is drawn;
- `CompactRelease` is what the mechanism "compact" makes; `universes` are sets of keys for mechanisms with delta = 0;
- `register(mechanism, law=, draw=)` adds a mechanism from outside of the package;
- `report.write(release, path)` makes a page about a release, to show to anyone;
- `observation_models`, `randomness`, `errors` are the stages one may want to reach directly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dptally.errors import (
        BudgetExceeded,
        DptallyError,
        InvalidParameter,
        InvalidSource,
        MissingDependency,
        PrivacyViolation,
        UnreadableLedger,
        UnreadableRelease,
    )
    from dptally.extending import register
    from dptally.heavy_hitters import publish_heavy_hitters
    from dptally.laws.sampling_schemes import Ppswor, Priority, SamplingScheme
    from dptally.laws.specs.compact import Compact
    from dptally.laws.specs.dense import Dense
    from dptally.laws.specs.gaussian import Gaussian
    from dptally.laws.specs.misra_gries import MisraGries
    from dptally.laws.specs.rounds import Rounds
    from dptally.laws.specs.sample_and_threshold import SampleAndThreshold
    from dptally.laws.specs.sparse import Sparse
    from dptally.laws.specs.stability import Stability
    from dptally.laws.specs.weighted_sample import WeightedSample
    from dptally.ledger import Ledger
    from dptally.loading import load, load_ranges
    from dptally.plan_requests import plan
    from dptally.planning import Plan
    from dptally.privacy.guarantee import Guarantee
    from dptally.publishing import publish, sanitize
    from dptally.quantiles import find_quantile, publish_quantiles
    from dptally.releases.base import Release
    from dptally.releases.combined_releases import CombinedReleases, combine
    from dptally.releases.compact_release import CompactRelease
    from dptally.releases.prefix_tree import PrefixTree
    from dptally.releases.range_release import RangeRelease
    from dptally.releases.series_release import SeriesRelease
    from dptally.releases.table_release import TableRelease
    from dptally.series.series import Series
    from dptally.sketches import MisraGriesSketch, UserMisraGriesSketch, load_sketch, sum_sketches
    from dptally.verifiers.tables import Certificate

__version__ = "0.1.0"

__all__ = [
    "BudgetExceeded",
    "Certificate",
    "CombinedReleases",
    "Compact",
    "CompactRelease",
    "Dense",
    "DptallyError",
    "Gaussian",
    "Guarantee",
    "InvalidParameter",
    "InvalidSource",
    "Ledger",
    "MisraGries",
    "MisraGriesSketch",
    "MissingDependency",
    "Plan",
    "Ppswor",
    "PrefixTree",
    "Priority",
    "PrivacyViolation",
    "RangeRelease",
    "Release",
    "Rounds",
    "SampleAndThreshold",
    "SamplingScheme",
    "Series",
    "SeriesRelease",
    "Sparse",
    "Stability",
    "TableRelease",
    "UnreadableLedger",
    "UnreadableRelease",
    "UserMisraGriesSketch",
    "WeightedSample",
    "__version__",
    "combine",
    "find_quantile",
    "load",
    "load_ranges",
    "load_sketch",
    "plan",
    "publish",
    "publish_heavy_hitters",
    "publish_quantiles",
    "register",
    "sanitize",
    "sum_sketches",
]

_HOMES = {
    "BudgetExceeded": "dptally.errors",
    "Certificate": "dptally.privacy",
    "combine": "dptally.releases.combined_releases",
    "CombinedReleases": "dptally.releases.combined_releases",
    "Compact": "dptally.laws.specs.compact",
    "CompactRelease": "dptally.releases.compact_release",
    "Dense": "dptally.laws.specs.dense",
    "DptallyError": "dptally.errors",
    "find_quantile": "dptally.quantiles",
    "Gaussian": "dptally.laws.specs.gaussian",
    "Guarantee": "dptally.privacy",
    "InvalidParameter": "dptally.errors",
    "InvalidSource": "dptally.errors",
    "Ledger": "dptally.ledger",
    "load": "dptally.loading",
    "load_ranges": "dptally.loading",
    "load_sketch": "dptally.sketches",
    "MisraGries": "dptally.laws.specs.misra_gries",
    "MisraGriesSketch": "dptally.sketches",
    "MissingDependency": "dptally.errors",
    "Plan": "dptally.planning",
    "plan": "dptally.plan_requests",
    "PrefixTree": "dptally.releases.prefix_tree",
    "Ppswor": "dptally.laws.sampling_schemes",
    "Priority": "dptally.laws.sampling_schemes",
    "PrivacyViolation": "dptally.errors",
    "publish": "dptally.publishing",
    "publish_heavy_hitters": "dptally.heavy_hitters",
    "publish_quantiles": "dptally.quantiles",
    "RangeRelease": "dptally.releases.range_release",
    "Release": "dptally.releases.base",
    "Rounds": "dptally.laws.specs.rounds",
    "SampleAndThreshold": "dptally.laws.specs.sample_and_threshold",
    "SamplingScheme": "dptally.laws.sampling_schemes",
    "register": "dptally.extending",
    "sanitize": "dptally.publishing",
    "Series": "dptally.series.series",
    "SeriesRelease": "dptally.releases.series_release",
    "Sparse": "dptally.laws.specs.sparse",
    "Stability": "dptally.laws.specs.stability",
    "sum_sketches": "dptally.sketches",
    "TableRelease": "dptally.releases.table_release",
    "UnreadableLedger": "dptally.errors",
    "UnreadableRelease": "dptally.errors",
    "UserMisraGriesSketch": "dptally.sketches",
    "WeightedSample": "dptally.laws.specs.weighted_sample",
}
_STAGES = (
    "errors",
    "estimates",
    "exact",
    "observation_models",
    "privacy",
    "randomness",
    "report",
    "universes",
)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _STAGES:
        return importlib.import_module(f"dptally.{name}")
    if name == "plots":
        return importlib.import_module("dptally.report.plots")
    raise AttributeError(f"module 'dptally' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_STAGES, "plots"})
