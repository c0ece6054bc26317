"""A release of a tree of counts: how many values are in a range, what share is below, where the quantiles are."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.estimates.frequencies import as_confidence
from dptally.estimates.range_tree import RangeTree
from dptally.exact.parameters import as_share
from dptally.laws.registry import law_from_facts
from dptally.privacy.stored_facts import read_certificate, read_guarantee
from dptally.releases.base import Release, Summary
from dptally.universes.grids import Grid, Value
from dptally.verifiers.guarantees import verify_range_tree
from dptally.verifiers.tables import Certificate

if TYPE_CHECKING:
    import polars as pl

    from dptally.laws.base import Law
    from dptally.privacy.guarantee import Guarantee
    from dptally.report.contents import Asked, Report

QUARTILES = ("0.25", "0.5", "0.75")


@dataclass(frozen=True)
class RangeEstimate:
    """A number of units, or a share of them, with bounds that hold with probability `confidence`.

    Attributes:
        estimate: from the tree whose nodes add up.
        lower: by the law of what was released, whatever the data.
        upper: the same.
        confidence: of both bounds together, for a question asked without looking at the release.
    """

    estimate: float
    lower: float
    upper: float
    confidence: Fraction


@dataclass(frozen=True)
class QuantileEstimate:
    """The smallest value that a share `q` of the units does not exceed.

    Attributes:
        q: the share.
        estimate: within a bin by straight lines; None where nothing was released.
        lower: smallest value of the first bin that may hold the quantile.
        upper: largest value of the last bin that may hold it (for continuous kinds, the end of that bin).
        confidence: of both bounds together.
    """

    q: Fraction
    estimate: Value | None
    lower: Value
    upper: Value
    confidence: Fraction


class RangeRelease(Release):
    """A released tree of counts, made by `dptally.publish_quantiles` or read by `dptally.load`.

    Its `grid` says how values of the column `name` became bins. Released values are by level, from the children of the
    root to the bins, 0 where a node is hidden; the certificate is for all levels together.
    """

    kind = "ranges"
    noun = "a tree of counts, which has no keys,"
    answers = "ask it for quantiles or ranges (dptally quantile --from FILE)"
    law: Law
    certificate: Certificate

    def __init__(
        self,
        grid: Grid,
        name: str,
        values: list[NDArray[np.int64]],
        guarantee: Guarantee,
        certificate: Certificate,
        law: Law,
    ) -> None:
        self.grid = grid
        self.name, self.key = name, (name,)
        self.guarantee = guarantee
        self.certificate = certificate
        self.law = law
        reported = [np.ones(len(level), dtype=bool) if law.complete else level > 0 for level in values]
        self._tree = RangeTree(law.node_sums(), grid.branching, values, reported)

    def _held(self) -> str:
        return f"{self.name!r}, {self.grid.bins} bins in {self.grid.levels} levels"

    def __len__(self) -> int:
        """How many nodes were released."""
        return sum(int(np.count_nonzero(level)) for level in self._tree.reported)

    # ---- questions ----

    def range(self, low: object = None, high: object = None, *, confidence: object = 0.95) -> RangeEstimate:
        """How many units have a value from `low` to `high`.

        Whole numbers and dates include both ends; for continuous kinds `high` itself is not counted unless it is the
        end of the interval. Inside a bin the estimate follows a straight line; bounds are those of the bins that the
        range covers whole (`lower`) and touches (`upper`).

        None stands for the start or the end of the interval. The confidence is for a range chosen without looking at
        the release.
        """
        level = as_confidence(confidence)
        start, end = self._place("low", low), self._place("high", high, after=True)
        if start > end:
            raise InvalidParameter("low must not be above high.")
        error = float(1 - level)
        lower = self._tree.bounds(math.ceil(start), math.floor(end), error)[0]
        upper = max(lower, self._tree.bounds(math.floor(start), math.ceil(end), error)[1])
        estimate = self._units(end) - self._units(start)
        return RangeEstimate(min(max(estimate, lower), upper), lower, upper, level)

    def total(self, *, confidence: object = 0.95) -> RangeEstimate:
        """How many units there are (those with a value in the interval, where others are left out)."""
        return self.range(confidence=confidence)

    def cdf(self, value: object, *, confidence: object = 0.95) -> RangeEstimate:
        """The share of units whose value is at most `value` (below it, for continuous kinds)."""
        level = as_confidence(confidence)
        place = self._place("value", value, after=True)
        error = float(1 - level)
        lower = self._tree.share_bounds(math.floor(place), error)[0]
        upper = self._tree.share_bounds(math.ceil(place), error)[1]
        everything = float(self._tree.cumulative[-1])
        share = self._units(place) / everything if everything else place / self.grid.bins
        return RangeEstimate(min(max(share, lower), upper), lower, upper, level)

    def quantile(self, q: object, *, confidence: object = 0.95) -> QuantileEstimate:
        """The smallest value that a share `q` of the units does not exceed; `q` = 0 gives the start of the interval.

        For the bounds see `dptally.estimates.range_tree.RangeTree.quantile_bounds`.
        """
        share, level = as_share(q), as_confidence(confidence)
        first, last = self._tree.quantile_bounds(float(share), float(1 - level))
        lower, upper = self.grid.interval(first)[0], self.grid.interval(last)[1]
        cumulative = self._tree.cumulative
        if not cumulative[-1]:
            return QuantileEstimate(share, None, lower, upper, level)
        wanted = float(share) * cumulative[-1]
        place = int(np.searchsorted(cumulative[1:], wanted * (1 - 1e-12)))
        place = min(max(place, first), last)
        held = cumulative[place + 1] - cumulative[place]
        part = min(max((wanted - cumulative[place]) / held, 0.0), 1.0) if held > 0 else 0.5
        start, after = self.grid.edge(place), self.grid.edge(place + 1)
        if self.grid.whole:
            estimate = self.grid.value(min(start + math.floor(part * (after - start)), after - 1))
        else:
            estimate = self.grid.value(float(start + part * (after - start)))
        return QuantileEstimate(share, estimate, lower, upper, level)

    def quantile_rows(self, shares: Iterable[object], *, confidence: object = 0.95) -> list[dict[str, Any]]:
        """Quantiles as rows of plain values: `q`, `estimate`, `lower`, `upper`; dates and times as text."""
        rows = []
        for share in shares:
            found = self.quantile(share, confidence=confidence)
            values = {name: _plain(getattr(found, name)) for name in ("estimate", "lower", "upper")}
            rows.append({"q": float(found.q), **values})
        return rows

    def _place(self, name: str, value: object, *, after: bool = False) -> float:
        """Where a value is, in bins; `after` for the end of a range."""
        if value is None:
            return float(self.grid.bins) if after else 0.0
        tick = self.grid.tick(name, value)
        if math.isnan(tick):
            raise InvalidParameter(f"{name} must be a number, got nan.")
        if self.grid.whole and math.isfinite(tick):
            tick = math.floor(tick) + 1 if after else math.ceil(tick)
        return self.grid.place(tick)

    def _units(self, place: float) -> float:
        whole = min(math.floor(place), self.grid.bins)
        reached = float(self._tree.cumulative[whole])
        if place > whole:
            reached += (place - whole) * float(self._tree.consistent[-1][whole])
        return reached

    # ---- tables ----

    def table(self) -> pl.DataFrame:
        """The bins in order.

        Returns:
            polars.DataFrame: `start`, `end` (as in `Grid.interval`), `estimate` of the units in the bin, `share` of the
            units up to its end.
        """
        import polars as pl

        intervals = [self.grid.interval(place) for place in range(self.grid.bins)]
        estimate, cumulative = self._tree.consistent[-1], self._tree.cumulative
        return pl.DataFrame(
            {
                "start": [start for start, _ in intervals],
                "end": [end for _, end in intervals],
                "estimate": estimate,
                "share": cumulative[1:] / cumulative[-1] if cumulative[-1] else np.zeros(len(estimate)),
            }
        )

    def nodes(self) -> pa.Table:
        """What was drawn: `level`, `node`, `start`, `end`, `value`, and the `estimate` in which nodes add up."""
        kinds = {"integer": pa.int64(), "number": pa.float64(), "date": pa.date32()}
        kind = kinds.get(self.grid.kind, pa.timestamp("us"))
        parts = []
        for level, (values, reported) in enumerate(zip(self._tree.values, self._tree.reported, strict=True), start=1):
            places = np.flatnonzero(reported)
            size = self.grid.branching ** (self.grid.levels - level)
            ends = [self.grid.interval(min((place + 1) * size, self.grid.bins) - 1)[1] for place in places.tolist()]
            columns = {
                "level": pa.array(np.full(len(places), level), pa.int32()),
                "node": pa.array(places, pa.int64()),
                "start": pa.array([self.grid.interval(place * size)[0] for place in places.tolist()], kind),
                "end": pa.array(ends, kind),
                "value": pa.array(values[places], pa.int64()),
                "estimate": pa.array(self._tree.consistent[level - 1][places], pa.float64()),
            }
            parts.append(pa.table(columns))
        return pa.concat_tables(parts).combine_chunks()

    def summary(self, n: int = 10, *, confidence: object = 0.95) -> Summary:
        """Its quartiles."""
        import polars as pl

        quartiles = self.quantile_rows(QUARTILES, confidence=confidence)
        level = float(as_confidence(confidence))
        return Summary(
            title=f"a tree of counts of {self.name!r}, {self.grid.bins:,} bins in {self.grid.levels} levels",
            rows=pl.DataFrame(quartiles).select(pl.all().cast(pl.String)),
            words=4,
            answers={"quantiles": [{**row, "confidence": level} for row in quartiles]},
        )

    # ---- trust ----

    def verify(self) -> Certificate:
        """Rebuild the law's table from the stated parameters, derive what holds for all levels, and compare.

        Raises:
            PrivacyViolation: if the guarantee states more than the rebuilt table gives, or the certificate is not the
                one of that table.
        """
        law = law_from_facts(self.law.facts())
        found = verify_range_tree(self.guarantee, law, levels=self.grid.levels)
        if found != self.certificate:
            raise PrivacyViolation("the certificate in the release is not the one of the table its parameters give.")
        if any(((level > 0) & (level < law.threshold)).any() for level in self._tree.values):
            raise PrivacyViolation("the release holds values below the threshold it states.")
        return found

    # ---- file and page ----

    def facts(self) -> dict[str, Any]:
        """The name of the value column, how values became bins, and the law."""
        return {"value": self.name, "grid": self.grid.facts(), "law": self.law.facts()}

    def stored_rows(self) -> pa.Table:
        """The columns of `nodes`; reading takes `level`, `node` and `value`, and computes the others again."""
        return self.nodes()

    @classmethod
    def from_facts(cls, table: pa.Table, facts: dict[str, Any]) -> Self:
        """The release back from the columns and the metadata of a file."""
        grid, law = Grid.read(facts["grid"]), law_from_facts(facts["law"])
        nodes = law.node_sums()
        level, node, value = (
            np.asarray(table.column(name).cast(pa.int64()).to_numpy(), dtype=np.int64)
            for name in ("level", "node", "value")
        )
        if len(level) and not 1 <= level.min() <= level.max() <= grid.levels:
            raise ValueError("no such level")
        values = []
        for number in range(1, grid.levels + 1):
            places, size = node[level == number], grid.nodes(number)
            inside = not len(places) or 0 <= places.min() <= places.max() < size
            if not inside or len(np.unique(places)) < len(places):
                raise ValueError("no such node, or twice")
            if law.complete and len(places) != size:
                raise ValueError("a node is missing")
            found = np.zeros(size, dtype=np.int64)
            found[places] = value[level == number]
            values.append(found)
        if len(value) and not (nodes.smallest <= value.min() and value.max() <= nodes.largest):
            raise ValueError("not a reported value")
        guarantee = read_guarantee(facts["guarantee"])
        certificate = read_certificate(facts["certificate"], Certificate)
        return cls(grid, str(facts["value"]), values, guarantee, certificate, law)

    def describe(self) -> dict[str, Any]:
        """What is guaranteed and how it was verified, as plain data for JSON."""
        return {**super().describe(), "nodes_released": len(self)}

    def contents(self, asked: Asked) -> Report:
        """What a page says about the release."""
        from dptally.report.of_ranges import report_of_ranges

        return report_of_ranges(self, asked)


def _plain(value: Value | None) -> object:
    return value.isoformat() if isinstance(value, datetime.date) else value
