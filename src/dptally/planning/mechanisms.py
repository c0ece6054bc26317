"""Which mechanisms a request allows, and the law of each: made from parameters alone, and kept for the next question.

Nothing is judged here: a plan spends nothing. What is published is judged before data is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.field_geometric import FieldGeometric, choose_law
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.prefix_levels import AllLevels
from dptally.laws.round_parameters import choose_round_law
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_schemes import Scheme
from dptally.laws.stability import Stability
from dptally.laws.top_k_noise import TopKNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import LARGEST_UNIT, share_between_keys
from dptally.releases.compact_release import changes_per_unit

if TYPE_CHECKING:
    from dptally.laws.base import Law, Reporting

__all__ = [
    "LISTABLE",
    "Planned",
    "Setting",
    "choose_mechanisms",
    "compact_law",
    "make_mechanism",
    "planned_laws",
    "sampled_name",
]

LISTABLE = 1 << 22
_DENSE_BOUND = 1 << 40
_USUAL_CAPACITY = 10_000
_FOR_SIZE = Fraction(1, 20)  # of epsilon, for the private total that sets a sampling rate
_FOR_SHORTFALL = Fraction(1, 20)  # of epsilon, for telling how far a sketch falls short
_OF_THE_DATA = ("weighted_sample", "stability", "gaussian", "sample_and_threshold", "misra_gries")
_OVER_A_UNIVERSE = ("dense", "sparse", "compact")
_TREE = "heavy_hitters"


@dataclass(frozen=True)
class Setting:
    """Everything that decides which laws there are. Public.

    Attributes:
        epsilon: for the unit.
        delta: for the unit; 0 for mechanisms over a universe alone.
        max_keys_per_unit: bound on what one unit touches.
        by_unit: whether rows belong to units of a column, of which a unit may have several.
        values: whether values are released.
        sampling: how keys are sampled, or None.
        capacity: of sketches, of sparse and compact releases.
        universe: name of the universe, or None.
        universe_size: how many keys it has.
        levels: how many levels a tree of prefixes has, or None for no tree.
        rows: the supposed number of counts, where a sampling rate depends on it.
    """

    epsilon: Fraction
    delta: Fraction
    max_keys_per_unit: int = 1
    by_unit: bool = False
    values: bool = True
    sampling: Scheme | None = None
    capacity: int = _USUAL_CAPACITY
    universe: str | None = None
    universe_size: int = 0
    levels: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Planned:
    """One mechanism of a plan.

    Attributes:
        name: as in `publish`; with sampling, the scheme beside it.
        law: of one key.
        at_least: whether reporting probabilities are lower bounds rather than exact.
        note: what else to know, in a sentence; may be empty.
    """

    name: str
    law: Reporting
    at_least: bool = False
    note: str = ""

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The probability that a key of this frequency is reported."""
        return self.law.chance(true_frequency)

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency reported with at least this probability, or None."""
        return self.law.first_frequency(probability)


def sampled_name(scheme: Scheme) -> str:
    """What the mechanism "weighted_sample" with sampling is called beside the one without."""
    return f"weighted_sample {scheme}"


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
    ['gaussian', 'misra_gries', 'sample_and_threshold', 'stability', 'weighted_sample']
    """
    setting = Setting(
        as_epsilon(epsilon),
        Fraction(0) if delta is None else as_delta(delta),
        as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT),
        sampling=sampling,
        capacity=_USUAL_CAPACITY if capacity is None else as_count("capacity", capacity, largest=1 << 30),
    )
    planned, _ = choose_mechanisms(setting, mechanisms)
    return {each.name: each.law for each in planned}


def choose_mechanisms(
    setting: Setting, only: Sequence[str] | None = None
) -> tuple[tuple[Planned, ...], dict[str, str]]:
    """The mechanisms that apply, and for the others the reason why they do not, in a sentence.

    Raises:
        InvalidParameter: if none applies, with the reasons.
    """
    names = [*_OF_THE_DATA, _TREE, *_OVER_A_UNIVERSE]
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
    """One mechanism with its law.

    Raises:
        InvalidParameter: with the reason why it does not apply.
    """
    relevant = setting
    if setting.sampling is None or name != sampled_name(setting.sampling):
        relevant = replace(setting, sampling=None, rows=None)
    if name == "misra_gries":  # its law knows units with one key, and others
        by_unit = setting.by_unit or setting.max_keys_per_unit > 1
        relevant = replace(relevant, by_unit=by_unit, max_keys_per_unit=1, levels=None)
    return _make(name, relevant)


@lru_cache(maxsize=512)
def _make(name: str, setting: Setting) -> Planned:
    if name in _OVER_A_UNIVERSE:
        return _over_universe(name, setting)
    if not setting.delta:
        raise InvalidParameter("it reports keys of the data, which takes a delta above 0.")
    if not setting.values and name in ("gaussian", "sample_and_threshold", "misra_gries", _TREE):
        raise InvalidParameter("it always releases values with the keys.")
    if name == "gaussian":
        return Planned(name, GaussianHistogram(setting.epsilon, setting.delta, setting.max_keys_per_unit))
    if name == "misra_gries":
        return _sketch(setting)
    if name == _TREE:
        return _tree(setting)
    if name.startswith("weighted_sample") and setting.sampling is not None:
        return _sampled(name, setting)
    share = _share(setting)
    if name == "sample_and_threshold":
        return Planned(name, SampleAndThreshold(*share), note="Values are counts in a secret sample, without noise.")
    made = {"weighted_sample": WeightedSample, "stability": Stability}[name]
    return Planned(name, made(*share, values=setting.values))


def _share(setting: Setting) -> tuple[Fraction, Fraction]:
    return share_between_keys(setting.epsilon, setting.delta, setting.max_keys_per_unit)


def _sampled(name: str, setting: Setting) -> Planned:
    scheme = setting.sampling
    note = "Sampling alone leaves keys out, before privacy does."
    if scheme is not None and scheme.size is not None:
        if setting.rows is None:
            raise InvalidParameter("a sample of a given size has a rate only if the number of rows is supposed.")
        if setting.by_unit or setting.max_keys_per_unit > 1:
            raise InvalidParameter("a sample size needs rows that are units of their own.")
        scheme = scheme.of_total(setting.rows)
        note = "A twentieth of epsilon goes to the private total that sets the sampling rate."
        setting = replace(setting, epsilon=setting.epsilon * (1 - _FOR_SIZE))
    return Planned(name, WeightedSample(*_share(setting), scheme, values=setting.values), note=note)


def _sketch(setting: Setting) -> Planned:
    from dptally.laws.counter_laws import choose_counter_law
    from dptally.laws.shared_noise import SharedNoise

    # Which keys of a unit count is the sketch's business: its law depends on the capacity alone.
    law: Law
    rest = setting.epsilon * (1 - _FOR_SHORTFALL)
    if not setting.by_unit:
        law = SharedNoise(rest, setting.delta, setting.capacity)
    else:
        law = choose_counter_law(rest, setting.delta, setting.capacity)
    note = f"Bounded memory: {setting.capacity:,} counters, which may fall short of frequencies."
    return Planned("misra_gries", law, note=note)


def _tree(setting: Setting) -> Planned:
    if setting.levels is None:
        raise InvalidParameter("it finds prefixes of strings, level by level; say how many levels to have it planned.")
    if setting.max_keys_per_unit > 1:
        raise InvalidParameter("a unit has one string in a tree of prefixes.")
    found = choose_round_law(setting.epsilon, setting.delta, setting.levels, "exact")
    law = SampleAndThreshold(setting.epsilon, setting.delta, rate=found.rate, threshold=found.threshold)
    note = f"Also shows frequent prefixes, on {setting.levels} levels."
    return Planned(_TREE, AllLevels(law, setting.levels), at_least=True, note=note)


def _over_universe(name: str, setting: Setting) -> Planned:
    if setting.universe is None:
        raise InvalidParameter("it needs a universe: all keys there may be, such as 'ipv4'.")
    if not setting.values:
        raise InvalidParameter("it always releases values.")
    each = setting.epsilon / setting.max_keys_per_unit
    if name == "dense":
        if setting.universe_size > LISTABLE:
            raise InvalidParameter("the universe has too many keys to list.")
        note = "Every key of the universe has a value, whether anybody has it or not."
        return Planned(name, DyadicGeometric(each, _DENSE_BOUND), note=note)
    if name == "sparse":
        law = TopKNoise(each, size=setting.universe_size, keep=setting.capacity, universe=setting.universe)
        note = f"For data with at most {setting.capacity:,} distinct keys; a few released keys may be nobody's."
        return Planned(name, law, at_least=True, note=note)
    note = (
        "Lists no keys: any key of the universe that is asked for has an answer. Of more than "
        f"{setting.capacity:,} occurrences, as many are kept at random."
    )
    return Planned(name, compact_law(setting), note=note)


def compact_law(setting: Setting) -> FieldGeometric:
    """The law of a compact release that keeps a random choice of occurrences, as `publish` does by default."""
    each = setting.epsilon / changes_per_unit(setting.max_keys_per_unit, "subsample")
    return choose_law(each, universe_size=setting.universe_size, largest_count=setting.capacity)
