"""One quantile in rounds: halve a public interval, each time by a private count of the units on both sides.

Everything here is public. Whoever holds values answers a round by `answer`; whoever adds up hands over what the law
lets out of the two counts; `QuantileRounds` asks the next question, or knows the quantile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count
from dptally.exact.parameters import as_share
from dptally.laws.base import as_confidence
from dptally.laws.range_trees import make_tree_law
from dptally.laws.registry import USUAL_FOR_RANGES, mechanism_class
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Spending, law_part
from dptally.privacy.stored_facts import DAMAGE, read_fraction
from dptally.universes.grids import Grid, Value
from dptally.verifiers.tables import Certificate


@dataclass(frozen=True)
class Round:
    """One question: is your value below `threshold`? Public."""

    number: int  # of the round, from 1
    rounds: int  # how many there are
    split: int  # the first bin that is not below
    threshold: Value  # the value at which it starts
    grid: Grid  # how values become bins
    # with which probability a unit takes part, by a coin of its own; None where all do and noise is added
    rate: Fraction | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a message; `Round.from_dict` reads it."""
        return {
            "number": self.number,
            "rounds": self.rounds,
            "split": self.split,
            "grid": self.grid.facts(),
            "rate": None if self.rate is None else str(self.rate),
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Round:
        """Read a message.

        Raises InvalidParameter if it is not a round.
        """
        try:
            grid = Grid.read(facts["grid"])
            number, rounds, split = (int(facts[name]) for name in ("number", "rounds", "split"))
            rate = None if facts["rate"] is None else read_fraction(facts["rate"])
            known = 1 <= number <= rounds and 1 <= split < grid.bins and (rate is None or 0 < rate < 1)
            threshold = grid.value(grid.edge(split)) if known else None
        except DAMAGE:
            raise InvalidParameter("the message is not a round of a quantile search.") from None
        if threshold is None:
            raise InvalidParameter("the message is not a round of a quantile search.")
        return cls(number, rounds, split, threshold, grid, rate)


def answer(value: object, question: Round) -> Literal[0, 1] | None:
    """A unit's answer: 0 if its value is below the threshold, 1 if not, None if it has none that counts.

    The coin that decides whether the answer is sent (`Round.rate`) is the unit's own, new in each round.
    """
    place = question.grid.bin_of(value)
    if place is None:
        return None
    return 0 if place < question.split else 1


@dataclass(frozen=True)
class QuantileAnswer:
    """A quantile found by a search."""

    q: Fraction  # the share
    estimate: Value  # a value of the bin where the search ended
    lower: Value  # smallest value of the first bin that may hold the quantile
    upper: Value  # largest value of the last bin that may hold it (for continuous kinds, the end of that bin)
    confidence: Fraction  # of both bounds together
    guarantee: Guarantee  # what is promised for all rounds together
    certificate: Certificate  # the verifier's finding for all rounds together

    def drawn_for(self, unit: str | None, *, private: bool) -> QuantileAnswer:
        """The same answer, saying whose privacy it keeps and whether its bits were secret."""
        return self.stating(replace(self.guarantee, unit=unit, private=private))

    def stating(self, guarantee: Guarantee) -> QuantileAnswer:
        """The same answer with another guarantee."""
        return replace(self, guarantee=guarantee)


class QuantileRounds:
    """A search for the smallest value that a share q of the units does not exceed [BC22, Lemma 8].

    Each round asks at one threshold, and counts both answers. A unit is counted once in each of h rounds, with a coin
    or noise of its own, so h copies of the law of one count are composed.

    Bounds: in each round the threshold is fixed before its coins fall, so the two counts bound the share below it with
    an error of 1 / h of what is allowed; all rounds together hold. A threshold is left of the quantile, right of it, or
    too near to tell. As long as rounds tell, the interval is halved. Once one does not, the quantile is about there,
    and what is left of the rounds narrows the gap on either side of it, the wider one first. Epsilon and delta (None or
    0 for "dense") are for all rounds together; mechanisms are "sample_and_threshold", "weighted_sample" and "dense".
    `rate` None is the best one, of "sample_and_threshold". There are at most `rounds` rounds; None for log2 of the
    number of bins, rounded up. The branching of the grid plays no part.

    >>> from dptally.universes.grids import make_grid
    >>> search = QuantileRounds(make_grid(0, 7, branching=2), "1/2", epsilon=3, mechanism="dense")
    >>> step = search.start()
    >>> while isinstance(step, Round):
    ...     votes = [answer(value, step) for value in [5] * 1000 + [1] * 400]
    ...     step = search.receive((votes.count(0), votes.count(1)))
    >>> step.lower, step.estimate, step.upper
    (5, 5, 5)
    """

    def __init__(
        self,
        grid: Grid,
        q: object,
        *,
        epsilon: object,
        delta: object = None,
        mechanism: str = USUAL_FOR_RANGES,
        rate: object = None,
        confidence: object = 0.95,
        rounds: int | None = None,
    ) -> None:
        self.grid = grid
        self.q = as_share(q)
        self.confidence = as_confidence(confidence)
        self.mechanism = mechanism
        usual = max(1, (grid.bins - 1).bit_length())
        self.rounds = usual if rounds is None else as_count("rounds", rounds, largest=1000)
        made = make_tree_law(epsilon, delta, levels=self.rounds, mechanism=mechanism, rate=rate)
        self.epsilon, self.delta, self.law, self.certificate = made.epsilon, made.delta, made.law, made.certificate
        self._sums = self.law.node_sums()
        self._received: list[tuple[int, int]] = []
        self._shares = {0: 0.0, grid.bins: 1.0}  # estimated share below each threshold
        self._left, self._right = 0, grid.bins  # the quantile's bin is one from `left` to below `right`
        self._unclear: tuple[int, int] | None = None  # the outermost thresholds that are too near to tell

    @property
    def _split(self) -> int | None:
        """The threshold of the open question, or None."""
        if len(self._received) == self.rounds:
            return None
        if self._unclear is None:
            gaps = [(self._left, self._right)]
        else:
            gaps = [(self._left, self._unclear[0]), (self._unclear[1], self._right)]
        first, after = max(gaps, key=lambda gap: gap[1] - gap[0])
        return (first + after) // 2 if after - first > 1 else None

    @property
    def spends(self) -> Spending:
        """What all rounds together spend: one count in each, raised by the unit."""
        return Spending(f"{self.mechanism}_search", self.epsilon, self.delta, (law_part(self.law, self.rounds),))

    def start(self) -> Round | QuantileAnswer:
        """The question that is open now; the answer where there is nothing left to ask."""
        split = self._split
        if split is None:
            return self._answer()
        threshold = self.grid.value(self.grid.edge(split))
        return Round(len(self._received) + 1, self.rounds, split, threshold, self.grid, self.law.rate)

    def receive(self, counts: tuple[int, int]) -> Round | QuantileAnswer:
        """Take what the law let out of the open question's two counts, and go on.

        Counts are reported values of "below" and "not below", 0 for one that was not reported. For
        "sample_and_threshold": `law.report` of the numbers of answers that came in, applied before anything is stored.
        For "dense": counts with noise, which may be negative. Raises InvalidParameter if the counts cannot have come
        from the law, or no question is open.
        """
        split = self._split
        if split is None:
            raise InvalidParameter("the search has ended: no question is open.")
        below, rest = (_whole(count) for count in counts)
        least = self.law.threshold
        if not self.law.complete and any(count != 0 and count < least for count in (below, rest)):
            raise InvalidParameter(f"counts must be 0 or at least {least}: the law reports no others.")
        self._received.append((below, rest))
        lower, upper, share = self._share(np.array([below, rest]))
        self._shares[split] = share
        if upper < float(self.q):
            self._left = split
        elif lower >= float(self.q):
            self._right = split
        else:
            first, last = self._unclear or (split, split)
            self._unclear = min(first, split), max(last, split)
        if self._unclear is not None:  # a later round may tell what an earlier one could not
            first, last = max(self._unclear[0], self._left), min(self._unclear[1], self._right)
            self._unclear = (first, last) if first <= last else None
        return self.start()

    def _share(self, counts: NDArray[np.int64]) -> tuple[float, float, float]:
        """Bounds and estimate of the share below the threshold, from what was reported of both sides."""
        error = float(1 - self.confidence) / self.rounds
        reported = np.ones(2, dtype=bool) if self.law.complete else counts != 0
        facts = counts, np.ones(2, dtype=np.int64), (~reported).astype(np.int64)
        # Each side of the share rests on one side of either count: error / 4 each, so error / 2 for each side.
        low, high = self._sums.lower(*facts, error / 4), self._sums.upper(*facts, error / 4)
        lower = low[0] / (low[0] + high[1]) if low[0] > 0 else 0.0
        upper = high[0] / (high[0] + low[1]) if low[1] > 0 else 1.0
        left, right = np.maximum(self._sums.measure(counts, reported)[0], 0.0)
        return float(lower), float(upper), float(left / (left + right)) if left + right > 0 else 0.5

    def _answer(self) -> QuantileAnswer:
        """Where a line through the estimated shares, made monotone, first reaches q."""
        edges = sorted(self._shares)
        shares = np.maximum.accumulate([self._shares[edge] for edge in edges])
        at = max(int(np.searchsorted(shares, float(self.q))), 1)
        rise = shares[at] - shares[at - 1]
        part = (float(self.q) - shares[at - 1]) / rise if rise > 0 else 0.5
        place = edges[at - 1] + part * (edges[at] - edges[at - 1])
        place = min(max(place, self._left), self._right)
        whole = min(int(place), self._right - 1)
        start, after = self.grid.edge(whole), self.grid.edge(whole + 1)
        tick = start + (place - whole) * (after - start)
        if self.grid.whole:
            tick = min(int(tick), after - 1)
        guarantee = Guarantee(self.epsilon, self.delta, None, 1, f"{self.mechanism}_search")
        return QuantileAnswer(
            self.q,
            self.grid.value(tick),
            self.grid.interval(self._left)[0],
            self.grid.interval(self._right - 1)[1],
            self.confidence,
            guarantee,
            self.certificate,
        )

    # ---- across a restart ----

    def to_dict(self) -> dict[str, Any]:
        """The state as plain data: parameters and released counts, all public."""
        return {
            "grid": self.grid.facts(),
            "q": str(self.q),
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "mechanism": self.mechanism,
            "rate": None if self.law.rate is None else str(self.law.rate),
            "confidence": str(self.confidence),
            "rounds": self.rounds,
            "received": [list(counts) for counts in self._received],
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> QuantileRounds:
        """Go on where `to_dict` was taken.

        Raises InvalidParameter if it is not the state of a search.
        """
        try:
            pure = mechanism_class(facts["mechanism"]).pure
            made = cls(
                Grid.read(facts["grid"]),
                facts["q"],
                epsilon=facts["epsilon"],
                delta=None if pure else facts["delta"],
                mechanism=facts["mechanism"],
                rate=facts["rate"],
                confidence=facts["confidence"],
                rounds=facts["rounds"],
            )
            for below, rest in facts["received"]:
                made.receive((below, rest))
        except (KeyError, TypeError, ValueError):
            raise InvalidParameter("the data is not the state of a quantile search.") from None
        return made


def _whole(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise InvalidParameter(f"counts must be whole numbers, got {type(count).__name__}.")
    return int(count)
