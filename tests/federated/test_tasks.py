"""Heavy hitters and quantiles over a federation, without Flower: every round, lost nodes, foreign votes, resuming."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dptally.errors import InvalidParameter
from dptally.federated import Node, Server
from dptally.federated.prefix_task import HeavyHitterRounds
from dptally.federated.protocol import Round, read_rounds
from dptally.federated.quantile_task import FederatedQuantile, QuantileSearchRounds
from dptally.randomness import SeededBits
from dptally.releases.prefix_tree import PrefixTree
from dptally.universes.grids import make_grid
from tests.federated.federation import enrol_all, run_round, run_task, seeded_nodes

WORDS = ["hello"] * 900 + ["help"] * 700 + ["world"] * 500 + [f"own{i}" for i in range(200)]


def spread(values: list[Any], nodes: int) -> dict[int, list[Any]]:
    """Values over nodes, in a fixed random order."""
    mixed = values[:]
    random.Random(7).shuffle(mixed)  # noqa: S311 - which node holds what
    return {place: mixed[place::nodes] for place in range(nodes)}


@pytest.fixture(scope="module")
def task() -> HeavyHitterRounds:
    """Five levels."""
    return HeavyHitterRounds("2", "1e-5", levels=5)


def test_frequent_strings_are_found(task: HeavyHitterRounds) -> None:
    """The tree holds the frequent words, no word of a single device, and the guarantee of the whole plan."""
    tree = run_task(Server(task), seeded_nodes(spread(WORDS, 6), 3))
    assert isinstance(tree, PrefixTree)
    whole = tree.top(10)
    assert set(whole.get_column(whole.columns[0])) == {"hello", "help", "world"}
    assert not tree.guarantee.private
    assert tree.guarantee.unit == "device"


def test_losing_nodes_leaves_a_tree_of_the_others(task: HeavyHitterRounds) -> None:
    """A third of the nodes may be lost."""
    tree = run_task(Server(task), seeded_nodes(spread(WORDS, 6), 3), lost={1, 4})
    assert len(tree.top(10)) == 3


def test_votes_for_other_prefixes_are_not_accepted(task: HeavyHitterRounds) -> None:
    """Only nodes of this level, below what was reported, are counted."""
    asked = task.start()
    assert task.accepts(b"h*", asked)
    assert not task.accepts(b"he*", asked)
    assert not task.accepts(b"\xff", asked)
    second = task.receive({b"h*": 300})
    assert isinstance(second, Round)
    assert task.accepts(b"he*", second) and not task.accepts(b"wo*", second)
    assert not task.accepts(b"h*", asked)


def test_a_killed_server_goes_on(task: HeavyHitterRounds, tmp_path: Path) -> None:
    """From the state file the task goes on at the level it had reached."""
    state = tmp_path / "state.json"
    nodes = seeded_nodes(spread(WORDS, 4), 5)
    server = Server(task, state=state)
    enrol_all(server, nodes)
    run_round(server, nodes)
    again = Server(read_rounds({"task": task.task, **task.to_dict()}), state=state)
    enrol_all(again, nodes)
    while again.result is None:
        run_round(again, nodes)
    assert isinstance(again.result, PrefixTree)
    assert len(again.result.top(10)) == 3


def test_too_long_values_are_not_sent() -> None:
    """A name that does not fit into a vote is no vote."""
    long = HeavyHitterRounds("2", "1e-5", levels=[40], key_bytes=8)
    assert long.answer("x" * 40, long.start()) is None
    assert long.answer("short", long.start()) == b"short$"


@pytest.mark.parametrize(
    ("low", "high", "values", "truth"),
    [
        (0, 1023, [str(n % 1000) for n in range(6000)], 499),
        (date(2024, 1, 1), date(2024, 12, 31), [f"2024-{1 + n % 12:02d}-15" for n in range(6000)], date(2024, 6, 15)),
    ],
    ids=["numbers", "dates"],
)
def test_quantiles_are_found(low: Any, high: Any, values: list[str], truth: Any) -> None:
    """The median of what devices hold as text lies within the stated bounds."""
    search = QuantileSearchRounds(make_grid(low, high, resolution=256, branching=2), "1/2", 3, "1e-5", rounds=6)
    found = run_task(Server(search), seeded_nodes(spread(values, 5), 2))
    assert isinstance(found, FederatedQuantile)
    assert found.found.lower <= truth <= found.found.upper
    facts = found.to_dict()
    assert (facts["epsilon"], facts["delta"], facts["private"]) == ("3", "1/100000", False)


def test_a_search_is_described_by_its_parameters() -> None:
    """What was written is read again, and values that are none do not vote."""
    search = QuantileSearchRounds(make_grid(0, 100, resolution=64, branching=2), "0.9", 1, "1e-6")
    again = read_rounds({"task": search.task, **search.to_dict()})
    asked = again.start()
    assert asked == search.start()
    assert [again.answer(value, asked) for value in ("3", "99.5", "nothing", None)] == [b"0", b"1", None, None]
    assert not again.accepts(b"2", asked)


def test_unknown_tasks_are_refused() -> None:
    """One sentence."""
    with pytest.raises(InvalidParameter, match="no task named"):
        read_rounds({"task": "average"})


def test_secret_coins_give_a_private_result() -> None:
    """With the system's bits the result says that it is private."""
    search = QuantileSearchRounds(make_grid(0, 15, resolution=16, branching=2), "0.5", 4, "1e-4", rounds=2)
    found = run_task(Server(search), {0: Node(["3"] * 400), 1: Node(["9"] * 400)})
    assert found.guarantee.private
    mixed = run_task(Server(search), {0: Node(["3"] * 400), 1: Node(["9"] * 400, bits=SeededBits(1))})
    assert not mixed.guarantee.private
