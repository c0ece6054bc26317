"""Mechanisms as tests want them: one object with the law, its certificate and the draw, made from the package's halves.

Nothing is computed here: the spec is the public half of the product, and `draw` its private half.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from dptally.laws.range_trees import make_tree_law
from dptally.laws.registry import read_mechanism
from dptally.laws.spec import Question, Request, Spec
from dptally.laws.specs.misra_gries import SketchFacts, SketchSpec
from dptally.mechanisms.compact import build
from dptally.mechanisms.registry import draw
from dptally.mechanisms.sparse import draw_bins
from dptally.privacy.guarantee import Guarantee
from dptally.releases.making import make_release
from dptally.request import read_request
from dptally.universes.listed_keys import ListedKeys

__all__ = [
    "CompactHistogram",
    "DenseHistogram",
    "Drawn",
    "GaussianSparseHistogram",
    "Made",
    "PrivateMisraGries",
    "PrivateWeightedSampling",
    "PureMisraGries",
    "RangeHistograms",
    "SampleAndThresholdHistogram",
    "SparseHistogram",
    "StabilityHistogram",
    "StrictSparseHistogram",
]


class Drawn(NamedTuple):
    """What was let out, and what is said about it."""

    rows: pa.Table
    guarantee: Guarantee
    certificate: Any
    law: Any


class Made:
    """A mechanism that is ready to draw."""

    def __init__(self, spec: Spec, question: Question | None = None) -> None:
        self.spec = spec
        asked = question or spec.next([])
        assert asked is not None
        self.question = asked
        self.law, self.certificate, self.spends = spec.law, spec.certificate, spec.spending

    def __getattr__(self, name: str) -> Any:
        if name in self.question.parameters:
            return self.question.parameters[name]
        return getattr(self.law, name)

    def draw(self, frequencies: Any, bits: Any) -> Drawn:
        """Draw once."""
        rows = draw(self.spec.mechanism, self.question, frequencies, bits)
        guarantee = self.spec.guarantee(frequencies.unit, private=bits.private)
        return Drawn(rows, guarantee, self.certificate, self.law)

    def draw_bins(self, numbers: Any, counts: Any, bits: Any) -> tuple[Any, Any]:
        """Draw from counts of numbered keys."""
        return draw_bins(self.law, numbers, counts, bits)

    def promise(self, unit: str | None, *, private: bool) -> Guarantee:
        """What is guaranteed."""
        return self.spec.guarantee(unit, private=private)


class MadeCompact(Made):
    """A compact histogram."""

    def draw(self, frequencies: Any, bits: Any) -> Any:
        """A release."""
        coefficients = draw(self.spec.mechanism, self.question, frequencies, bits)
        return self._release(coefficients, frequencies.unit, bits)

    def build(self, counts: Mapping[int, int], bits: Any, *, unit: str | None = None) -> Any:
        """A release of counts by key number."""
        known = self.question.parameters
        coefficients = build(
            self.law,
            counts,
            bits,
            size=known["universe"].size,
            capacity=known["capacity"],
            beyond_capacity=known["beyond_capacity"],
        )
        return self._release(coefficients, unit, bits)

    def _release(self, coefficients: list[int], unit: str | None, bits: Any) -> Any:
        guarantee = self.spec.guarantee(unit, private=bits.private)
        return make_release(self.spec, replace(self.question, law=self.law), [coefficients], guarantee, ("key",))


def _request(epsilon: object, delta: object = None, max_keys_per_unit: int = 1, values: bool = True) -> Request:
    unit = None if max_keys_per_unit == 1 else "unit"
    return read_request(epsilon=epsilon, delta=delta, max_keys_per_unit=max_keys_per_unit, unit=unit, values=values)


def _of_keys(name: str) -> Callable[..., Made]:
    def make(
        epsilon: object,
        delta: object,
        *,
        max_keys_per_unit: int = 1,
        values: bool = True,
        scheme: Any = None,
        **options: Any,
    ) -> Made:
        request = replace(_request(epsilon, delta, max_keys_per_unit, values), sampling=scheme)
        return Made(read_mechanism(name, **options).spec(request))

    make.__name__ = name
    return make


PrivateWeightedSampling = _of_keys("weighted_sample")
StabilityHistogram = _of_keys("stability")
GaussianSparseHistogram = _of_keys("gaussian")
SampleAndThresholdHistogram = _of_keys("sample_and_threshold")


def DenseHistogram(  # noqa: N802 - it stands for a class
    epsilon: object, keys: pa.Table, *, max_keys_per_unit: int = 1, bound: int | None = None
) -> Made:
    """A dense histogram."""
    request = _request(epsilon, None, max_keys_per_unit)
    return Made(read_mechanism("dense", universe=ListedKeys(keys), bound=bound).spec(request))


def SparseHistogram(  # noqa: N802
    epsilon: object, *, universe: Any, keep: int, bound: int | None = None, max_keys_per_unit: int = 1
) -> Made:
    """A sparse histogram."""
    request = _request(epsilon, None, max_keys_per_unit)
    return Made(read_mechanism("sparse", universe=universe, capacity=keep, bound=bound).spec(request))


def StrictSparseHistogram(  # noqa: N802
    epsilon: object, *, universe: Any, keep: int, bound: int, max_keys_per_unit: int = 1, mixing: int | None = None
) -> Made:
    """A sparse histogram in strict time."""
    from dptally.laws.specs import sparse
    from dptally.laws.top_k_noise import TopKNoise

    request = _request(epsilon, None, max_keys_per_unit)
    made = read_mechanism("sparse", universe=universe, capacity=keep, bound=bound, strict_time=True).spec(request)
    if mixing is not None:
        law = TopKNoise(
            made.law.epsilon, size=universe.size, keep=keep, bound=bound, universe=universe.name, mixing=mixing
        )
        made = sparse.SparseSpec(made.name, law, universe, request)
    return Made(made)


def CompactHistogram(  # noqa: N802
    epsilon: object,
    *,
    universe: Any,
    capacity: int,
    largest_count: int | None = None,
    max_keys_per_unit: int = 1,
    beyond_capacity: Any = "subsample",
) -> MadeCompact:
    """A compact histogram."""
    chosen = read_mechanism(
        "compact", universe=universe, capacity=capacity, bound=largest_count, beyond_capacity=beyond_capacity
    )
    return MadeCompact(chosen.spec(_request(epsilon, None, max_keys_per_unit)))


def PrivateMisraGries(  # noqa: N802
    form: Any,
    capacity: int,
    epsilon: object,
    delta: object,
    *,
    max_keys_per_unit: int = 1,
    sketches: int = 1,
    unit: str | None = None,
    **options: Any,
) -> Made:
    """A sketch of a given form."""
    del unit
    request = _request(epsilon, delta)
    facts = SketchFacts(form, capacity, max_keys_per_unit, sketches)
    return Made(SketchSpec(facts, request.epsilon, request.delta, **options))


def PureMisraGries(  # noqa: N802
    universe: Any, capacity: int, epsilon: object, *, sketches: int = 1, **options: Any
) -> Made:
    """A sketch over a universe, delta = 0."""
    facts = SketchFacts("single" if sketches == 1 else "summed", capacity, 1, sketches)
    return Made(SketchSpec(facts, _request(epsilon).epsilon, None, universe=universe, **options))


class RangeHistograms:
    """A tree of counts."""

    def __init__(self, epsilon: object, delta: object, *, levels: int, mechanism: str, rate: object = None) -> None:
        made = make_tree_law(epsilon, delta, levels=levels, mechanism=mechanism, rate=rate)
        self.epsilon, self.delta, self.law, self.certificate = made.epsilon, made.delta, made.law, made.certificate

    def draw(self, leaves: Any, grid: Any, bits: Any) -> Any:
        """What is released of each level."""
        return draw("ranges", Question(self.law, self.certificate, parameters={"grid": grid}), leaves, bits)
