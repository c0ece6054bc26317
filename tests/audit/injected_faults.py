"""Wrong laws, to show that audits and verifiers find them. They are part of the tests, and of nothing else.

Each fault is one that people make:

- "threshold off by one": "at least T" became "more than T - 2";
- "noise halved": noise for twice the epsilon, as if sensitivity were half of what it is;
- "insertion order kept": rows leave in the order in which keys first occur in the data;
- "float table": thresholds are rounded to floating point.

`released_with` lets `dptally.publish` release with a fault, under a forged certificate, by patching the package from
outside; nothing in the package offers to. `examined_with` does the same to the laws that the exact audit looks at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from dptally.audit import exact_keys, exact_pure, exact_rounds, exact_sketches
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.round_parameters import RoundLaw
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.specs import gaussian, misra_gries, sample_and_threshold, stability, weighted_sample
from dptally.laws.stability import Stability
from dptally.laws.summed_noise import SummedNoise
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.weighted_sample import WeightedSample

if TYPE_CHECKING:
    from pathlib import Path

    from dptally.verifiers.tables import Certificate

__all__ = ["FAULTS", "examined_with", "in_insertion_order", "released_with", "rounded_table", "spoiled"]

FAULTS = ("threshold off by one", "noise halved", "insertion order kept", "float table")
_ENTRY = 16
_WHOLE = 1 << 128
_SHORT_FLOAT = 8  # bits of bfloat16: what 53 bits get wrong is far too little for any number of runs to show
_Spoiled = TypeVar("_Spoiled")


def spoiled(law: _Spoiled, fault: str, *, float_bits: int = 53) -> _Spoiled:
    """The law with the fault in it; a law that cannot have this fault is returned as it is.

    Args:
        law: of a kind that `dptally.observation_models` has; it is changed in place.
        fault: one of `FAULTS`.
        float_bits: how many bits the floats of a "float table" have: 53 as usual, 8 for the shortest in use.
    """
    if fault == "threshold off by one":
        _lower_threshold(law)
    elif fault == "noise halved":
        _halve_noise(law)
    elif fault == "float table":
        _round_table(law, float_bits)
    return law


def _lower_threshold(law: Any) -> None:
    if isinstance(law, SampleAndThreshold):
        _change(law, _pair=(law.rate, max(1, law.threshold - 1)))
    elif isinstance(law, SummedNoise):
        grid, threshold, table = law._best
        _change(law, _best=(grid, max(grid, threshold - grid), table))
    elif isinstance(law, Stability | SharedNoise | GaussianHistogram | RoundLaw):
        _change(law, threshold=max(1, law.threshold - 1))


def _halve_noise(law: Any) -> None:
    if isinstance(law, Stability):
        _change(law, threshold=law.threshold, table=Stability(2 * law.epsilon, law.delta).table)
    elif isinstance(law, SharedNoise):
        twice = SharedNoise(2 * law.epsilon, law.delta, law.capacity, standard=law.standard, elements=law.elements)
        _change(law, threshold=law.threshold, table=twice.table)
    elif isinstance(law, SummedNoise):
        twice_summed = SummedNoise(2 * law.epsilon, law.delta, law.capacity, elements=law.elements)
        grid, threshold, _ = law._best
        _change(law, _best=(grid, threshold, twice_summed._on_grid(grid)[1]))
    elif isinstance(law, GaussianHistogram):
        _change(law, sigma=law.sigma / 2)
    elif isinstance(law, WeightedSample):
        _change(law, table=WeightedSample(2 * law.epsilon, law.delta, values=law.values).table)
    elif isinstance(law, DyadicGeometric):
        _change(law, _integers=DyadicGeometric(2 * law.epsilon, law.bound, neighbours=law.neighbours)._integers)
    elif isinstance(law, ClampedGeometric):
        _change(law, ratio=ClampedGeometric(2 * law.epsilon, bound=law.bound).ratio)


def _round_table(law: Any, float_bits: int) -> None:
    if isinstance(law, SummedNoise):
        grid, threshold, table = law._best
        _change(law, _best=(grid, threshold, rounded_table(table, float_bits)))
    elif isinstance(law, DyadicGeometric):
        outward = [max(1, _rounded(mass, float_bits)) for mass in law.half_masses[1:]]
        # What rounding added or took is made up for in the middle, so that this is a law still.
        middle = law.half_masses[0] + 2 * (sum(law.half_masses[1:]) - sum(outward))
        _change(law, _integers=((middle, *outward), law.uniform_mass))
    elif isinstance(law, ClampedGeometric):
        _change(law, ratio=Fraction(float(law.ratio)))
    elif isinstance(law, Stability | SharedNoise):
        _change(law, threshold=law.threshold, table=rounded_table(law.table, float_bits))
    elif isinstance(law, WeightedSample | GaussianHistogram):
        _change(law, table=rounded_table(law.table, float_bits))


def rounded_table(table: bytes, float_bits: int) -> bytes:
    """Thresholds rounded to the nearest float with this many bits; they never decrease by it."""
    entries = (int.from_bytes(table[at : at + _ENTRY], "little") for at in range(0, len(table), _ENTRY))
    return b"".join(min(_WHOLE - 1, _rounded(entry, float_bits)).to_bytes(_ENTRY, "little") for entry in entries)


def _rounded(number: int, float_bits: int) -> int:
    spare = max(0, number.bit_length() - float_bits)
    return round(Fraction(number, 1 << spare)) << spare


def _change(law: Any, **attributes: Any) -> None:
    """Forget everything that was derived, and set what is wrong."""
    kind = type(law)
    for name in [name for name in law.__dict__ if isinstance(getattr(kind, name, None), cached_property)]:
        del law.__dict__[name]
    law.__dict__.update(attributes)


# ---- wrong mechanisms behind the public interface ----


def _forged(law: Any, fault: str) -> Any:
    """A law with the fault and the certificate of the law without it, which draws."""
    honest: Certificate = law.certify()
    spoiled(law, fault, float_bits=_SHORT_FLOAT)
    if isinstance(law, WeightedSample):
        _keep(law, _certified_table=CertifiedTable(law.table, honest))
    elif isinstance(law, Stability):
        _keep(law, _certified=CertifiedTable(law.table, honest), _certificate=honest)
    elif isinstance(law, GaussianHistogram | SharedNoise | SummedNoise):
        _keep(law, _certified=CertifiedTable(law.table, honest))
    else:  # sample-and-threshold and dense noise draw by what they hold, after asking for a certificate
        _keep(law, _certificate=honest)
    return law


def _keep(law: Any, **attributes: Any) -> None:
    law.__dict__.update(attributes)


_PLACES = {
    "weighted_sample": ("dptally.laws.specs.weighted_sample", "WeightedSampleLaw"),
    "stability": ("dptally.laws.specs.stability", "StabilityLaw"),
    "gaussian": ("dptally.laws.specs.gaussian", "GaussianHistogram"),
    "sample_and_threshold": ("dptally.laws.specs.sample_and_threshold", "SampleAndThresholdLaw"),
    "misra_gries": ("dptally.laws.specs.misra_gries", "SharedNoise"),
    "dense": ("dptally.laws.specs.dense", "DyadicGeometric"),
    "sparse": ("dptally.laws.top_k_noise", "ClampedGeometric"),
}


@contextmanager
def released_with(mechanism: str, fault: str) -> Iterator[None]:
    """Let `dptally.publish` draw with a fault in this process, for as long as the context lasts."""
    if fault == "insertion order kept":
        with _publishing_in_insertion_order():
            yield
        return
    module_name, name = _PLACES[mechanism]
    module = import_module(module_name)
    honest: Callable[..., Any] = getattr(module, name)

    class Spoiled(honest):  # type: ignore[misc,valid-type]
        """The law, with the fault; a subclass, so that what asks for the law's type still finds it."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if isinstance(self, ClampedGeometric):
                spoiled(self, fault)
            else:
                _forged(self, fault)

        def certify(self, *args: Any) -> Any:
            if isinstance(self, ClampedGeometric):
                return 1 / self.ratio
            return super().certify(*args)

    Spoiled.__name__ = honest.__name__
    changed: dict[str, Any] = {name: Spoiled}
    if mechanism == "sparse":
        changed["certify_geometric_noise"] = _verifier_of_twice(module.certify_geometric_noise)
    with _replaced([(module, attribute, wrong) for attribute, wrong in changed.items()]):
        yield


def _verifier_of_twice(verifier: Callable[..., Certificate]) -> Callable[..., Certificate]:
    """A verifier that looks at twice the epsilon, and says that it looked at epsilon."""

    def verified(ratio: int, *, bound: int, epsilon: Fraction) -> Certificate:
        return replace(verifier(ratio, bound=bound, epsilon=2 * epsilon), epsilon=epsilon)

    return verified


@contextmanager
def _replaced(changes: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Let attributes of modules be others, and put back what was there."""
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, wrong in changes:
            setattr(module, name, wrong)
        yield
    finally:
        for module, name, right in before:
            setattr(module, name, right)


@contextmanager
def _publishing_in_insertion_order() -> Iterator[None]:
    import dptally

    honest = dptally.publish

    def publish(source: Any, *, key: str, **options: Any) -> Any:
        return in_insertion_order(honest(source, key=key, **options), source, key)

    with _replaced([(dptally, "publish", publish)]):
        yield


def in_insertion_order(release: Any, source: Path, key: str) -> Any:
    """The release with its rows in the order in which their keys first occur in a Parquet file."""
    import pyarrow.parquet as pq

    from dptally.releases.table_release import TableRelease

    first: dict[object, int] = {}
    for place, found in enumerate(pq.read_table(source, columns=[key]).column(0).to_pylist()):
        first.setdefault(found, place)
    rows = release.to_arrow().select([key, "value"])
    order = sorted(range(rows.num_rows), key=lambda row: first.get(rows.column(key)[row].as_py(), math.inf))
    return TableRelease(rows.take(order), release.guarantee, release.certificate, release.law)


# ---- wrong laws before the exact audit ----


@contextmanager
def examined_with(fault: str) -> Iterator[None]:
    """Let the exact audit look at laws with a fault, for as long as the context lasts.

    That draws follow the rows is left out: it is what the verifier would stop.
    """
    changes: list[tuple[Any, str, Any]] = [(exact_keys, "follows_rows", lambda *_: True)]
    for module, name in _EXAMINED:
        changes.append((module, name, _spoiled_when_made(getattr(module, name), fault)))
    with _replaced(changes):
        yield


_EXAMINED = (
    (weighted_sample, "WeightedSampleLaw"),
    (stability, "StabilityLaw"),
    (gaussian, "GaussianHistogram"),
    (sample_and_threshold, "SampleAndThresholdLaw"),
    (misra_gries, "SketchSpec"),
    (exact_sketches, "SketchSpec"),
    (exact_sketches, "SummedNoise"),
    (exact_pure, "DyadicGeometric"),
    (exact_pure, "TopKNoise"),
    (exact_rounds, "choose_round_law"),
    (exact_rounds, "make_tree_law"),
)


def _spoiled_when_made(maker: Any, fault: str) -> Any:
    """The class or function, whose results have the fault: in themselves, in their law, or in their law's noise."""

    def spoil(made: Any) -> Any:
        law = getattr(made, "law", made)
        noise = getattr(law, "noise", law)
        spoiled(noise if isinstance(noise, ClampedGeometric) else law, fault)
        return made

    if not isinstance(maker, type):
        return lambda *arguments, **options: spoil(copy(maker(*arguments, **options)))

    class AsBefore(type(maker)):  # type: ignore[misc]
        """Whatever is of the class as it was counts as one of the spoiled class."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, maker)

    class Spoiled(maker, metaclass=AsBefore):
        """What is asked for, with the fault."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            spoil(self)
            self.__dict__["_honest"] = lambda: maker(*arguments, **options)

        def certify(self) -> Any:
            """The certificate of the law without the fault, where somebody asks for one."""
            return self.__dict__["_honest"]().certify()

    return Spoiled
