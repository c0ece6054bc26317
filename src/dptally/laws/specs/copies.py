"""Mechanisms whose law is that of one key: a unit touches several, each drawn independently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dptally.laws.spec import Request, Spec
from dptally.privacy.spending import Part, law_part
from dptally.verifiers.pure import certify_pure_copies
from dptally.verifiers.tables import Certificate, certify_copies


class OneLaw(Spec):
    """A unit raises the counts of at most `max_keys_per_unit` keys by one each; every key is drawn from one law.

    Guarantee:
        One key's law is certified at (e, d); `max_keys_per_unit` of them together stay within (epsilon, delta) by
        [KOV15, Thm. 3.3], which the verifier checks with another formula; with delta = 0 each keeps an equal share of
        epsilon. Which keys of a unit are counted is chosen at random from that unit's rows alone; given the choice, the
        unit touches at most that many keys, and a mixture over choices of pairs that are each (epsilon, delta)-close is
        (epsilon, delta)-close.

    `spent` is a part of epsilon that another question of the same release spends, beside that of the request.
    """

    def __init__(
        self,
        name: str,
        law: Any,
        request: Request,
        *,
        spent: Fraction = Fraction(0),
        conditions: Mapping[str, Any] | None = None,
    ) -> None:
        keys, epsilon, delta = request.max_keys_per_unit, request.epsilon, request.delta or Fraction(0)

        def certify() -> Certificate:
            if not delta:
                return certify_pure_copies(law.certify(), copies=keys, epsilon=epsilon)
            found = certify_copies(law.certify(), copies=keys, epsilon=epsilon, delta=delta)
            return found if law.certified_by is None else replace(found, judge=f"certified by {law.certified_by}")

        parts = [law_part(law, keys)]
        if spent:
            parts.append(Part(spent, Fraction(0)))
        super().__init__(
            name,
            law,
            certify,
            epsilon=epsilon + spent,
            delta=delta,
            parts=tuple(parts),
            max_keys_per_unit=keys,
            conditions=conditions,
        )
