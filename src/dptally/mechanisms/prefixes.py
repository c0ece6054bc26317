"""Heavy hitters of strings: who is kept in one level of a tree of prefixes, by a fresh secret sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dptally.laws.prefix_rounds import Round
from dptally.laws.spec import Question
from dptally.randomness import BitSource
from dptally.randomness.thinning import RATE_BITS, thin_counts
from dptally.universes.prefixes import ENDED, OPEN

if TYPE_CHECKING:
    import polars as pl


def draw(question: Question, summary: pl.DataFrame, bits: BitSource) -> dict[str, int]:
    """Kept votes for each node of one round, those below the threshold left out.

    The sum of kept votes for a node of w units is Binomial(w, rate), and is drawn as such. The summary holds "text",
    values as text of the domain, and "units", how many have each.
    """
    votes = kept_votes(summary, question.parameters["round"], bits)
    return {node: count for node, count in votes.items() if count >= question.law.threshold}


def kept_votes(texts: pl.DataFrame, asked: Round, bits: BitSource) -> dict[str, int]:
    """Kept votes for each node that has any: as `Round.answer` and `Round.coin` for every unit, all at once."""
    import polars as pl

    symbol = asked.domain.symbol

    def node(length: int) -> pl.Expr:
        text = pl.col("text")
        goes_on = text.str.len_chars() > length * symbol
        return text.str.head(length * symbol) + pl.when(goes_on).then(pl.lit(OPEN)).otherwise(pl.lit(ENDED))

    extends = node(asked.previous).is_in(list(asked.prefixes))
    if asked.previous == 0:
        extends |= pl.col("text") == ""
    # Sorted, so that a seed repeats itself.
    votes = (
        texts.lazy()
        .filter(extends)
        .group_by(node(asked.length).alias("node"))
        .agg(pl.col("units").sum())
        .sort("node")
        .collect()
    )
    kept = thin_counts(votes["units"].to_numpy().astype(np.int64), int(asked.rate * (1 << RATE_BITS)), bits)
    some = np.flatnonzero(kept)
    names = votes.get_column("node").gather(some).to_list()
    return dict(zip(names, kept[some].tolist(), strict=True))
