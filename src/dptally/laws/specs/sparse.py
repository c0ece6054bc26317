"""Pure differential privacy over a universe of keys far too large to go through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count
from dptally.laws.audits import Audits, Exact
from dptally.laws.spec import Mechanism, Request, Spec, option
from dptally.laws.specs.copies import OneLaw
from dptally.laws.specs.universe_keys import LARGEST_BOUND, USUAL_CAPACITY, OverUniverse, numbered
from dptally.laws.top_k_noise import LARGEST_STRICT_KEEP, TopKNoise
from dptally.privacy.spending import Part
from dptally.universes import Universe

_STRICT = "strict_sparse"  # the name of the mechanism in strict time
_STRICT_CAPACITY, _STRICT_BOUND, _STRICT_MIXING = 100, 1000, 20


@dataclass(frozen=True)
class Sparse(Mechanism):
    """Add noise to the count of every key of a universe, and release the largest.

    The law. Every key x of the universe X, whether it occurs in the data or not, gets a noisy count clamp(c_x + Z_x) in
    0 .. bound, the Z_x independent and two-sided geometric (`ClampedGeometric`). Released are the keys whose noisy
    count is above the (capacity + 1)-th largest one (above 0 if there are not so many keys), with it: at most
    `capacity`. Ties with the (capacity + 1)-th largest are all left out. This is KeepHeavy [BV19, Alg. 6.1] with a
    public cap in place of the number of rows, which is private when rows may be added or removed.

    Keys that do not occur in the data may be released. It cannot be otherwise with delta = 0: a key that appears only
    if a unit has it identifies that unit. `law.significant_value` says from which value on all released keys are real,
    with a stated probability; cutting there is free.

    Guarantee:
        epsilon-differential privacy (delta = 0) for adding or removing one unit that raises the counts of at most
        `max_keys_per_unit` = l keys by one each. Each noisy count changes its probabilities by a factor of at most
        e^(epsilon / l), at most l of them are touched, and they are independent: the whole noisy histogram is epsilon-
        differentially private. What is released is a function of it alone. Nothing else is used: capacity, bound and
        universe are public, and rows outside the universe are left out silently, since a refusal would tell that they
        exist. For l keys nothing better than epsilon / l is possible with independent noise of this kind: the outcome
        that all l counts end up at `bound` attains the product of the factors.

    Error:
        See `TopKNoise`, the law: `key_error`, `reported_from` and `simultaneous_error`, all for at most `capacity`
        distinct keys in the data; [BV19, Thm. 6.11] is in `studies.sparse_printed`, and [BV19, Thm. 7.2], which
        says that no release of at most as many keys does better than about half of that, as `least_possible_error`.

    References:
        [BV19, section 6].
    """

    name: ClassVar[str] = "sparse"
    title: ClassVar[str] = "Sparse histogram"
    summary: ClassVar[str] = "the largest noisy counts among all keys of a huge universe, delta = 0"
    costs: ClassVar[tuple[Literal["capacity"], float, float]] = ("capacity", 3e-7, 120.0)
    events: ClassVar[tuple[str, ...]] = (_STRICT,)
    references: ClassVar[tuple[str, ...]] = ("BV19",)
    audits: ClassVar[Audits] = Audits(
        exact=(Exact("noise of a universe", 2), Exact("noise in strict time", 1, "sparse, strict time")),
        observed="universe",
        copies=2_000,
        options=lambda keys: {"universe": f"integers:0..{keys - 1}", "capacity": keys},
        runs=40_000,
        controls={"epsilon x 2": ("1", "0")},
    )
    pure: ClassVar[bool] = True

    universe: Any = option("all keys there may be, fixed without looking at the data, such as 'ipv4'")
    capacity: int | None = option("how many keys are released at most; 10,000 if left out, 100 in strict time")
    bound: int | None = option("largest count, to which larger ones are cut")
    strict_time: bool = option("sample from a number of random bits that does not depend on the data", False)

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`."""
        self._checked(request)
        universe = numbered(self.name, self.universe)
        usual = _STRICT_CAPACITY if self.strict_time else USUAL_CAPACITY
        keep = as_count("capacity", usual if self.capacity is None else self.capacity, largest=1 << 30)
        if self.strict_time and keep > LARGEST_STRICT_KEEP:
            raise InvalidParameter(f"capacity must be at most {LARGEST_STRICT_KEEP} in strict time, got {keep}.")
        largest = _STRICT_BOUND if self.strict_time else LARGEST_BOUND
        law = TopKNoise(
            request.epsilon / request.max_keys_per_unit,
            size=universe.size,
            keep=keep,
            bound=largest if self.bound is None else as_count("bound", self.bound, largest=LARGEST_BOUND),
            universe=universe.name,
            mixing=_STRICT_MIXING if self.strict_time else None,
        )
        return SparseSpec(_STRICT if self.strict_time else self.name, law, universe, request)


class SparseSpec(OverUniverse, OneLaw):
    """A release of the largest noisy counts over a universe."""

    at_least = True
    drawn_by: ClassVar[str] = Sparse.name

    def __init__(self, name: str, law: TopKNoise, universe: Universe, request: Request) -> None:
        super().__init__(name, law, request)
        self._parts = (Part(self.epsilon, self.delta),)
        self._universe = universe
        self.note = f"For data with at most {law.keep:,} distinct keys; a few released keys may be nobody's."

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The universe."""
        return {"universe": self._universe}
