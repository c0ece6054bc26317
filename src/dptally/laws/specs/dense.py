"""A value for every key of a public set, under pure differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count
from dptally.laws.audits import Audits, Exact
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.spec import Mechanism, Request, Spec, option
from dptally.laws.specs.copies import OneLaw
from dptally.laws.specs.universe_keys import LARGEST_BOUND
from dptally.universes.listed_keys import LARGEST_LIST, ListedKeys

if TYPE_CHECKING:
    import pyarrow as pa

USUAL_BOUND = 1 << 40


@dataclass(frozen=True)
class Dense(Mechanism):
    """Draw a noisy count for each key of a set that is known in advance, whether the key occurs or not.

    Guarantee:
        epsilon-differential privacy, delta = 0, for adding or removing one unit that raises the counts of at most
        l = `max_keys_per_unit` keys by one each. One key's law is certified at epsilon / l, and values are drawn
        independently, so l of them together keep epsilon. For this noise no larger share is possible
        (`certify_pure_copies`). The set of keys is part of the question, not of the data: it must be fixed without
        looking at the data.

    Keys outside the set:
        They are left out silently. A refusal, a warning or a count of them would be an outcome that one unit can bring
        about on its own: with no such key in the data it never happens, and with a single unit that has one it always
        does. No epsilon allows that, and delta is 0. Leaving out looks at one key at a time, so it only takes away
        changes between neighbours. Contributions are bounded before: a unit whose chosen keys are outside adds less
        than it could; filter the source to the set of keys to avoid this.

    Counts above the bound:
        They are counted as `bound`, silently, for the same reason.

    Error:
        `law.error_quantile(beta)` for one key, `law.simultaneous_error(beta, bins=number of keys)` for all.
    Cost:
        One table; 128 random bits and a fixed number of table steps for each key of the set, whatever the data.

    References:
        [BV19, Algorithm 5.1, Theorem 5.2].
    """

    name: ClassVar[str] = "dense"
    title: ClassVar[str] = "Dense histogram"
    summary: ClassVar[str] = "a noisy count for each of a list of keys, delta = 0"
    trees: ClassVar[bool] = True
    costs: ClassVar[tuple[Literal["universe"], float, float]] = ("universe", 6e-7, 170.0)
    references: ClassVar[tuple[str, ...]] = ("BV19",)
    audits: ClassVar[Audits] = Audits(
        exact=(Exact("bounded noise", 2),),
        observed="universe",
        frequencies=(1, 2, 20),
        copies=20_000,
        options=lambda keys: {"universe": list(range(keys)), "bound": 40},
        controls={"epsilon x 2": ("1", "0")},
    )
    pure: ClassVar[bool] = True
    listed: ClassVar[bool] = True

    universe: Any = option("the keys to release: a list, a table, a file, or a named universe of at most 2^22 keys")
    bound: int | None = option("largest count, to which larger ones are cut; 2^40 if left out")
    strict_time: bool = option("every draw takes a fixed number of random bits; always so", False)

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`; `universe` is a `ListedKeys` or a small `Universe`: the front has read others."""
        self._checked(request)
        if self.universe is None:
            raise InvalidParameter(
                "mechanism 'dense' needs a universe: the keys to release, as a list, a table or a file."
            )
        keys = self.universe
        if not isinstance(keys, ListedKeys):
            keys = ListedKeys.of(keys, request.key or ("key",))
        bound = USUAL_BOUND if self.bound is None else as_count("bound", self.bound, largest=LARGEST_BOUND)
        return DenseSpec(self.name, keys, bound, request)

    def one_law(self, request: Request) -> Spec:
        """See `Mechanism.one_law`."""
        self._checked(request)
        made = OneLaw(self.name, DyadicGeometric(request.epsilon / request.max_keys_per_unit, USUAL_BOUND), request)
        made.note = "Every key of the universe has a value, whether anybody has it or not."
        return made

    def plan(self, request: Request) -> Spec:
        """See `Mechanism.plan`: a list of keys is not read for it."""
        if self.universe is None:
            return self.spec(request)
        if self.universe.size > LARGEST_LIST:
            raise InvalidParameter("the universe has too many keys to list.")
        return self.one_law(request)


class DenseSpec(OneLaw):
    """A release of the keys of a list, all of them."""

    def __init__(self, name: str, keys: ListedKeys, bound: int, request: Request) -> None:
        law = DyadicGeometric(request.epsilon / request.max_keys_per_unit, bound)
        super().__init__(name, law, request)
        self._keys = keys

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The list."""
        return {"keys": self._keys}

    def assumed_keys(self, key: Sequence[str] | None) -> pa.Schema | None:
        """Those of the list."""
        del key
        return self._keys.schema

    def check_keys(self, schema: pa.Schema) -> None:
        """Refuse key columns of other types than the list has."""
        self._keys.check_types(schema)
