"""The black-box audit: what can be told about neighbouring data sets from many releases, and no more."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dptally.audit.events import Bound, lower_bound
from dptally.audit.observed import (
    Observer,
    Runs,
    observe_keys,
    observe_order,
    observe_ranges,
    observe_sampled,
    observe_sketch,
    observe_tree,
    observe_units,
    observe_universe,
)
from dptally.audit.subjects import DELTA_TIMES_4, OTHERS, asked_for, made_for, mechanisms
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.laws.registry import USUAL, mechanism_class
from dptally.laws.spec import Mechanism
from dptally.randomness import BitSource, SeededBits, SystemBits

_ALPHA = 1e-6


@dataclass(frozen=True)
class BlackBox:
    """A mechanism as the black-box audit sees it, and the name under which it is asked for.

    So many `runs` of each data set show that the `controls` exceed a claim, each with the epsilon and delta claimed.
    """

    name: str
    asked: str
    mechanism: type[Mechanism]
    observe: Observer
    runs: int
    controls: dict[str, tuple[str, str]]


_OBSERVERS: dict[str, Observer] = {
    "keys": observe_keys,
    "units": observe_units,
    "universe": observe_universe,
    "stream": observe_sketch,
}
_MORE_DELTA = {DELTA_TIMES_4: ("1", "0.01")}


def black_boxes() -> tuple[BlackBox, ...]:
    """All there are, in the order of reports."""
    found: list[BlackBox] = []
    for mechanism in mechanisms():
        name, audits = mechanism.name, mechanism.audits
        observe = _OBSERVERS[audits.observed]
        found.append(BlackBox(name, name, mechanism, observe, audits.runs, dict(audits.controls)))
        if mechanism.sampled:
            found.append(BlackBox(f"{name}, sampled", name, mechanism, observe_sampled, 40_000, _MORE_DELTA))
    usual = mechanism_class(USUAL)
    ranges, rounds, _ = OTHERS
    return (
        *found,
        BlackBox("ranges", ranges, usual, observe_ranges, 8_000, _MORE_DELTA),
        BlackBox("heavy hitters", rounds, usual, observe_tree, 10_000, {}),
        BlackBox("order of rows", usual.name, usual, observe_order, 1_000, {}),
    )


@dataclass(frozen=True)
class BlackBoxFinding:
    """What was found about one mechanism."""

    name: str  # of the mechanism, in reports
    control: str  # what releases were made for in place of the claim; empty for the mechanism itself
    epsilon: Fraction  # claimed
    delta: Fraction  # claimed
    bound: Bound  # the lower bound of epsilon at that delta, its event and its data sets
    confidence: float  # with which the bound holds

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
        wanted = box.runs if runs is None else as_count("runs", runs, smallest=10, largest=1 << 40)
        if box.runs < 10_000:  # where a sample is a release of its own, and for polynomials
            wanted = min(wanted, 10 * box.runs)
        findings.append(_audit(box, asked[0], asked[1], wanted, _bits(seed, number), "", alpha))
    return findings


def audit_controls(
    mechanism: str = "all",
    *,
    seed: int | None = None,
    alpha: float = _ALPHA,
    progress: Callable[[str], None] | None = None,
) -> list[BlackBoxFinding]:
    """The same for releases made for more than is claimed; `violated` should be true for all of them."""
    findings = []
    for number, box in enumerate(chosen_boxes(mechanism)):
        for place, (control, (epsilon, delta)) in enumerate(box.controls.items()):
            if progress is not None:
                progress(f"{box.name}, {control}")
            asked = Fraction(epsilon), Fraction(delta)
            bits = _bits(seed, 100 * (number + 1) + place)
            findings.append(_audit(box, *asked, box.runs, bits, control, alpha))
    return findings


def chosen_boxes(name: str) -> tuple[BlackBox, ...]:
    """What is audited under a name."""
    asked = asked_for(name)
    return tuple(box for box in black_boxes() if box.asked in asked)


def _audit(
    box: BlackBox, epsilon: Fraction, delta: Fraction, runs: int, bits: BitSource, control: str, alpha: float
) -> BlackBoxFinding:
    claimed_delta = Fraction(0) if box.mechanism.pure else delta
    # In memory where there is such a place: every file is on disk when it is complete, and there are thousands.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - made-up data, in a directory of its own
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        made = made_for(epsilon, claimed_delta, control)
        pairs = box.observe(Runs(box.mechanism, *made, runs, bits, Path(directory)))
    bound = lower_bound(pairs, epsilon=float(epsilon), delta=float(claimed_delta), alpha=alpha)
    return BlackBoxFinding(box.name, control, epsilon, claimed_delta, bound, 1 - alpha)


def _bits(seed: int | None, number: int) -> BitSource:
    return SystemBits() if seed is None else SeededBits(seed * 10_007 + number)
