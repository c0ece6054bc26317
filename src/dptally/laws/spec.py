"""The public half of a mechanism: options, and a spec that answers for what is guaranteed before any data is read.

A mechanism is two files. The public half, a subclass of `Mechanism` in `dptally.laws.specs`, has a name, words for
people, options with their checks, and makes a `Spec` of a `Request`. The private half, in `dptally.mechanisms`, has one
function ``draw(question, summary, bits)``. Specs never import private code.

A spec may have several stages: `Spec.next` sees what was released so far, and nothing else, and says what is asked
next, or that all is there. The flow (`dptally.publishing`) summarises the private data for each question and calls
`draw`. A mechanism with one stage is the case where `next` answers once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from dptally.errors import InvalidParameter
from dptally.exact import as_delta
from dptally.laws.audits import Audits
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Part, Spending

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.laws.sampling_schemes import Scheme
    from dptally.laws.statistics import Statistics
    from dptally.verifiers.compact import CompactCertificate
    from dptally.verifiers.tables import Certificate

__all__ = ["Mechanism", "Option", "Question", "Request", "Spec", "option"]


@dataclass(frozen=True)
class Request:
    """What is asked of any mechanism, read and checked; all of it is public. Made by `dptally.request`.

    Attributes:
        epsilon: for the privacy unit.
        delta: for the privacy unit; None where it was left out.
        max_keys_per_unit: how many distinct keys of a unit are counted at most.
        key: names of the key columns; None for sources without names.
        unit: the column that identifies the privacy unit; None where every row is a unit of its own.
        values: whether counts are released with the keys.
        sampling: how keys are sampled, or None.
        nulls: whether a null is a key like any other.
        total: for planning, the supposed number of occurrences, which a sampling rate may be set from.
        merged: whether a sketch is made of parts that are merged, as on a cluster.
        measured: whether the keys of a unit have no stated bound, so that a mechanism that measures sizes may do so.
        statistics: sums, means, totals and counts of rows, or None.
    """

    epsilon: Fraction
    delta: Fraction | None
    max_keys_per_unit: int = 1
    key: tuple[str, ...] | None = None
    unit: str | None = None
    values: bool = True
    sampling: Scheme | None = None
    nulls: Literal["drop", "keep"] = "drop"
    total: int | None = None
    merged: bool = False
    measured: bool = False
    statistics: Statistics | None = None


@dataclass(frozen=True)
class Question:
    """One stage: what is to be summarised, and the law that the answer is drawn from. Public.

    Attributes:
        law: P[output | summary].
        certificate: what the verifiers found about the law, for everything that a unit can touch.
        max_keys_per_unit: how many keys of one unit may have been counted.
        summary: what `draw` needs: "keys" (distinct keys and their counts, or a sample of them), "total" (how many
            occurrences there are), "sketch", "bins" (counts on a grid) or "strings" (values with their counts).
        parameters: what else the summary or the draw needs.
    """

    law: Any
    certificate: Any
    max_keys_per_unit: int = 1
    summary: str = "keys"
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Spec:
    """What will be released: the law, what it guarantees for a unit and what it spends, before any data is read.

    Args:
        name: of the mechanism, as in `Guarantee.mechanism`.
        law: of what is released.
        certify: verifies the law for everything that a unit can touch; called once, before anything is spent.
        epsilon: guaranteed for the unit.
        delta: guaranteed for the unit.
        max_keys_per_unit: bound on what one unit touches.
        parts: what the release consists of, for composition in a ledger.
        conditions: fields of the guarantee that this mechanism alone has.
    """

    kind: ClassVar[str] = "table"
    summary: ClassVar[str] = "keys"
    drawn_by: ClassVar[str | None] = None
    readings: ClassVar[int] = 1
    """How often the source is read."""

    def __init__(
        self,
        name: str,
        law: Any,
        certify: Callable[[], Certificate | CompactCertificate],
        *,
        epsilon: Fraction,
        delta: Fraction,
        parts: tuple[Part, ...],
        max_keys_per_unit: int = 1,
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.law, self._certify = name, law, certify
        self.epsilon, self.delta, self.max_keys_per_unit = epsilon, delta, max_keys_per_unit
        self._parts, self._conditions = parts, dict(conditions or {})

    def __repr__(self) -> str:
        return f"<Spec of {self.name!r}: epsilon={float(self.epsilon):.6g}, delta={float(self.delta):.6g}>"

    @property
    def mechanism(self) -> str:
        """The name under which the private half is registered."""
        return self.drawn_by or self.name

    @cached_property
    def certificate(self) -> Any:
        """What the verifiers found.

        Raises:
            PrivacyViolation: the law does not keep what is asked; nothing was read, spent or drawn.
        """
        return self._certify()

    @property
    def spending(self) -> Spending:
        """What the release spends, for a ledger."""
        return Spending(self.name, self.epsilon, self.delta, self._parts)

    def guarantee(self, unit: str | None, *, private: bool) -> Guarantee:
        """What is guaranteed for what is released.

        Args:
            unit: the column that identifies the privacy unit, or None.
            private: whether the random bits are secret.
        """
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=unit,
            max_keys_per_unit=self.max_keys_per_unit,
            mechanism=self.name,
            private=private,
        ).under(**self._conditions)

    def renamed(self, name: str) -> Self:
        """The same under another name in guarantees and ledgers, drawn by the same private half."""
        made = copy.copy(self)
        made.name, made.drawn_by = name, self.mechanism  # type: ignore[misc]  # of this one alone
        return made

    def next(self, outputs: Sequence[Any]) -> Question | None:
        """What is asked after these outputs, which are public; None when all has been released."""
        return None if outputs else self._question()

    def _question(self) -> Question:
        return Question(self.law, self.certificate, self.max_keys_per_unit, self.summary, self.parameters)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What the only question of a mechanism with one stage needs beside the law."""
        return {}

    def result(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """What a release is made of, from all outputs."""
        return {"rows": outputs[-1]}

    # ---- keys ----

    def assumed_keys(self, key: Sequence[str] | None) -> pa.Schema | None:
        """Names and types of key columns that have no declared type, where the mechanism fixes them; else None."""
        del key
        return None

    def check_keys(self, schema: pa.Schema) -> None:
        """Refuse key columns by their declared names and types, before a row is read."""
        del schema

    def check_count(self, count: str | None) -> None:
        """Refuse data that is aggregated already, where rows are needed."""
        del count

    # ---- planning ----

    @property
    def planned_law(self) -> Any:
        """The law that tells the chance of a key to be released."""
        return self.law

    def law_for_size(self, keys: int) -> Any:
        """The law if every unit had so many keys, for a mechanism that measures sizes; the planned one elsewhere."""
        del keys
        return self.planned_law

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """Stages and what share of the budget each gets, about, where there are several."""
        return ()

    note: str = ""
    """What else to know when planning, in a sentence."""
    at_least: bool = False
    """Whether the chances of `planned_law` are lower bounds."""


@dataclass(frozen=True)
class Option:
    """An option of a mechanism.

    Attributes:
        name: the keyword.
        help: what it does, in a sentence.
        default: if left out.
    """

    name: str
    help: str
    default: Any


def option(help: str, default: Any = None) -> Any:  # noqa: A002 - the word of command lines
    """A field of a `Mechanism`."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Mechanism:
    """A mechanism with its options: what `publish(mechanism=...)` takes. Subclasses are the public halves.

    Class attributes:
        name: in lower case, as `publish` takes it as text.
        title: of the mechanism, for people.
        summary: what it does, in a sentence.
        because: why it is recommended, where it is; follows ", because".
        references: keys of `docs/references.bib`.
        events: other names that guarantees and ledgers have for what it releases.
        pure: whether delta is 0.
        keys_only: whether it can release keys without values.
        sampled: whether it takes `sampling`.
        cluster: what a Spark cluster does: "rows" (count and draw), "sketch" (sketch), or None.
        kind: of release.
        automatic: whether "auto" may choose it for units with several keys.
        measures: whether it measures how many keys units have, where no bound is stated.
        statistics: whether it releases sums, means, totals and counts of rows.
        trees: whether it has a law for the counts of a tree, or of a search in rounds.
        listed: whether its `universe` may be a list of keys.
        bounded_memory: whether memory does not grow with the number of distinct keys.
        costs: what it takes beside counting, roughly: for each of its "capacity" or keys of its "universe", seconds
            and bytes, measured once.
        audits: how `dptally audit` looks at it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    because: ClassVar[str] = ""
    references: ClassVar[tuple[str, ...]] = ()
    events: ClassVar[tuple[str, ...]] = ()
    pure: ClassVar[bool] = False
    keys_only: ClassVar[bool] = False
    sampled: ClassVar[bool] = False
    cluster: ClassVar[Literal["rows", "sketch"] | None] = None
    kind: ClassVar[str] = "table"
    automatic: ClassVar[bool] = False
    measures: ClassVar[bool] = False
    statistics: ClassVar[bool] = False
    trees: ClassVar[bool] = False
    listed: ClassVar[bool] = False
    bounded_memory: ClassVar[bool] = False
    costs: ClassVar[tuple[Literal["capacity", "universe"], float, float] | None] = None
    audits: ClassVar[Audits] = Audits()

    def spec(self, request: Request) -> Spec:
        """Check the request and make the law; nothing is verified yet.

        Raises:
            InvalidParameter: with the reason why the mechanism cannot meet the request; planners show it, too.
        """
        raise NotImplementedError

    def plan(self, request: Request) -> Spec:
        """The spec for planning, where it can be had with less than `spec` needs."""
        return self.spec(request)

    def one_law(self, request: Request) -> Spec:
        """The spec of single counts that a unit is in `max_keys_per_unit` times: levels of a tree, rounds of a search.

        Raises:
            InvalidParameter: this mechanism has no such law.
        """
        raise InvalidParameter(f"mechanism {self.name!r} has no law for the counts of a tree.")

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """The options there are."""
        return tuple(
            Option(each.name, each.metadata["help"], each.default) for each in fields(cls) if "help" in each.metadata
        )

    def _checked(self, request: Request) -> Fraction:
        """Refuse what this mechanism does not take; the delta to keep."""
        if self.pure and request.delta:
            raise InvalidParameter(
                f"mechanism {self.name!r} keeps delta = 0; leave `delta` out, got {float(request.delta):g}."
            )
        if not self.pure and request.delta is None:
            raise InvalidParameter(
                f"delta is missing: mechanism {self.name!r} needs one, well below one over the number of units, "
                "such as 1e-6."
            )
        if not request.values and not self.keys_only:
            raise InvalidParameter(f"mechanism {self.name!r} always releases values with the keys.")
        if request.sampling is not None and not self.sampled:
            raise InvalidParameter(f"sampling needs the mechanism 'weighted_sample', got {self.name!r}.")
        if request.statistics is not None and not self.statistics:
            raise InvalidParameter(
                f"sums, means, totals and count='rows' need the mechanism 'rounds', got {self.name!r}."
            )
        return Fraction(0) if self.pure else as_delta(request.delta)
