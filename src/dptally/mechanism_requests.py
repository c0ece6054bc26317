"""From the name of a mechanism and its parameters to one whose table is certified, before any data is read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.laws.sampling_schemes import Scheme
from dptally.mechanisms.independent_keys import IndependentKeys
from dptally.mechanisms.private_weighted_sampling import PrivateWeightedSampling
from dptally.privacy.composition import LARGEST_UNIT

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.mechanisms.base import Counted, Drawn
    from dptally.mechanisms.private_misra_gries import PrivateMisraGries
    from dptally.privacy.spending import Spending
    from dptally.randomness import BitSource
    from dptally.releases.compact_release import CompactRelease

__all__ = [
    "MECHANISMS",
    "PURE",
    "SKETCH",
    "Drawing",
    "assumed_keys",
    "check_keys",
    "checked_units",
    "make_mechanism",
    "make_pure_mechanism",
    "make_sketch_mechanism",
    "refuse_options",
]

MECHANISMS = ("weighted_sample", "stability", "gaussian", "sample_and_threshold")
SKETCH = "misra_gries"
PURE = ("dense", "sparse", "compact")
_TAKEN_BY = {
    "universe": PURE,
    "bound": PURE,
    "capacity": (SKETCH, "sparse", "compact"),
    "strict_time": ("dense", "sparse"),  # every draw of a dense histogram is in strict time
    "beyond_capacity": ("compact",),
}
_Result = TypeVar("_Result", covariant=True)


class Drawing(Protocol[_Result]):
    """A mechanism, whatever kind of release it draws."""

    @property
    def law(self) -> Any:
        """What it draws from."""

    @property
    def spends(self) -> Spending:
        """What a draw spends, for a ledger."""

    def draw(self, frequencies: Counted, bits: BitSource) -> _Result:
        """Draw once."""


def make_mechanism(
    name: str,
    epsilon: object,
    delta: object,
    unit: str | None,
    max_keys_per_unit: int,
    sampling: Scheme | None,
    values: bool,
    spent_on_size: Fraction = Fraction(0),
) -> IndependentKeys:
    """Check the request and certify its table, before any data is read."""
    if name not in MECHANISMS:
        raise InvalidParameter(
            f"mechanism must be one of {', '.join(map(repr, (*MECHANISMS, SKETCH, *PURE)))}, got {name!r}."
        )
    keys = checked_units(unit, max_keys_per_unit)
    if delta is None:
        raise InvalidParameter(
            f"delta is missing: mechanism {name!r} needs one, well below one over the number of units, such as 1e-6."
        )
    exact_epsilon, exact_delta = as_epsilon(epsilon), as_delta(delta)
    if name == "weighted_sample":
        return PrivateWeightedSampling(
            exact_epsilon,
            exact_delta,
            max_keys_per_unit=keys,
            values=values,
            scheme=sampling,
            spent_on_size=spent_on_size,
        )
    if sampling is not None:
        raise InvalidParameter(f"sampling needs the mechanism 'weighted_sample', got {name!r}.")
    from dptally.mechanisms.gaussian_sparse_histogram import GaussianSparseHistogram
    from dptally.mechanisms.sample_and_threshold import SampleAndThresholdHistogram
    from dptally.mechanisms.stability_histogram import StabilityHistogram

    made = {
        "stability": StabilityHistogram,
        "gaussian": GaussianSparseHistogram,
        "sample_and_threshold": SampleAndThresholdHistogram,
    }[name]
    return made(exact_epsilon, exact_delta, max_keys_per_unit=keys, values=values)


def make_sketch_mechanism(
    epsilon: object, delta: object, unit: str | None, max_keys_per_unit: int, capacity: int | None, *, on_spark: bool
) -> PrivateMisraGries:
    """Check a request for a sketch and certify its table, before any data is read."""
    from dptally.mechanisms.private_misra_gries import PrivateMisraGries

    if delta is None:
        raise InvalidParameter("delta is missing: mechanism 'misra_gries' needs one, such as 1e-6.")
    counters = as_count("capacity", 10_000 if capacity is None else capacity, largest=1 << 30)
    if on_spark:
        from dptally.spark.sketching import check_capacity

        check_capacity(counters)
    one_stream: Literal["single", "merged"] = "merged" if on_spark else "single"
    form: Literal["single", "merged", "user"] = one_stream if unit is None else "user"
    return PrivateMisraGries(form, counters, epsilon, delta, max_keys_per_unit=max_keys_per_unit, unit=unit)


def checked_units(unit: str | None, max_keys_per_unit: int) -> int:
    """Refuse what is wrong about units whatever the mechanism, and return the bound on their keys."""
    keys = as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT)
    if unit is None and keys > 1:
        raise InvalidParameter("max_keys_per_unit needs a unit: without one, every row is its own unit with one key.")
    return keys


def make_pure_mechanism(
    name: str,
    epsilon: object,
    delta: object,
    max_keys_per_unit: int,
    key: str | Sequence[str] | None,
    nulls: Literal["drop", "keep"],
    sampling: Scheme | None,
    values: bool,
    asked: dict[str, Any],
) -> Drawing[Drawn | CompactRelease]:
    """Check a request with delta = 0 and certify its law, before any data is read."""
    from dptally import pure_requests

    pure_requests.check_pure(name, delta, values=values, sampling=sampling)
    refuse_options(name, **asked)
    taken = {option: given for option, given in asked.items() if name in _TAKEN_BY[option]}
    if name == "dense":
        del taken["strict_time"]
        return pure_requests.make_dense(epsilon, key=key, nulls=nulls, max_keys_per_unit=max_keys_per_unit, **taken)
    if name == "sparse":
        return pure_requests.make_sparse(epsilon, max_keys_per_unit=max_keys_per_unit, **taken)
    return pure_requests.make_compact(epsilon, max_keys_per_unit=max_keys_per_unit, **taken)


def assumed_keys(mechanism: Drawing[Any], universe: object, key: str | Sequence[str] | None) -> pa.Schema | None:
    """Names and types of keys that have no declared type, from the universe of a pure mechanism: that is public.

    Universes of ours read numbers and dates that are written as text by rules of their own.
    """
    import pyarrow as pa

    from dptally.mechanisms.dense_histogram import DenseHistogram
    from dptally.universes import Bijection

    if isinstance(mechanism, DenseHistogram):
        return mechanism.key_schema
    if not isinstance(universe, Bijection):
        return None
    names = ["key"] if key is None else [key] if isinstance(key, str) else list(key)
    return pa.schema([(name, universe.type) for name in names])


def check_keys(mechanism: Drawing[Any], universe: object, schema: pa.Schema) -> None:
    """Refuse key columns whose types are not those of the universe.

    Here, by declarations: while rows are read, only data that has a row would be refused.

    Raises:
        InvalidParameter: a column has another type than the listed keys.
        InvalidSource: a column cannot hold keys of the universe.
    """
    from dptally.mechanisms.dense_histogram import DenseHistogram
    from dptally.universes import read_universe

    if isinstance(mechanism, DenseHistogram):
        mechanism.check_types(schema)
    elif len(schema) == 1:
        read_universe(universe).indices(schema.empty_table().column(0))


def refuse_options(mechanism: str, **options: object) -> None:
    """Refuse an option that is given to a mechanism which does not take it."""
    for name, given in options.items():
        takers = _TAKEN_BY[name]
        known = mechanism in (*MECHANISMS, SKETCH, *PURE)
        if known and mechanism not in takers and given is not None and given is not False:
            raise InvalidParameter(f"{name} is for the {_listed(takers)}, got {mechanism!r}.")


def _listed(mechanisms: Sequence[str]) -> str:
    *others, last = map(repr, mechanisms)
    return f"mechanisms {', '.join(others)} and {last}" if others else f"mechanism {last}"
