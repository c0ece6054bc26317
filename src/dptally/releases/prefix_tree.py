"""A released tree of prefixes with counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from dptally.errors import InvalidParameter
from dptally.estimates.frequencies import as_confidence, estimate_frequencies, estimate_together, together_in_words
from dptally.labels import key_label
from dptally.laws.base import LARGEST_FREQUENCY
from dptally.laws.prefix_plans import Node, TriePlan
from dptally.privacy.stored_facts import read_guarantee
from dptally.releases.base import Release, Summary
from dptally.universes.prefixes import ENDED, OPEN, ROOT
from dptally.verifiers.guarantees import verify_prefix_tree

if TYPE_CHECKING:
    import polars as pl

    from dptally.laws.prefix_rounds import TrieRounds
    from dptally.laws.sample_and_threshold import SampleAndThreshold
    from dptally.privacy.guarantee import Guarantee
    from dptally.report.contents import Asked, Report
    from dptally.report.drawing import Chart
    from dptally.verifiers.tables import Certificate

__all__ = ["Node", "PrefixTree"]

_LONGEST_LABEL = 60
_LINES = 200


class PrefixTree(Release):
    """Prefixes with counts. Made by `TrieRounds`, `TrieHeavyHitters` or `dptally.load`.

    A node stands for all units whose value begins with its prefix and goes on after it, or, where the value is `whole`,
    for all units with exactly this value. Frequencies of different levels come from different samples, so children need
    not add up to their parent.

    In a tree of a single round only whole values were drawn (and prefixes of the last length, for longer values). The
    levels above hold the sum of what was reported below them: their values are at most what a draw would have shown,
    and they have no bounds.
    """

    kind = "prefixes"
    noun = "a tree of prefixes"
    answers = "it answers table, top and leaves (dptally show, dptally top)"
    key = ("prefix",)
    law: SampleAndThreshold

    def __init__(self, plan: TriePlan, reported: Iterable[Node], guarantee: Guarantee) -> None:
        self.plan = plan
        self.law = plan.observation_model
        self.certificate = plan.law.certificate
        self.guarantee = guarantee
        drawn = list(reported)
        if plan.single_round:
            drawn = [Node(self._level(node.name), node.name, node.value) for node in drawn]
        self.reported = tuple(sorted(drawn))
        added: dict[tuple[int, str], int] = {}
        if plan.single_round:
            for node in self.reported:
                for level in range(1, node.level):
                    place = level, plan.domain.above(node.name, plan.lengths[level - 1])
                    added[place] = added.get(place, 0) + node.value
        self._added = tuple(sorted(Node(*place, value) for place, value in added.items()))
        self._values = {(node.level, node.name): node.value for node in (*self.reported, *self._added)}

    @classmethod
    def of_rounds(cls, rounds: TrieRounds) -> PrefixTree:
        """What rounds have reported so far, with the guarantee of all of them."""
        return cls(rounds.plan, rounds.nodes, rounds.guarantee())

    def _level(self, name: str) -> int:
        length = (len(name) - 1) // self.plan.domain.symbol
        return next(level for level, longest in enumerate(self.plan.lengths, 1) if length <= longest)

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self.reported) + len(self._added)

    def _held(self) -> str:
        return f"{len(self)} nodes, {len(self.plan.lengths)} levels"

    # ---- tables ----

    def to_arrow(self, *, confidence: object = 0.95) -> pa.Table:
        """As `table`, with the column `node`: the exact name of each node."""
        return self._arrow(confidence, together=False)

    def _arrow(self, confidence: object, *, together: bool) -> pa.Table:
        """All nodes, with bounds for each on its own, or for all that were drawn together.

        For the latter: whether a node's children are asked for depends on whether it was reported, not on its value, so
        given which nodes were reported their values are independent, as `estimate_together` needs it.
        """
        nodes = [*self.reported, *self._added]
        estimate = estimate_together if together else estimate_frequencies
        drawn = estimate(self.law, np.array([node.value for node in self.reported], dtype=np.int64), confidence)
        if drawn.estimate is None or drawn.upper is None:
            raise InvalidParameter("the law of the tree has no estimates.")
        added = [self.law.most_likely(node.value) for node in self._added]
        unknown = [None] * len(self._added)
        columns = {
            "node": [node.name for node in nodes],
            "prefix": [self.plan.domain.label(node.name) for node in nodes],
            "level": [node.level for node in nodes],
            "whole": [node.name[-1] == ENDED for node in nodes],
            "value": [node.value for node in nodes],
            "estimate": [*drawn.estimate.tolist(), *added],
            "lower": [*drawn.lower.tolist(), *unknown],
            "upper": [*drawn.upper.tolist(), *unknown],
        }
        kinds = {"node": pa.string(), "prefix": pa.string(), "whole": pa.bool_()}
        schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in columns])
        return pa.table(columns, schema).sort_by([("level", "ascending"), ("node", "ascending")])

    def table(self, *, confidence: object = 0.95) -> pl.DataFrame:
        """All nodes, by level and then by prefix.

        Returns:
            polars.DataFrame: `prefix`, as text (a whole value of the domain "bits" as a number); `level`; `whole`,
            whether the value ends here; `value`, the kept votes; `estimate`, value / rate; `lower` and `upper`, null
            where the value was added up.
        """
        return self._nodes(confidence).drop("node")

    def _nodes(self, confidence: object, *, together: bool = False) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(pl.from_arrow(self._arrow(confidence, together=together)))

    def leaves(self, *, confidence: object = 0.95, together: bool = False) -> pl.DataFrame:
        """The nodes without a reported child, as in `table`: whole values, and prefixes where the trail ends.

        Bounds hold for each node by itself, or `together`, for all at once, as they must where rows are sorted or
        chosen by value.
        """
        import polars as pl

        parents = [place for place, below in self._children.items() if below]
        inner = pl.DataFrame(parents, schema={"level": pl.Int64, "node": pl.String}, orient="row")
        nodes = self._nodes(confidence, together=together)
        return nodes.join(inner, on=["level", "node"], how="anti", maintain_order="left").drop("node")

    def top(self, n: int = 10, *, confidence: object = 0.95) -> pl.DataFrame:
        """The n most frequent whole values, and prefixes of the last length, with bounds that hold after selection.

        With probability `confidence` the bounds of all nodes contain the true counts at once. Estimates at the top are
        more often too high than too low. Ties in the order of `table`.
        """
        if n < 0:
            raise InvalidParameter(f"n must not be negative, got {n}.")
        import polars as pl

        found = self._nodes(confidence, together=True).filter(
            pl.col("whole") | (pl.col("level") == len(self.plan.lengths))
        )
        return found.sort("value", descending=True, maintain_order=True).head(n).drop("node")

    def frequencies(self) -> dict[str | bytes | int, int]:
        """The estimated frequency of every whole value: text (or bytes that are no text), numbers for "bits"."""
        likely = self.law.most_likely
        return {
            self.plan.domain.value(node.name): likely(node.value) for node in self.reported if node.name[-1] == ENDED
        }

    # ---- text ----

    @cached_property
    def _children(self) -> dict[tuple[int, str], list[Node]]:
        """Nodes below each place, a place being level and name; the root is (0, "*")."""
        found: dict[tuple[int, str], list[Node]] = {}
        for node in sorted([*self.reported, *self._added], key=lambda node: (node.name[:-1], node.name[-1] == OPEN)):
            length = self.plan.lengths[node.level - 2] if node.level > 1 else 0
            above = self.plan.domain.above(node.name, length) if node.level > 1 else ROOT
            found.setdefault((node.level - 1, above), []).append(node)
        return found

    def children(self, place: tuple[int, str] = (0, ROOT)) -> tuple[Node, ...]:
        """The nodes right below a place: level and name of a node, or (0, "*") for the root."""
        return tuple(self._children.get(place, ()))

    def value_at(self, place: tuple[int, str]) -> int:
        """The value of a node, 0 for the root or where nothing was reported."""
        return self._values.get(place, 0)

    def lines(self, place: tuple[int, str] = (0, ROOT), *, indent: str = "") -> Iterator[str]:
        """The tree below a place, line by line: prefix (with … where values go on) and estimated frequency."""
        below = self.children(place)
        for node in below:
            last = node is below[-1]
            label = key_label(self.plan.domain.label(node.name), longest=_LONGEST_LABEL) or "(empty)"
            more = "" if node.name[-1] == ENDED else "…"
            estimate = self.law.most_likely(node.value)
            yield f"{indent}{'└─' if last else '├─'} {label}{more}  {estimate:,}"
            if node.name[-1] == OPEN:
                yield from self.lines((node.level, node.name), indent=indent + ("   " if last else "│  "))

    def __str__(self) -> str:
        shown = list(islice(self.lines(), _LINES))
        rest = len(self) - len(shown)
        title = f"{len(self):,} {'prefix' if len(self) == 1 else 'prefixes'}, with estimated frequencies"
        return "\n".join([title, *shown, *([f"… and {rest:,} more"] if rest else [])])

    def for_people(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Prefixes, with … where values go on, and their numbers."""
        import polars as pl

        label = pl.when("whole").then("prefix").otherwise(pl.col("prefix") + "…").alias("prefix")
        return rows.select(label, "value", "estimate", "lower", "upper")

    def top_in_words(self, *, confidence: object = 0.95) -> str:
        """Which kind of confidence intervals `top` gives, in words for those who read them."""
        return together_in_words(as_confidence(confidence), "prefixes")

    def summary(self, n: int = 10, *, confidence: object = 0.95) -> Summary:
        """The n heaviest values and prefixes where the tree ends."""
        ends = self.leaves(confidence=confidence, together=True).sort("value", descending=True, maintain_order=True)
        first = ends.head(n)
        notes = [f"... and {len(ends) - len(first):,} more where the tree ends, by value."] * (len(ends) > len(first))
        size = f"{len(self):,} {'prefix' if len(self) == 1 else 'prefixes'} in {len(self.plan.lengths)} levels"
        return Summary(
            title=f"a tree of {size}",
            rows=self.for_people(first),
            notes=(*notes, self.top_in_words(confidence=confidence)) if len(first) else (),
            answers={"rows": first},
        )

    # ---- trust ----

    def verify(self) -> Certificate:
        """Verify the law again for all rounds, and compare certificate and guarantee with what was found.

        Raises:
            PrivacyViolation: if the law does not keep the guarantee, or the guarantee is not one of such a tree.
        """
        found = self.plan.verify()
        verify_prefix_tree(self.guarantee, found)
        return found

    # ---- file and page ----

    def facts(self) -> dict[str, Any]:
        """What was fixed before the first round."""
        plan = self.plan.to_dict()
        del plan["certificate"]
        return {"plan": plan}

    def stored_rows(self) -> pa.Table:
        """The columns of `to_arrow`; reading takes `node`, `level`, `value`, and whether there is a `lower`."""
        return self.to_arrow()

    @classmethod
    def from_facts(cls, table: pa.Table, facts: dict[str, Any]) -> Self:
        """The tree back from the columns and the metadata of a file."""
        plan = TriePlan.from_dict({**facts["plan"], "certificate": facts["certificate"]})
        columns = [table.column(name).to_pylist() for name in ("level", "node", "value", "lower")]
        # Nodes without bounds were added up from the others.
        nodes = [
            Node(int(level), str(node), int(value))
            for level, node, value, lower in zip(*columns, strict=True)
            if lower is not None
        ]
        _check(plan, nodes)
        return cls(plan, nodes, read_guarantee(facts["guarantee"]))

    def plot(self, n: int = 20, *, confidence: object = 0.95) -> Chart:
        """A picture: boxes for all prefixes, as wide as their estimated counts; see `Release.plot`."""
        from dptally.report.plots import tree_chart

        return tree_chart(self)

    def describe(self) -> dict[str, Any]:
        """What is guaranteed and how it was verified, as plain data for JSON."""
        facts = super().describe()
        stated = {name: facts["guarantee"][name] for name in ("unit", "private", "neighbours", "record")}
        return {**facts, "plan": self.plan.to_dict(), **stated, "nodes": len(self)}

    def contents(self, asked: Asked) -> Report:
        """What a page says about the release."""
        from dptally.report.of_tree import report_of_tree

        return report_of_tree(self, asked)


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
