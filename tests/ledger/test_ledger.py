"""The ledger: making and opening one, spending, refusing, parts of units."""

from __future__ import annotations

import datetime
import os
import pickle
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dptally.ledger.ledger as ledger_module
from dptally import BudgetExceeded, Ledger
from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.privacy.guarantee import Guarantee, Record
from dptally.privacy.spending import Spending


def event(epsilon: str = "1/4", delta: str = "1/10000000", mechanism: str = "stability") -> Spending:
    """A small event."""
    return Spending(mechanism, Fraction(epsilon), Fraction(delta))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a ledger goes."""
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(place: Path) -> Ledger:
    """A ledger with epsilon 1 and delta 1e-6."""
    return Ledger(place, epsilon=1, delta="1e-6")


# ---- making and opening ----


def test_a_new_ledger_is_its_owners_alone(ledger: Ledger, place: Path) -> None:
    """All files of a ledger have mode 0600, and no other file is left beside them."""
    ledger.reserve(event())
    names = sorted(file.name for file in place.parent.iterdir())
    assert names == ["budget.db", "budget.db-head", "budget.db-journal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.parent.iterdir()} == {0o600}


def test_a_ledger_is_found_again(ledger: Ledger, place: Path) -> None:
    """Opening it again, with or without its numbers, gives the same budget and history; as does a pickle."""
    ledger.reserve(event()).published()
    for again in (Ledger(place), Ledger(place, epsilon="1", delta="0.000001"), pickle.loads(pickle.dumps(ledger))):  # noqa: S301
        assert again.ledger_id == ledger.ledger_id
        assert [entry.state for entry in again.history()] == ["published"]
        assert again.remaining() == (Fraction(3, 4), Fraction(9, 10**7))
    assert repr(ledger) == f"Ledger({str(place)!r}, epsilon=1, delta=1/1000000)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 2, "delta": "1e-6"}, "a budget cannot be changed"),
        ({"epsilon": 1, "delta": 1e-6}, "a budget cannot be changed"),  # the float is another number
        ({"epsilon": 1}, "needs both epsilon and delta"),
        ({"accounting": "tight"}, "was made with accounting 'basic'"),
        ({"accounting": "generous"}, "accounting must be 'basic' or 'tight'"),
        ({"sources": ["events"]}, "was made with other sources"),
        ({"epsilon": 0, "delta": 0}, "epsilon must be positive"),
        ({"epsilon": 1, "delta": 1}, "delta must be at least 0 and below 1"),
    ],
)
def test_other_numbers_are_refused(ledger: Ledger, place: Path, options: dict[str, Any], message: str) -> None:
    """A ledger that is there is never changed by opening it."""
    with pytest.raises(InvalidParameter, match=message):
        Ledger(place, **options)
    assert Ledger(place).epsilon == 1


def test_a_missing_ledger_is_not_made_without_a_budget(place: Path) -> None:
    """A wrong path is not a new budget."""
    with pytest.raises(InvalidParameter, match="does not exist; give epsilon and delta"):
        Ledger(place)
    assert not place.exists()
    with pytest.raises(InvalidParameter, match="is not a directory"):
        Ledger(place / "deeper", epsilon=1, delta=0)
    with pytest.raises(InvalidParameter, match="is a directory"):
        Ledger(place.parent)


# ---- spending ----


def test_spending_adds_up_exactly_to_the_budget(ledger: Ledger) -> None:
    """Four quarters fit, not a hair more; the refusal says what is left, and writes nothing."""
    for _ in range(4):
        ledger.reserve(event()).published()
    before = ledger.head
    with pytest.raises(BudgetExceeded, match=r"delta 0; epsilon 0, delta 6e-07 remain\.$"):
        ledger.reserve(event("1/1000000000", "0", "dense"))
    assert ledger.head == before
    assert issubclass(BudgetExceeded, InvalidParameter)


def test_delta_is_a_budget_too(ledger: Ledger) -> None:
    """Deltas are refused like epsilons."""
    with pytest.raises(BudgetExceeded):
        ledger.reserve(event("1/100", "2/1000000"))


def test_a_pure_budget_takes_pure_releases_only(tmp_path: Path) -> None:
    """With delta = 0 nothing with a delta is allowed."""
    ledger = Ledger(tmp_path / "pure.db", epsilon=1, delta=0)
    ledger.reserve(event("1/2", "0", "dense"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(event("1/4"))


@pytest.mark.parametrize("state", ["reserved", "drawn", "published"])
def test_every_state_but_void_is_spent(ledger: Ledger, place: Path, state: str) -> None:
    """What was reserved, drawn or published counts, also for a process that opens the ledger later."""
    reservation = ledger.reserve(event("1"))
    if state != "reserved":
        getattr(reservation, state)()
    assert [entry.state for entry in Ledger(place).history()] == [state]
    with pytest.raises(BudgetExceeded):
        Ledger(place).reserve(event("1/100"))


def test_void_gives_back_what_was_not_drawn(ledger: Ledger) -> None:
    """Only a reservation can be void; drawn and published ones cannot, and void is final."""
    reservation = ledger.reserve(event("1"))
    reservation.void("the source could not be read")
    assert ledger.remaining() == (1, Fraction(1, 10**6))
    assert ledger.history()[0].note == "the source could not be read"
    drawn = ledger.reserve(event("1"))
    drawn.drawn()
    with pytest.raises(InvalidParameter, match="what is drawn cannot be given back"):
        drawn.void("I changed my mind")
    reservation.state = "reserved"  # a careless caller
    with pytest.raises(InvalidParameter, match=r"entry 1 of .* cannot become drawn"):
        reservation.drawn()
    reservation.state = "reserved"
    with pytest.raises(InvalidParameter, match=r"entry 1 of .* cannot become failed"):
        reservation.failed()
    assert [entry.state for entry in ledger.history()] == ["void", "drawn"]


def test_published_implies_drawn(ledger: Ledger) -> None:
    """A release that took no random word is drawn all the same; saying things twice changes nothing."""
    reservation = ledger.reserve(event())
    reservation.published()
    reservation.published()
    reservation.drawn()
    assert [row.state for row, _ in ledger._storage.rows(0)] == ["created", "reserved", "drawn", "published"]


def test_a_closed_ledger_spends_nothing_more(ledger: Ledger, place: Path) -> None:
    """After the end nothing is reserved; what was reserved before may be finished."""
    open_one = ledger.reserve(event())
    ledger.end_spending(who="the owner")
    assert Ledger(place).closed
    with pytest.raises(InvalidParameter, match="is closed: nothing more can be spent"):
        ledger.reserve(event())
    with pytest.raises(InvalidParameter, match="is closed already"):
        ledger.end_spending()
    open_one.published()
    assert Ledger(place).history()[0].state == "published"


def test_only_events_are_taken(ledger: Ledger) -> None:
    """What is no event is refused."""
    with pytest.raises(InvalidParameter, match="events that it knows"):
        ledger.reserve("epsilon 1, please")  # type: ignore[arg-type]


def test_labels_are_kept_and_checked(tmp_path: Path) -> None:
    """Who, source and part are in the history; sources that were not declared, and odd names, are refused."""
    ledger = Ledger(tmp_path / "l.db", epsilon=1, delta=0, sources=["events", "orders"])
    account = ledger.account(source="events", partitioning="country", part="it", who="ada@example.org")
    account.reserve(event("1/2", "0"), note="weekly").published()
    (entry,) = Ledger(ledger.path).history()
    assert (entry.source, entry.partitioning, entry.part, entry.who, entry.note) == (
        "events",
        "country",
        "it",
        "ada@example.org",
        "weekly",
    )
    assert Ledger(ledger.path).sources == ("events", "orders")
    with pytest.raises(InvalidParameter, match="source must be one of 'events', 'orders'"):
        ledger.reserve(event("1/2", "0"))
    with pytest.raises(InvalidParameter, match="go together"):
        ledger.reserve(event("1/2", "0"), source="events", part="it")
    for name in ("", " it", "a\nb", "ü", "x" * 101, 5):
        with pytest.raises(InvalidParameter, match="part must"):
            ledger.reserve(event("1/2", "0"), source="events", partitioning="country", part=name)  # type: ignore[arg-type]


# ---- parts ----


def test_disjoint_parts_do_not_add_up(ledger: Ledger) -> None:
    """Each part may spend what is left of the whole; the whole, what is left by the part that spent most."""
    for part in ("it", "fr", "de"):
        ledger.reserve(event("1/2"), partitioning="country", part=part)
    ledger.reserve(event("1/4"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(event("1/2"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(event("1/2"), partitioning="country", part="it")
    ledger.reserve(event("3/4"), partitioning="country", part="es")
    assert ledger.remaining()[0] == 0
    assert ledger.remaining("country", "it")[0] == Fraction(1, 4)


def test_partitionings_add_up(ledger: Ledger) -> None:
    """A unit is in one part of every partitioning: their largest parts are added."""
    ledger.reserve(event("1/2"), partitioning="country", part="it")
    ledger.reserve(event("1/4"), partitioning="age", part="old")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(event("5/8"), partitioning="age", part="young")
    ledger.reserve(event("1/2"), partitioning="country", part="fr")
    assert ledger.remaining()[0] == Fraction(1, 4)
    # Void parts are forgotten.
    with pytest.raises(BudgetExceeded):
        ledger.reserve(event("1/2"))
    ledger.reserve(event("1/4"), partitioning="size", part="big").void("no data")
    assert ledger.remaining()[0] == Fraction(1, 4)


def test_the_part_with_most_epsilon_need_not_have_most_delta(ledger: Ledger) -> None:
    """A unit of one part loses nothing in the other, so maxima are taken part by part."""
    ledger.reserve(event("3/4", "1/10000000"), partitioning="country", part="it")
    ledger.reserve(event("1/8", "9/10000000"), partitioning="country", part="fr")
    ledger.reserve(event("1/4", "1/10000000"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(event("1/8", "1/10000000"))


def test_many_parts_fall_back_to_sums(tmp_path: Path) -> None:
    """With more choices of parts than can be looked at, the sums of the largest decide, and totals say why not."""
    ledger = Ledger(tmp_path / "l.db", epsilon=1, delta=0)
    for partitioning in ("a", "b"):
        for part in range(17):
            ledger.reserve(event(f"1/{part + 3}", "0"), partitioning=partitioning, part=str(part))
    assert ledger.remaining()[0] == Fraction(1, 3)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(event("1/2", "0"))
    with pytest.raises(InvalidParameter, match="too many parts"):
        ledger.totals()


# ---- accounting ----


def test_tight_accounting_allows_more(tmp_path: Path) -> None:
    """Where parameters are fixed in advance, half as many releases again fit into a budget."""
    small = event("1/40", "1/1000000000")
    basic = Ledger(tmp_path / "basic.db", epsilon="1/2", delta="1e-4")
    tight = Ledger(tmp_path / "tight.db", epsilon="1/2", delta="1e-4", accounting="tight")
    for ledger, fits in ((basic, 20), (tight, 30)):
        for _ in range(fits):
            ledger.reserve(small)
    with pytest.raises(BudgetExceeded, match=r"remain\.$"):
        basic.reserve(small)
    with pytest.raises(BudgetExceeded, match="does not fit with what was spent under tight accounting"):
        tight.reserve(event("1/2"))
    assert Ledger(tight.path).accounting == "tight"
    totals = {total.method: total for total in tight.totals()}
    assert totals["basic"].delta == 1 and totals["optimal"].delta == totals["tight"].delta <= Fraction(1, 10**4)
    assert totals["basic"].epsilon == Fraction(3, 4) and totals["optimal"].epsilon < Fraction(1, 2)


def test_totals_of_nothing(ledger: Ledger) -> None:
    """A new ledger has spent nothing, by every rule."""
    assert [(total.method, total.delta) for total in ledger.totals()] == [("basic", 0), ("optimal", 0), ("tight", 0)]


# ---- the clock ----


def test_a_clock_that_is_set_back_changes_no_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows keep their order; the latest time never goes back, and the ledger says that the clock did."""
    ledger = Ledger(place, epsilon=1, delta=0)
    ledger.reserve(event("1/4", "0"))
    assert not ledger.clock_set_back
    past = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC).isoformat(timespec="microseconds")
    monkeypatch.setattr(ledger_module, "_now", lambda: past)
    ledger.reserve(event("1/4", "0"))
    again = Ledger(place)
    assert again.clock_set_back and [entry.number for entry in again.history()] == [1, 2]
    rows = [row for row, _ in again._storage.rows(0)]
    assert rows[-1].time == past and rows[-1].latest == rows[-2].latest > past


# ---- releases and their entries ----


def test_find_compares_everything(ledger: Ledger, tmp_path: Path) -> None:
    """A release is found by ids and hash, and must have spent what the entry says."""
    reservation = ledger.reserve(event())
    record = reservation.record
    promise = Guarantee(Fraction(1, 4), Fraction(1, 10**7), None, 1, "stability", record=record)
    with pytest.raises(PrivacyViolation, match="another spending"):
        ledger.find(promise)  # reserved: nothing can have been published of it
    reservation.published()
    assert ledger.find(promise).number == 1
    wrong = [
        (Guarantee(Fraction(1, 4), Fraction(1, 10**7), None, 1, "stability"), "made without one"),
        (Guarantee(Fraction(1, 5), Fraction(1, 10**7), None, 1, "stability", record=record), "another spending"),
    ]
    for change, message in (
        ({"ledger_id": "0" * 32}, "another ledger"),
        ({"entry": 2}, "not recorded"),
        ({"release_id": "0" * 32}, "not recorded"),
        ({"entry_hash": "0" * 64}, "not recorded"),
    ):
        other = Record.read({**record.facts(), **change})
        wrong.append((Guarantee(Fraction(1, 4), Fraction(1, 10**7), None, 1, "stability", record=other), message))
    for guarantee, message in wrong:
        with pytest.raises(PrivacyViolation, match=message):
            ledger.find(guarantee)


@pytest.mark.parametrize("change", [{"entry": "1"}, {"entry": True}, {"release_id": "x" * 32}, {"entry_hash": "00"}])
def test_damaged_records_are_refused(ledger: Ledger, change: dict[str, Any]) -> None:
    """A record in a file must look like one."""
    facts = {**ledger.reserve(event()).record.facts(), **change}
    with pytest.raises(ValueError, match="not a record"):
        Record.read(facts)


def test_a_child_process_has_a_connection_of_its_own(ledger: Ledger) -> None:
    """After a fork both go on, and see what the other has spent."""
    ledger.reserve(event())
    child = os.fork()
    if child == 0:
        try:
            ledger.reserve(event()).published()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    ledger.reserve(event())
    assert [entry.state for entry in ledger.history()] == ["reserved", "published", "reserved"]
    ledger.disconnect()
    assert len(ledger.history()) == 3
