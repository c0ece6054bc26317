"""The ledger: one file for one data set, with a budget that releases of it spend."""

from __future__ import annotations

import contextlib
import datetime
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dptally.errors import BudgetExceeded, InvalidParameter, PrivacyViolation, UnreadableLedger
from dptally.exact import as_fraction
from dptally.ledger.accounting import Total
from dptally.ledger.accounts import (
    KEY_BYTES,
    MOST_ROWS,
    Accounts,
    Entry,
    Restored,
    budget_facts,
    check_name,
    check_reason,
    key_facts,
)
from dptally.ledger.budget import Accounting, Budget, Group
from dptally.ledger.history import EACH_ROW, FORMAT_VERSION, RENEWING, UNHURRIED, Row, row_hash
from dptally.ledger.note import Noted
from dptally.ledger.planning import ReleasePlan, plan_releases
from dptally.ledger.renewal import Interval, Renewal
from dptally.ledger.schema import LARGEST_TEXT
from dptally.ledger.storage import Storage
from dptally.privacy.guarantee import Guarantee, Record
from dptally.privacy.spending import Part, Spending

__all__ = ["Account", "Entry", "Ledger", "Reservation"]

_LARGEST_BUDGET = 1000
_ROWS_OF_AN_ENTRY = 8  # and some for the ledger itself
_RESTORE = "or, if nothing can have been spent that is not in it, accept it as it is:"


class Ledger:
    """A budget on disk, and the history of what was spent of it.

    One ledger is for one set of units: all data sources that hold data of the same people belong in one ledger. It is
    given to whatever releases something (``publish(..., ledger=ledger)``), which reserves what it will spend before it
    reads data, and is refused if the budget does not allow it.

    Guarantee:
        Everything published with a ledger is together (epsilon, delta)-differentially private for adding or removing
        one unit, if nothing else was published of the data. With ``accounting="basic"`` this holds however releases are
        chosen. A spending is on disk before data is read, and is taken back by itself only if the request fails before
        the first row is read; a process that dies leaves it spent. Several processes may use one ledger. The owner may
        take back by hand (`void`) what failed or was never drawn from, and has to say why.

    Args:
        path: the file. It is made, for its owner alone, if it is not there and a budget is given.
        epsilon: of the budget; must be that of the file, if there is one.
        delta: of the budget; 0 allows only releases with delta = 0.
        accounting: "basic" (default) or "tight": see `dptally.ledger.budget.Budget`. Fixed when the ledger is made.
        sources: names of data sources; if given when the ledger is made, every spending must name one of them.
        renew: "day", "month" or "year": each period has the whole budget for its own rows, by `time_column`. Releases
            must say which rows they read (`since` and `until`, or `where`). The guarantee is then for all rows of one
            unit within one period; see `dptally.ledger.renewal`. Fixed when the ledger is made.
        time_column: the column of dates or times that tells the period of a row, with `renew`.
        read_only: to look at a ledger without being able to spend from it.

    Raises:
        InvalidParameter: another budget than the file's, or no file and no budget.
        UnreadableLedger: a file that is no ledger, was altered, cut short or separated from the note beside it, or is
            of a newer version.

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
        renew: str | None = None,
        time_column: str | None = None,
        read_only: bool = False,
    ) -> None:
        self.path = Path(path)
        if accounting not in (None, "basic", "tight"):
            raise InvalidParameter(f"accounting must be 'basic' or 'tight', got {str(accounting)[:40]!r}.")
        asked = _as_budget(epsilon, delta)
        if renew is None and time_column is not None:
            raise InvalidParameter("time_column is for budgets that renew; say by which period, such as renew='month'.")
        renewal = None if renew is None else Renewal(renew, time_column)  # type: ignore[arg-type]  # it checks
        named = None if sources is None else tuple(check_name("a source", name, optional=False) for name in sources)
        if self.path.is_dir():
            raise InvalidParameter(f"{self.path} is a directory, not a ledger.")
        if not self.path.exists():
            if asked is None or read_only:
                raise InvalidParameter(f"{self.path} does not exist; give epsilon and delta to make a new ledger.")
            header = _header(Budget(*asked, accounting or "basic"), named or (), renewal)
            Storage.create(self.path, header, FORMAT_VERSION if renewal is None else RENEWING)
        self._storage = Storage(self.path, read_only=read_only)
        self._accounts = Accounts(str(self.path))
        try:
            self._refresh()
        except BaseException:
            self._storage.disconnect()
            raise
        budget = self._accounts.budget
        if asked is not None and asked != (budget.epsilon, budget.delta):
            raise InvalidParameter(
                f"{self.path} has a budget of epsilon {_short(budget.epsilon)} and delta {_short(budget.delta)}, not "
                f"{_short(asked[0])} and {_short(asked[1])}; a budget cannot be changed."
            )
        if accounting is not None and accounting != budget.accounting:
            raise InvalidParameter(f"{self.path} was made with accounting {budget.accounting!r}; it cannot be changed.")
        if named is not None and named != self._accounts.sources:
            raise InvalidParameter(f"{self.path} was made with other sources; they cannot be changed.")
        if renewal is not None and renewal != self._accounts.renewal:
            raise InvalidParameter(f"{self.path} does not renew like this; it cannot be changed.")

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, epsilon={self.epsilon}, delta={self.delta})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        return Ledger, (str(self.path),)

    # ---- what it says ----

    @property
    def ledger_id(self) -> str:
        """128 random bits that name it, as hexadecimal text."""
        return self._accounts.ledger_id

    @property
    def epsilon(self) -> Fraction:
        """Of the budget."""
        return self._accounts.budget.epsilon

    @property
    def delta(self) -> Fraction:
        """Of the budget."""
        return self._accounts.budget.delta

    @property
    def accounting(self) -> Accounting:
        """How spending is added up to decide what is allowed."""
        return self._accounts.budget.accounting

    @property
    def sources(self) -> tuple[str, ...]:
        """The data sources that may be spent on; empty if any may."""
        return self._accounts.sources

    @property
    def renewal(self) -> Renewal | None:
        """By which periods of which column the budget renews; None if it does not."""
        return self._accounts.renewal

    @property
    def closed(self) -> bool:
        """Whether nothing more can be spent."""
        self._refresh()
        return self._accounts.closed is not None

    @property
    def clock_set_back(self) -> bool:
        """Whether some row has an earlier time than one before it; the order of rows does not depend on times."""
        self._refresh()
        return self._accounts.clock_set_back

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last row: kept elsewhere, it shows later whether history was cut or rewritten."""
        self._refresh()
        return self._accounts.last

    def history(self) -> list[Entry]:
        """Every spending, in order."""
        self._refresh()
        return list(self._accounts.entries.values())

    def remaining(self, partitioning: str | None = None, part: str | None = None) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that remain under the ledger's accounting, for the whole data or for one part.

        A release that spends both is allowed. With basic accounting nothing larger is, and they may be spent in pieces.
        With tight accounting a release with less of the one may have more of the other.
        """
        self._refresh()
        return self._accounts.spent.left(self._accounts.budget, _group(partitioning, part))

    def fitting(self) -> int | None:
        """How many more releases like the last one fit, up to 10,000; None where there is no last one."""
        self._refresh()
        last = next((entry for entry in reversed(self.history()) if entry.state != "void"), None)
        return None if last is None else self._accounts.fitting(last)

    @staticmethod
    def plan(releases: int, *, epsilon: object, delta: object, delta_each: object = None) -> ReleasePlan:
        """Which epsilon each of so many equal releases may have, so that all of them fit into a budget.

        Args:
            releases: how many, such as 365.
            epsilon: of the budget.
            delta: of the budget.
            delta_each: of each release; None for half of the budget's delta shared between them, which leaves the other
                half for tight composition.

        >>> print(Ledger.plan(365, epsilon=10, delta="1e-5", delta_each="1e-8"))
        365 releases at delta 1e-08 each fit into epsilon 10, delta 1e-05 with epsilon 0.02739 each under basic ...
        """
        return plan_releases(releases, epsilon=epsilon, delta=delta, delta_each=delta_each)

    def parts(self) -> list[tuple[str, str]]:
        """Partitionings and parts that something counts as spent on, in order."""
        self._refresh()
        return sorted(group for group in self._accounts.spent.groups if group is not None)

    @property
    def restored(self) -> list[Restored]:
        """When an owner has accepted a ledger whose note was missing or said something else, and why."""
        self._refresh()
        return list(self._accounts.restored)

    def totals(self) -> list[Total]:
        """What was spent, by basic, optimal and tight composition, for the units that lost most.

        Raises:
            InvalidParameter: more choices of parts than can be looked at; `remaining` has the basic sums.
        """
        self._refresh()
        found = self._accounts.spent.totals(self._accounts.budget)
        if found is None:
            raise InvalidParameter("there are too many parts of partitionings to compose every choice of them.")
        return found

    def worst_history(self) -> list[Spending]:
        """What counts as spent, for a unit that lost the most epsilon."""
        self._refresh()
        histories = self._accounts.spent.histories() or []
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
        if unit == EACH_ROW:
            raise InvalidParameter(f"unit may not be {EACH_ROW!r}: that is what a ledger calls rows without a unit.")
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
        interval: Interval | None = None,
    ) -> Reservation:
        """Spend, on disk, what a release will need; before it reads data.

        Labels are those of `account`. `unit` is whose privacy it is about: guarantees for different privacy units
        cannot be composed. A `note` is what else is worth knowing; public, like everything here. `interval`: which
        times are read, for ledgers that renew; the caller enforces it row by row.

        Raises:
            BudgetExceeded: if the budget does not allow it; then nothing is written.
            InvalidParameter: for a ledger that is closed, or a label that it does not take.
        """
        if not isinstance(spending, Spending) or Spending.read(spending.facts()) != spending:
            raise InvalidParameter("a ledger takes events that it knows how to account for, and this is none.")
        text = _json(spending.facts())
        if len(text) > LARGEST_TEXT:
            raise InvalidParameter("epsilon and delta have too many digits for a ledger.")
        check_name("source", source)
        check_name("who", who)
        if self.renewal is not None:
            if partitioning is not None:
                raise InvalidParameter(f"{self.path} renews by periods, and takes no other parts.")
            partitioning, part = self.renewal.period, self.renewal.part(interval)
        labels = {"source": source, "unit": unit, "partitioning": partitioning, "part": part, "who": who, "note": note}
        _group(partitioning, part)
        if self.sources and source not in self.sources:
            raise InvalidParameter(f"source must be one of {', '.join(map(repr, self.sources))} in this ledger.")
        if self.accounting == "tight":  # the answer may take seconds: outside of the transaction nobody waits for it
            self._refresh()
            self._refuse(spending, partitioning, part, unit)
        release_id = _random(16).hex()
        with self._writing():
            self._refuse(spending, partitioning, part, unit)
            number = len(self._accounts.entries) + 1
            entry_hash = self._append("reserved", number, spending=text, release_id=release_id, **labels)
        return Reservation(self, Record(release_id, self.ledger_id, None, entry_hash), number)

    def check(self, spending: Spending, *, partitioning: str | None = None, part: str | None = None) -> None:
        """Refuse by BudgetExceeded as `reserve` would now, and spend nothing."""
        self._refresh()
        if self.renewal is not None:
            self.renewal.part(None)  # raises: nothing says which rows are read
        self._refuse(spending, partitioning, part)

    def resume(self, record: Record, spending: Spending) -> Reservation:
        """The reservation of an earlier process, whose draw has begun, to say that its release was published.

        Raises:
            InvalidParameter: if the ledger has no such entry, its draw has not begun, or it is another spending.
        """
        self._refresh()
        entry = self._entry_of(record)
        mine = entry is not None and record.ledger_id == self.ledger_id and entry.spending == spending
        if entry is None or not mine or entry.state not in ("drawn", "published"):
            raise InvalidParameter("the ledger has no matching reservation to continue.")
        found = Reservation(self, record, entry.number)
        found.state = entry.state
        return found

    def _entry_of(self, record: Record) -> Entry | None:
        """The entry that a record is of; None if there is none, or it differs."""
        entry = self._accounts.entries.get(self._accounts.releases.get(record.release_id, 0))
        if entry is None or entry.entry_hash != record.entry_hash or record.entry not in (None, entry.number):
            return None
        return entry

    def _refuse(self, spending: Spending, partitioning: str | None, part: str | None, unit: str | None = None) -> None:
        accounts = self._accounts
        if accounts.closed is not None:
            raise InvalidParameter(f"{self.path} is closed: nothing more can be spent.")
        before = accounts.unit
        if unit is not None and before is not None and unit != before:
            raise InvalidParameter(
                f"{self.path} has releases that protect {before!r}, and this one protects {unit!r}: guarantees for "
                "different privacy units cannot be composed; use a ledger for each, or the same name for both "
                "units if they are the same (Ledger.account(unit=...), --ledger-unit)."
            )
        if len(accounts.hashes) + _ROWS_OF_AN_ENTRY > MOST_ROWS:
            raise InvalidParameter(f"{self.path} is full: it has as many rows as a ledger can have.")
        drawn: list[tuple[Group, Spending]] = [(_group(partitioning, part), spending)]
        if accounts.renewal is not None and part is not None:
            drawn = [((accounts.renewal.period, name), x) for name, x in accounts.renewal.drawn(part, unit, spending)]
        over = [pair for pair in drawn if not accounts.spent.allows(accounts.budget, pair[1], pair[0])]
        if not over:
            return
        group, spending = over[0]
        asked = f"this release needs epsilon {_short(spending.epsilon)}, delta {_short(spending.delta)}"
        if self.accounting == "tight":  # what would be allowed takes longer to find out than others should wait
            raise BudgetExceeded(
                f"Budget exceeded: {asked}, which does not fit with what was spent under tight accounting; "
                f"see what remains: dptally ledger show {shlex.quote(str(self.path))}."
            )
        epsilon, delta = accounts.spent.left(accounts.budget, group)
        raise BudgetExceeded(f"Budget exceeded: {asked}; epsilon {_short(epsilon)}, delta {_short(delta)} remain.")

    def end_spending(self, *, who: str | None = None) -> None:
        """Close the budget for ever: nothing more can be reserved. What was reserved before may still be finished."""
        check_name("who", who)
        with self._writing():
            if self._accounts.closed is not None:
                raise InvalidParameter(f"{self.path} is closed already.")
            self._append("closed", 0, who=who)

    def void(self, entry: int, *, reason: str, who: str | None = None) -> None:
        """Take a spending back by hand, and say why; the history keeps both, so nothing private may be in the reason.

        It is for what failed after data was read, and for what a process reserved that then died. The owner who does so
        states that nobody learns anything from the failure itself: that a request failed at this point may depend on
        the data, and is no longer paid for.

        Raises:
            InvalidParameter: if it was published; or drawn from, and not known to have failed: its release may be
                somewhere.
        """
        stated = check_reason(reason)
        check_name("who", who)
        with self._writing():
            found = self._accounts.entries.get(entry)
            if found is None:
                raise InvalidParameter(f"{self.path} has no entry {entry}.")
            if not self._accounts.may_become(entry, "void"):
                raise InvalidParameter(
                    f"entry {entry} of {self.path} is {found.state}, and stays so: only what failed, or was reserved "
                    "and never sampled for, can be taken back."
                )
            self._append("void", entry, who=who, note=f"by hand: {stated}")

    def _move(self, number: int, state: str, *, note: str | None = None) -> None:
        """Append what became of a spending."""
        with self._writing(wait=state not in UNHURRIED):
            if not self._accounts.may_become(number, state):
                raise InvalidParameter(f"entry {number} of {self.path} cannot become {state}.")
            self._append(state, number, note=note)

    # ---- trust ----

    def verify(self, head: str | None = None) -> tuple[int, str]:
        """Read the whole history again and check every hash; returns number and hash of the last row.

        A `head` is the hash of a row that was noted elsewhere; it must be in the history.

        Raises:
            UnreadableLedger: if the history was altered or cut short, or the note beside it says something else.
        """
        before = self._accounts
        self._accounts = Accounts(str(self.path))
        try:
            self._refresh()
        except BaseException:
            self._accounts = before
            raise
        if head is not None and head.strip().lower() not in self._accounts.hashes:
            raise UnreadableLedger(
                f"{self.path} does not have the row that was noted: its history was cut or rewritten."
            )
        if before.hashes and self._accounts.hashes[: len(before.hashes)] != before.hashes:
            raise UnreadableLedger(f"{self.path} was rewritten since it was opened.")
        return self._accounts.last

    def find(self, guarantee: Guarantee, law: Any = None) -> Entry:
        """The entry that paid for a release; PrivacyViolation if there is none, or it paid for something else.

        With the `law` of a release in rounds, the entry must have the function that the release declares, and that its
        verification compares with every stage, or epsilon and delta alone.
        """
        self._refresh()
        record = guarantee.record
        if record is None:
            raise PrivacyViolation("the release does not name a ledger: it was made without one.")
        if record.ledger_id != self.ledger_id:
            raise PrivacyViolation("the release names another ledger.")
        entry = self._entry_of(record)
        if entry is None:
            raise PrivacyViolation("the release is not recorded in this ledger: its history was cut or rewritten.")
        spent = entry.spending
        stated = guarantee.mechanism, guarantee.epsilon, guarantee.delta
        if entry.state not in ("drawn", "published") or (spent.mechanism, spent.epsilon, spent.delta) != stated:
            raise PrivacyViolation("the ledger has another spending where the release names one.")
        declared = getattr(law, "event", None)
        if declared is not None and spent.parts not in ((declared,), (Part(spent.epsilon, spent.delta),)):
            raise PrivacyViolation("the ledger has another privacy profile than the release declares.")
        return entry

    def disconnect(self) -> None:
        """Let go of the file until it is used again. The budget stays open."""
        self._storage.disconnect()

    @classmethod
    def restore_note(cls, path: str | Path, *, reason: str, who: str | None = None) -> Ledger:
        """Accept a ledger whose note is missing, garbled or says something else, and write a new one.

        The note is what shows an older copy, lost rows, and a ledger that is in use under two names. The owner who
        accepts the ledger without it states that nothing was spent that is not in it; the reason stays in the history.

        Raises:
            InvalidParameter: if the note is as it should be.
            UnreadableLedger: if the ledger itself is not whole.
        """
        stated = check_reason(reason)
        check_name("who", who)
        found = cls.__new__(cls)
        found.path = Path(path)
        if not found.path.is_file():
            raise InvalidParameter(f"{found.path} does not exist.")
        found._storage, found._accounts = Storage(found.path), Accounts(str(found.path))
        with found._storage.reading() as noted:
            found._catch_up()
            if found._note_problem(noted) is None:
                raise InvalidParameter(f"the note of {found.path} is as it should be; there is nothing to restore.")
        with found._writing(restore=True):
            said = None if noted is None else _json({"noted": {"sequence": noted.new[0], "hash": noted.new[1]}})
            found._append("note restored", 0, who=who, note=stated, spending=said)
        found._refresh()
        return found

    # ---- keeping up with the file ----

    def _refresh(self) -> None:
        with self._storage.reading() as noted:
            self._catch_up()
            self._check_note(noted)

    @contextlib.contextmanager
    def _writing(self, *, wait: bool = True, restore: bool = False) -> Iterator[None]:
        """A transaction that begins with everything others have appended; `restore`: whatever the note says."""
        if self._accounts.version == 1:
            self._upgrade(restore=restore)
        with self._storage.writing(wait=wait, create_note=restore) as noted:
            self._catch_up()
            if not restore:
                self._check_note(noted)
            yield

    def _upgrade(self, *, restore: bool) -> None:
        """Give a ledger of format 1 a key, for the hashes that releases carry from now on."""
        with self._storage.writing(create_note=restore or len(self._accounts.hashes) == 1) as noted:
            self._catch_up()
            if not restore:
                self._check_note(noted)
            if self._accounts.version == 1:
                self._append("upgraded", 0, spending=_json(key_facts(_random(KEY_BYTES))))
                self._storage.upgrade()
        with self._storage.reading():
            self._catch_up()

    def _catch_up(self) -> None:
        """Verify and take in all rows, or what other processes have appended; inside a transaction."""
        known = bool(self._accounts.hashes)
        number, digest = self._accounts.last if known else (0, None)
        rows = self._storage.rows(number)
        if known and next(rows, (None, None))[1] != digest:
            raise UnreadableLedger(f"{self.path} was rewritten while it was in use.")
        self._accounts.follow(rows)
        if not self._accounts.hashes or self._storage.head() != self._accounts.last:
            raise UnreadableLedger(f"{self.path} has been altered: rows are missing at the end of its history.")

    def _check_note(self, noted: Noted | None) -> None:
        """Refuse a history that does not end where the note beside it said when the transaction began.

        Everybody who uses the ledger holds the note's lock meanwhile, except for earlier versions of dptally, which
        write notes of format 1 after they commit: such a note may be behind the history, and never ahead of it.
        """
        problem = self._note_problem(noted)
        if problem is not None:
            raise UnreadableLedger(problem)

    def _note_problem(self, noted: Noted | None) -> str | None:
        """What is wrong with the note, as a sentence; None if nothing is."""
        accounts, name = self._accounts, self._storage.note.path.name
        if noted is None:
            if accounts.version == 1 and len(accounts.hashes) == 1:
                return None  # format 1 wrote the first note with the first spending
            why = f"{self.path} has no readable note ({name}) beside it, and one was written with it"
            what = "put it back, or mount the whole directory of the ledger"
        elif accounts.ends_with(noted.new) or (noted.counter and accounts.ends_with(noted.old)):
            return None
        elif not accounts.has(noted.new):
            why = f"{self.path} ends before, or differs from, what {name} has noted"
            what = "rows were lost, or it is an older copy: put the right file back"
        elif noted.counter == 0 and accounts.version == 1:
            return None  # of format 1, whose notes may be behind
        else:
            why = f"{self.path} has rows that {name} knows nothing of"
            what = "the ledger was used under another name: use it under one, with the note that is beside it there"
        return f"{why}; {what}; {_RESTORE} dptally ledger restore-note {shlex.quote(str(self.path))} --reason TEXT."

    def _append(self, state: str, entry: int, **columns: str | None) -> str:
        """Write a row that follows, inside a transaction, and return its hash; the accounts take it in later."""
        number, previous = self._accounts.last
        time = _now()
        row = Row(number + 1, time, max(time, self._accounts.latest), state, entry, **columns)
        digest = row_hash(previous, row, self._accounts.key)
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

    def reserve(
        self,
        spending: Spending,
        *,
        unit: str | None = None,
        note: str | None = None,
        interval: Interval | None = None,
    ) -> Reservation:
        """As `Ledger.reserve`; the account's name for the unit, if it has one, stands for the release's own."""
        labels = {name: getattr(self, name) for name in ("source", "partitioning", "part", "who")}
        return self.ledger.reserve(spending, unit=self.unit or unit, note=note, interval=interval, **labels)


class Reservation:
    """A spending that is on disk, for a release that is still to be made; its `record` goes into the release.

    "drawn" must be on disk before the first secret random word of the draw is read. "published" says that the release
    was handed to the caller, "failed" that there is none. "void" gives the budget back, and is possible only as long as
    nothing was drawn: it is for a request that failed before any row was read. `state` is as this process has it.
    """

    def __init__(self, ledger: Ledger, record: Record, number: int) -> None:
        self._ledger = ledger
        self.record = record
        self.number = number
        self.state = "reserved"

    @property
    def path(self) -> Path:
        """Of the ledger."""
        return self._ledger.path

    def drawn(self) -> None:
        """Say, on disk, that the draw begins; it is then spent whatever happens."""
        if self.state == "reserved":
            self.state = "drawn"  # before it is written: from here on nothing may give it back
            self._ledger._move(self.number, "drawn")

    def published(self) -> None:
        """Say that the release was handed over."""
        self.drawn()
        if self.state == "drawn":
            self._ledger._move(self.number, "published")
            self.state = "published"

    def failed(self) -> None:
        """Say that there will be no release. It stays spent: whether a request fails may depend on the data."""
        if self.state in ("reserved", "drawn"):
            self.state = "failed"
            self._ledger._move(self.number, "failed")

    def void(self, note: str) -> None:
        """Give it back, as nothing was read; the note stays in the history, so nothing private may be in it."""
        if self.state != "reserved":
            raise InvalidParameter(f"what is {self.state} cannot be given back.")
        self._ledger._move(self.number, "void", note=note)
        self.state = "void"


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


def _header(budget: Budget, sources: tuple[str, ...], renewal: Renewal | None) -> Row:
    time = _now()
    facts = budget_facts(_random(16).hex(), _random(KEY_BYTES), budget, sources, renewal)
    return Row(0, time, time, "created", 0, spending=_json(facts))


def _group(partitioning: str | None, part: str | None) -> Group:
    if (partitioning is None) != (part is None):
        raise InvalidParameter("partitioning and part go together: how units are divided, and which part it is.")
    check_name("partitioning", partitioning)
    check_name("part", part)
    return None if partitioning is None or part is None else (partitioning, part)


def _random(count: int) -> bytes:
    """So many fresh random bytes; a multiple of eight."""
    from dptally.randomness import SystemBits

    return SystemBits().words(count // 8).tobytes()


def _json(facts: object) -> str:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def _short(number: Fraction) -> str:
    """A number for a sentence: exact where that is short."""
    text = f"{float(number):.6g}"
    return text if Fraction(text) == number else f"about {text}"
