"""Which mechanisms a request allows, and the law of each: made from parameters alone, and kept for the next question.

Nothing is verified here: a plan spends nothing. What is published is verified before data is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.exact.searching import first_from
from dptally.laws.base import Reporting
from dptally.laws.key_errors import KeyErrors
from dptally.laws.registry import USUAL, mechanism_class, mechanism_names
from dptally.laws.round_parameters import choose_round_law
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_schemes import Scheme
from dptally.laws.spec import Request, Spec
from dptally.privacy.composition import LARGEST_UNIT

USUAL_CAPACITY = 10_000
_FARTHEST = 1 << 40  # frequencies that are looked at for a tree of prefixes
TREE = "heavy_hitters"
"""The name of trees of prefixes in a plan."""


@dataclass(frozen=True)
class _Sized:
    """A universe of which a plan knows the name and the size."""

    name: str
    size: int
    type = indices = keys = None


@dataclass(frozen=True)
class Setting:
    """Everything that decides which laws there are. Public."""

    epsilon: Fraction  # for the unit
    delta: Fraction  # for the unit; 0 for mechanisms over a universe alone
    max_keys_per_unit: int = 1
    by_unit: bool = False  # whether rows belong to units of a column, of which a unit may have several
    measured: bool = False  # whether the keys of units have no stated bound, for a mechanism that measures them
    values: bool = True
    sampling: Scheme | None = None
    capacity: int = USUAL_CAPACITY  # of sketches, of sparse and compact releases
    universe: str | None = None
    universe_size: int = 0
    levels: int | None = None  # of a tree of prefixes, or None for no tree
    rows: int | None = None  # the supposed number of counts, where a sampling rate depends on it


@dataclass(frozen=True)
class Planned:
    """One mechanism of a plan."""

    name: str  # as in `publish`; with sampling, the scheme beside it
    law: Reporting  # of one key
    at_least: bool = False  # whether reporting probabilities are lower bounds rather than exact
    note: str = ""  # what else to know, in a sentence
    of_counters: bool = False  # whether counts are those of a sketch

    @property
    def hides(self) -> bool:
        """Whether a key may be left out; a mechanism that answers for every key has nothing to report."""
        return self.law.first_frequency(Fraction(1, 2)) != 0


class AllLevels(Reporting):
    """A tree of prefixes: a value is found if all of its prefixes are, each in a fresh sample.

    A prefix occurs at least as often as the value. So P[found] >= P[Binomial(w, rate) >= threshold]^levels.
    """

    at_least = True
    endless = True
    independent = False

    def __init__(self, law: SampleAndThreshold, levels: int) -> None:
        self.level, self.levels = law, levels

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """A lower bound of the probability that a value of this frequency is found."""
        # Rounded down to a multiple of 2^-256, as powers would have thousands of digits, and lowered by 2^-240, which
        # is more than what chances may be off.
        found = self.level.chance(true_frequency) ** self.levels
        return Fraction(max(0, (found.numerator << 256) // found.denominator - (1 << 16)), 1 << 256)

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency with at least this lower bound, or None for 1."""
        if probability >= 1:
            return None
        found = first_from(lambda w: self.reporting_probability(w) >= probability, 1, _FARTHEST + 1)
        return found if found <= _FARTHEST else None

    def key_errors(self, frequencies: NDArray[np.float64]) -> KeyErrors | None:
        """Those of the last level."""
        return self.level.key_errors(frequencies)

    def interval_width(self, frequency: int | None, beta: Fraction) -> int | None:
        """That of the last level."""
        return self.level.interval_width(frequency, beta)


def sampled_name(scheme: Scheme) -> str:
    """What the mechanism that takes samples is called with sampling, beside the one without."""
    return f"{USUAL} {scheme}"


def planned_laws(
    epsilon: object,
    delta: object = None,
    *,
    max_keys_per_unit: int = 1,
    sampling: Scheme | None = None,
    capacity: int | None = None,
    mechanisms: Sequence[str] | None = None,
) -> dict[str, Reporting]:
    """The laws that these parameters allow, by name: what `reporting_curves` takes. They are kept for the next call.

    Args:
        epsilon: for the unit.
        delta: for the unit.
        max_keys_per_unit: bound on what one unit touches.
        sampling: how keys are sampled.
        capacity: of a sketch.
        mechanisms: names to leave out the others; None for all that apply.

    >>> sorted(planned_laws(1, "1e-6"))
    ['gaussian', 'misra_gries', 'rounds', 'sample_and_threshold', 'stability', 'weighted_sample']
    """
    setting = Setting(
        as_epsilon(epsilon),
        Fraction(0) if delta is None else as_delta(delta),
        as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT),
        sampling=sampling,
        capacity=USUAL_CAPACITY if capacity is None else as_count("capacity", capacity, largest=1 << 30),
    )
    planned, _ = choose_mechanisms(setting, mechanisms)
    return {each.name: each.law for each in planned}


def choose_mechanisms(
    setting: Setting, only: Sequence[str] | None = None
) -> tuple[tuple[Planned, ...], dict[str, str]]:
    """The mechanisms that apply, of which there is at least one, and for the others the reason why they do not."""
    names = [name for name in mechanism_names() if not mechanism_class(name).pure]
    names += [TREE, *(name for name in mechanism_names() if mechanism_class(name).pure)]
    if setting.sampling is not None:
        names.insert(1, sampled_name(setting.sampling))
    if only is not None:
        unknown = [name for name in only if name not in names]
        if unknown:
            raise InvalidParameter(f"mechanisms must be among {', '.join(names)}, got {str(unknown[0])[:40]!r}.")
        names = [name for name in names if name in only or name.split(" ")[0] in only]
    planned, left_out = [], {}
    for name in names:
        try:
            planned.append(make_mechanism(name, setting))
        except InvalidParameter as reason:
            left_out[name] = str(reason)
    if not planned:
        reasons = " ".join(f"{name} does not apply: {reason}" for name, reason in left_out.items())
        raise InvalidParameter(f"no mechanism can meet this request. {reasons}")
    return tuple(planned), left_out


def make_mechanism(name: str, setting: Setting) -> Planned:
    """One mechanism with its law, or an InvalidParameter with the reason why it does not apply."""
    if setting.sampling is None or name != sampled_name(setting.sampling):
        setting = replace(setting, sampling=None, rows=None)
    return _make(name, setting)


@lru_cache(maxsize=512)
def _make(name: str, setting: Setting) -> Planned:
    if name == TREE:
        return _tree(setting)
    spec = spec_for(name, setting)
    return Planned(name, spec.planned_law, spec.at_least, spec.note, spec.summary == "sketch")


def spec_for(name: str, setting: Setting) -> Spec:
    """The spec of a mechanism by name, as `publish` would have it, or the reason why it does not apply."""
    chosen = mechanism_class(name.split(" ")[0])
    wanted: dict[str, Any] = {"capacity": setting.capacity}
    if setting.universe is not None:
        wanted["universe"] = _Sized(setting.universe, setting.universe_size)
    options = {each.name: wanted[each.name] for each in chosen.options() if each.name in wanted}
    request = Request(
        setting.epsilon,
        None if chosen.pure else setting.delta,
        setting.max_keys_per_unit,
        unit="unit" if setting.by_unit or setting.max_keys_per_unit > 1 else None,
        values=setting.values,
        sampling=setting.sampling,
        total=setting.rows,
        measured=setting.measured,
    )
    return chosen(**options).plan(request)


def _tree(setting: Setting) -> Planned:
    if not setting.delta:
        raise InvalidParameter("it reports keys of the data, which takes a delta above 0.")
    if not setting.values:
        raise InvalidParameter("it always releases values with the keys.")
    if setting.levels is None:
        raise InvalidParameter("it finds prefixes of strings, level by level; say how many levels to have it planned.")
    if setting.max_keys_per_unit > 1:
        raise InvalidParameter("a unit has one string in a tree of prefixes.")
    found = choose_round_law(setting.epsilon, setting.delta, setting.levels, "exact")
    law = SampleAndThreshold(setting.epsilon, setting.delta, rate=found.rate, threshold=found.threshold)
    note = f"Also shows frequent prefixes, on {setting.levels} levels."
    return Planned(TREE, AllLevels(law, setting.levels), at_least=True, note=note)
