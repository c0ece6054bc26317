"""The accounts of a ledger: what its verified history says about the budget, every spending and what became of it."""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from dptally.errors import DptallyError, InvalidParameter, UnreadableLedger
from dptally.ledger.budget import Budget, Group, Spent
from dptally.ledger.history import FORMAT_VERSION, READABLE, RENEWING, START, UNHURRIED, Row, row_hash
from dptally.ledger.renewal import Renewal
from dptally.privacy.spending import Spending

_TEXTS = tuple(field.name for field in fields(Row) if field.type != "int")
_NAME_LETTERS = frozenset(string.ascii_letters + string.digits + "-_.:/@+ ")
_NEXT = {
    "reserved": ("drawn", "failed", "void"),
    "drawn": ("published", "failed"),
    "failed": ("void",),
    "published": (),
    "void": (),
}
KEY_BYTES, _LONGEST_REASON = 32, 500
_SAME_IN_AN_ENTRY = ("time", "who", "source", "unit", "partitioning", "part", "note")
MOST_ROWS = 1 << 20  # about a gigabyte of memory


@dataclass(frozen=True)
class Entry:
    """One spending.

    Attributes:
        number: from 1.
        state: "reserved", "drawn", "published", "failed" (while or after data was read) or "void"; all but the last
            count as spent.
        time: when it was reserved, in UTC, by the clock of the machine.
        spending: what it spends.
        release_id: of the release it pays for.
        who: who spent it, if that was said.
        source: the data source, if it was named.
        unit: whose privacy it is about.
        partitioning: how units are divided, if it is about one part of them.
        part: which part.
        note: what else was written down; why it is void.
        entry_hash: of its first row.
    """

    number: int
    state: str
    time: str
    spending: Spending
    release_id: str
    who: str | None
    source: str | None
    unit: str | None
    partitioning: str | None
    part: str | None
    note: str | None
    entry_hash: str

    @property
    def group(self) -> Group:
        """The part of the units that it is about, or None for all of them."""
        return None if self.partitioning is None or self.part is None else (self.partitioning, self.part)


@dataclass(frozen=True)
class Restored:
    """An owner's word, when and why, that a ledger is whole though the note beside it did not say so."""

    time: str
    reason: str
    who: str | None


class Accounts:
    """The state after a number of rows. Takes rows one by one, in order, and refuses what cannot follow."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.ledger_id = ""
        self.budget = Budget(Fraction(1), Fraction(0))
        self.sources: tuple[str, ...] = ()
        self.renewal: Renewal | None = None
        self.hashes: list[str] = []
        self.latest = ""
        self.clock_set_back = False
        self.closed: str | None = None
        self.version = 1
        self.key: bytes | None = None
        self.entries: dict[int, Entry] = {}
        self.releases: dict[str, int] = {}
        self.restored: list[Restored] = []
        self.unhurried = 0  # how many rows at the end need not be on disk at once
        self._read: dict[str, Spending] = {}  # releases that spend the same are many
        self.spent = Spent()

    @property
    def unit(self) -> str | None:
        """Whose privacy what was spent so far is about; None if nothing has said so."""
        said = (entry.unit for entry in self.entries.values() if entry.unit is not None and entry.state != "void")
        return next(said, None)

    @property
    def last(self) -> tuple[int, str]:
        """Number and hash of the last row."""
        return len(self.hashes) - 1, self.hashes[-1]

    def follow(self, rows: Iterable[tuple[Row, str]]) -> None:
        """Verify rows and take them in; UnreadableLedger names the first that does not follow from those before."""
        for row, digest in rows:
            if len(self.hashes) >= MOST_ROWS:
                raise UnreadableLedger(f"{self._name} has more rows than a ledger can have.")
            previous = self.hashes[-1] if self.hashes else START
            try:
                follows = row.sequence == len(self.hashes) and row_hash(previous, row, self.key) == digest
            except (TypeError, ValueError):
                follows = False
            if not follows:
                raise UnreadableLedger(
                    f"{self._name} has been altered: row {row.sequence} does not follow from the rows before it."
                )
            try:
                self._take(row, digest)
            except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, RecursionError, DptallyError):
                raise UnreadableLedger(
                    f"row {row.sequence} of {self._name} says what this version of dptally does not know."
                ) from None
            self.hashes.append(digest)
            self.unhurried = self.unhurried + 1 if row.state in UNHURRIED else 0
            self.clock_set_back |= row.time < row.latest
            self.latest = row.latest

    def fitting(self, entry: Entry) -> int:
        """How many more spendings like one the budget allows, up to `MOST_FITTING`; none if it is closed."""
        if self.closed is not None:
            return 0
        return min(self.spent.fitting(self.budget, amount, group) for group, amount in self.drawn(entry))

    def drawn(self, entry: Entry) -> list[tuple[Group, Spending]]:
        """What an entry draws from the budget of which part: one, or in a ledger that renews that of each period."""
        if self.renewal is None:
            return [(entry.group, entry.spending)]
        if entry.partitioning != self.renewal.period or entry.part is None:
            raise ValueError("no period")
        periods = self.renewal.drawn(entry.part, entry.unit, entry.spending)
        return [((self.renewal.period, name), amount) for name, amount in periods]

    def ends_with(self, place: tuple[int, str]) -> bool:
        """Whether a row is in the history, and nothing follows it but rows that need not be on disk at once."""
        number, digest = place
        return len(self.hashes) - 1 - self.unhurried <= number < len(self.hashes) and self.hashes[number] == digest

    def has(self, place: tuple[int, str]) -> bool:
        """Whether a row is in the history."""
        return place[0] < len(self.hashes) and self.hashes[place[0]] == place[1]

    def may_become(self, number: int, state: str) -> bool:
        """Whether an entry may have this state next."""
        return number in self.entries and state in _NEXT[self.entries[number].state]

    def _take(self, row: Row, digest: str) -> None:
        if not all(isinstance(getattr(row, name), str | None) for name in _TEXTS) or type(row.entry) is not int:
            raise TypeError("another type than it was written with")
        if row.latest < row.time or row.latest < self.latest:
            raise ValueError("times that cannot be")
        if not self.hashes:
            self._begin(row)
        elif row.state == "reserved":
            self._reserve(row, digest)
        elif row.state == "closed":
            self.closed = row.time
        elif row.state == "upgraded" and self.version == 1:
            self._take_key(row.facts())
        elif row.state == "note restored" and row.note:
            self.restored.append(Restored(row.time, row.note, row.who))
        else:
            self._change(row)

    def _begin(self, row: Row) -> None:
        facts = row.facts()
        if row.state != "created" or facts["format_version"] not in READABLE:
            raise ValueError("not a header")
        if facts["accounting"] not in ("basic", "tight"):
            raise ValueError("another accounting")
        self.ledger_id = str(facts["ledger_id"])
        self.budget = Budget(Fraction(facts["epsilon"]), Fraction(facts["delta"]), facts["accounting"])
        self.sources = tuple(facts["sources"])
        if facts["format_version"] > 1:
            self._take_key(facts)
        if (facts["format_version"] == RENEWING) != ("renew" in facts):
            raise ValueError("a renewal in another format")
        if "renew" in facts:
            self.renewal = Renewal(facts["renew"]["period"], facts["renew"]["time_column"])

    def _take_key(self, facts: Any) -> None:
        key = bytes.fromhex(facts["key"])
        if facts["format_version"] not in (FORMAT_VERSION, RENEWING) or len(key) != KEY_BYTES:
            raise ValueError("not a key")
        self.version, self.key = facts["format_version"], key

    def _reserve(self, row: Row, digest: str) -> None:
        if row.entry != len(self.entries) + 1 or self.closed is not None:
            raise ValueError("another entry")
        if (row.partitioning is None) != (row.part is None) or row.release_id is None:
            raise ValueError("half an entry")
        if row.release_id in self.releases:
            raise ValueError("a release that was paid for before")
        text = row.spending or ""
        spending = self._read.get(text) or self._read.setdefault(text, Spending.read(row.facts()))
        same = {name: getattr(row, name) for name in _SAME_IN_AN_ENTRY}
        made = Entry(row.entry, row.state, spending=spending, release_id=row.release_id, entry_hash=digest, **same)
        drawn = self.drawn(made)
        self.entries[row.entry] = made
        self.releases[row.release_id] = row.entry
        for group, amount in drawn:
            self.spent.add(group, amount)

    def _change(self, row: Row) -> None:
        if not self.may_become(row.entry, row.state):
            raise ValueError("a state that cannot follow")
        before = self.entries[row.entry]
        self.entries[row.entry] = replace(before, state=row.state, note=row.note or before.note)
        if row.state == "void":
            for group, amount in self.drawn(before):
                self.spent.add(group, amount, -1)


def key_facts(key: bytes) -> dict[str, Any]:
    """What a header, or an upgrade, says about the hashes of the rows after it."""
    return {"format_version": FORMAT_VERSION, "key": key.hex()}


def budget_facts(
    ledger_id: str, key: bytes, budget: Budget, sources: tuple[str, ...], renewal: Renewal | None
) -> dict[str, Any]:
    """What the header says."""
    renewing = {} if renewal is None else {"format_version": RENEWING, "renew": vars(renewal)}
    return {
        **key_facts(key),
        "ledger_id": ledger_id,
        "epsilon": str(budget.epsilon),
        "delta": str(budget.delta),
        "accounting": budget.accounting,
        "sources": list(sources),
        **renewing,
    }


def check_name(what: str, name: Any, *, optional: bool = True) -> Any:
    """The name; refuses those that a history should not hold."""
    if name is None and optional:
        return None
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not _NAME_LETTERS.issuperset(name):
        raise InvalidParameter(
            f"{what} must be a short name of ASCII letters, digits and -_.:/@+, got {str(name)[:40]!r}."
        )
    if name != name.strip():
        raise InvalidParameter(f"{what} must not begin or end with a space, got {name[:40]!r}.")
    return name


def check_reason(reason: object) -> str:
    """Refuse what is no statement for a history."""
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidParameter("reason must say why, in a sentence that stays in the history.")
    stated = reason.strip()
    if len(stated) > _LONGEST_REASON or not stated.isprintable():
        raise InvalidParameter(f"reason must be one line of at most {_LONGEST_REASON} printable characters.")
    return stated
