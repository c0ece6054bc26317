"""The file of a prefix tree: one Parquet file, with versioned metadata inside.

Columns: `node` (see `dptally.universes.prefixes`), `prefix`, `level`, `whole`, `value`, `estimate`, `lower`, `upper`
(bounds at 95 %). The metadata is one JSON object under the key ``dptally_tree``. Reading takes `node`, `level`, `value`
and the metadata, and computes the rest anew. Nothing in the file is executed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter
from dptally.laws.base import LARGEST_FREQUENCY
from dptally.laws.prefix_plans import TriePlan
from dptally.privacy.guarantee import Record
from dptally.releases.prefix_tree import Node, PrefixTree
from dptally.releases.release_metadata import intact, read_table, write_table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMAT_VERSION", "load_tree", "metadata", "save_tree"]

FORMAT_VERSION = 1
_NAME = "dptally_tree"


def metadata(tree: PrefixTree) -> dict[str, Any]:
    """Everything about a tree but its nodes, as plain data."""
    return {
        "format_version": FORMAT_VERSION,
        "plan": tree.plan.to_dict(),
        "unit": tree.guarantee.unit,
        "private": tree.guarantee.private,
        "neighbours": tree.guarantee.neighbours,
        "record": None if tree.guarantee.record is None else tree.guarantee.record.facts(),
    }


def save_tree(tree: PrefixTree, path: Path, *, overwrite: bool) -> None:
    """Write the file under its name only when it is complete and on disk."""
    write_table(tree.to_arrow(), metadata(tree), path, name=_NAME, overwrite=overwrite)


def load_tree(path: str | Path) -> PrefixTree:
    """Read the file of a prefix tree.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not of a prefix tree, or of another version.
    """
    place = Path(path)
    table, facts = read_table(place, name=_NAME, what="a prefix tree of dptally", version=FORMAT_VERSION)
    with intact(place):
        return _parse(table, facts)


def _parse(table: pa.Table, facts: dict[str, Any]) -> PrefixTree:
    plan = TriePlan.from_dict(facts["plan"])
    unit, private = facts["unit"], facts["private"]
    if not (unit is None or isinstance(unit, str)) or not isinstance(private, bool):
        raise ValueError("a field of another type")
    columns = [table.column(name).to_pylist() for name in ("level", "node", "value", "lower")]
    # Nodes without bounds were added up from the others.
    nodes = [
        Node(int(level), str(node), int(value))
        for level, node, value, lower in zip(*columns, strict=True)
        if lower is not None
    ]
    _check(plan, nodes)
    promise = plan.guarantee(unit=unit, private=private)
    if facts["neighbours"] != promise.neighbours:
        raise ValueError("another guarantee")
    return PrefixTree(plan, nodes, replace(promise, record=Record.read(facts.get("record"))))


def _check(plan: TriePlan, nodes: list[Node]) -> None:
    """Refuse nodes that a run of the plan cannot have reported."""
    known = {node.name for node in nodes if node.name}
    if len(known) != len(nodes):
        raise InvalidParameter("nodes must have different names.")
    if sum(node.value for node in nodes) > LARGEST_FREQUENCY:
        raise InvalidParameter("there are more votes than there can be.")
    for node in nodes:
        if not 1 <= node.level <= len(plan.lengths) or node.value < plan.law.threshold:
            raise InvalidParameter("a node is not of the tree.")
        previous = 0 if node.level == 1 else plan.lengths[node.level - 2]
        if not plan.domain.is_node(node.name, previous, plan.lengths[node.level - 1]):
            raise InvalidParameter("a node is not of the tree.")
        if node.level > 1 and not plan.single_round and plan.domain.above(node.name, previous) not in known:
            raise InvalidParameter("a node is without its parent.")
