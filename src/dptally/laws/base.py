"""What every law offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dptally.laws.sampling_schemes import Scheme
    from dptally.randomness import BitSource
    from dptally.verifiers.tables import Certificate

__all__ = [
    "LARGEST_FREQUENCY",
    "Estimator",
    "EstimatorKind",
    "FrequencyFunction",
    "Law",
    "ObservationModel",
    "read_flag",
]

LARGEST_FREQUENCY = 1 << 62
EstimatorKind = Literal["mle", "lower", "unbiased"]
FrequencyFunction = Callable[[int], int | float | Fraction]


@runtime_checkable
class Estimator(Protocol):
    """Weights a_j for reported values j, so that their sum over reported keys estimates a sum over all keys.

    A key that is not reported counts 0, so a weight also stands for keys like it that were not reported. All
    expectations are exact, over the law alone.
    """

    def __call__(self, value: int) -> Fraction:
        """The weight of a reported value."""

    def weights(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of many reported values, as floats."""

    def expectation(self, true_frequency: int) -> Fraction:
        """Expected contribution of a key of this frequency."""

    def bias(self, true_frequency: int) -> Fraction:
        """Expectation minus the true contribution."""

    def variance(self, true_frequency: int) -> Fraction:
        """Variance of the contribution."""

    def mse(self, true_frequency: int) -> Fraction:
        """Mean squared error of the contribution: variance plus squared bias."""


@runtime_checkable
class ObservationModel(Protocol):
    """A law P[reported value | true frequency]."""

    @property
    def epsilon(self) -> Fraction:
        """The epsilon one key's law keeps."""

    @property
    def delta(self) -> Fraction:
        """The delta one key's law keeps."""

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of what is reported; None is "not reported". Sums to 1."""

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The exact probability that a key of this frequency is reported."""

    def certify(self) -> Certificate:
        """Judge the table that is drawn from; raises PrivacyViolation with the offending pair."""

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 means not reported."""

    def estimator(self, kind: EstimatorKind = "mle", of: FrequencyFunction | None = None) -> Estimator:
        """Weights that turn reported values into estimates of sums."""


class Law(ABC):
    """What a release's law answers, with the answers that most laws share.

    Attributes:
        name: in messages.
        values: whether values are reported with the keys.
        scheme: how keys are sampled, None if they are not.
        judged_for_unit: whether the certificate speaks of all keys of a unit, not of one.
    """

    name: ClassVar[str]
    epsilon: Fraction
    delta: Fraction
    values: bool = True
    scheme: Scheme | None = None
    judged_for_unit: ClassVar[bool] = False

    def facts(self) -> dict[str, Any]:
        """The law's name and parameters as plain data, exact: what `from_facts` makes it from again."""
        raise InvalidParameter(f"the law {self.name!r} is not stored.")

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """Make the law from its parameters.

        Raises:
            KeyError: if a parameter is missing.
            InvalidParameter: for a parameter that the law refuses.
        """
        raise InvalidParameter(f"the law {cls.name!r} is not stored.")

    @abstractmethod
    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of what is reported; None is "not reported". Sums to 1."""

    @abstractmethod
    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The exact probability that a key of this frequency is reported."""

    @abstractmethod
    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency that is reported with at least this probability; None if there is none."""

    @abstractmethod
    def certify(self) -> Certificate:
        """Verify the table that is drawn from; raises PrivacyViolation with the offending pair."""

    @abstractmethod
    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 means not reported."""

    @abstractmethod
    def estimator(self, kind: EstimatorKind = "mle", of: FrequencyFunction | None = None) -> Estimator:
        """Weights that turn reported values into estimates of sums."""


def read_flag(stored: object) -> bool:
    """A parameter of a law that is true or false."""
    if not isinstance(stored, bool):
        raise InvalidParameter("a parameter that is true or false is neither.")
    return stored
