"""A node keeps its own limits, whatever a server asks of it."""

from __future__ import annotations

import multiprocessing
import stat
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dptally.errors import InvalidParameter, InvalidSource
from dptally.federated import Answers, HistogramRounds, Limits, Node
from dptally.federated.limits import default_place
from dptally.federated.messages import Call, ballot_size
from dptally.federated.protocol import RATE_UNIT

ASKED = HistogramRounds("1", "1e-6").start()
RUN = bytes(16)


def call(
    attempt: int = 1, *, slots: int = 3, coin_of: int = RATE_UNIT, contacted: Any = None, **of_round: Any
) -> bytes:
    """A call, by default one that an honest server sends."""
    asked = replace(ASKED, **of_round)
    return Call(RUN, attempt.to_bytes(16, "big"), asked, slots, coin_of, contacted).pack()


def test_rate_and_threshold_must_keep_what_the_call_states() -> None:
    """The attack: nearly every value is asked for, singly, as if for epsilon 0.01."""
    lies: dict[str, Any] = {"threshold": 1, "epsilon": Fraction(1, 100)}
    for rate in (RATE_UNIT - 1, RATE_UNIT // 2, RATE_UNIT // 4):
        with pytest.raises(InvalidParameter, match=r"larger probability|do not keep the epsilon and delta"):
            Node(["secret"] * 3).answer(call(rate=rate, **lies))
    with pytest.raises(InvalidParameter, match="do not keep the epsilon and delta"):
        Node(["secret"] * 3).answer(call(threshold=ASKED.threshold - 1))
    assert Node(["secret"] * 3).answer(call())


@pytest.mark.parametrize(
    ("limits", "request_", "match"),
    [
        (Limits(epsilon=Fraction(1, 2)), {}, "more epsilon or delta"),
        (Limits(delta=Fraction(1, 10**7)), {}, "more epsilon or delta"),
        (Limits(rate=Fraction(1, 10)), {}, "larger probability"),
        (Limits(devices=4), {}, "fewer than the 4 devices"),
        (Limits(message_bytes=100), {}, "longer than the 100 bytes that this node reads"),
        (Limits(message_bytes=1000), {"slots": 20}, "the answer would be longer than the 1000 bytes"),
        (Limits(), {"contacted": np.array([True, False, False])}, "only some devices"),
        (Limits(), {"coin_of": ASKED.rate}, "only some devices"),
        (Limits(devices=2, trust_contact_rate=True), {"contacted": np.array([True, False, False])}, "fewer than the 2"),
    ],
    ids=lambda part: "-".join(part) or "plain" if isinstance(part, dict) else None,
)
def test_each_limit_refuses(limits: Limits, request_: dict[str, Any], match: str) -> None:
    """A call beyond a limit is refused before anything is computed or counted, and one within it is answered after."""
    answers = Answers()
    with pytest.raises(InvalidParameter, match=match):
        Node(["a"] * 3, limits=limits, answers=answers).answer(call(**request_))
    assert Node(["a"] * 3, limits=Limits(answers=1, trust_contact_rate=True), answers=answers).answer(call(**request_))


def test_every_limit_is_tested_to_be_checked() -> None:
    """A limit that is added must be added to these tests."""
    assert [field.name for field in fields(Limits)] == [
        *("epsilon", "delta", "rate", "devices", "answers", "message_bytes", "trust_contact_rate")
    ]
    for name in ("epsilon", "delta", "rate"):
        with pytest.raises(InvalidParameter, match=f"{name} must be above 0"):
            Limits(**{name: 0})  # type: ignore[arg-type]


def test_a_short_call_cannot_make_a_node_build_a_gigabyte() -> None:
    """A call of 330 bytes for a million slots of 4096 bytes is refused by the size of its answer."""
    message = call(slots=1 << 20, key_bytes=4096)
    assert len(message) < 400 and ballot_size(1 << 20, 4096) > 1 << 32
    with pytest.raises(InvalidParameter, match="the answer would be longer"):
        Node(["a"] * 3).answer(message)


def test_answers_are_counted_over_runs_and_processes(tmp_path: Path) -> None:
    """Three runs get three answers if three are allowed, and no more, with the same file; the same call gets one."""
    place = tmp_path / "made" / "answers.db"
    for attempt in range(3):
        Node(["a"] * 3, limits=Limits(answers=3), answers=Answers(place)).answer(call(attempt))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    with pytest.raises(InvalidParameter, match="has answered 3 calls, and may answer no more"):
        Node(["a"] * 3, limits=Limits(answers=3), answers=Answers(place)).answer(call(3))
    with pytest.raises(InvalidParameter, match="answered before"):
        Node(["a"] * 3, answers=Answers(place)).answer(call(2))
    spending = Limits(epsilon=Fraction(4), delta=Fraction(4, 10**6))
    Node(["a"] * 3, limits=spending, answers=Answers(place)).answer(call(4))
    for limits in (spending, Limits(delta=Fraction(4, 10**6))):
        with pytest.raises(InvalidParameter, match="in all, and this call would exceed that"):
            Node(["a"] * 3, limits=limits, answers=Answers(place)).answer(call(5))


def _answer_once(place: str, attempt: int) -> bool:
    try:
        Node(["a"] * 3, limits=Limits(answers=5), answers=Answers(place)).answer(call(attempt))
    except InvalidParameter:
        return False
    return True


def test_processes_at_once_share_one_count(tmp_path: Path) -> None:
    """Twelve calls in four processes at once, five allowed: exactly five are answered."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        done = pool.starmap(_answer_once, [(str(tmp_path / "answers.db"), n) for n in range(12)])
    assert sum(done) == 5


def test_a_node_that_does_not_know_what_it_answered_does_not_answer(tmp_path: Path) -> None:
    """A damaged record, or one that cannot be written, is refused with a sentence."""
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 1000)
    other = tmp_path / "file"
    other.touch()
    for place in (damaged, other / "below.db", tmp_path):
        with pytest.raises(InvalidSource, match="cannot be used as the record"):
            Answers(place)


def test_the_record_of_a_table_has_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of a Flower node name the table; runs and columns do not change where its answers are counted."""
    pytest.importorskip("flwr", reason="needs the extra 'federated'")
    from dptally.federated.flower_app import limits_and_answers

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own: dict[str, Any] = {"source": str(tmp_path / "words.csv"), "key": "word", "max-epsilon": "2", "most-answers": 7}
    limits, _ = limits_and_answers(own)
    assert (limits.epsilon, limits.answers) == (2, 7)
    assert default_place(own["source"], None).exists()
    limits_and_answers({**own, "key": "other"})
    assert len(list((tmp_path / "dptally" / "answers").iterdir())) == 1
    assert default_place(own["source"], "a table") != default_place(own["source"], None)
