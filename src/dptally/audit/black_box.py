"""The black-box audit: what can be told about neighbouring data sets from many releases, and no more."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.audit.controls import DELTA_TIMES_4, EPSILON_TIMES_2, made_for
from dptally.audit.events import Bound, lower_bound
from dptally.audit.observed import (
    Observer,
    observe_compact,
    observe_dense,
    observe_keys,
    observe_order,
    observe_ranges,
    observe_sketch,
    observe_sparse,
    observe_tree,
)
from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.laws.sampling_schemes import Ppswor
from dptally.randomness import SeededBits, SystemBits

if TYPE_CHECKING:
    from collections.abc import Callable

    from dptally.randomness import BitSource

__all__ = ["BLACK_BOXES", "BlackBox", "BlackBoxFinding", "audit_black_box", "audit_controls"]

_ALPHA = 1e-6


@dataclass(frozen=True)
class BlackBox:
    """A mechanism as the black-box audit sees it.

    Attributes:
        name: in reports.
        mechanism: as it is asked for.
        observe: how it is run.
        pure: whether delta is 0.
        runs: how many samples of each data set are enough to find the controls below.
        controls: what this many samples show to exceed a claim, each with the epsilon and delta claimed.
    """

    name: str
    mechanism: str
    observe: Observer
    pure: bool
    runs: int
    controls: dict[str, tuple[str, str]]


def _sampled(*arguments: Any) -> Any:
    return partial(observe_keys, sampling=Ppswor("0.3"))(*arguments)


_BOTH = {DELTA_TIMES_4: ("1", "0.01"), EPSILON_TIMES_2: ("1", "0.01")}

BLACK_BOXES = (
    BlackBox(
        "weighted_sample",
        "weighted_sample",
        observe_keys,
        False,
        100_000,
        _BOTH,
    ),
    BlackBox("weighted_sample, sampled", "weighted_sample", _sampled, False, 40_000, {DELTA_TIMES_4: ("1", "0.01")}),
    BlackBox(
        "stability",
        "stability",
        observe_keys,
        False,
        100_000,
        _BOTH,
    ),
    BlackBox(
        "gaussian",
        "gaussian",
        observe_keys,
        False,
        100_000,
        _BOTH,
    ),
    BlackBox(
        "sample_and_threshold",
        "sample_and_threshold",
        observe_keys,
        False,
        100_000,
        {DELTA_TIMES_4: ("1", "0.01")},
    ),
    BlackBox(
        "misra_gries",
        "misra_gries",
        observe_sketch,
        False,
        1_000,
        {DELTA_TIMES_4: ("0.3", "0.1")},
    ),
    BlackBox("dense", "dense", observe_dense, True, 100_000, {EPSILON_TIMES_2: ("1", "0")}),
    BlackBox("sparse", "sparse", observe_sparse, True, 40_000, {EPSILON_TIMES_2: ("1", "0")}),
    BlackBox("compact", "compact", observe_compact, True, 7_000, {}),
    BlackBox("ranges", "ranges", observe_ranges, False, 8_000, {DELTA_TIMES_4: ("1", "0.01")}),
    BlackBox("heavy hitters", "heavy_hitters", observe_tree, False, 10_000, {}),
    BlackBox("order of rows", "weighted_sample", observe_order, False, 1_000, {}),
)


@dataclass(frozen=True)
class BlackBoxFinding:
    """What was found about one mechanism.

    Attributes:
        name: of the mechanism, in reports.
        control: what releases were made for in place of the claim; empty for the mechanism itself.
        epsilon: claimed.
        delta: claimed.
        bound: the lower bound of epsilon at that delta, its event and its data sets.
        confidence: with which the bound holds.
    """

    name: str
    control: str
    epsilon: Fraction
    delta: Fraction
    bound: Bound
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the bound is above what is claimed."""
        return self.bound.epsilon > float(self.epsilon)

    def describe(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "mechanism": self.name,
            "control": self.control,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "lower_bound": self.bound.epsilon,
            "event": self.bound.event,
            "neighbours": self.bound.neighbours,
            "hits": list(self.bound.hits),
            "runs": list(self.bound.runs),
            "confidence": self.confidence,
            "violated": self.violated,
        }


def audit_black_box(
    mechanism: str = "all",
    *,
    epsilon: object = "1",
    delta: object = "0.01",
    runs: int | None = None,
    seed: int | None = None,
    alpha: float = _ALPHA,
    progress: Callable[[str], None] | None = None,
) -> list[BlackBoxFinding]:
    """Bound the epsilon of mechanisms from below, from what they release.

    Args:
        mechanism: a mechanism's name, or "all".
        epsilon: to ask for, and to hold the bound against.
        delta: likewise; left aside for mechanisms with delta = 0.
        runs: samples of each data set, half of which choose the event; None for a number that suits the mechanism.
        seed: to repeat everything; None for fresh secret bits.
        alpha: the probability with which a bound may be above the truth, for each mechanism.
        progress: called with what is about to be audited.

    Returns:
        list: one finding for each mechanism; `violated` should be false for all of them.
    """
    asked = as_epsilon(epsilon), as_delta(delta)
    findings = []
    for number, box in enumerate(chosen_boxes(mechanism)):
        if progress is not None:
            progress(box.name)
        wanted = box.runs if runs is None else _most_runs(box, as_count("runs", runs, smallest=10, largest=1 << 40))
        findings.append(_audit(box, asked[0], asked[1], wanted, _bits(seed, number), "", alpha))
    return findings


def audit_controls(
    mechanism: str = "all",
    *,
    seed: int | None = None,
    alpha: float = _ALPHA,
    progress: Callable[[str], None] | None = None,
) -> list[BlackBoxFinding]:
    """The same for releases made for more than is claimed; `violated` should be true for all of them.

    Args:
        mechanism: a mechanism's name, or "all".
        seed: to repeat everything; None for fresh secret bits.
        alpha: as for `audit_black_box`.
        progress: called with what is about to be audited.
    """
    findings = []
    for number, box in enumerate(chosen_boxes(mechanism)):
        for place, (control, (epsilon, delta)) in enumerate(box.controls.items()):
            if progress is not None:
                progress(f"{box.name}, {control}")
            asked = Fraction(epsilon), Fraction(delta)
            bits = _bits(seed, 100 * (number + 1) + place)
            findings.append(_audit(box, *asked, box.runs, bits, control, alpha))
    return findings


def chosen_boxes(mechanism: str) -> tuple[BlackBox, ...]:
    """What is audited under a name."""
    if mechanism == "all":
        return BLACK_BOXES
    found = tuple(box for box in BLACK_BOXES if mechanism in (box.mechanism, box.name))
    if not found:
        names = sorted({box.mechanism for box in BLACK_BOXES})
        raise InvalidParameter(f"mechanism must be 'all' or one of {', '.join(names)}, got {mechanism[:40]!r}.")
    return found


def _most_runs(box: BlackBox, runs: int) -> int:
    """Where a sample is a release of its own, and for polynomials, no more than ten times the usual number."""
    return min(runs, 10 * box.runs) if box.runs < 10_000 else runs


def _audit(
    box: BlackBox, epsilon: Fraction, delta: Fraction, runs: int, bits: BitSource, control: str, alpha: float
) -> BlackBoxFinding:
    promised = Fraction(0) if box.pure else delta
    # In memory where there is such a place: every file is on disk when it is complete, and there are thousands.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - made-up data, in a directory of its own
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        pairs = box.observe(box.mechanism, *made_for(epsilon, promised, control), runs, bits, Path(directory))
    bound = lower_bound(pairs, epsilon=float(epsilon), delta=float(promised), alpha=alpha)
    return BlackBoxFinding(box.name, control, epsilon, promised, bound, 1 - alpha)


def _bits(seed: int | None, number: int) -> BitSource:
    return SystemBits() if seed is None else SeededBits(seed * 10_007 + number)
