"""Nodes answer for each device by a coin of its own, and give nothing else away."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dptally.errors import InvalidParameter
from dptally.exact import exp_bounds
from dptally.federated import HistogramRounds, Limits, Node, Server, enough_to_contact
from dptally.federated.messages import Call, ballot_size, read_ballot, read_enrolment, registration
from dptally.federated.protocol import RATE_UNIT
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.randomness import SeededBits
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

TASK = HistogramRounds("1", "1e-6")
ASKED = TASK.start()
RUN = bytes(range(16))


def call_for(slots: int, *, attempt: int = 1, **changes: Any) -> bytes:
    """A call to a node with this many slots."""
    return Call(RUN, attempt.to_bytes(16, "big"), ASKED, slots, **changes).pack()


def test_ballots_have_one_size_whatever_devices_hold_and_coins_say() -> None:
    """An abstention takes as many bytes as a vote; long, missing and unreadable values do too."""
    for values in (["a"] * 9, ["x" * 64] * 9, ["x" * 1000] * 9, [None] * 9, [object()] * 9, ["\ud800"] * 9):
        for seed in range(5):
            ballot = Node(values, bits=SeededBits(seed)).answer(call_for(9))
            assert len(ballot) == ballot_size(9, 64) == 56 + 9 * 66


def test_equal_ballots_are_different_messages() -> None:
    """Two nodes that abstain send different bytes, so a transport that knows messages by a hash cannot match them."""
    first, second = (Node([None] * 3).answer(call_for(3)) for _ in range(2))
    assert first != second and list(read_ballot(first, 64)) == list(read_ballot(second, 64)) == []


def test_a_padded_node_shows_its_capacity_only() -> None:
    """With a capacity, enrolment and ballot are those of a full node."""
    few, many = Node(["a"], capacity=20), Node(["a"] * 20, capacity=20)
    invitation = registration(RUN, 100)
    assert few.enrol(invitation) == many.enrol(invitation)
    enrolment = read_enrolment(few.enrol(invitation))
    assert enrolment is not None and enrolment.slots == 20 and enrolment.private
    assert len(few.answer(call_for(20))) == len(many.answer(call_for(20)))
    assert set(read_ballot(few.answer(call_for(20, attempt=2)), 64)) <= {b"a"}


def test_a_value_that_cannot_be_read_silences_its_own_device_only() -> None:
    """One bad value among many leaves the others' votes as they are."""

    class Hostile:
        def __str__(self) -> str:
            raise RuntimeError("a secret in a message")

    good = Counter(read_ballot(Node(["a"] * 300, bits=SeededBits(5)).answer(call_for(301)), 64))
    bad = Counter(read_ballot(Node([*["a"] * 300, Hostile()], bits=SeededBits(5)).answer(call_for(301)), 64))
    assert good == bad and good[b"a"] > 40


def test_too_many_devices_are_refused_not_cut_off() -> None:
    """Above the capacity, or above what was enrolled, nothing is sent."""
    with pytest.raises(InvalidParameter, match="the node holds more devices than its capacity"):
        Node(["a"] * 3, capacity=2)
    with pytest.raises(InvalidParameter, match="the call is for fewer devices than the node holds"):
        Node(["a"] * 3).answer(call_for(2))
    assert repr(Node(["secret"])) == "Node()"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"version": 2}, "another version of the protocol"),
        ({"run": "00"}, "named by 16 bytes"),
        ({"attempt": 5}, "named by 16 bytes"),
        ({"attempt": "x" * 32}, "named by 16 bytes"),
        ({"slots": -1}, "slots must be at least 0"),
        ({"slots": 1 << 30}, "slots must be at most"),
        ({"coin_of": 5}, "coin_of must be at least the rate"),
        ({"coin_of": 1 << 40}, "coin_of must be at most"),
        ({"contacted": "?"}, "contacted must be a map of slots"),
        ({"contacted": "AAAA"}, "contacted must be a map of slots"),
        ({"round": {}}, "a round has the parts"),
        ({"extra": 1}, "not one of this protocol"),
    ],
)
def test_bad_calls_are_refused(change: dict[str, Any], match: str) -> None:
    """A node answers calls of the protocol and nothing else."""
    data = json.loads(call_for(2))
    with pytest.raises(InvalidParameter, match=match):
        Node(["a"] * 2).answer(json.dumps({**data, **change}).encode())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rate": 0}, "rate must be at least 1"),
        ({"rate": RATE_UNIT}, "rate must be at most"),
        ({"threshold": 0}, "threshold must be at least 1"),
        ({"key_bytes": 10**6}, "key_bytes must be at most 4096"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"delta": "2"}, "delta"),
        ({"task": "unheard-of"}, "there is no task named 'unheard-of'"),
        ({"question": []}, "question must be a mapping"),
    ],
)
def test_bad_rounds_are_refused(change: dict[str, Any], match: str) -> None:
    """A node checks the round before it flips a coin."""
    data = json.loads(call_for(2))
    data["round"].update(change)
    node = Node(["a"] * 2, limits=Limits(answers=1))
    with pytest.raises(InvalidParameter, match=match):
        node.answer(json.dumps(data).encode())
    node.answer(call_for(2))  # nothing was counted
    for message in (b"\xff", b"[]", b"[" * 100_000, b" " * (1 << 25)):
        with pytest.raises(InvalidParameter, match=r"the server's message|the call is longer"):
            node.answer(message)


# ---- the law of taking part ----

DEVICES, DRAWS = 6, 6_000
WIDE = Limits(epsilon=Fraction(DRAWS), delta=Fraction(1), rate=Fraction(1), answers=DRAWS, trust_contact_rate=True)
BINOMIAL = {k: float(stats.binom.pmf(k, DEVICES, ASKED.rate / RATE_UNIT)) for k in range(DEVICES + 1)}


def votes_drawn(make_call: Callable[[int], bytes]) -> Counter[object]:
    """How often 0, 1, ... devices of a node took part."""
    node = Node(["a"] * DEVICES, bits=SeededBits(7), limits=WIDE)
    return Counter(len(list(read_ballot(node.answer(make_call(i)), 64))) for i in range(DRAWS))


def test_devices_take_part_independently_at_the_rate() -> None:
    """Votes of a node are Binomial(6, rate): 6,000 ballots, chi-square, false-alarm rate 1e-6."""
    assert chi_square_pvalue(votes_drawn(lambda i: call_for(DEVICES, attempt=i)), BINOMIAL, DRAWS) > FALSE_ALARM


def test_contacting_by_secret_coins_leaves_the_law_unchanged() -> None:
    """Contacting at rate r, and taking part at p / r, is Binomial(6, p) again (as above), while [BC22, Lem. 4] is not.

    The wrong sampler that is rejected: contact exactly s = 3 of 6 devices, each of which takes part with 6 p / s.
    """
    contact = Fraction(1, 2)
    server = Server(TASK, contact_rate=contact, bits=SeededBits(8))

    def secret(i: int) -> bytes:
        return server._call(i.to_bytes(16, "big"), ASKED, DEVICES).pack()

    assert chi_square_pvalue(votes_drawn(secret), BINOMIAL, DRAWS) > FALSE_ALARM
    generator = np.random.default_rng(9)

    def fixed(i: int) -> bytes:
        contacted = np.zeros(DEVICES, dtype=bool)
        contacted[generator.choice(DEVICES, 3, replace=False)] = True
        return call_for(DEVICES, attempt=i, coin_of=RATE_UNIT // 2, contacted=contacted)

    assert chi_square_pvalue(votes_drawn(fixed), BINOMIAL, DRAWS) < FALSE_ALARM


def test_a_fixed_number_of_contacts_exceeds_what_the_law_keeps() -> None:
    """Exact: contacting s = 42 of 400 devices, each taking part with 36/42, is not within the delta of rate 36/400.

    [BC22, Lem. 4] with c = 1. All devices hold one key; with one device more, of another key, the key's count is
    Binomial(s - 1, m/s) if that one is contacted, so the count s is too rare: the divergence is 1.6e-5, not 1e-6.
    """
    epsilon, devices, mean, contacted = Fraction(1, 10), 400, 36, 42
    law = SampleAndThreshold(epsilon, "1e-6", rate=Fraction(mean, devices))
    assert law.certify().total_delta <= Fraction(1, 10**6)
    coin = Fraction(mean, contacted)

    def reported(asked: int) -> dict[int | None, Fraction]:
        row: dict[int | None, Fraction] = {None: Fraction(0)}
        for kept in range(asked + 1):
            value = kept if kept >= law.threshold else None
            mass = math.comb(asked, kept) * coin**kept * (1 - coin) ** (asked - kept)
            row[value] = row.get(value, Fraction(0)) + mass
        return row

    without, found = reported(contacted), reported(contacted - 1)
    chosen = Fraction(contacted, devices + 1)
    growth = exp_bounds(epsilon, 64)[1]
    divergence = sum(
        max(Fraction(0), mass - growth * ((1 - chosen) * mass + chosen * found.get(value, Fraction(0))))
        for value, mass in without.items()
    )
    assert Fraction(16, 10**6) < divergence < Fraction(17, 10**6)


def test_asked_devices_only_are_in_the_ballot() -> None:
    """A ballot has one place for each slot that was asked, and devices that were not asked never vote."""
    contacted = np.array([False, True, False, True, False])
    node = Node(["no", "yes", "no", "yes", "no"], limits=WIDE)
    for attempt in range(200):
        ballot = node.answer(call_for(5, attempt=attempt, contacted=contacted, coin_of=ASKED.rate))
        assert list(read_ballot(ballot, 64)) == [b"yes", b"yes"]  # p / r = 1
        assert len(ballot) == ballot_size(2, 64)


def test_enough_to_contact() -> None:
    """About m + c sqrt(m) devices are asked, never more than all, never below the rate."""
    assert enough_to_contact("0.1", 10**6) * 10**6 == pytest.approx(10**5 + 10 * 10**2.5, rel=1e-3)
    assert enough_to_contact("0.1", 10) == 1
    assert Fraction(1, 4) <= enough_to_contact("0.25", 10**9, spread=0) < Fraction(1, 4) + Fraction(1, RATE_UNIT)
    with pytest.raises(InvalidParameter, match="rate must be between 0 and 1"):
        enough_to_contact(1, 5)
    with pytest.raises(InvalidParameter, match="contact_rate must be above 0 and at most 1"):
        Server(TASK, contact_rate=2)
    with pytest.raises(InvalidParameter, match="contact_rate must be at least the rate of every round"):
        Server(TASK, contact_rate="0.01").begin_round()


def test_contacting_fewer_gives_a_release_of_the_same_law() -> None:
    """With a contact rate the release comes out as usual; seeded coins of the server make it not private."""
    for bits, private in ((None, True), (SeededBits(1), False)):
        server = Server(TASK, contact_rate=enough_to_contact(TASK.law.rate, 2_000, spread=2), bits=bits)
        nodes = {i: Node(["a"], limits=WIDE) for i in range(2_000)}
        for name, node in nodes.items():
            server.enrol(name, node.enrol(server.registration()))
        calls = server.begin_round()
        assert 300 < len(calls) < 1_000  # of 2,000, expected 552
        for called, call in calls.items():
            server.receive(called, nodes[int(str(called))].answer(call))
        server.close_round()
        (row,) = server.result.table(confidence="0.999999").iter_rows(named=True)
        assert row["lower"] <= 2_000 <= row["upper"]
        assert server.result.guarantee.private is private
