"""A federation in one process, for tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dptally.federated import Node, Server
from dptally.randomness import SeededBits


def seeded_nodes(values: Mapping[Any, Sequence[Any]], seed: int) -> dict[Any, Node]:
    """Nodes with these values whose coins repeat."""
    return {name: Node(held, bits=SeededBits(1000 * seed + i)) for i, (name, held) in enumerate(values.items())}


def enrol_all(server: Server, nodes: Mapping[Any, Node]) -> None:
    """Every node enrols."""
    for name, node in nodes.items():
        assert server.enrol(name, node.enrol(server.registration())) == "counted"


def run_round(server: Server, nodes: Mapping[Any, Node], *, lost: Collection[Any] = ()) -> None:
    """One round in which some nodes' ballots are lost on the way."""
    for name, call in server.begin_round().items():
        ballot = nodes[name].answer(call)
        if name not in lost:
            assert server.receive(name, ballot) == "counted"
    server.close_round()


def run_task(server: Server, nodes: Mapping[Any, Node], *, lost: Collection[Any] = ()) -> Any:
    """All rounds."""
    enrol_all(server, nodes)
    while not server.finished:
        run_round(server, nodes, lost=lost)
    return server.result
