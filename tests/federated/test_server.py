"""The server counts what it asked for, once, keeps nothing below the threshold, and can be killed."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dptally.errors import InvalidParameter, InvalidSource, PrivacyViolation
from dptally.federated import HistogramRounds, Node, Round, Server
from dptally.federated.messages import Call, ballot_size, pack_ballot, read_ballot, registration
from dptally.privacy.guarantee import Guarantee
from dptally.randomness import SeededBits
from tests.federated.federation import enrol_all, run_round, run_task, seeded_nodes
from tests.federated.prefix_rounds import PrefixRounds

TASK = HistogramRounds("1", "1e-6", key="word")
LAW = TASK.law


class Everyone(Node):
    """A node in which every coin says yes: what a bad client would send."""

    def vote_with_all(self, message: bytes) -> bytes:
        """A ballot without abstentions."""
        call = Call.read(message)
        votes = [TASK.answer(value, call.asked) for value in self._values]
        return pack_ballot(call, votes + [None] * (call.votes - len(votes)), bytes(16))


def test_release_holds_the_counts_of_the_votes_that_reach_the_threshold() -> None:
    """The release is what adding up all ballots by hand, then applying the threshold, gives."""
    values = {i: ["common"] * 60 + ["rare"] * 2 + [f"own-{i}"] for i in range(5)}
    server, nodes = Server(TASK), seeded_nodes(values, 1)
    enrol_all(server, nodes)
    by_hand: dict[str, int] = {}
    for name, call in server.begin_round().items():
        ballot = nodes[name].answer(call)
        for vote in read_ballot(ballot, 64):
            by_hand[vote.decode()] = by_hand.get(vote.decode(), 0) + 1
        assert server.receive(name, ballot) == "counted"
    server.close_round()
    expected = {word: count for word, count in by_hand.items() if count >= LAW.threshold}
    assert dict(server.result.table().select("word", "value").rows()) == expected == {"common": by_hand["common"]}
    assert server.result.verify() == server.result.certificate


def test_release_says_what_it_promises_and_whether_coins_were_secret() -> None:
    """The unit is the device; one node with seeded coins makes the whole release not private."""
    secret = run_task(Server(TASK), {0: Node(["a"] * 200), 1: Node(["a"] * 200)})
    assert secret.guarantee.private and secret.guarantee.unit == "device"
    assert (secret.guarantee.epsilon, secret.guarantee.delta) == (1, Fraction(1, 10**6))
    mixed = run_task(Server(TASK), {0: Node(["a"] * 200), 1: Node(["a"] * 200, bits=SeededBits(1))})
    assert not mixed.guarantee.private


def test_losing_a_third_of_the_nodes_leaves_a_release_of_the_others() -> None:
    """Lost ballots count as devices that are not there: same law, same certificate, smaller counts."""
    values = {i: ["a"] * 100 for i in range(9)}
    whole = run_task(Server(TASK), seeded_nodes(values, 2))
    part = run_task(Server(TASK), seeded_nodes(values, 2), lost={1, 4, 7})
    others = run_task(Server(TASK), {i: node for i, node in seeded_nodes(values, 2).items() if i not in {1, 4, 7}})
    assert part.table().equals(others.table())
    assert 0 < part.table()["value"][0] < whole.table()["value"][0]
    assert part.certificate == whole.certificate and part.verify()


@pytest.mark.parametrize(
    ("outcome", "change"),
    [
        ("oversized", lambda ballot: ballot + bytes(10**7)),
        ("oversized", lambda ballot: ballot + b"\0"),
        ("malformed", lambda ballot: ballot[:-1]),
        ("malformed", lambda ballot: b""),
        ("malformed", lambda ballot: None),
        ("malformed", lambda ballot: "text"),
        ("late or foreign", lambda ballot: b"XXXX" + ballot[4:]),
        ("late or foreign", lambda ballot: ballot[:4] + bytes(16) + ballot[20:]),
        ("late or foreign", lambda ballot: ballot[:20] + bytes(16) + ballot[36:]),
        ("late or foreign", lambda ballot: ballot[:36] + bytes(4) + ballot[40:]),
    ],
)
def test_bad_ballots_are_refused_whole(outcome: str, change) -> None:  # type: ignore[no-untyped-def]
    """A ballot of the wrong size, run, attempt or number of votes counts nothing, and the right one still may come."""
    server, nodes = Server(TASK), {0: Everyone(["a"] * 30)}
    enrol_all(server, nodes)
    call = server.begin_round()[0]
    ballot = nodes[0].vote_with_all(call)
    assert server.receive(0, change(ballot)) == outcome
    assert server.receive(0, ballot) == "counted"
    server.close_round()
    assert server.result.table()["value"].to_list() == [30]


def test_duplicate_unasked_and_late_ballots_are_refused() -> None:
    """One ballot for each node and round, from nodes that were asked, before the round is closed."""
    server, nodes = Server(TASK), {0: Everyone(["a"] * 30), 1: Everyone(["a"] * 30)}
    enrol_all(server, nodes)
    calls = server.begin_round()
    ballot = nodes[0].vote_with_all(calls[0])
    assert [server.receive(name, ballot) for name in (0, 0, "stranger")] == ["counted", "duplicate", "not asked"]
    server.close_round()
    assert server.receive(1, nodes[1].vote_with_all(calls[1])) == "late or foreign"
    assert server.result.table()["value"].to_list() == [30]


def test_a_node_cannot_count_for_more_devices_than_it_enrolled() -> None:
    """Enrolment is bounded, once per node, and fixes the size of the ballot: a million votes need a million devices."""
    server = Server(TASK, max_devices_per_node=50)
    bad = Everyone(["a"] * 51)
    with pytest.raises(InvalidParameter, match="the server takes at most 50 devices of one node"):
        bad.enrol(server.registration())
    message = bad.enrol(registration(server._state.run, 1000))
    assert server.enrol("bad", message) == "oversized"
    assert server.enrol("bad", message[:-1]) == server.enrol("bad", None) == "malformed"
    assert server.enrol("bad", Node(["a"]).enrol(registration(bytes(16), 9))) == "late or foreign"
    small = Everyone(["a"] * 20)
    assert server.enrol("small", small.enrol(server.registration())) == "counted"
    assert server.enrol("small", small.enrol(server.registration())) == "duplicate"
    (call,) = server.begin_round().values()
    assert server.receive("small", pack_ballot(Call.read(call), [b"a"] * 1_000, bytes(16))) == "oversized"


def test_votes_for_what_was_not_asked_are_dropped() -> None:
    """Keys outside the list, bytes that are no text, and broken padding count nothing; other votes of the ballot do."""
    task = HistogramRounds("1", "1e-6", keys=["yes", "no"])
    server, nodes = Server(task), {0: Node([None] * 100)}
    enrol_all(server, nodes)
    call = Call.read(server.begin_round()[0])
    ballot = pack_ballot(call, [b"yes"] * 40 + [b"maybe"] * 40 + [b"\xff"] * 20, bytes(16))
    assert server.receive(0, ballot) == "counted"
    server.close_round()
    assert server.result.table().select("key", "value").rows() == [("yes", 40)]
    server, nodes = Server(TASK), {0: Node([None] * 60)}
    enrol_all(server, nodes)
    call = Call.read(server.begin_round()[0])
    damaged = bytearray(pack_ballot(call, [b"good"] * 20 + [b"long"] * 20 + [b"hidden"] * 20, bytes(16)))
    for slot in range(20, 40):
        start = ballot_size(slot, 64)
        damaged[start : start + 2] = b"\xff\xff"
    for slot in range(40, 60):
        damaged[ballot_size(slot + 1, 64) - 1] = 1  # something behind the end of the vote
    assert server.receive(0, bytes(damaged)) == "counted"
    server.close_round()
    assert server.result.table().select("word", "value").rows() == [("good", 20)]


def test_nothing_below_the_threshold_is_stored_or_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A key with few votes appears in no file, log or repr, before or after the threshold was applied."""
    caplog.set_level(logging.DEBUG)
    marker = "a-key-of-few"
    state = tmp_path / "state.json"
    nodes: dict[Hashable, Everyone] = {0: Everyone([marker] * 5 + ["common"] * 60)}
    server = Server(TASK, state=state)
    enrol_all(server, nodes)
    seen = []
    for name, call in server.begin_round().items():
        assert server.receive(name, nodes[name].vote_with_all(call)) == "counted"
        seen.append(repr(server) + repr(server._tally) + repr(nodes[name]) + state.read_text())
    server.close_round()
    seen += [repr(server), state.read_text(), caplog.text]
    for text in seen:
        assert marker not in text and marker.encode().hex() not in text
    assert b"common".hex() in state.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]
    assert stat.S_IMODE(state.stat().st_mode) == 0o600


def test_a_killed_server_resumes_and_pays_for_what_was_cut_off(tmp_path: Path) -> None:
    """Finished rounds are not asked again; the open one is, with fresh coins, as an attempt of its own."""
    state = tmp_path / "state.json"
    values = {i: ["abc"] * 40 + ["abd"] * 40 + ["xyz"] * 40 for i in range(6)}
    server, nodes = Server(PrefixRounds(3, "1", "1e-6"), state=state), seeded_nodes(values, 3)
    enrol_all(server, nodes)
    run_round(server, nodes)
    calls = server.begin_round()
    old = {name: nodes[name].answer(call) for name, call in calls.items()}
    assert server.receive(0, old[0]) == "counted"
    del server  # killed: all that is left is the file
    again = Server(PrefixRounds(3, "1", "1e-6"), state=state)
    enrol_all(again, nodes)
    assert [(part.number, part.finished) for part in again.spent] == [(1, True), (2, False)]
    calls = again.begin_round()
    assert again.receive(0, old[0]) == "late or foreign"
    for name, call in calls.items():
        assert again.receive(name, nodes[name].answer(call)) == "counted"
    again.close_round()
    run_round(again, nodes)
    assert [(part.number, part.finished) for part in again.spent] == [(1, True), (2, False), (2, True), (3, True)]
    assert again.total_spent == (4, Fraction(4, 10**6))
    assert [sorted(level) for level in again.result.levels] == [["a", "x"], ["ab", "xy"], ["abc", "abd", "xyz"]]
    done = Server(PrefixRounds(3, "1", "1e-6"), state=state)
    assert done.finished and done.result.levels == again.result.levels
    with pytest.raises(InvalidParameter, match="the task is finished"):
        done.begin_round()


def test_a_resumed_release_remembers_seeded_coins(tmp_path: Path) -> None:
    """A release rebuilt from the state file is as little private as it was."""
    state = tmp_path / "state.json"
    run_task(Server(TASK, state=state), seeded_nodes({0: ["a"] * 200}, 4))
    assert not Server(TASK, state=state).result.guarantee.private


def test_spending_is_on_disk_before_anybody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the attempt cannot be recorded, no call leaves."""
    server, nodes = Server(TASK, state=tmp_path / "state.json"), {0: Node(["a"])}
    enrol_all(server, nodes)
    monkeypatch.setattr("dptally.federated.run_state.complete_or_absent", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        server.begin_round()
    assert server.receive(0, b"") == "late or foreign"


def test_state_of_another_task_or_damaged_is_refused(tmp_path: Path) -> None:
    """A run is resumed with the parameters it began with, or not at all."""
    state = tmp_path / "state.json"
    server = Server(TASK, state=state)
    enrol_all(server, {0: Node(["a"])})
    server.begin_round()
    with pytest.raises(InvalidParameter, match="state of another task or of other parameters"):
        Server(HistogramRounds("2", "1e-6", key="word"), state=state)
    data = json.loads(state.read_text())
    state.write_text(json.dumps({**data, "finished": [{"counts": {}, "private": True}] * 2}))
    with pytest.raises(InvalidParameter, match="more rounds than the task has"):
        Server(TASK, state=state)
    for counts in ({"85": 106}, {"61": 1}, {"61": 1 << 63}, {"61" * 1000: 106}):  # no text, too few, too many, too long
        state.write_text(json.dumps({**data, "finished": [{"counts": counts, "private": True}]}))
        with pytest.raises(InvalidSource, match="is not the state of a run, or is damaged"):
            Server(TASK, state=state)
    state.write_text("{}")
    with pytest.raises(InvalidSource, match="is not the state of a run, or is damaged"):
        Server(TASK, state=state)
    with pytest.raises(InvalidParameter, match="is not a directory"):
        Server(TASK, state=tmp_path / "nowhere" / "state.json")


def test_rounds_are_judged_before_anybody_is_asked() -> None:
    """A task that states more privacy than its rate and threshold keep is refused, and so is one out of step."""

    class Wrong(PrefixRounds):
        changed: dict[str, Any]

        def start(self) -> Round:
            return Round(**{**super().start().to_dict(), **self.changed})

    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"threshold": 3}, PrivacyViolation, "exceed|divergence|delta"),
        ({"number": 2}, InvalidParameter, "must state round 1"),
        ({"task": "histogram"}, InvalidParameter, "must state round 1"),
    ]
    for changed, kind, match in wrong:
        task = Wrong(2, "1", "1e-6")
        task.changed = changed
        with pytest.raises(kind, match=match):
            Server(task)


def test_order_of_calls_is_checked() -> None:
    """Rounds are opened and closed in turn."""
    server = Server(TASK)
    with pytest.raises(InvalidParameter, match="no round is open"):
        server.close_round()
    server.begin_round()
    with pytest.raises(InvalidParameter, match="a round is open; close it first"):
        server.begin_round()


def test_an_empty_federation_releases_nothing() -> None:
    """Without nodes, or without devices, there is an empty release."""
    assert len(run_task(Server(TASK), {})) == len(run_task(Server(TASK), {0: Node([])})) == 0


def test_a_task_may_have_nothing_to_ask_and_a_result_that_cannot_be_changed() -> None:
    """A result instead of a first round ends the task; seeded coins mark frozen results too, by a copy."""

    @dataclass(frozen=True)
    class Found:
        guarantee: Guarantee

    class Answered(PrefixRounds):
        task = "histogram"

        def start(self) -> Any:
            return Found(TASK.receive({}).guarantee) if not self._levels else TASK.start()

        def receive(self, sampled: Mapping[bytes, int]) -> Any:
            return Found(TASK.receive(sampled).guarantee)

    done = Server(Answered(0, "1", "1e-6"))
    assert done.finished and done.result.guarantee.private and done.spent == []
    seeded = run_task(Server(Answered(1, "1", "1e-6")), seeded_nodes({0: ["a"]}, 5))
    assert not seeded.guarantee.private
