"""What audits need to know of a mechanism, stated beside its spec; `dptally.audit` has the audits themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BOTH_CONTROLS", "Audits", "Exact"]

BOTH_CONTROLS = {"delta x 4": ("1", "0.01"), "epsilon x 2": ("1", "0.01")}


def _no_options(keys: int) -> Mapping[str, Any]:
    del keys
    return {}


@dataclass(frozen=True)
class Exact:
    """One exact audit of a mechanism.

    Attributes:
        kind: which rows are written out and how they are compared: a name in `dptally.audit.exact_grid`.
        weight: how many of the settings it gets, in proportion to others.
        title: in reports; the mechanism's name if left out.
        controls: laws made for more than is claimed, which must be found; None for those that the kind can find.
    """

    kind: str = "rows"
    weight: int = 2
    title: str = ""
    controls: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Audits:
    """How a mechanism is audited. The defaults suit one whose law says row by row what is reported of a key.

    Attributes:
        exact: exact audits of its laws, for random settings.
        epsilons: between which random settings lie.
        observed: how the black-box audit runs it, a name in `dptally.audit.black_box`: "keys" of the data, each by
            itself; all keys of a "universe"; or a "stream", with one sample in each release.
        frequencies: counts that are looked at, each beside one less, over a universe.
        copies: keys of each count in one release.
        options: of the mechanism, for a universe of so many keys, numbered from 0.
        runs: samples of each data set that are enough to find the controls.
        controls: the claims at which so many samples must find releases made for more, by the name of the control.
    """

    exact: tuple[Exact, ...] = (Exact(controls=()),)  # whether its law uses all of epsilon and delta is not known
    epsilons: tuple[float, float] = (0.1, 4)
    observed: str = "keys"
    frequencies: tuple[int, ...] = (1, 2, 8)
    copies: int = 40_000
    options: Callable[[int], Mapping[str, Any]] = _no_options
    runs: int = 100_000
    controls: Mapping[str, tuple[str, str]] = field(default_factory=dict)
