"""Report each key with the largest probability that privacy allows, with a value from the same draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from dptally.errors import InvalidParameter
from dptally.laws.audits import BOTH_CONTROLS, Audits, Exact
from dptally.laws.sampling_schemes import Scheme
from dptally.laws.spec import Mechanism, Question, Request, Spec, option
from dptally.laws.specs.copies import OneLaw
from dptally.laws.weighted_sample import WeightedSample as WeightedSampleLaw
from dptally.privacy.composition import share_between_keys

SHARE_FOR_TOTAL = Fraction(1, 20)
SANITIZED = "sanitized_sample"
"""The name of a release of a sample that was drawn before."""
_STAND_IN = 1000  # times the wanted size: the total for which a table is certified before the real one is known


@dataclass(frozen=True)
class WeightedSample(Mechanism):
    """Draw every key's report independently from the law that reports keys most often.

    Sampling and reporting are one draw from the law of both together, with fresh secret bits, and the scheme is fixed
    before data is read. A scheme with a size instead of a rate takes two stages: a private total, for which a twentieth
    of epsilon is spent (basic composition), then keys sampled at the rate that follows from it.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit; see `OneLaw`.

    References:
        [CGSS21], [KOV15].
    """

    name: ClassVar[str] = "weighted_sample"
    title: ClassVar[str] = "Optimal private histogram and weighted samples"
    summary: ClassVar[str] = "every key with the largest probability that the guarantee allows, and a noisy count"
    because: ClassVar[str] = "no law for single keys reports any frequency more often"
    trees: ClassVar[bool] = True
    events: ClassVar[tuple[str, ...]] = (SANITIZED,)
    references: ClassVar[tuple[str, ...]] = ("CGSS21",)
    audits: ClassVar[Audits] = Audits(
        exact=(Exact("rows", 5), Exact("sampled rows", 3, "sampled")), epsilons=(0.05, 4), controls=BOTH_CONTROLS
    )
    keys_only: ClassVar[bool] = True
    sampled: ClassVar[bool] = True
    automatic: ClassVar[bool] = True
    cluster: ClassVar[Literal["rows"]] = "rows"

    sub_tokens: int = option("with sampling, how many values stand for one unit of a count; more separate better", 1)

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`."""
        self._checked(request)
        scheme = request.sampling
        if scheme is None or scheme.size is None:
            made: Spec = OneLaw(self.name, self._law(request, scheme), request)
            if scheme is not None:
                made.note = "Sampling alone leaves keys out, before privacy does."
            return made
        if request.unit is not None or request.max_keys_per_unit > 1:
            raise InvalidParameter("a sample size is for data without a `unit`; with one, give a sampling rate.")
        return SampleOfSize(self, scheme, request)

    def one_law(self, request: Request) -> Spec:
        """See `Mechanism.one_law`."""
        return self.spec(request)

    def plan(self, request: Request) -> Spec:
        """See `Mechanism.plan`."""
        if request.sampling is not None and request.sampling.size is not None and request.total is None:
            raise InvalidParameter("a sample of a given size has a rate only if the number of rows is supposed.")
        return self.spec(request)

    def _law(self, request: Request, scheme: Scheme | None) -> WeightedSampleLaw:
        share = share_between_keys(request.epsilon, request.delta or Fraction(0), request.max_keys_per_unit)
        return WeightedSampleLaw(*share, scheme, values=request.values, sub_tokens=self.sub_tokens)


class SampleOfSize(OneLaw):
    """Two stages: a private total, and a sample whose rate is set from it.

    Until the total is known, a stand-in for it makes the law that is certified before data is read; the law that keys
    are drawn from is certified when it is made.
    """

    readings: ClassVar[int] = 2
    note = "A twentieth of epsilon goes to the private total that sets the sampling rate."

    def __init__(self, mechanism: WeightedSample, scheme: Scheme, request: Request) -> None:
        self._mechanism, self._scheme = mechanism, scheme
        self._spent = request.epsilon * SHARE_FOR_TOTAL
        self._rest = replace(request, epsilon=request.epsilon - self._spent)
        assert scheme.size is not None  # noqa: S101 - for the type checker
        total = _STAND_IN * scheme.size if request.total is None else request.total
        law = mechanism._law(self._rest, scheme.of_total(total))
        super().__init__(mechanism.name, law, self._rest, spent=self._spent, conditions={"spent_on_size": self._spent})

    def next(self, outputs: Sequence[Any]) -> Question | None:
        """First the total, then keys at the rate that follows from it."""
        if not outputs:
            return Question(self.law, self.certificate, summary="total", parameters={"epsilon": self._spent})
        if len(outputs) > 1:
            return None
        law = self._mechanism._law(self._rest, self._scheme.of_total(outputs[0]))
        made = OneLaw(self.name, law, self._rest)
        return Question(law, made.certificate)
