"""Domains, plans, rounds, trees and their files; the central draw; bad input."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dptally
from dptally.errors import InvalidParameter, InvalidSource, PrivacyViolation, UnreadableRelease
from dptally.heavy_hitters import publish_heavy_hitters
from dptally.laws.prefix_plans import TriePlan, plan_trie
from dptally.laws.prefix_rounds import Round, TrieRounds, answer
from dptally.mechanisms import prefixes
from dptally.randomness import SeededBits
from dptally.releases.prefix_tree import PrefixTree
from dptally.universes.prefixes import Domain

WORDS = {"tomorrow": 5000, "to": 900, "today": 4000, "once": 1, "äther": 700, "": 800, "supercalifragilistic": 600}
LENGTHS = (1, 2, 4, 9)


def words_tree(**options: Any) -> PrefixTree:
    """A seeded tree of a few words."""
    settings: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "levels": LENGTHS, "randomness": SeededBits(1)}
    return publish_heavy_hitters(WORDS, **{**settings, **options})


# ---- domains ----


@given(value=st.text(max_size=8), length=st.integers(1, 9), before=st.integers(0, 8))
def test_nodes_of_text(value: str, length: int, before: int) -> None:
    """A value's node is one its round asks for, below the value's earlier node, and ended ones give the value back."""
    for domain in (Domain("characters"), Domain("utf8")):
        if before >= length:
            continue
        size = len(domain.text(value)) // domain.symbol
        node = domain.node(value, length)
        assert (node[-1] == "$") == (size <= length)
        if size > before or before == size == 0:
            assert domain.is_node(node, before, length)
            assert domain.above(node, before) == (domain.node(value, before) if size > before else "*")
        if size <= length:
            assert domain.value(node) == value


@given(value=st.integers(0, 1023), length=st.integers(1, 10))
def test_nodes_of_bits(value: int, length: int) -> None:
    """Numbers of ten bits end at ten bits and not before."""
    domain = Domain("bits", 10)
    node = domain.node(value, length)
    assert node[:-1] == f"{value:010b}"[:length] and domain.is_node(node, length - 1, length)
    assert (node[-1] == "$") == (length == 10)
    if length == 10:
        assert domain.value(node) == value


@pytest.mark.parametrize("node", [None, 5, "", "ab", "a*b", "abc*", "ab$", "a$", "zz*", "\ud800a*"])
def test_foreign_nodes_are_not_asked_for(node: object) -> None:
    """A vote for anything but an extension of a prefix that was asked for is told apart."""
    asked = Round(2, 2, 4, ("ab*",), Fraction(1, 4), Domain("characters"))
    assert not asked.asks_for(node)
    assert all(asked.asks_for(good) for good in ("abcd*", "abcd$", "abc$"))


def test_labels_of_cut_characters() -> None:
    """Bytes that end inside a character are shown as escapes, and kept as bytes."""
    domain = Domain("utf8")
    node = domain.node("äther", 1)
    assert domain.label(node) == "\\xc3" and domain.value(node) == b"\xc3"


# ---- rounds ----


def test_votes_of_all_units_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sampling, the central count of votes is what every unit's own answer adds up to."""
    seen: list[tuple[Round, dict[str, int]]] = []
    monkeypatch.setattr(prefixes, "thin_counts", lambda counts, rate, bits: counts)
    keep = prefixes.kept_votes

    def remember(texts: pl.DataFrame, asked: Round, bits: Any) -> dict[str, int]:
        votes = keep(texts, asked, bits)
        seen.append((asked, votes))
        return votes

    monkeypatch.setattr(prefixes, "kept_votes", remember)
    for domain in ("characters", "utf8"):
        seen.clear()
        words_tree(domain=domain)
        assert [asked.level for asked, _ in seen] == [1, 2, 3, 4]
        for asked, votes in seen:
            wanted: Counter[str] = Counter()
            for value, units in WORDS.items():
                node = answer(value, asked)
                if node is not None:
                    wanted[node] += units
            assert votes == dict(wanted)
            assert all(asked.asks_for(node) for node in votes)


def test_coin_follows_the_rate() -> None:
    """100,000 seeded coins are within 4.9 standard deviations of the rate (false alarms below 1e-6).

    A coin whose rate is 10 % off, in either direction, is rejected.
    """
    asked = Round(1, 0, 1, ("*",), Fraction(3, 16), Domain("characters"))
    bits, trials = SeededBits(3), 100_000
    heads = sum(asked.coin(bits) for _ in range(trials))
    for factor, accepted in ((1.0, True), (1.1, False), (0.9, False)):
        rate = factor * 3 / 16
        assert (abs(heads - trials * rate) <= 4.9 * (trials * rate * (1 - rate)) ** 0.5) == accepted


def test_votes_are_kept_at_the_rate() -> None:
    """Of 400,000 votes as many are kept as the rate says, within 4.9 standard deviations; 10 % more are not.

    False alarms below 1e-6, and the seed is fixed.
    """
    asked = Round(1, 0, 1, ("*",), Fraction(3, 16), Domain("characters"))
    texts, units = pl.DataFrame({"text": ["tea", "oak"], "units": [200_000, 200_000]}), 400_000
    kept = sum(prefixes.kept_votes(texts, asked, SeededBits(3)).values())
    for factor, accepted in ((1.0, True), (1.1, False), (0.9, False)):
        rate = factor * 3 / 16
        assert (abs(kept - units * rate) <= 4.9 * (units * rate * (1 - rate)) ** 0.5) == accepted


def test_counts_below_the_threshold_are_dropped() -> None:
    """The threshold itself is reported, one vote less is not."""
    plan = plan_trie(1, "1e-6", levels=[1, 3])
    least = plan.law.threshold
    rounds = TrieRounds(plan)
    rounds.receive({"a*": least, "b*": least - 1, "c*": 1, "d*": 0})
    assert rounds.to_dict()["nodes"] == [[1, "a*", least]]


def test_rounds_survive_messages_and_restarts() -> None:
    """Rounds and the state between them go through JSON unchanged, and a resumed run ends in the same tree."""
    rounds = TrieRounds(plan_trie(1, "1e-6", levels=[1, 3]), unit="device")
    first = rounds.start()
    assert Round.from_dict(json.loads(json.dumps(first.to_dict()))) == first
    second = rounds.receive({"t*": 50, "a*": 3, "I$": 20})
    assert isinstance(second, Round)
    assert Round.from_dict(json.loads(json.dumps(second.to_dict()))) == second
    stored = json.dumps(rounds.to_dict())
    assert '"a*"' not in stored, "what is below the threshold is kept nowhere"
    again = TrieRounds.from_dict(json.loads(stored))
    assert again.round == second
    assert [one.receive({"the$": 30, "tho*": 40, "ta$": 1}) for one in (rounds, again)] == [None, None]
    trees = [PrefixTree.of_rounds(one) for one in (rounds, again)]
    assert trees[0].table().equals(trees[1].table())
    assert trees[1].guarantee.unit == "device"
    assert TrieRounds.from_dict(again.to_dict()).round is None


def test_nothing_left_to_extend_ends_the_rounds() -> None:
    """When only whole values were reported, or nothing, the tree is there before the last level."""
    for counts in ({"I$": 50}, {}):
        rounds = TrieRounds(plan_trie(1, "1e-6", levels=[1, 3]))
        assert rounds.receive(counts) is None
        assert len(PrefixTree.of_rounds(rounds)) == len(counts)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"tt*": 50}, "a node that was not asked for"),
        ({"t*": -1}, "whole numbers from 0"),
        ({"t*": 1 << 63}, "whole numbers from 0"),
        ({"t*": 1.5}, "whole numbers from 0"),
        ({"t*": True}, "whole numbers from 0"),
    ],
)
def test_bad_counts(counts: dict[str, Any], message: str) -> None:
    """Counts that cannot be are refused, nothing of them is kept, and the message shows no node."""
    rounds = TrieRounds(plan_trie(1, "1e-6", levels=[1, 3]))
    with pytest.raises(InvalidParameter, match=message) as caught:
        rounds.receive({"a*": 50, **counts})
    assert "t*" not in str(caught.value)
    assert rounds.to_dict()["nodes"] == [] and rounds.round == rounds.start()


def test_rounds_end() -> None:
    """After the last round nothing can be received or started."""
    rounds = TrieRounds(plan_trie(1, "1e-6", levels=[1]))
    rounds.receive({"a*": 50})
    with pytest.raises(InvalidParameter, match="all rounds have been answered"):
        rounds.receive({})
    with pytest.raises(InvalidParameter, match="started already"):
        rounds.start()


def test_damaged_messages() -> None:
    """A round, plan or state that was tampered with is refused."""
    rounds = TrieRounds(plan_trie(1, "1e-6", levels=[1, 3]))
    rounds.receive({"t*": 50})
    asked = rounds.round
    assert asked is not None
    change: dict[str, Any]
    for change in ({"length": 0}, {"rate": "2"}, {"prefixes": ["ttt*"]}, {"prefixes": ["t$"]}, {"domain": {}}):
        with pytest.raises(InvalidParameter, match=r"not a round of heavy hitters"):
            Round.from_dict({**asked.to_dict(), **change})
    state = rounds.to_dict()
    for change in ({"nodes": [[1, "t*", 2]]}, {"nodes": 5}, {"received": 9}, {"nodes": [[2, "tto*", 99]]}):
        with pytest.raises(InvalidParameter, match="not a state of rounds"):
            TrieRounds.from_dict({**state, **change})
    with pytest.raises(InvalidParameter, match="not a plan"):
        TrieRounds.from_dict({})
    for change in ({"rate": "1/2"}, {"lengths": [1, 2, 3]}):
        with pytest.raises(PrivacyViolation):
            TrieRounds.from_dict({**state, "plan": {**state["plan"], **change}})
    lied = {**state["plan"]["certificate"], "total_delta": "1/999999999"}
    with pytest.raises(PrivacyViolation, match="not the one of its rate"):
        TriePlan.from_dict({**state["plan"], "certificate": lied}).verify()


# ---- plans ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": -1}, "epsilon must be a positive"),
        ({"delta": 0}, "delta must"),
        ({"levels": 0}, "levels must be at least 1"),
        ({"levels": 65}, "levels must be at most 64"),
        ({"levels": [3, 2]}, "lengths that grow"),
        ({"levels": []}, "lengths that grow"),
        ({"levels": "many"}, "levels must be a whole number"),
        ({"levels": [1, 2], "step": 2}, "step is for a number of levels"),
        ({"step": 0}, "step must be at least 1"),
        ({"domain": "words"}, "domain must be one of"),
        ({"domain": 5}, "domain must be a name"),
        ({"domain": "bits"}, "width must be given"),
        ({"width": 8}, "width must be given for the domain 'bits', and only"),
        ({"domain": "bits", "width": 8, "levels": 9}, "not go beyond the 8 bits"),
        ({"composition": "advanced"}, "composition must be one of"),
    ],
)
def test_bad_plans(options: dict[str, Any], message: str) -> None:
    """Every bad request is refused in one sentence, before anything is read."""
    settings: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "levels": 2, **options}
    with pytest.raises(InvalidParameter, match=message):
        plan_trie(settings.pop("epsilon"), settings.pop("delta"), **settings)


def test_a_single_round_costs_no_levels() -> None:
    """A single round has the law of one histogram, however many levels are shown."""
    plan = plan_trie(1, "1e-6", levels=10, single_round=True)
    assert (plan.rounds, plan.asked, plan.law.threshold) == (1, (10,), 14)
    assert plan.verify() == plan.law.certificate


# ---- trees ----


def test_tree_of_words() -> None:
    """Frequent words are found, prefixes on the way have counts, and a word that only one unit has is not there."""
    tree = words_tree()
    assert set(tree.frequencies()) == {"tomorrow", "to", "today", "äther", ""}
    table = tree.table(confidence=0.999999)
    assert table.columns == ["prefix", "level", "whole", "value", "estimate", "lower", "upper"]
    for prefix, level, whole, units in (("t", 1, False, 9900), ("to", 2, True, 900), ("tomorrow", 4, True, 5000)):
        row = table.row(by_predicate=(pl.col("prefix") == prefix) & (pl.col("whole") == whole), named=True)
        assert row["level"] == level and row["lower"] <= units <= row["upper"]
    assert "once" not in str(tree) and "supercali…" in str(tree) and "(empty)" in str(tree)
    assert tree.top(2).get_column("prefix").to_list() == ["tomorrow", "today"]
    leaves = tree.leaves()
    assert set(leaves.get_column("prefix")) == {"", "to", "today", "tomorrow", "äther", "supercali"}
    assert not tree.guarantee.private and "NOT PRIVATE" in repr(tree)
    assert len(str(tree).splitlines()) == len(tree) + 1


def test_single_round_adds_up() -> None:
    """In a single round inner nodes are sums of what was reported below, without bounds."""
    tree = words_tree(single_round=True)
    table = tree.table()
    inner = table.filter(pl.col("lower").is_null())
    assert set(inner.get_column("prefix")) == {"t", "to", "toda", "tomo", "ä", "ät", "äthe", "s", "su", "supe"}
    of = {(p, w): v for p, w, v in table.select("prefix", "whole", "value").iter_rows()}
    assert of["to", False] == of["today", True] + of["tomorrow", True]
    assert of["t", False] == of["to", False] + of["to", True]


def test_bits() -> None:
    """Whole numbers are found by their bits."""
    tree = publish_heavy_hitters(
        {5: 4000, 6: 3000, 900: 1}, epsilon=1, delta="1e-6", domain="bits", width=10, levels=[5, 10]
    )
    assert set(tree.frequencies()) == {5, 6}


def test_empty_data() -> None:
    """No rows give an empty tree."""
    tree = publish_heavy_hitters({}, epsilon=1, delta="1e-6", levels=2)
    assert len(tree) == 0 and tree.table().height == 0 and tree.leaves().height == 0
    assert str(tree) == "0 prefixes, with estimated frequencies"


def test_units_with_several_values(tmp_path: Path) -> None:
    """A unit with many values counts for one of them."""
    rows = pl.DataFrame({"user": [u for u in range(1000) for _ in range(3)], "word": ["a", "b", "c"] * 1000})
    tree = publish_heavy_hitters(
        rows, key="word", unit="user", epsilon=1, delta="1e-6", levels=1, randomness=SeededBits(2)
    )
    assert tree.guarantee.unit == "user"
    assert 800 < sum(tree.frequencies().values()) < 1200


@pytest.mark.parametrize("single_round", [False, True])
def test_file_round_trip(tmp_path: Path, single_round: bool) -> None:
    """A saved tree comes back whole, verifies, and is a Parquet file for others."""
    tree = words_tree(single_round=single_round, domain="utf8")
    place = tmp_path / "tree.parquet"
    tree.save(place)
    back = dptally.load(place, PrefixTree)
    assert back.table().equals(tree.table()) and back.guarantee == tree.guarantee
    assert back.verify() == tree.certificate
    assert pl.read_parquet(place).height == len(tree)
    with pytest.raises(InvalidParameter, match="exists"):
        tree.save(place)


def test_damaged_files(tmp_path: Path) -> None:
    """Files that are not there, not of a tree, of another version or damaged are refused in one sentence."""
    place = tmp_path / "tree.parquet"
    with pytest.raises(UnreadableRelease, match="is not a file"):
        dptally.load(place, PrefixTree)
    place.write_text("no")
    with pytest.raises(UnreadableRelease, match="not a readable Parquet"):
        dptally.load(place, PrefixTree)
    pl.DataFrame({"a": [1]}).write_parquet(place)
    with pytest.raises(UnreadableRelease, match="not a dptally release"):
        dptally.load(place, PrefixTree)
    words_tree().save(place, overwrite=True)
    table = pq.read_table(place)
    facts = json.loads(table.schema.metadata[b"dptally"])
    for change, message in (
        ({"format_version": 9}, "format version 9"),
        ({"plan": {}}, "damaged"),
        ({"plan": {**facts["plan"], "threshold": 10_000}}, "damaged"),
        ({"plan": {**facts["plan"], "rate": "1e-999999999"}}, "damaged"),
    ):
        packed = json.dumps({**facts, **change}).encode()
        pq.write_table(table.replace_schema_metadata({b"dptally": packed}), place)
        with pytest.raises(UnreadableRelease, match=message):
            dptally.load(place, PrefixTree)
    pq.write_table(table.slice(2), place)  # children without parents
    with pytest.raises(UnreadableRelease, match="damaged"):
        dptally.load(place, PrefixTree)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (pa.array([1] * 5), {}, "must hold text for the domain 'characters'"),
        (pa.array(["a"] * 5), {"domain": "bits", "width": 4, "levels": [4]}, "must hold whole numbers"),
    ],
)
def test_columns_of_another_kind(source: pa.Array, options: dict[str, Any], message: str) -> None:
    """Columns whose declared type is not of the domain are refused, whether or not they have rows."""
    for keys in (source, source[:0]):
        with pytest.raises(InvalidSource, match=message):
            publish_heavy_hitters(keys, epsilon=1, delta="1e-6", **{"levels": 2, **options})


def test_values_outside_the_domain_are_left_out() -> None:
    """No error tells that one is there."""
    tree = publish_heavy_hitters({99: 500, 3: 500}, epsilon=1, delta="1e-6", domain="bits", width=4, levels=[4])
    assert (
        tree.frequencies().keys()
        == publish_heavy_hitters({3: 500}, epsilon=1, delta="1e-6", domain="bits", width=4, levels=[4])
        .frequencies()
        .keys()
    )


@pytest.mark.parametrize(
    ("domain", "value", "message"),
    [
        (Domain("characters"), 5, "must be text, got int"),
        (Domain("characters"), "\ud800", "not valid Unicode"),
        (Domain("bits", 4), "5", "must be a whole number, got str"),
        (Domain("bits", 4), 16, r"from 0 to 2\^4 - 1"),
        (Domain("bits", 4), True, r"from 0 to 2\^4 - 1"),
    ],
)
def test_bad_answers(domain: Domain, value: object, message: str) -> None:
    """A device with a value of another kind is told so."""
    with pytest.raises(InvalidParameter, match=message):
        answer(value, Round(1, 0, 2, ("*",), Fraction(1, 4), domain))


def test_bad_n() -> None:
    """A negative number of values is refused."""
    with pytest.raises(InvalidParameter, match="n must not be negative"):
        words_tree().top(-1)


def test_picture() -> None:
    """The boxes of a picture lie within those of their parents."""
    drawn = ElementTree.fromstring(words_tree().plot().content())  # noqa: S314 - our own drawing
    boxes: dict[str, tuple[float, float, float]] = {}
    for box in drawn.iterfind(".//{*}rect[{*}title]"):
        left, top, width = (float(box.attrib[name]) for name in ("x", "y", "width"))
        boxes[str(box.findtext("{*}title")).split(":")[0]] = top, left, left + width
    (level, left, right), (above, start, end) = boxes["tomo"], boxes["t"]
    assert above < level
    assert start - 0.02 <= left < right <= end + 0.02  # two digits are written
