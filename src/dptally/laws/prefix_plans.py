"""What is fixed before anything is asked: lengths of prefixes, and the law that all rounds draw from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.laws.round_parameters import COMPOSITIONS, Composition, RoundLaw, choose_round_law
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_parameters import LARGEST_THRESHOLD
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Spending, law_part
from dptally.privacy.stored_facts import DAMAGE, facts_of, read_certificate, read_fraction
from dptally.universes.prefixes import LARGEST_LENGTH, Domain, as_domain
from dptally.verifiers.guarantees import verify_rounds
from dptally.verifiers.rounds import LARGEST_ROUNDS
from dptally.verifiers.tables import Certificate

__all__ = ["MECHANISM", "Node", "TriePlan", "plan_trie"]

MECHANISM = "trie_heavy_hitters"


class Node(NamedTuple):
    """A reported node: its level, its name (see `dptally.universes.prefixes`), and how many votes were kept."""

    level: int
    name: str
    value: int


@dataclass(frozen=True)
class TriePlan:
    """Everything that is public before the first round. Made by `plan_trie`, or read by `from_dict`."""

    epsilon: Fraction  # for all rounds together
    delta: Fraction  # for all rounds together
    domain: Domain  # which strings values are
    lengths: tuple[int, ...]  # of the prefixes at each level, in symbols, growing
    single_round: bool  # whether whole values (up to the last length) are asked for at once, in one round
    law: RoundLaw  # rate, threshold and certificate

    @property
    def rounds(self) -> int:
        """How many rounds there are at most."""
        return 1 if self.single_round else len(self.lengths)

    @property
    def asked(self) -> tuple[int, ...]:
        """The lengths that are asked for, one for each round."""
        return self.lengths[-1:] if self.single_round else self.lengths

    @cached_property
    def observation_model(self) -> SampleAndThreshold:
        """The law of one round, for estimates and bounds."""
        return SampleAndThreshold(self.epsilon, self.delta, rate=self.law.rate, threshold=self.law.threshold)

    @property
    def spends(self) -> Spending:
        """What all rounds together spend; in each, one node's sampled count, raised by the unit or not."""
        draws = law_part(self.observation_model, self.law.rounds)
        return Spending(MECHANISM, self.epsilon, self.delta, (draws,))

    def guarantee(self, *, unit: str | None, private: bool) -> Guarantee:
        """What is promised about all rounds together."""
        return Guarantee(
            epsilon=self.epsilon, delta=self.delta, unit=unit, max_keys_per_unit=1, mechanism=MECHANISM, private=private
        )

    def verify(self) -> Certificate:
        """Judge rate and threshold again, and compare with the certificate.

        Raises PrivacyViolation if they do not keep epsilon and delta, or the certificate is another one.
        """
        law = self.law
        if law.rounds != self.rounds:
            raise PrivacyViolation("the plan has another number of rounds than its law was verified for.")
        found = verify_rounds(
            law.rate,
            law.threshold,
            rounds=law.rounds,
            composition=law.composition,
            round_epsilon=law.round_epsilon,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        if found != law.certificate:
            raise PrivacyViolation("the certificate of the plan is not the one of its rate and threshold.")
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON, fractions as text."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "domain": self.domain.to_dict(),
            "lengths": list(self.lengths),
            "single_round": self.single_round,
            "rate": str(self.law.rate),
            "threshold": self.law.threshold,
            "composition": self.law.composition,
            "round_epsilon": str(self.law.round_epsilon),
            "certificate": facts_of(self.law.certificate),
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> TriePlan:
        """From plain data. The certificate is read, not verified: see `verify`.

        Raises InvalidParameter for data that is no plan.
        """
        try:
            epsilon, delta = as_epsilon(str(facts["epsilon"])), as_delta(str(facts["delta"]))
            single_round = facts["single_round"] is True
            domain = Domain.from_dict(facts["domain"])
            lengths = _as_lengths(facts["lengths"], 1, domain)
            law = RoundLaw(
                rate=read_fraction(facts["rate"]),
                threshold=as_count("threshold", facts["threshold"], largest=LARGEST_THRESHOLD),
                rounds=1 if single_round else len(lengths),
                composition=facts["composition"],
                round_epsilon=read_fraction(facts["round_epsilon"]),
                certificate=read_certificate(facts["certificate"], Certificate),
            )
            if law.composition not in COMPOSITIONS or not isinstance(facts["single_round"], bool):
                raise ValueError("another plan")
            # Refuses a rate or threshold out of range.
            SampleAndThreshold(epsilon, delta, rate=law.rate, threshold=law.threshold)
        except DAMAGE:
            raise InvalidParameter("the data is not a plan for heavy hitters, or is damaged.") from None
        return cls(epsilon, delta, domain, lengths, single_round, law)


def plan_trie(
    epsilon: object,
    delta: object,
    *,
    levels: int | Sequence[int] = 10,
    step: int = 1,
    domain: object = "characters",
    width: int | None = None,
    composition: Composition = "exact",
    single_round: bool = False,
) -> TriePlan:
    """Fix prefix lengths, and choose and verify the law, before any data is read.

    There are up to 64 levels, each of `step` symbols more, or `levels` lists the lengths of the prefixes, growing.
    Fewer levels find rarer values; more of them show the server less about rare values. The domain is "characters",
    "utf8", "bits" (with `width`) or a `Domain`; for `composition` see `dptally.laws.round_parameters`. With
    `single_round` whole values are asked for at once, and the levels above are added up from what was reported. Raises
    InvalidParameter for a request that cannot be met.

    >>> plan = plan_trie(1, "1e-6", levels=5)
    >>> plan.lengths, plan.law.threshold, round(float(plan.law.rate), 3)
    ((1, 2, 3, 4, 5), 13, 0.183)
    """
    exact_epsilon, exact_delta = as_epsilon(epsilon), as_delta(delta)
    values = as_domain(domain, width)
    lengths = _as_lengths(levels, step, values)
    rounds = 1 if single_round else len(lengths)
    law = choose_round_law(exact_epsilon, exact_delta, rounds, composition)
    return TriePlan(exact_epsilon, exact_delta, values, lengths, bool(single_round), law)


def _as_lengths(levels: object, step: object, domain: Domain) -> tuple[int, ...]:
    if isinstance(levels, Sequence) and not isinstance(levels, str | bytes):
        if step != 1:
            raise InvalidParameter("step is for a number of levels: the lengths say everything themselves.")
        lengths = tuple(as_count("levels", length, largest=LARGEST_LENGTH) for length in levels)
        if not 0 < len(lengths) <= LARGEST_ROUNDS or any(here >= after for here, after in pairwise(lengths)):
            raise InvalidParameter(f"levels must be one to {LARGEST_ROUNDS} lengths that grow.")
    else:
        number = as_count("levels", levels, largest=LARGEST_ROUNDS)
        width = as_count("step", step, largest=LARGEST_LENGTH // number)
        lengths = tuple(width * level for level in range(1, number + 1))
    if domain.width is not None and lengths[-1] > domain.width:
        raise InvalidParameter(
            f"levels must not go beyond the {domain.width} bits of the domain, got {lengths[-1]}; "
            "give the lengths themselves, the last one at most the width."
        )
    return lengths
