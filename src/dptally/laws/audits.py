"""What audits need to know of a mechanism, stated beside its spec; `dptally.audit` has the audits themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

BOTH_CONTROLS = {"delta x 4": ("1", "0.01"), "epsilon x 2": ("1", "0.01")}


@dataclass(frozen=True)
class Exact:
    """One exact audit of a mechanism."""

    kind: str = "rows"  # which rows are written out and how they are compared: a name in `dptally.audit.exact_grid`
    weight: int = 2  # how many of the settings it gets, in proportion to others
    title: str = ""  # in reports; the mechanism's name if left out
    # laws made for more than is claimed, which must be found; None for those that the kind can find
    controls: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Audits:
    """How a mechanism is audited. The defaults suit one whose law says row by row what is reported of a key."""

    # exact audits of its laws, for random settings; whether the law uses all of epsilon and delta is not known
    exact: tuple[Exact, ...] = (Exact(controls=()),)
    epsilons: tuple[float, float] = (0.1, 4)  # between which random settings lie
    # how the black-box audit runs it, a name in `dptally.audit.black_box`: "keys" of the data, each by itself; keys
    # of "units" that have one each; all keys of a "universe"; or a "stream", with one sample in each release
    observed: str = "keys"
    frequencies: tuple[int, ...] = (1, 2, 8)  # counts that are looked at, each beside one less, over a universe
    copies: int = 40_000  # keys of each count in one release
    options: Callable[[int], Mapping[str, Any]] = lambda keys: {}  # for a universe of so many keys, numbered from 0
    runs: int = 100_000  # samples of each data set that are enough to find the controls
    # the claims at which so many samples must find releases made for more, by the name of the control
    controls: Mapping[str, tuple[str, str]] = field(default_factory=dict)
