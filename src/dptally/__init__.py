"""dptally publishes tables of private keys and counts under differential privacy.

The public names, loaded when first used so that importing the package stays cheap:

- `publish(source, key=, epsilon=, delta=, ...)` makes a `Release`; `load(path)` reads a release of any kind back;
- `sanitize(sample, scheme, epsilon=, delta=)` makes a sample private that somebody has drawn already;
- `MisraGriesSketch(capacity)` and `UserMisraGriesSketch(capacity, max_keys_per_unit)` hold streams in bounded memory;
  `sum_sketches` adds them up, `load_sketch(path)` reads one back, `combine(releases)` adds up what was published;
- `publish_quantiles(source, value=, low=, high=, epsilon=, ...)` makes a `RangeRelease`, which answers quantiles and
  ranges; `load_ranges(path)` reads one back and nothing else; `find_quantile` searches one quantile;
- `plan(epsilon=, delta=, ...)` says what to expect before any data is read;
- `Ledger(path, epsilon=, delta=)` is a budget that releases spend, on disk before anything is drawn;
- `CompactRelease` is what the mechanism "compact" makes; `universes` are sets of keys for mechanisms with delta = 0;
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
    from dptally.laws.sampling_schemes import Ppswor, Priority, SamplingScheme
    from dptally.ledger import Ledger
    from dptally.planning import Plan, plan
    from dptally.privacy.guarantee import Guarantee
    from dptally.publishing import publish, sanitize
    from dptally.quantiles import find_quantile, publish_quantiles
    from dptally.releases.any_release import load
    from dptally.releases.combined_releases import CombinedReleases, combine
    from dptally.releases.compact_release import CompactRelease
    from dptally.releases.range_release import RangeRelease
    from dptally.releases.range_release_file import load_ranges
    from dptally.releases.release import Release
    from dptally.sketches import MisraGriesSketch, UserMisraGriesSketch, load_sketch, sum_sketches
    from dptally.verifiers.tables import Certificate

__version__ = "0.1.0"

__all__ = [
    "BudgetExceeded",
    "Certificate",
    "CombinedReleases",
    "CompactRelease",
    "DptallyError",
    "Guarantee",
    "InvalidParameter",
    "InvalidSource",
    "Ledger",
    "MisraGriesSketch",
    "MissingDependency",
    "Plan",
    "Ppswor",
    "Priority",
    "PrivacyViolation",
    "RangeRelease",
    "Release",
    "SamplingScheme",
    "UnreadableLedger",
    "UnreadableRelease",
    "UserMisraGriesSketch",
    "__version__",
    "combine",
    "find_quantile",
    "load",
    "load_ranges",
    "load_sketch",
    "plan",
    "publish",
    "publish_quantiles",
    "sanitize",
    "sum_sketches",
]

_HOMES = {
    "BudgetExceeded": "dptally.errors",
    "Certificate": "dptally.privacy",
    "CombinedReleases": "dptally.releases.combined_releases",
    "CompactRelease": "dptally.releases.compact_release",
    "DptallyError": "dptally.errors",
    "Guarantee": "dptally.privacy",
    "InvalidParameter": "dptally.errors",
    "InvalidSource": "dptally.errors",
    "Ledger": "dptally.ledger",
    "MisraGriesSketch": "dptally.sketches",
    "MissingDependency": "dptally.errors",
    "Plan": "dptally.planning",
    "Ppswor": "dptally.laws.sampling_schemes",
    "Priority": "dptally.laws.sampling_schemes",
    "PrivacyViolation": "dptally.errors",
    "RangeRelease": "dptally.releases.range_release",
    "Release": "dptally.releases.release",
    "SamplingScheme": "dptally.laws.sampling_schemes",
    "UnreadableLedger": "dptally.errors",
    "UnreadableRelease": "dptally.errors",
    "UserMisraGriesSketch": "dptally.sketches",
    "combine": "dptally.releases.combined_releases",
    "load_sketch": "dptally.sketches",
    "find_quantile": "dptally.quantiles",
    "load": "dptally.releases.any_release",
    "load_ranges": "dptally.releases.range_release_file",
    "plan": "dptally.planning",
    "publish": "dptally.publishing",
    "publish_quantiles": "dptally.quantiles",
    "sanitize": "dptally.publishing",
    "sum_sketches": "dptally.sketches",
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
