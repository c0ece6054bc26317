"""Laws and mechanisms by name, imported on use, so that starting stays cheap.

One name, one spec, one private half (`dptally.mechanisms.registry`). Whatever needs to know which mechanisms there are,
what they are called, what they take or what they are for asks here: publish, plan, explain, the command line, reports
and audits keep no tables of their own. `register` adds a mechanism from outside of the package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    from dptally.laws.base import Law
    from dptally.laws.spec import Mechanism

__all__ = [
    "LAWS",
    "MECHANISMS",
    "USUAL",
    "USUAL_FOR_RANGES",
    "CompactMechanism",
    "TableMechanism",
    "law_from_facts",
    "mechanism_class",
    "mechanism_names",
    "read_mechanism",
]

LAWS = {  # names in files never change
    "WeightedSample": "dptally.laws.weighted_sample:WeightedSample",
    "Stability": "dptally.laws.stability:Stability",
    "SharedNoise": "dptally.laws.shared_noise:SharedNoise",
    "SummedNoise": "dptally.laws.summed_noise:SummedNoise",
    "GaussianHistogram": "dptally.laws.gaussian_histogram:GaussianHistogram",
    "DyadicGeometric": "dptally.laws.bounded_geometric:DyadicGeometric",
    "SampleAndThreshold": "dptally.laws.sample_and_threshold:SampleAndThreshold",
    "HeaviestNoise": "dptally.laws.top_k_noise:TopKNoise",
}
MECHANISMS = {  # in the order in which they are shown
    "weighted_sample": "dptally.laws.specs.weighted_sample:WeightedSample",
    "stability": "dptally.laws.specs.stability:Stability",
    "gaussian": "dptally.laws.specs.gaussian:Gaussian",
    "sample_and_threshold": "dptally.laws.specs.sample_and_threshold:SampleAndThreshold",
    "misra_gries": "dptally.laws.specs.misra_gries:MisraGries",
    "dense": "dptally.laws.specs.dense:Dense",
    "sparse": "dptally.laws.specs.sparse:Sparse",
    "compact": "dptally.laws.specs.compact:Compact",
}
USUAL = "weighted_sample"
USUAL_FOR_RANGES = "sample_and_threshold"
TableMechanism = Literal[
    "weighted_sample", "stability", "gaussian", "sample_and_threshold", "misra_gries", "dense", "sparse"
]
"""For type checkers: the mechanisms whose release lists keys."""
CompactMechanism = Literal["compact"]
"""For type checkers: the mechanism whose release answers any key."""


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def law_from_facts(facts: dict[str, Any]) -> Law:
    """Make the law that `facts`, the name and parameters of `law.facts()`, describe.

    Raises:
        KeyError: for a law of another name, or a parameter that is missing.
        InvalidParameter: for a parameter that the law refuses.
    """
    return cast("Law", _imported(LAWS[facts["name"]]).from_facts(facts))


def mechanism_names() -> tuple[str, ...]:
    """Names that `publish` takes, in the order in which they are shown.

    >>> mechanism_names()[0]
    'weighted_sample'
    """
    return tuple(MECHANISMS)


def mechanism_class(name: object) -> type[Mechanism]:
    """The public half of a mechanism, by name.

    Raises:
        InvalidParameter: there is none of this name.
    """
    if not isinstance(name, str) or name not in MECHANISMS:
        raise InvalidParameter(f"mechanism must be one of {', '.join(map(repr, MECHANISMS))}, got {name!r}.")
    return cast("type[Mechanism]", _imported(MECHANISMS[name]))


def read_mechanism(mechanism: object, **options: Any) -> Mechanism:
    """A mechanism with its options: as given, or made from a name and options beside it.

    Args:
        mechanism: a name, or an object such as ``dptally.Sparse(universe="ipv4")``.
        options: those that were given beside a name; None and False stand for left out.

    Raises:
        InvalidParameter: an unknown name, or an option that the mechanism does not take.
    """
    from dptally.laws.spec import Mechanism

    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if isinstance(mechanism, Mechanism):
        if given:
            raise InvalidParameter(f"{next(iter(given))} is an option of the mechanism; give it to the object itself.")
        return mechanism
    chosen = mechanism_class(mechanism)
    taken = {each.name for each in chosen.options()}
    for name in given:
        if name not in taken:
            takers = [each for each in MECHANISMS if name in {o.name for o in mechanism_class(each).options()}]
            raise InvalidParameter(f"{name} is for the {_listed(takers)}, got {mechanism!r}.")
    return chosen(**given)


def _listed(names: list[str]) -> str:
    *others, last = map(repr, names)
    return f"mechanisms {', '.join(others)} and {last}" if others else f"mechanism {last}"
