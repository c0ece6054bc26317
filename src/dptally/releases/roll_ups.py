"""Released keys, added up by some of their columns."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

    from dptally.estimates.subset_sums import Sum
    from dptally.releases.released_statistics import ReleasedStatistics

__all__ = ["rolled_up"]


def rolled_up(
    keys: pa.Table, sum_of: Callable[[NDArray[np.int64]], Sum], statistics: ReleasedStatistics | None, beta: Fraction
) -> pl.DataFrame:
    """Groups of equal keys, sorted, with the number of rows of each, its count, and statistics.

    Args:
        keys: some key columns of all released rows.
        sum_of: the count of some rows, by their places, where there are no statistics.
        statistics: the noisy numbers of all rows, or None.
        beta: how often each interval may miss.
    """
    import polars as pl

    names = keys.column_names
    rows = pl.DataFrame(pl.from_arrow(keys))
    found = rows.group_by(names).agg(pl.len().alias("keys")).sort(names)
    numbered = found.select(*names, pl.int_range(pl.len()).alias("value"))
    joined = rows.join(numbered, on=names, how="left", nulls_equal=True, maintain_order="left")
    groups = joined.get_column("value").to_numpy().astype(np.int64)
    if statistics is not None:
        counts, shown = statistics.grouped(groups, len(found), beta)
        columns = {**dict(zip(("estimate", "lower", "upper"), counts, strict=True)), **shown}
        return found.with_columns(pl.Series(name, column) for name, column in columns.items())
    sums = [sum_of(np.flatnonzero(groups == group)) for group in range(len(found))]
    return found.with_columns(
        pl.Series(name, [getattr(each, name) for each in sums], dtype=pl.Float64)
        for name in ("estimate", "lower", "upper")
    )
