"""Laws from their names and parameters, as release files hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dptally.errors import InvalidParameter
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.clamped_noise import ClampedNoise
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_schemes import read_scheme
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.stability import Stability
from dptally.laws.summed_noise import SummedNoise
from dptally.laws.thresholded_noise import ThresholdedNoise
from dptally.laws.top_k_noise import HeaviestNoise
from dptally.laws.weighted_sample import WeightedSample

__all__ = ["ReleasedLaw", "read_law"]

ReleasedLaw = WeightedSample | ThresholdedNoise | ClampedNoise | SampleAndThreshold | HeaviestNoise


def read_law(facts: dict[str, Any]) -> ReleasedLaw:
    """Make the law that `facts` describe.

    Raises:
        KeyError: for a law of another name, or a parameter that is missing.
        InvalidParameter: for a parameter that the law refuses.
    """
    return _READERS[facts["name"]](facts)


def _flag(stored: object) -> bool:
    if not isinstance(stored, bool):
        raise InvalidParameter("a parameter that is true or false is neither.")
    return stored


def _weighted_sample(facts: dict[str, Any]) -> WeightedSample:
    return WeightedSample(
        str(facts["epsilon"]),
        str(facts["delta"]),
        None if facts["scheme"] is None else read_scheme(facts["scheme"]),
        values=_flag(facts["values"]),
        sub_tokens=facts["sub_tokens"],
        centred=_flag(facts.get("centred", False)),
    )


def _stability(facts: dict[str, Any]) -> Stability:
    return Stability(str(facts["epsilon"]), str(facts["delta"]), values=_flag(facts["values"]))


def _shared_noise(facts: dict[str, Any]) -> SharedNoise:
    return SharedNoise(
        str(facts["epsilon"]),
        str(facts["delta"]),
        facts["capacity"],
        standard=_flag(facts["standard"]),
        elements=facts["elements"],
    )


def _summed_noise(facts: dict[str, Any]) -> SummedNoise:
    return SummedNoise(str(facts["epsilon"]), str(facts["delta"]), facts["capacity"], elements=facts["elements"])


def _gaussian_histogram(facts: dict[str, Any]) -> GaussianHistogram:
    return GaussianHistogram(
        str(facts["epsilon"]), str(facts["delta"]), facts["differing"], values=_flag(facts["values"])
    )


def _dyadic_geometric(facts: dict[str, Any]) -> DyadicGeometric:
    return DyadicGeometric(str(facts["epsilon"]), facts["bound"], neighbours=facts["neighbours"])


def _sample_and_threshold(facts: dict[str, Any]) -> SampleAndThreshold:
    if facts["threshold"] is None:  # which would mean the best one
        raise InvalidParameter("the threshold is missing.")
    return SampleAndThreshold(
        str(facts["epsilon"]), str(facts["delta"]), rate=str(facts["rate"]), threshold=facts["threshold"]
    )


def _heaviest_noise(facts: dict[str, Any]) -> HeaviestNoise:
    return HeaviestNoise(
        str(facts["epsilon"]),
        size=int(str(facts["size"])),
        keep=facts["keep"],
        bound=facts["bound"],
        universe=str(facts["universe"]),
        mixing=facts["mixing"],
    )


_READERS: dict[str, Callable[[dict[str, Any]], ReleasedLaw]] = {
    "WeightedSample": _weighted_sample,
    "Stability": _stability,
    "SharedNoise": _shared_noise,
    "SummedNoise": _summed_noise,
    "GaussianHistogram": _gaussian_histogram,
    "DyadicGeometric": _dyadic_geometric,
    "SampleAndThreshold": _sample_and_threshold,
    "HeaviestNoise": _heaviest_noise,
}
