"""Laws and mechanisms by name, imported on use, so that starting stays cheap.

One name, one spec, one private half (`dptally.mechanisms.registry`). Whatever needs to know which mechanisms there are,
what they are called, what they take or what they are for asks here: publish, plan, explain, the command line, reports
and audits keep no tables of their own. `register` adds a mechanism from outside of the package.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    from dptally.laws.base import Law
    from dptally.laws.spec import Mechanism

__all__ = [
    "ENTRY_POINTS",
    "LAWS",
    "MECHANISMS",
    "USUAL",
    "USUAL_FOR_RANGES",
    "CompactMechanism",
    "TableMechanism",
    "add_mechanism",
    "law_from_facts",
    "mechanism_class",
    "mechanism_names",
    "read_mechanism",
    "references_of",
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
    "KeyRounds": "dptally.laws.key_rounds:KeyRounds",
}
MECHANISMS = {  # in the order in which they are shown
    "weighted_sample": "dptally.laws.specs.weighted_sample:WeightedSample",
    "stability": "dptally.laws.specs.stability:Stability",
    "gaussian": "dptally.laws.specs.gaussian:Gaussian",
    "rounds": "dptally.laws.specs.rounds:Rounds",
    "sample_and_threshold": "dptally.laws.specs.sample_and_threshold:SampleAndThreshold",
    "misra_gries": "dptally.laws.specs.misra_gries:MisraGries",
    "dense": "dptally.laws.specs.dense:Dense",
    "sparse": "dptally.laws.specs.sparse:Sparse",
    "compact": "dptally.laws.specs.compact:Compact",
}
ENTRY_POINTS = "dptally.mechanisms"
"""The group of entry points in which installed packages name a function that registers their mechanisms."""
USUAL = "weighted_sample"
USUAL_FOR_RANGES = "sample_and_threshold"
TableMechanism = Literal[
    "auto",
    "weighted_sample",
    "stability",
    "gaussian",
    "rounds",
    "sample_and_threshold",
    "misra_gries",
    "dense",
    "sparse",
]
"""For type checkers: the mechanisms whose release lists keys."""
CompactMechanism = Literal["compact"]
"""For type checkers: the mechanism whose release answers any key."""


_OUTSIDE: dict[str, type[Mechanism]] = {}
_OUTSIDE_LAWS: dict[str, type[Law]] = {}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def add_mechanism(mechanism: type[Mechanism], law: type[Law]) -> None:
    """Add the public half of a mechanism from outside of the package; see `dptally.register`.

    Raises:
        InvalidParameter: the name of the mechanism or of its law is taken, or is no name.
    """
    if not isinstance(mechanism.name, str) or not _NAME.fullmatch(mechanism.name):
        raise InvalidParameter("a mechanism has a name of lower-case letters, digits and underscores.")
    if mechanism.name in MECHANISMS or _OUTSIDE.get(mechanism.name, mechanism) is not mechanism:
        raise InvalidParameter(f"there is a mechanism {mechanism.name!r} already, and it cannot be replaced.")
    if not law.stored_as or law.stored_as in LAWS or _OUTSIDE_LAWS.get(law.stored_as, law) is not law:
        raise InvalidParameter(f"there is a law {law.stored_as!r} already, and it cannot be replaced.")
    _OUTSIDE[mechanism.name], _OUTSIDE_LAWS[law.stored_as] = mechanism, law


@cache
def _load_outside() -> None:
    """Let installed packages register their mechanisms: each entry point of the group is a function, called once."""
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        point.load()()


def law_from_facts(facts: dict[str, Any]) -> Law:
    """Make the law that `facts`, the name and parameters of `law.facts()`, describe.

    Raises:
        KeyError: for a law of another name, or a parameter that is missing.
        InvalidParameter: for a parameter that the law refuses.
    """
    name = facts["name"]
    if name not in LAWS:
        _load_outside()
    return (_OUTSIDE_LAWS[name] if name not in LAWS else cast("type[Law]", _imported(LAWS[name]))).from_facts(facts)


def mechanism_names() -> tuple[str, ...]:
    """Names that `publish` takes, in the order in which they are shown.

    >>> mechanism_names()[0]
    'weighted_sample'
    """
    return (*MECHANISMS, *_OUTSIDE)


def mechanism_class(name: object) -> type[Mechanism]:
    """The public half of a mechanism, by name.

    Raises:
        InvalidParameter: there is none of this name.
    """
    if isinstance(name, str) and name in MECHANISMS:
        return cast("type[Mechanism]", _imported(MECHANISMS[name]))
    _load_outside()
    if isinstance(name, str) and name in _OUTSIDE:
        return _OUTSIDE[name]
    raise InvalidParameter(f"mechanism must be one of {', '.join(map(repr, mechanism_names()))}, got {name!r}.")


def references_of(event: str) -> tuple[str, ...]:
    """Keys of `docs/references.bib` for the mechanism that a guarantee names; events of several stages have a suffix.

    >>> references_of("strict_sparse"), references_of("dense_tree")
    (('BV19',), ('BV19',))
    """
    for name in mechanism_names():
        if event in (name, *mechanism_class(name).events, f"{name}_tree", f"{name}_search"):
            return mechanism_class(name).references
    return ()


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
            takers = [each for each in mechanism_names() if name in {o.name for o in mechanism_class(each).options()}]
            raise InvalidParameter(f"{name} is for the {_listed(takers)}, got {mechanism!r}.")
    return chosen(**given)


def _listed(names: list[str]) -> str:
    *others, last = map(repr, names)
    return f"mechanisms {', '.join(others)} and {last}" if others else f"mechanism {last}"
