"""What a release guarantees, in numbers and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dptally.labels import quoted

_HEX_DIGITS = frozenset("0123456789abcdef")
_MOST_SHOWN = 300  # letters of a condition in a sentence


@dataclass(frozen=True)
class Record:
    """Where a ledger has the spending of a release. Public, so it must tell nothing about other spendings."""

    release_id: str  # 128 random bits as hexadecimal text, of this release alone
    ledger_id: str  # the ledger's own 128 random bits
    # which entry of the ledger; None, as numbers tell how many attempts there were before. Releases made with earlier
    # versions have one
    entry: int | None
    # the hash of the entry's first row in the ledger's chain, which stands for all of the history before; under a
    # secret key of the ledger, so that no guess about that history can be tested with it
    entry_hash: str

    def facts(self) -> dict[str, str | int | None]:
        """As plain data for metadata."""
        return dict(vars(self))

    @classmethod
    def read(cls, facts: Any) -> Record | None:
        """From plain data; None where there is none, as in files of releases that no ledger has.

        Raises ValueError for data that is no record.
        """
        if facts is None:
            return None
        names = facts["release_id"], facts["ledger_id"], facts["entry_hash"]
        sizes = [32, 32, 64]
        if [len(name) for name in names] != sizes or not all(_HEX_DIGITS.issuperset(name) for name in names):
            raise ValueError("not a record")
        entry = facts.get("entry")
        if entry is not None and (isinstance(entry, bool) or not isinstance(entry, int)):
            raise ValueError("not a record")
        return cls(names[0], names[1], entry, names[2])


CONDITIONS: Mapping[str, int | Fraction | None] = {
    "spent_on_size": Fraction(0),
    "spent_on_shortfall": Fraction(0),
    "sketch_capacity": None,
    "sketches": 1,
    "elements_per_unit": 1,
    "most_distinct_keys": None,
    "rounds": 1,
    "statistics": 0,
    "totals": 0,
    "rows_per_unit_and_key": 1,
    "periods": 1,
    "periods_per_key": 1,
    "within": 0,
}
"""Facts that belong to some mechanisms, and what they are where a guarantee does not name them."""
WITHIN = ("", "day", "week", "month", "period")
"""Words for the condition `within`."""


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee for adding or removing one unit. Meanings never change; new kinds get new types.

    Attributes:
        epsilon: exact.
        delta: exact.
        unit: the column whose values are protected, or None when every row is a unit of its own.
        max_keys_per_unit: how many distinct keys of one unit are counted at most, each once; 0 where all are.
        mechanism: the mechanism that made the release; "sanitized_sample" for a sample that another party had drawn.
        private: False when the draw was seeded: then nothing at all is guaranteed.
        neighbours: which data sets the guarantee compares; always "add or remove one unit".
        record: where a ledger has the spending; None for a release without a ledger.
        where: which rows were read, as the condition was written; None for all of them. It is public, and looks at one
            row at a time, so that the guarantee holds for the whole data.
        conditions: named facts that belong to the mechanism, in order of names; made by `under`. Each is an attribute:

            - spent_on_size: the part of epsilon that a private estimate of the total took, for a sampling rate.
            - spent_on_shortfall: the part of epsilon that a private estimate took of how far a sketch falls short.
            - sketch_capacity: how many counters the released sketch has; None where counts were exact.
            - sketches: how many sketches of that capacity were added up; 1 for one, or for merged ones.
            - elements_per_unit: how many elements of a stream one unit may have, equal ones or not; 1 where units are
              rows, and where `max_keys_per_unit` bounds what a unit adds.
            - most_distinct_keys: the number of distinct keys that the data was declared to have at most, where the
              guarantee compares such data sets only; None where it compares all.
            - rounds: in how many rounds keys were looked for; `max_keys_per_unit` is for each of them.
            - statistics: how many sums and means of columns were released for each key.
            - totals: 1 where the number of units and of keys that were not released was, else 0.
            - rows_per_unit_and_key: how many rows of a unit and key were counted at most.
            - periods: how many periods the series has that the guarantee is for as a whole; 1 for a single release.
            - periods_per_key: in how many periods of a series a unit counts for one key.
            - within: 0, or a place in `WITHIN`: what is added or removed are the rows of a unit in one period alone.
    """

    epsilon: Fraction
    delta: Fraction
    unit: str | None
    max_keys_per_unit: int
    mechanism: str
    private: bool = True
    neighbours: str = "add or remove one unit"
    record: Record | None = None
    where: str | None = None
    conditions: tuple[tuple[str, int | Fraction], ...] = ()

    def __getattr__(self, name: str) -> Any:
        """A condition by its name, or what it is where it is not named."""
        if name not in CONDITIONS:
            raise AttributeError(f"a guarantee has no {name!r}.")
        return dict(self.conditions).get(name, CONDITIONS[name])

    def under(self, **conditions: int | Fraction | None) -> Guarantee:
        """The same guarantee with these conditions; one that is as if it were not named is left out.

        >>> stated = Guarantee(Fraction(1), Fraction(0), None, 1, "compact").under(most_distinct_keys=5, sketches=1)
        >>> stated.conditions, stated.most_distinct_keys, stated.sketch_capacity
        ((('most_distinct_keys', 5),), 5, None)
        """
        named = {**dict(self.conditions), **conditions}
        kept = [(name, named[name]) for name in sorted(named) if named[name] != CONDITIONS.get(name)]
        return replace(self, conditions=tuple((name, part) for name, part in kept if part is not None))

    def __str__(self) -> str:
        if not self.private:
            return (
                "NOT PRIVATE: this release was sampled from a seed, for tests or simulations. Anyone who knows the "
                "seed can undo the noise; it must not be shown to anyone who may not see the data."
            )
        if self.elements_per_unit > 1:
            bound = f"A unit has up to {self.elements_per_unit} elements, equal ones or not."
        elif self.unit is None:
            bound = "Every row is a privacy unit of its own."
        elif not self.max_keys_per_unit:
            bound = f"All distinct keys of each {self.unit!r} are counted, each once."
        else:
            keys, are = ("key", "is") if self.max_keys_per_unit == 1 else ("distinct keys", "are")
            rounds = f"In each of {self.rounds} rounds at most" if self.rounds > 1 else "At most"
            most = f"{rounds} {self.max_keys_per_unit:,} {keys} per {self.unit!r}{self._per_period()}"
            bound = f"{most}, chosen uniformly at random, {are} counted{self._how_often()}."
        return (
            f"{guarantee_in_words(self.epsilon, self.delta, change=self.change)} {bound}{self._under()}{self._read()} "
            f"Mechanism: {self.mechanism}, verified on the probability table in use."
        )

    @property
    def change(self) -> str:
        """What is added or removed between the data sets that are compared, in words."""
        if self.elements_per_unit > 1:
            return "all elements of one unit"
        if self.unit is None:
            return "one row (or one of a count)"
        within = f" within one {WITHIN[self.within]}" if self.within else ""
        return f"all rows of one {self.unit!r}{within}"

    @property
    def after_bounding(self) -> str:
        """Words that follow "counts" where only some keys of a unit are counted; empty where all are."""
        if self.unit is None or not self.max_keys_per_unit:
            return ""
        keys = "key" if self.max_keys_per_unit == 1 else "keys"
        return f" after bounding to at most {self.max_keys_per_unit:,} {keys} per {self.unit!r}"

    def _per_period(self) -> str:
        """What the bound on the keys of a unit is for, in a series."""
        if self.within:
            return f" and {WITHIN[self.within]}"
        return f" in all {self.periods:,} periods of the series together" if self.mechanism == "series" else ""

    def _how_often(self) -> str:
        if self.mechanism != "series":
            return ""
        often = "one period" if self.periods_per_key == 1 else f"at most {self.periods_per_key:,} periods"
        return f", each in {often}; all {self.periods:,} periods are released under this one guarantee"

    def _read(self) -> str:
        """Which rows were read, if not all."""
        if self.where is None:
            return ""
        shown = self.where if len(self.where) <= _MOST_SHOWN else f"{self.where[:_MOST_SHOWN]}..."
        part = " in this period" if self.mechanism == "series" else ""
        return f" Only rows with {quoted(shown)} were read{part}, a public condition."

    def _under(self) -> str:
        """What the guarantee rests on beside the mechanism, or what epsilon was spent on."""
        if self.mechanism == "sanitized_sample":
            return (
                " The data is what a sample was drawn from; the guarantee holds provided that the sample was drawn as "
                "stated, each key by its own secret coin."
            )
        if self.spent_on_shortfall:
            return f" Of epsilon, {_readable(self.spent_on_shortfall)} was spent on how far the sketch falls short."
        if self.most_distinct_keys is not None:
            return (
                f" Data sets with at most {self.most_distinct_keys:,} distinct keys are compared; that the data is one "
                "of them was declared to be public knowledge."
            )
        parts = self._parts()
        if parts:
            return f" It covers {parts} together."
        if self.spent_on_size:
            return f" Of epsilon, {_readable(self.spent_on_size)} was spent on the estimate that set the sampling rate."
        return ""

    def _parts(self) -> str:
        """Everything that one budget has paid for, where that is more than keys and their counts."""
        rows, statistics = self.rows_per_unit_and_key, self.statistics
        if not (statistics or self.totals or rows > 1):
            return ""
        found = ["the choice of keys", "counts" if rows == 1 else f"counts of at most {rows:,} rows per unit and key"]
        if statistics:
            found.append("a clipped sum or mean" if statistics == 1 else f"{statistics} clipped sums and means")
        found += ["totals"] * self.totals
        return f"{', '.join(found[:-1])} and {found[-1]}"


def guarantee_in_words(epsilon: Fraction, delta: Fraction, *, change: str) -> str:
    """What is guaranteed for epsilon and delta, in the words of the definition.

    >>> guarantee_in_words(Fraction(1), Fraction(0), change="one row")
    '(epsilon = 1)-differential privacy, add/remove of one row: for any set S of outputs, Pr[output in S] ...'
    """
    size = f"epsilon = {_readable(epsilon)}" + (f", delta = {_readable(delta)}" if delta else "")
    factor = "a factor e^epsilon" + (" plus delta" if delta else "")
    return (
        f"({size})-differential privacy, add/remove of {change}: for any set S of outputs, Pr[output in S] changes by "
        f"at most {factor}."
    )


def _readable(number: Fraction) -> str:
    """A short decimal where it is exact, otherwise the fraction with an approximation."""
    short = f"{float(number):.6g}"
    if Fraction(short) == number:
        return short
    if number.denominator < 10**9:
        return f"{number} (about {short})"
    return f"{float(number)!r} (its exact binary value)" if Fraction(float(number)) == number else f"about {short}"
