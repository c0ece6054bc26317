"""Frequent strings: source, one value per unit, rounds over a tree of prefixes, tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dptally.laws.prefix_plans import plan_trie
from dptally.laws.specs.prefixes import PrefixSpec
from dptally.opened_rows import open_for
from dptally.publishing import publish_spec
from dptally.randomness import BitSource, read_bits
from dptally.sources.intervals import read_filter_for

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.laws.round_parameters import Composition
    from dptally.ledger.paying import AnyLedger
    from dptally.progress import Progress
    from dptally.releases.prefix_tree import PrefixTree

__all__ = ["publish_heavy_hitters"]


def publish_heavy_hitters(
    source: Any,
    *,
    key: str | None = None,
    unit: str | None = None,
    epsilon: object,
    delta: object,
    levels: int | Sequence[int] = 10,
    step: int = 1,
    domain: object = "characters",
    width: int | None = None,
    composition: Composition = "exact",
    single_round: bool = False,
    count: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users expect
    memory_limit: str | None = None,
    ledger: AnyLedger | None = None,
    randomness: BitSource | None = None,
    progress: bool | Progress | None = None,
    table: str | None = None,
    query: str | None = None,
    types: Mapping[str, str] | None = None,
    where: str | None = None,
    since: object = None,
    until: object = None,
    time_column: str | None = None,
) -> PrefixTree:
    """Publish the frequent prefixes and values of a column of strings, as a tree.

    Args:
        source: whatever `dptally.publish` reads.
        key: the column of strings (whole numbers for the domain "bits"); not needed for a mapping or an iterable.
        unit: whose privacy: a column, or None when every row is a unit of its own. A unit with several distinct values
            keeps one, chosen at random.
        epsilon: for everything together, as in `dptally.publish`.
        delta: for everything together.
        levels: how many levels, or the lengths of prefixes; see `dptally.laws.prefix_plans.plan_trie`.
        step: symbols for each level.
        domain: "characters", "utf8" or "bits".
        width: of the domain "bits".
        composition: "exact", "optimal" or "basic".
        single_round: whether whole values are drawn at once.
        count: a column of counts, for data that is already aggregated; each counted occurrence is a unit.
        format: as in `dptally.publish`.
        memory_limit: as in `dptally.publish`.
        ledger: as in `dptally.publish`.
        randomness: as in `dptally.publish`.
        progress: as in `dptally.publish`.
        table: of a database, as in `dptally.publish`.
        query: of a database, instead of a table.
        where: as in `dptally.publish`.
        since: as in `dptally.publish`.
        until: as in `dptally.publish`.
        time_column: as in `dptally.publish`.
        types: as in `dptally.publish`; a key without a declared type is a whole number for the domain "bits".

    Returns:
        PrefixTree: what may be shown to anyone.

    Raises:
        InvalidParameter: a request that cannot be met.
        InvalidSource: data that cannot be read as asked.

    >>> values = {"tomorrow": 5000, "today": 4000, "once": 1}
    >>> tree = publish_heavy_hitters(values, epsilon=1, delta="1e-6", levels=[2, 8])
    >>> sorted(tree.frequencies())
    ['today', 'tomorrow']
    """
    spec = PrefixSpec(
        plan_trie(
            epsilon,
            delta,
            levels=levels,
            step=step,
            domain=domain,
            width=width,
            composition=composition,
            single_round=single_round,
        )
    )

    rows = read_filter_for(ledger, where, since=since, until=until, time_column=time_column)

    def check(schema: pa.Schema) -> None:
        from dptally.summaries.strings import check_type

        check_type(schema.field(0).type, spec.plan.domain)

    columns: dict[str, Any] = {"key": key, "unit": unit, "count": count, "nulls": "drop", "format": format}
    place: dict[str, Any] = {"table": table, "query": query, "types": types, "where": rows}
    tree: PrefixTree = publish_spec(
        spec,
        lambda paid: open_for(spec, paid, source, memory_limit=memory_limit, check=check, **columns, **place),
        unit=unit,
        bits=read_bits(randomness),
        ledger=ledger,
        progress=progress,
        where=rows,
    )
    return tree


publish_tree = publish_heavy_hitters
"""The earlier name."""
