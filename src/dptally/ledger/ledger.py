"""The ledger: one file for one data set, with a budget that releases of it spend."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dptally.errors import BudgetExceeded, InvalidParameter, PrivacyViolation, UnreadableLedger
from dptally.exact import as_fraction
from dptally.ledger.books import Books, Entry, budget_facts, check_name
from dptally.ledger.budget import Accounting, Budget, Group
from dptally.ledger.history import Row, row_hash
from dptally.ledger.storage import Storage
from dptally.privacy.accounting import Spending, Total
from dptally.privacy.guarantee import Guarantee, Record

__all__ = ["Account", "Entry", "Ledger", "Reservation"]

_LARGEST_BUDGET = 1000


class Ledger:
    """A budget on disk, and the history of what was spent of it.

    One ledger is for one set of units: all data sources that hold data of the same people belong in one ledger. It is
    given to whatever releases something (``publish(..., ledger=ledger)``), which reserves what it will spend before it
    reads data, and is refused if the budget does not allow it.

    Guarantee:
        Everything published with a ledger is together (epsilon, delta)-differentially private for adding or removing
        one unit, if nothing else was published of the data. With ``accounting="basic"`` this holds however releases are
        chosen. A spending is on disk before the first secret random word of its draw is read, and is never taken back
        once it may have been; a process that dies leaves its reservation spent. Several processes may use one ledger.

    Args:
        path: the file. It is made, for its owner alone, if it is not there and a budget is given.
        epsilon: of the budget; must be that of the file, if there is one.
        delta: of the budget; 0 allows only releases with delta = 0.
        accounting: "basic" (default) or "tight": see `dptally.ledger.budget.Budget`. Fixed when the ledger is made.
        sources: names of data sources; if given when the ledger is made, every spending must name one of them.

    Raises:
        InvalidParameter: another budget than the file's, or no file and no budget.
        UnreadableLedger: a file that is no ledger, was altered or cut short, or is of a newer version.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "budget.db"
    >>> ledger = Ledger(place, epsilon=1, delta="1e-6")
    >>> ledger.remaining()
    (Fraction(1, 1), Fraction(1, 1000000))
    """

    def __init__(
        self,
        path: str | Path,
        *,
        epsilon: object = None,
        delta: object = None,
        accounting: Accounting | None = None,
        sources: Sequence[str] | None = None,
    ) -> None:
        self.path = Path(path)
        if accounting not in (None, "basic", "tight"):
            raise InvalidParameter(f"accounting must be 'basic' or 'tight', got {str(accounting)[:40]!r}.")
        asked = _as_budget(epsilon, delta)
        named = (
            None if sources is None else tuple(str(check_name("a source", name, optional=False)) for name in sources)
        )
        if self.path.is_dir():
            raise InvalidParameter(f"{self.path} is a directory, not a ledger.")
        if not self.path.exists():
            if asked is None:
                raise InvalidParameter(f"{self.path} is not there; give epsilon and delta to make a new ledger.")
            Storage.create(self.path, _header(Budget(*asked, accounting or "basic"), named or ()))
        self._storage = Storage(self.path)
        self._books = Books(str(self.path))
        try:
            self._open()
        except BaseException:
            self._storage.disconnect()
            raise
        budget = self._books.budget
        if asked is not None and asked != (budget.epsilon, budget.delta):
            raise InvalidParameter(
                f"{self.path} has a budget of epsilon {_short(budget.epsilon)} and delta {_short(budget.delta)}, not "
                f"{_short(asked[0])} and {_short(asked[1])}; a budget cannot be changed."
            )
        if accounting is not None and accounting != budget.accounting:
            raise InvalidParameter(f"{self.path} was made with accounting {budget.accounting!r}; it cannot be changed.")
        if named is not None and named != self._books.sources:
            raise InvalidParameter(f"{self.path} was made with other sources; they cannot be changed.")

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, epsilon={self.epsilon}, delta={self.delta})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        return Ledger, (str(self.path),)

    # ---- what it says ----

    @property
    def ledger_id(self) -> str:
        """128 random bits that name it, as hexadecimal text."""
        return self._books.ledger_id

    @property
    def epsilon(self) -> Fraction:
        """Of the budget."""
        return self._books.budget.epsilon

    @property
    def delta(self) -> Fraction:
        """Of the budget."""
        return self._books.budget.delta

    @property
    def accounting(self) -> Accounting:
        """How spending is added up to decide what is allowed."""
        return self._books.budget.accounting

    @property
    def sources(self) -> tuple[str, ...]:
        """The data sources that may be spent on; empty if any may."""
        return self._books.sources

    @property
    def closed(self) -> bool:
        """Whether nothing more can be spent."""
        self._refresh()
        return self._books.closed is not None

    @property
    def clock_set_back(self) -> bool:
        """Whether some row has an earlier time than one before it; the order of rows does not depend on times."""
        self._refresh()
        return self._books.clock_set_back

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last row: kept elsewhere, it shows later whether history was cut or rewritten."""
        self._refresh()
        return self._books.last

    def history(self) -> list[Entry]:
        """Every spending, in order."""
        self._refresh()
        return list(self._books.entries.values())

    def remaining(self, partitioning: str | None = None, part: str | None = None) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that are left by basic composition, for the whole data or for one part."""
        self._refresh()
        epsilon, delta = self._books.spent.largest(_group(partitioning, part))
        return self.epsilon - epsilon, self.delta - delta

    def totals(self) -> list[Total]:
        """What was spent, by basic, optimal and tight composition, for the units that lost most.

        Raises:
            InvalidParameter: more choices of parts than can be looked at; `remaining` has the basic sums.
        """
        self._refresh()
        found = self._books.spent.totals(self._books.budget)
        if found is None:
            raise InvalidParameter("there are too many parts of partitionings to compose every choice of them.")
        return found

    def worst_history(self) -> list[Spending]:
        """What counts as spent, for a unit that lost the most epsilon."""
        self._refresh()
        histories = list(self._books.spent.histories() or [])
        most = max(histories, key=lambda one: sum(event.epsilon * times for event, times in one.items()))
        return list(most.elements())

    # ---- spending ----

    def account(
        self,
        *,
        source: str | None = None,
        unit: str | None = None,
        partitioning: str | None = None,
        part: str | None = None,
        who: str | None = None,
    ) -> Account:
        """The ledger with a label for what is spent: to be given to `publish` and others in its place.

        Args:
            source: name of the data source.
            unit: a name for what units are, such as "person", where columns of several sources have different names for
                the same. Without it the release's own unit is recorded, and one ledger takes one unit.
            partitioning: name of a way to divide units into disjoint parts, such as "country". Naming one states that
                no unit is in two of its parts; units that could be in several months are not divided by month.
            part: the part of that partitioning that the release is about: only data of its units is read.
            who: who spends it.
        """
        return Account(self, source, check_name("unit", unit), partitioning, part, who)

    def reserve(
        self,
        spending: Spending,
        *,
        source: str | None = None,
        unit: str | None = None,
        partitioning: str | None = None,
        part: str | None = None,
        who: str | None = None,
        note: str | None = None,
    ) -> Reservation:
        """Spend, on disk, what a release will need; before it reads data.

        Args:
            spending: what it will spend.
            source: as in `account`, like what follows.
            unit: whose privacy it is about; promises about different units do not add up.
            partitioning: how units are divided.
            part: which of them.
            who: who spends it.
            note: what else is worth knowing. Public, like everything here.

        Raises:
            BudgetExceeded: if the budget does not allow it; then nothing is written.
            InvalidParameter: for a ledger that is closed, or a label that it does not take.
        """
        if not isinstance(spending, Spending) or Spending.read(spending.facts()) != spending:
            raise InvalidParameter("a ledger takes events that it knows how to account for, and this is none.")
        check_name("source", source)
        check_name("who", who)
        group = _group(partitioning, part)
        if self.sources and source not in self.sources:
            raise InvalidParameter(f"source must be one of {', '.join(map(repr, self.sources))} in this ledger.")
        self._refresh()
        self._refuse(
            spending, group, unit
        )  # once outside of the transaction, so that others need not wait for the answer
        release_id = _random_name()
        with self._storage.writing():
            self._catch_up()
            self._refuse(spending, group, unit)
            number = len(self._books.entries) + 1
            entry_hash = self._append(
                "reserved",
                number,
                who=who,
                source=source,
                unit=unit,
                partitioning=partitioning,
                part=part,
                spending=_json(spending.facts()),
                release_id=release_id,
                note=note,
            )
        return Reservation(self, Record(release_id, self.ledger_id, number, entry_hash))

    def check(self, spending: Spending, *, partitioning: str | None = None, part: str | None = None) -> None:
        """Refuse as `reserve` would now, and spend nothing.

        Raises:
            BudgetExceeded: if the budget does not allow it.
        """
        self._refresh()
        self._refuse(spending, _group(partitioning, part))

    def resume(self, record: Record, spending: Spending) -> Reservation:
        """The reservation of an earlier process, whose draw has begun, to say that its release was published.

        Raises:
            InvalidParameter: if the ledger has no such entry, its draw has not begun, or it is another spending.
        """
        self._refresh()
        entry = self._books.entries.get(record.entry)
        same = entry is not None and record == Record(entry.release_id, self.ledger_id, entry.number, entry.entry_hash)
        if entry is None or not same or entry.state not in ("drawn", "published") or entry.spending != spending:
            raise InvalidParameter("The ledger has no matching reservation to continue.")
        found = Reservation(self, record)
        found.state = entry.state
        return found

    def _refuse(self, spending: Spending, group: Group, unit: str | None = None) -> None:
        books = self._books
        if books.closed is not None:
            raise InvalidParameter(f"{self.path} is closed: nothing more can be spent.")
        before = books.unit
        if unit is not None and before is not None and unit != before:
            raise InvalidParameter(
                f"{self.path} has releases that protect {before!r}, and this one protects {unit!r}: such promises do "
                "not add up; use a ledger for each, or account(unit=...) if both mean the same units."
            )
        if books.spent.allows(books.budget, spending, group):
            return
        epsilon, delta = books.spent.largest(group)
        left = max(Fraction(0), self.epsilon - epsilon), max(Fraction(0), self.delta - delta)
        how = (
            ""
            if self.accounting == "basic"
            else " by basic composition, and tight composition does not allow it either"
        )
        raise BudgetExceeded(
            f"the budget does not allow it: epsilon {_short(spending.epsilon)} and delta {_short(spending.delta)} are "
            f"asked for, and of epsilon {_short(self.epsilon)} and delta {_short(self.delta)} there are "
            f"{_short(left[0])} and {_short(left[1])} left{how}."
        )

    def end_spending(self, *, who: str | None = None) -> None:
        """Close the budget for ever: nothing more can be reserved. What was reserved before may still be finished."""
        check_name("who", who)
        with self._storage.writing():
            self._catch_up()
            if self._books.closed is not None:
                raise InvalidParameter(f"{self.path} is closed already.")
            self._append("closed", 0, who=who)

    def _move(self, number: int, state: str, *, note: str | None = None) -> None:
        """Append what became of a spending."""
        with self._storage.writing(wait=state == "drawn"):
            self._catch_up()
            if not self._books.may_become(number, state):
                raise InvalidParameter(f"entry {number} of {self.path} cannot become {state}.")
            self._append(state, number, note=note)

    # ---- trust ----

    def verify(self, head: str | None = None) -> tuple[int, str]:
        """Read the whole history again and check every hash.

        Args:
            head: the hash of a row that was noted elsewhere; it must be in the history.

        Returns:
            tuple: number and hash of the last row.

        Raises:
            UnreadableLedger: if the history was altered or cut short.
        """
        before = self._books
        self._books = Books(str(self.path))
        try:
            self._open()
        except BaseException:
            self._books = before
            raise
        if head is not None and head.strip().lower() not in self._books.hashes:
            raise UnreadableLedger(
                f"{self.path} does not have the row that was noted: its history was cut or rewritten."
            )
        if before.hashes and self._books.hashes[: len(before.hashes)] != before.hashes:
            raise UnreadableLedger(f"{self.path} was rewritten since it was opened.")
        return self._books.last

    def find(self, guarantee: Guarantee) -> Entry:
        """The entry that paid for a release.

        Raises:
            PrivacyViolation: if there is none, or it paid for something else.
        """
        self._refresh()
        record = guarantee.record
        if record is None:
            raise PrivacyViolation("the release does not name a ledger: it was made without one.")
        if record.ledger_id != self.ledger_id:
            raise PrivacyViolation("the release names another ledger.")
        entry = self._books.entries.get(record.entry)
        if entry is None or (entry.release_id, entry.entry_hash) != (record.release_id, record.entry_hash):
            raise PrivacyViolation("the release is not recorded in this ledger: its history was cut or rewritten.")
        spent = entry.spending
        if entry.state not in ("drawn", "published") or (spent.mechanism, spent.epsilon, spent.delta) != (
            guarantee.mechanism,
            guarantee.epsilon,
            guarantee.delta,
        ):
            raise PrivacyViolation("the ledger has another spending where the release names one.")
        return entry

    def disconnect(self) -> None:
        """Let go of the file until it is used again. The budget stays open."""
        self._storage.disconnect()

    # ---- keeping up with the file ----

    def _open(self) -> None:
        """Verify everything there is."""
        # The note first: another process may append between the two, and the note must not be ahead for that reason.
        noted = self._storage.noted_head()
        with self._storage.reading():
            self._books.follow(self._storage.rows(0))
            head = self._storage.head()
        if not self._books.hashes or head != self._books.last:
            raise UnreadableLedger(f"{self.path} has been altered: rows are missing at the end of its history.")
        if noted is not None:
            number, digest = noted
            if number >= len(self._books.hashes) or self._books.hashes[number] != digest:
                raise UnreadableLedger(
                    f"{self.path} ends before, or differs from, what {self._storage.head_file.name} has noted: rows "
                    "were lost, or this is an older copy."
                )

    def _refresh(self) -> None:
        with self._storage.reading():
            self._catch_up()

    def _catch_up(self) -> None:
        """Verify and take in what other processes have appended; inside a transaction."""
        number, digest = self._books.last
        rows = self._storage.rows(number)
        if not rows or rows[0][1] != digest:
            raise UnreadableLedger(f"{self.path} was rewritten while it was in use.")
        self._books.follow(rows[1:])
        if self._storage.head() != self._books.last:
            raise UnreadableLedger(f"{self.path} has been altered: rows are missing at the end of its history.")

    def _append(self, state: str, entry: int, **columns: str | None) -> str:
        """Write a row that follows, inside a transaction, and return its hash; the books take it in when next used."""
        number, previous = self._books.last
        time = _now()
        row = Row(number + 1, time, max(time, self._books.latest), state, entry, **columns)
        digest = row_hash(previous, row)
        self._storage.append(row, digest)
        return digest


@dataclass(frozen=True)
class Account:
    """A ledger with labels for what is spent; see `Ledger.account`."""

    ledger: Ledger
    source: str | None = None
    unit: str | None = None
    partitioning: str | None = None
    part: str | None = None
    who: str | None = None

    def reserve(self, spending: Spending, *, unit: str | None = None, note: str | None = None) -> Reservation:
        """As `Ledger.reserve`; the account's name for the unit, if it has one, stands for the release's own."""
        return self.ledger.reserve(
            spending,
            source=self.source,
            unit=self.unit or unit,
            partitioning=self.partitioning,
            part=self.part,
            who=self.who,
            note=note,
        )


class Reservation:
    """A spending that is on disk, for a release that is still to be made.

    "drawn" must be on disk before the first secret random word of the draw is read. "published" says that the release
    was handed to whoever asked for it. "void" gives the budget back, and is possible only as long as nothing can have
    been drawn: it is for a source that could not be read.

    Attributes:
        record: what goes into the release.
    """

    def __init__(self, ledger: Ledger, record: Record) -> None:
        self._ledger = ledger
        self.record = record
        self.state = "reserved"

    def drawn(self) -> None:
        """Say, on disk, that the draw begins; it is then spent whatever happens."""
        if self.state == "reserved":
            self.state = "drawn"  # before it is written: from here on nothing may give it back
            self._ledger._move(self.record.entry, "drawn")

    def published(self) -> None:
        """Say that the release was handed over."""
        self.drawn()
        if self.state == "drawn":
            self._ledger._move(self.record.entry, "published")
            self.state = "published"

    def void(self, note: str) -> None:
        """Give it back, as nothing was drawn.

        Args:
            note: why; it becomes part of the history, so nothing private may be in it.

        Raises:
            InvalidParameter: if it has been drawn.
        """
        if self.state != "reserved":
            raise InvalidParameter(f"what is {self.state} cannot be given back.")
        self.state = "void"
        self._ledger._move(self.record.entry, "void", note=note)


def _as_budget(epsilon: object, delta: object) -> tuple[Fraction, Fraction] | None:
    if epsilon is None and delta is None:
        return None
    if epsilon is None or delta is None:
        raise InvalidParameter("a budget needs both epsilon and delta; delta may be 0.")
    exact_epsilon, exact_delta = as_fraction("epsilon", epsilon), as_fraction("delta", delta)
    if not 0 < exact_epsilon <= _LARGEST_BUDGET:
        raise InvalidParameter(f"epsilon must be positive and at most {_LARGEST_BUDGET}, got {epsilon}.")
    if not 0 <= exact_delta < 1:
        raise InvalidParameter(f"delta must be at least 0 and below 1, got {delta}.")
    return exact_epsilon, exact_delta


def _header(budget: Budget, sources: tuple[str, ...]) -> Row:
    time = _now()
    return Row(0, time, time, "created", 0, spending=_json(budget_facts(_random_name(), budget, sources)))


def _group(partitioning: str | None, part: str | None) -> Group:
    if (partitioning is None) != (part is None):
        raise InvalidParameter(
            "partitioning and part go together: how units are divided, and which of the parts it is."
        )
    check_name("partitioning", partitioning)
    check_name("part", part)
    return None if partitioning is None or part is None else (partitioning, part)


def _random_name() -> str:
    """128 fresh random bits; public."""
    from dptally.randomness import SystemBits

    return SystemBits().words(2).tobytes().hex()


def _json(facts: object) -> str:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def _short(number: Fraction) -> str:
    """A number for a sentence: exact where that is short."""
    text = f"{float(number):.6g}"
    return text if Fraction(text) == number else f"about {text}"
