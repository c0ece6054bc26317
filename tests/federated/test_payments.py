"""A federation pays from a ledger before anybody is asked."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from dptally import BudgetExceeded, Ledger
from dptally.errors import InvalidParameter
from dptally.federated.client import Node
from dptally.federated.histogram import HistogramRounds
from dptally.federated.prefix_task import HeavyHitterRounds
from dptally.federated.server import Server


def ask(server: Server, node: Node) -> None:
    """One round, from asking to its end."""
    for name, call in server.begin_round().items():
        server.receive(name, node.answer(call))
    server.close_round()


def enrolled(server: Server, values: list[str]) -> Node:
    """A node that the server has taken in."""
    node = Node(values)
    assert server.enrol("node", node.enrol(server.registration())) == "counted"
    return node


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A budget for two runs."""
    return Ledger(tmp_path / "budget.db", epsilon=2, delta="3e-6")


def test_a_run_is_paid_once_before_anybody_is_asked(ledger: Ledger) -> None:
    """When calls leave "drawn" is on disk, and "published" at the end; the release names the entry."""
    server = Server(HistogramRounds(1, "1e-6"), ledger=ledger)
    node = enrolled(server, ["apple"] * 200)
    assert ledger.history() == []
    calls = server.begin_round()
    assert [entry.state for entry in ledger.history()] == ["drawn"]
    server.receive("node", node.answer(calls["node"]))
    server.close_round()
    assert ledger.find(server.result.guarantee).state == "published"
    assert server.result.guarantee.private


def test_all_rounds_of_a_task_are_one_spending(ledger: Ledger) -> None:
    """Heavy hitters pay for their rounds together what the plan promises, not the sum over rounds."""
    server = Server(HeavyHitterRounds(1, "1e-6", levels=[1, 5]), ledger=ledger.account(source="phones"))
    node = enrolled(server, ["apple"] * 300)
    while not server.finished:
        ask(server, node)
    (entry,) = ledger.history()
    assert entry.spending.epsilon == 1 and entry.spending.parts[0].copies == 2 and entry.source == "phones"
    assert ledger.find(server.result.guarantee) == entry


def test_a_round_that_is_asked_again_is_paid_again(ledger: Ledger, tmp_path: Path) -> None:
    """A server that was killed in a round goes on with its entry, and pays for the second attempt."""
    state = tmp_path / "run.json"
    first = Server(HistogramRounds(1, "1e-6"), state=state, ledger=ledger)
    enrolled(first, ["apple"] * 200)
    first.begin_round()
    second = Server(HistogramRounds(1, "1e-6"), state=state, ledger=ledger)
    node = enrolled(second, ["apple"] * 200)
    ask(second, node)
    assert [entry.state for entry in ledger.history()] == ["published", "published"]
    assert ledger.history()[1].note == "the run goes on after a restart"
    assert ledger.remaining()[0] == 0
    # A third one has nothing left to ask, and pays nothing.
    third = Server(HistogramRounds(1, "1e-6"), state=state, ledger=ledger)
    assert third.finished and ledger.find(third.result.guarantee).number == 2
    other = Ledger(tmp_path / "other.db", epsilon=2, delta="3e-6")
    with pytest.raises(InvalidParameter, match="has no matching reservation to continue"):
        Server(HistogramRounds(1, "1e-6"), state=state, ledger=other)


def test_a_forged_state_does_not_give_another_draw_for_the_same_payment(ledger: Ledger, tmp_path: Path) -> None:
    """A state that keeps its payment and forgets what was asked pays for every draw all the same."""
    state = tmp_path / "run.json"
    first = Server(HistogramRounds(1, "1e-6"), state=state, ledger=ledger)
    ask(first, enrolled(first, ["apple"] * 200))
    forged = json.loads(state.read_text()) | {"attempts": [], "finished": []}
    assert forged["paid"] is not None
    for _ in range(2):
        state.write_text(json.dumps(forged))
        again = Server(HistogramRounds(1, "1e-6"), state=state, ledger=ledger)
        node = enrolled(again, ["apple"] * 200)
        if ledger.remaining()[0] == 0:
            with pytest.raises(BudgetExceeded):
                again.begin_round()
        else:
            ask(again, node)
    assert len(ledger.history()) == 2 and ledger.remaining()[0] == 0


def test_a_payment_for_less_does_not_pay_for_more(tmp_path: Path) -> None:
    """A run with epsilon 4 is not paid by a record of epsilon 1, nor one round by two."""
    ledger = Ledger(tmp_path / "large.db", epsilon=40, delta="1e-4")
    paid_for = {}
    for name, task in (("small", HistogramRounds(1, "1e-6")), ("large", HistogramRounds(4, "1e-6"))):
        server = Server(task, state=tmp_path / f"{name}.json", ledger=ledger)
        ask(server, enrolled(server, ["apple"] * 200))
        paid_for[name] = json.loads((tmp_path / f"{name}.json").read_text())
    mixed = paid_for["large"] | {"paid": paid_for["small"]["paid"]}
    (tmp_path / "large.json").write_text(json.dumps(mixed))
    with pytest.raises(InvalidParameter, match="no matching reservation"):
        Server(HistogramRounds(4, "1e-6"), state=tmp_path / "large.json", ledger=ledger)


def test_a_second_attempt_is_not_paid_by_the_raised_threshold(tmp_path: Path) -> None:
    """Devices in league lower the threshold: its profile is not that of the law that is judged."""
    ledger = Ledger(tmp_path / "tight.db", epsilon=100, delta="0.1", accounting="tight")
    for _ in range(2):
        Server(HistogramRounds(1, "1e-6", colluding=50), state=tmp_path / "run.json", ledger=ledger).begin_round()
    entries = ledger.history()
    assert len(entries) == 2 and all(part.law is None for entry in entries for part in entry.spending.parts)


def test_a_run_that_the_budget_does_not_allow_asks_nobody(tmp_path: Path) -> None:
    """No call leaves, and no attempt is recorded."""
    ledger = Ledger(tmp_path / "small.db", epsilon="1/2", delta="1e-6")
    server = Server(HistogramRounds(1, "1e-6"), state=tmp_path / "run.json", ledger=ledger)
    enrolled(server, ["apple"] * 10)
    with pytest.raises(BudgetExceeded):
        server.begin_round()
    assert server.spent == [] and not (tmp_path / "run.json").exists() and ledger.history() == []


def test_a_task_that_does_not_say_what_it_spends_pays_by_the_round(ledger: Ledger) -> None:
    """Without `spends` every round is an entry of its own."""

    class Silent(HistogramRounds):
        spends = None  # type: ignore[assignment]

    server = Server(Silent(1, "1e-6"), ledger=ledger)
    ask(server, enrolled(server, ["apple"] * 200))
    (entry,) = ledger.history()
    assert entry.state == "published" and entry.spending.epsilon == Fraction(1)


def test_colluding_devices_take_the_profile_away() -> None:
    """With devices in league with readers the law that is judged has a lower threshold than the one that is drawn."""
    assert HistogramRounds(1, "1e-6").spends.parts[0].law is not None
    assert HistogramRounds(1, "1e-6", colluding=3).spends.parts[0].law is None
