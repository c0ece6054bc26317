"""Keep each unit of a key with some probability, and report the keys of which enough units were kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dptally.laws.audits import Audits, Exact
from dptally.laws.sample_and_threshold import SampleAndThreshold as SampleAndThresholdLaw
from dptally.laws.spec import Mechanism, Request, Spec, option
from dptally.laws.specs.copies import OneLaw
from dptally.privacy.composition import share_between_keys


@dataclass(frozen=True)
class SampleAndThreshold(Mechanism):
    """Privacy from sampling alone: values are counts in a secret sample.

    One coin per unit and key. A unit with several keys must not be kept or left out as a whole: if many units have the
    keys A and B, and one has A alone, then the counts of A and B in a sample of whole units are equal exactly if that
    one was left out. So the sample of whole units identifies it with probability `rate`, whatever the threshold
    (`tests/exact/test_sample_and_threshold.py`). With a coin for each unit and key, keys are independent.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit; see `OneLaw`.

    Cost:
        About two random bits per occurrence of a key that may be released; or, where rows were sampled while they were
        read (`dptally.summaries.row_sample`), nothing.

    References:
        [BC22], [KOV15].
    """

    name: ClassVar[str] = "sample_and_threshold"
    title: ClassVar[str] = "Sample and threshold"
    summary: ClassVar[str] = "counts in a secret sample, released where they reach a threshold; no noise"
    trees: ClassVar[bool] = True
    events: ClassVar[tuple[str, ...]] = ("trie_heavy_hitters",)
    references: ClassVar[tuple[str, ...]] = ("BC22",)
    audits: ClassVar[Audits] = Audits(exact=(Exact("binomial rows", 2),), controls={"delta x 4": ("1", "0.01")})
    cluster: ClassVar[Literal["rows"]] = "rows"

    rate: Any = option("sampling rate; the one that releases the rarest keys if left out")
    threshold: int | None = option("smallest count in the sample that is released; the smallest possible if left out")

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`."""
        share = share_between_keys(request.epsilon, self._checked(request), request.max_keys_per_unit)
        law = SampleAndThresholdLaw(*share, rate=self.rate, threshold=self.threshold)
        made = OneLaw(self.name, law, request)
        made.note = "Values are counts in a secret sample, without noise."
        return made

    def one_law(self, request: Request) -> Spec:
        """See `Mechanism.one_law`."""
        return self.spec(request)
