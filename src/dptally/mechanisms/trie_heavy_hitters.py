"""Heavy hitters of strings, level by level over a tree of prefixes, each level from a fresh secret sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dptally.errors import InvalidParameter, InvalidSource
from dptally.laws.prefix_plans import plan_trie
from dptally.laws.prefix_rounds import Round, TrieRounds
from dptally.randomness.thinning import RATE_BITS, thin_counts
from dptally.universes.prefixes import ENDED, OPEN

if TYPE_CHECKING:
    import polars as pl

    from dptally.laws.prefix_plans import TriePlan
    from dptally.laws.round_parameters import Composition
    from dptally.mechanisms.base import Counted
    from dptally.privacy.spending import Spending
    from dptally.randomness import BitSource
    from dptally.releases.prefix_tree import PrefixTree

__all__ = ["TrieHeavyHitters"]


class TrieHeavyHitters:
    """TrieHH++ with exact accounting: which prefixes are frequent, and how frequent, at every level.

    At each level every unit whose value extends a reported prefix is kept by a fresh coin, and extensions of which at
    least a threshold of units were kept are reported with that count.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, which has one value. At each level the
        unit counts once, for one node; levels are added up by `dptally.verifiers.rounds`, which holds for every
        way in which a level may depend on what was reported before.

    Error:
        A value of frequency w is reported if it and all its prefixes are; each is, independently, with probability
        P[Binomial(w', p) >= t], where w' >= w is the number of units of the prefix. Bounds as in `SampleAndThreshold`.
    Cost:
        Distinct values are held in memory. About two random bits per unit and level.

    References:
        [BC22] section 4.1, whose Lemma 7 is basic composition.

    Args:
        epsilon: for the unit, all levels together.
        delta: for the unit, all levels together.
        levels: as in `dptally.heavy_hitters.plan_trie`, as are the others.
        step: symbols for each level.
        domain: "characters", "utf8" or "bits".
        width: of the domain "bits".
        composition: "exact", "optimal" or "basic".
        single_round: whether whole values are drawn at once.
    """

    def __init__(
        self,
        epsilon: object,
        delta: object,
        *,
        levels: int | Sequence[int] = 10,
        step: int = 1,
        domain: object = "characters",
        width: int | None = None,
        composition: Composition = "exact",
        single_round: bool = False,
    ) -> None:
        self.plan: TriePlan = plan_trie(
            epsilon,
            delta,
            levels=levels,
            step=step,
            domain=domain,
            width=width,
            composition=composition,
            single_round=single_round,
        )

    @property
    def spends(self) -> Spending:
        """What a draw spends, all rounds together."""
        return self.plan.spends

    def draw(self, frequencies: Counted, bits: BitSource) -> PrefixTree:
        """Run all rounds on private frequencies.

        The sum of kept votes for a node of w units is Binomial(w, rate), and is drawn as such.

        Raises:
            InvalidParameter: for frequencies with several key columns, several keys per unit, or of a sample.
            InvalidSource: for values that are not of the domain.
        """
        if len(frequencies.key) != 1:
            raise InvalidParameter("heavy hitters need one key column: the strings.")
        if frequencies.max_keys_per_unit != 1:
            raise InvalidParameter("heavy hitters need max_keys_per_unit=1: a unit has one value.")
        if frequencies.scheme is not None:
            raise InvalidParameter("heavy hitters need all units, not a sample of keys.")
        texts = self._texts(frequencies)
        rounds = TrieRounds(self.plan, unit=frequencies.unit, private=bits.private)
        while (asked := rounds.round) is not None:
            rounds.receive(_kept_votes(texts, asked, bits))
        return rounds.tree()

    def _texts(self, frequencies: Counted) -> pl.DataFrame:
        """Values as text of the domain, with their frequencies."""
        import polars as pl

        parts = [
            pl.DataFrame({"text": pl.Series(keys.column(0)), "units": counts})
            for keys, counts in frequencies.batches()
            if len(counts)
        ]
        if not parts:
            return pl.DataFrame(schema={"text": pl.String, "units": pl.Int64})
        return self._as_text(pl.concat(parts).drop_nulls())

    def check_type(self, kind: pa.DataType) -> None:
        """Refuse a key column whose type the domain does not take, before a row of it is read.

        Raises:
            InvalidSource: says what it must hold.
        """
        import polars as pl

        keys = pl.Series(pa.array([], kind))
        self._as_text(pl.DataFrame({"text": keys, "units": pl.Series([], dtype=pl.Int64)}))

    def _as_text(self, whole: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        domain, kind = self.plan.domain, whole.schema["text"]
        if domain.name == "bits":
            return self._bits(whole)
        if kind == pl.Binary and domain.name == "utf8":
            return whole.with_columns(text=pl.col("text").bin.encode("hex"))
        if kind in (pl.Categorical, pl.Enum):
            whole, kind = whole.with_columns(text=pl.col("text").cast(pl.String)), pl.String()
        if kind != pl.String:
            raise InvalidSource(f"the key column must hold text for the domain {domain.name!r}.")
        if domain.name == "utf8":
            return whole.with_columns(text=pl.col("text").cast(pl.Binary).bin.encode("hex"))
        return whole

    def _bits(self, whole: pl.DataFrame) -> pl.DataFrame:
        """Numbers as text; those that the domain does not have are left out, as a refusal would tell of one."""
        import polars as pl

        if not whole.schema["text"].is_integer():
            raise InvalidSource("the key column must hold whole numbers for the domain 'bits'.")
        most = (1 << (self.plan.domain.width or 0)) - 1
        inside = [0 <= number <= most for number in whole.get_column("text").to_list()]
        kept = whole.filter(pl.Series(inside, dtype=pl.Boolean))
        texts = [self.plan.domain.text(number) for number in kept.get_column("text").to_list()]
        return kept.with_columns(text=pl.Series(texts, dtype=pl.String))


def _kept_votes(texts: pl.DataFrame, asked: Round, bits: BitSource) -> dict[str, int]:
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
