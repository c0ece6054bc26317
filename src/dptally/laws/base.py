"""What every law offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_fraction
from dptally.laws.estimators import Estimator, MostLikely
from dptally.laws.key_errors import errors_of_reports

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.laws.inversion import FrequencyEstimates
    from dptally.laws.key_errors import KeyErrors, Reports
    from dptally.laws.node_sums import NodeSums
    from dptally.laws.sampling_schemes import Scheme
    from dptally.laws.statistics_law import StatisticsLaw
    from dptally.privacy.spending import Part
    from dptally.randomness import BitSource
    from dptally.verifiers.profiles import Profile
    from dptally.verifiers.tables import Certificate

LARGEST_FREQUENCY = 1 << 62
LARGEST_VALUE = LARGEST_FREQUENCY + (1 << 32)  # the largest count, and more noise than any table has
Parameters = Mapping[str, Callable[[Any], Any]]
EstimatorKind = Literal["mle", "lower", "unbiased"]
FrequencyFunction = Callable[[int], int | float | Fraction]
CountFunction = Callable[["NDArray[np.int64]"], "NDArray[np.float64]"]  # for many counts at once


class Reporting(ABC):
    """When keys are reported, and how far off they are then: what curves, plans and charts ask."""

    values: bool = True  # whether values are reported with the keys
    scheme: Scheme | None = None  # how keys are sampled, None if they are not
    complete: ClassVar[bool] = False  # whether every key of a public list has a value, so that nothing is hidden
    # whether the release lists keys; otherwise it answers for any key that is asked for
    lists_keys: ClassVar[bool] = True
    # whether keys are reported independently, so that errors of sums follow from those of keys
    independent: ClassVar[bool] = True
    most_distinct: int | None = None  # how many distinct keys the data may have; None for any number
    # whether reporting probabilities are lower bounds, because they depend on other keys
    at_least: ClassVar[bool] = False
    # whether the noise has no end worth naming, so that no count is said to be reported always
    endless: ClassVar[bool] = False
    slow: ClassVar[bool] = False  # whether a reporting probability takes long to compute

    @abstractmethod
    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The exact probability that a key of this frequency is reported."""

    @abstractmethod
    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency that is reported with at least this probability; None if there is none."""

    def chance(self, frequency: int) -> Fraction:
        """The same as `reporting_probability`, or within 2^-250 of it where the exact fraction is too long to use."""
        return self.reporting_probability(frequency)

    def for_charts(self) -> Reporting:
        """This law, or one that differs from it by less than a chart shows and has no large table."""
        return self

    def key_errors(self, frequencies: NDArray[np.float64]) -> KeyErrors | None:
        """Errors for a key of each frequency, or None for a law without values."""
        return None

    def interval_width(self, frequency: int | None, beta: Fraction) -> int | None:
        """Width of the confidence interval of a key of this frequency, at its most likely value; None if unknown."""
        return None


class Law(Reporting):
    """What the law of a release answers, with the answers that most laws share."""

    name: ClassVar[str]  # in messages
    stored_as: ClassVar[str] = ""  # its name in files, which never changes; empty for a law that no release has
    # what it is made from: names of arguments and attributes, and how each is read from facts
    parameters: ClassVar[Parameters] = {}
    epsilon: Fraction
    delta: Fraction
    judged_for_unit: ClassVar[bool] = False  # whether the certificate speaks of all keys of a unit, not of one
    # the package whose verifier this law has; None where ours looks at its rows
    certified_by: ClassVar[str | None] = None
    threshold: int = 1  # the smallest value that is reported; it may take the law's table to know
    rate: Fraction | None = None  # with which probability a unit is kept before values are counted; None where all are
    keep: int | None = None  # how many keys are released at most; None for any number
    statistics: StatisticsLaw | None = None  # what is released of keys beside counts
    universe: str | None = None  # name of the universe all of whose keys take part; None where those of the data do
    universe_size: int | None = None  # how many keys it has
    weighing: ClassVar[type[Estimator]] = MostLikely  # the estimator of kind "mle"

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in self.parameters)
        shown = (f"{name}={part if isinstance(part, Fraction) else repr(part)}" for name, part in given)
        return f"{type(self).__name__}({', '.join(shown)})"

    def facts(self) -> dict[str, Any]:
        """The law's name and parameters as plain data, exact: what `from_facts` makes it from again."""
        if not self.stored_as:
            raise InvalidParameter(f"the law {self.name!r} is not stored.")
        found = {name: getattr(self, name) for name in self.parameters}
        plain = {name: part if isinstance(part, int | str | None) else str(part) for name, part in found.items()}
        return {"name": self.stored_as, **plain}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """Make the law from its parameters.

        Raises KeyError if a parameter is missing, InvalidParameter for a parameter that the law refuses.
        """
        return cls(**{name: read(facts[name]) for name, read in cls.parameters.items()})

    @abstractmethod
    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of what is reported; None is "not reported". Sums to 1."""

    @abstractmethod
    def certify(self) -> Certificate:
        """Verify the table that is drawn from; raises PrivacyViolation with the offending pair."""

    def profile(self, step: Fraction) -> Profile:
        """The exact privacy profile of one draw, at factors e^(j step) for j = 0, 1, ... up to epsilon."""
        raise InvalidParameter(f"the profile of the law {self.name!r} is not known.")

    @property
    def event(self) -> Part | None:
        """What a ledger has of a whole release by this law, where a profile for all of its stages was declared."""
        return None

    @abstractmethod
    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 means not reported."""

    def draw_given_sampled(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each key, where units or keys have been sampled as this law does."""
        raise InvalidParameter(f"rows cannot be sampled for the law {self.name!r}.")

    def estimator(self, kind: EstimatorKind = "mle", of: FrequencyFunction | None = None) -> Estimator:
        """Weights that turn reported values into estimates of sums of a function of frequency, `of`."""
        if kind != "mle":
            raise InvalidParameter(f"the law {self.name!r} has estimators of kind 'mle' only, got {str(kind)[:40]!r}.")
        return self.weighing(self, of)

    @property
    def largest_value(self) -> int:
        """No value of a release is larger."""
        return LARGEST_VALUE

    @property
    def reading(self) -> str:
        """What a reader of a table must know about keys that are listed, or not, in a sentence."""
        return "A key that is not listed may still occur; see what chance it had to appear."

    @property
    def counted(self) -> str:
        """What of a unit's keys is counted, in a sentence, where that was measured; empty elsewhere."""
        return ""

    # ---- estimates from reported values ----

    @abstractmethod
    def invert(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """The most likely frequency for each value, with bounds that miss with probability beta among released keys."""

    def invert_together(self, values: NDArray[np.int64], beta: Fraction, *, among: int) -> FrequencyEstimates:
        """The same with bounds that all hold at once but for beta, for values that are some of `among` released."""
        return self.invert(values, beta / among)

    def most_likely(self, value: int) -> int:
        """The frequency that makes a value most likely."""
        return value

    def likely_value(self, frequency: int) -> int:
        """The most likely value of a key of this frequency, if it is reported."""
        return frequency

    def interval_width(self, frequency: int | None, beta: Fraction) -> int | None:
        """Of the bounds at the most likely value."""
        if frequency is None:
            return None
        found = self.invert(np.array([self.likely_value(frequency)], dtype=np.int64), beta)
        return None if found.upper is None else int(found.upper[0] - found.lower[0])

    def reports(self, frequency: int) -> Reports:
        """What a key of this frequency may have reported, as floats."""
        raise InvalidParameter(f"the law {self.name!r} has no reports of one key alone.")

    def key_errors(self, frequencies: NDArray[np.float64]) -> KeyErrors | None:
        """Errors for a key of each frequency, or None for a law without values.

        The estimate of a value is the frequency that makes it most likely, and its weight in a sum is that frequency
        over the probability that it is reported [CGSS21, (11)].
        """
        return errors_of_reports(self.reports, frequencies) if self.values else None

    def unbiased(self, values: NDArray[np.int64], of: CountFunction) -> NDArray[np.float64] | None:
        """Numbers whose expectations are `of` the frequencies, for keys chosen without regard to values; None: none."""
        return None

    bounds_sums: bool = False  # whether there are bounds of a sum that know that independent errors cancel

    def bound_sum(self, values: NDArray[np.int64], beta: float) -> tuple[float, float] | None:
        """Such bounds for the frequencies of released keys, each missed with beta / 2 at most; None if they fail."""
        return None

    def counter_error(self, beta: Fraction, counters: int) -> tuple[int, int, int]:
        """For all counters of a sketch at once: how much noise may have added, taken, and what it may have hidden.

        Beta is the probability that any of the three is exceeded.
        """
        raise InvalidParameter("this release was not made from a sketch; its table has the bounds of each key.")

    def draw_nodes(self, counts: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each node of a tree."""
        return self.draw(counts, bits)

    def node_sums(self) -> NodeSums:
        """What released nodes of a tree say about the units in them together."""
        raise InvalidParameter(f"the law {self.name!r} is not one for trees of counts.")


def as_given(stored: Any) -> Any:
    """A parameter of a law that the law checks itself."""
    return stored


def read_flag(stored: object) -> bool:
    """A parameter of a law that is true or false."""
    if not isinstance(stored, bool):
        raise InvalidParameter("a parameter that is true or false is neither.")
    return stored


def as_chance(name: str, number: object) -> Fraction:
    """Read a probability that is neither 0 nor 1."""
    chance = as_fraction(name, number)
    if not 0 < chance < 1:
        raise InvalidParameter(f"{name} must be above 0 and below 1, got {number}.")
    return chance


def as_confidence(confidence: object) -> Fraction:
    """Read a confidence strictly between 0 and 1."""
    level = as_fraction("confidence", confidence)
    if not 0 < level < 1:
        raise InvalidParameter(f"confidence must be between 0 and 1, got {confidence}.")
    return level


def as_frequency(number: int) -> int:
    """Read one frequency."""
    frequency = int(number)
    if frequency != number or not 0 <= frequency <= LARGEST_FREQUENCY:
        raise InvalidParameter("true_frequency must be a whole number from 0 to 2^62.")
    return frequency


def as_frequencies(frequencies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Read many frequencies."""
    given = np.asarray(frequencies)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise InvalidParameter("frequencies must be a one-dimensional array of whole numbers.")
    if given.size and (given.min() < 0 or given.max() > LARGEST_FREQUENCY):
        raise InvalidParameter("frequencies must be from 0 to 2^62.")
    return np.ascontiguousarray(given, dtype=np.int64)
