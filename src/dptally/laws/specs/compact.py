"""A noisy count for every key of a huge universe, in room for as many keys as the data has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count
from dptally.laws.audits import Audits, Exact
from dptally.laws.field_geometric import FieldGeometric, choose_law
from dptally.laws.spec import Mechanism, Request, Spec, option
from dptally.laws.specs.universe_keys import LARGEST_BOUND, USUAL_CAPACITY, OverUniverse, numbered
from dptally.privacy.spending import Part
from dptally.universes import Universe
from dptally.verifiers.compact import CompactCertificate, certify_compact

BeyondCapacity = Literal["subsample", "refuse"]
LARGEST_CAPACITY = 10_000_000
_USUAL_LARGEST_COUNT = (1 << 32) - 1


@dataclass(frozen=True)
class Compact(Mechanism):
    """Every key of a universe gets a noisy count, all of them written as one random polynomial.

    Key number x has the value that the field element p(x) means, where p is a polynomial with n + 1 coefficients over
    a field of q >= |universe| elements and n is the capacity. For a uniformly random p, the values of any n + 1 keys
    are independent draws of the law of count 0. For the data, a value is drawn for every key of positive count c from
    the law of count c, then an element that means this value, and p is a uniformly random one among the polynomials
    that have these elements at these keys: the interpolating one, plus a random multiple of the polynomial that
    vanishes there.

    Guarantee:
        Pure epsilon-differential privacy for adding or removing one unit, where a unit adds one to at most
        `max_keys_per_unit` = l keys. The chance of p is

            q^-(n+1) prod_x E_{c_x}(p(x)) / E_0(p(x)),

        one expression for all data sets with at most n + 1 distinct keys (the derivation is in
        `dptally.verifiers.compact`), so one step of one count changes it by the ratio of E_{c+1} and E_c, at most
        rho. This is the whole loss: the two losses that [BV19, Thm. 8.3] adds for its empty bins are 0 because counts 0
        and above have the same denominator q, and one of the two counts of a replaced unit is not there for an added
        one. Keys outside the universe are left out, each row by itself; different writings of one key add up, which
        leaves the sum of changes as it is.

        The number of distinct keys is private and the number of coefficients is not, so data beyond the capacity needs
        a rule that is private as well:

        "subsample" (default): of more than n occurrences (units times keys) n are kept, a uniformly random choice. Put
        all occurrences of both data sets in one uniformly random order and keep the first n of each: a unit with l
        keys moves at most l occurrences in and at most l out, so the kept counts differ by 2 l in sum, for every order;
        mixing over orders keeps the bound. Hence rho^(2 l) <= e^epsilon is required, **for all data sets**. Replacing
        a unit also moves at most l in and l out, so the same epsilon holds for replacing one unit. This is the price
        the paper pays, whose neighbours replace a row. No fixed rule does with changes of 1 for l = 1 and n >= 3: let D
        have n distinct keys and x be another; what is kept of D + x would have to be within 1 of D + x - y for all y in
        D, and only D + x itself is.

        "refuse": data with more than n *distinct keys* is refused before anything is drawn. Only
        rho^l <= e^epsilon is required, half the noise. The refusal itself tells something, so the guarantee compares
        data sets of at most n distinct keys: declare it when the bound is public knowledge (there are no more than n
        units, or a quota). Replacing one unit costs twice epsilon.

    Error:
        Each key's value follows `FieldGeometric` for its count exactly, whether the key occurs or not: with at most n
        of n + 1 coefficients taken by other keys, p(x) is uniform for a key that does not. With chance 1 - beta the
        error is O(log(1/beta) / epsilon), without the factor log |universe| that every release of sparse counts must
        pay [BV19, Thm. 7.2]. If a subsample was taken, the counts are those of the subsample, and no factor is known to
        scale them back: choose a generous capacity.
    Cost:
        O(n log^2 n) field operations and n + 1 field elements, whatever the data; the time also depends on the number
        of distinct keys. For each key of positive count a fixed number of random bits.

    References:
        [BV19, section 8]. Deviations are listed in docs/mechanisms/compact.md.
    """

    name: ClassVar[str] = "compact"
    title: ClassVar[str] = "Compact histogram"
    summary: ClassVar[str] = "answers any key of a huge universe, and lists none, delta = 0"
    costs: ClassVar[tuple[Literal["capacity"], float, float]] = ("capacity", 3e-5, 1300.0)
    references: ClassVar[tuple[str, ...]] = ("BV19",)
    audits: ClassVar[Audits] = Audits(
        exact=(Exact("elements of a field", 1),),
        observed="universe",
        copies=700,
        options=lambda keys: {"universe": f"integers:0..{keys - 1}", "capacity": keys},
        runs=7_000,
    )
    pure: ClassVar[bool] = True
    kind: ClassVar[str] = "polynomial"

    universe: Any = option("all keys there may be, fixed without looking at the data, such as 'ipv4'")
    capacity: int | None = option("how many occurrences (units times keys) it is made from at most; 10,000 if left out")
    bound: int | None = option("largest count, to which larger ones are cut")
    beyond_capacity: BeyondCapacity | None = option(
        "data beyond the capacity: 'subsample' (default) keeps a random choice, and the guarantee holds for all data; "
        "'refuse' declares the capacity as a public bound on the number of distinct keys, and takes half the noise"
    )

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`."""
        self._checked(request)
        rule: BeyondCapacity = "subsample" if self.beyond_capacity is None else self.beyond_capacity
        if rule not in ("subsample", "refuse"):
            raise InvalidParameter(f"beyond_capacity must be 'subsample' or 'refuse', got {str(rule)!r}.")
        universe = numbered(self.name, self.universe)
        capacity = USUAL_CAPACITY if self.capacity is None else self.capacity
        capacity = as_count("capacity", capacity, largest=LARGEST_CAPACITY)
        largest = capacity if rule == "subsample" else _USUAL_LARGEST_COUNT
        if self.bound is not None:
            largest = as_count("bound", self.bound, largest=LARGEST_BOUND - 1)
        each = request.epsilon / changes_per_unit(request.max_keys_per_unit, rule)
        law = choose_law(each, universe_size=universe.size, largest_count=largest)
        return CompactSpec(self.name, law, universe, capacity, rule, request)


class CompactSpec(OverUniverse):
    """A release that answers any key of the universe."""

    kind: ClassVar[str] = "polynomial"

    def __init__(
        self,
        name: str,
        law: FieldGeometric,
        universe: Universe,
        capacity: int,
        beyond_capacity: BeyondCapacity,
        request: Request,
    ) -> None:
        epsilon, keys = request.epsilon, request.max_keys_per_unit
        super().__init__(
            name,
            law,
            lambda: certify_law(law, epsilon, keys, beyond_capacity),
            epsilon=epsilon,
            delta=Fraction(0),
            parts=(Part(epsilon, Fraction(0)),),
            max_keys_per_unit=keys,
            conditions={"most_distinct_keys": capacity} if beyond_capacity == "refuse" else {},
        )
        self._universe, self._capacity, self._rule = universe, capacity, beyond_capacity
        self.note = (
            "Lists no keys: any key of the universe that is asked for has an answer. Of more than "
            f"{capacity:,} occurrences, as many are kept at random."
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What a release holds beside the polynomial."""
        return {"universe": self._universe, "capacity": self._capacity, "beyond_capacity": self._rule}

    def result(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """The polynomial, and what its values mean."""
        return {"coefficients": outputs[-1], "universe": self._universe, "beyond_capacity": self._rule}


def changes_per_unit(max_keys_per_unit: int, beyond_capacity: BeyondCapacity) -> int:
    """By how much one unit changes the counts that are drawn for, summed over all keys, at most.

    One for each of its keys; with a subsample, each of them may also push out another occurrence.
    """
    return max_keys_per_unit * (2 if beyond_capacity == "subsample" else 1)


def certify_law(
    law: FieldGeometric, epsilon: Fraction, max_keys_per_unit: int, beyond_capacity: BeyondCapacity
) -> CompactCertificate:
    """Have the verifier look at a law, for units that touch up to `max_keys_per_unit` keys.

    Raises PrivacyViolation if the law does not keep epsilon.
    """
    return certify_compact(
        law.tails,
        size=law.size,
        largest_count=law.largest_count,
        floor=law.floor,
        element_bits=law.element_bits,
        changes=changes_per_unit(max_keys_per_unit, beyond_capacity),
        epsilon=epsilon,
    )
