"""The profile of a release in rounds: above the enumeration of small ones, alone and composed; refused if forged."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dptally
from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.specs.rounds import RoundsSpec
from dptally.ledger import Ledger
from dptally.ledger.accounting import optimal_total, tight_total
from dptally.ledger.numerical import numerical_delta
from dptally.privacy.spending import Part, Spending
from dptally.verifiers.declared_profile import DeclaredProfile
from dptally.verifiers.key_rounds import COARSE, UNIT, Scale
from dptally.verifiers.loss_measures import ONE
from dptally.verifiers.tables import exp_lower, exp_upper
from tests.exact.key_rounds_reference import _value, worst_divergence
from tests.exact.key_rounds_settings import chooser, declare, random_release


def made(epsilon: Fraction, scale: Scale, function: Any) -> DeclaredProfile:
    """With the delta that the function has at epsilon."""
    return DeclaredProfile(epsilon, Fraction(function[scale.below // COARSE], UNIT), scale, tuple(function))


def event(profile: DeclaredProfile) -> Spending:
    """A release with this profile."""
    part = Part(profile.epsilon, profile.delta, law=profile.facts())
    return Spending("rounds", profile.epsilon, profile.delta, (part,))


def small(seed: int) -> tuple[Any, int, DeclaredProfile]:
    """A random release of one or two stages, the keys a unit holds at most, and its profile."""
    choose = chooser(f"declared {seed}")
    stages, keys, epsilon = random_release(choose)
    stages, scale = stages[:2], Scale(64, 256, 256)
    return stages, min(keys, 2), made(epsilon, scale, declare(stages, epsilon, scale)[0])


@pytest.mark.parametrize("seed", range(12))
def test_no_enumerated_divergence_exceeds_the_profile(seed: int) -> None:
    """At e^(j g), for all numbers of keys and both orders, on grids that the points of the function are not on."""
    stages, keys, profile = small(seed)
    for step in (Fraction(1, 7), Fraction(1, 3)):
        up, down = profile.profile(step)
        assert up == down and all(here >= after for here, after in pairwise(up))
        for j in range(0, len(up), 4):
            growth = Fraction(*exp_upper(j * step))
            found = max(_value(stages, 1, 1, held, growth, order) for held in range(keys + 1) for order in (0, 1))
            assert found * ONE <= up[j]


@pytest.mark.parametrize("seed", range(8))
def test_two_releases_lose_no_more_than_their_profiles_together(seed: int) -> None:
    """The stages of both, one after the other, enumerated at four epsilons: the accountant is never below it."""
    stages, keys, profile = small(seed)
    for factor in (Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2)):
        epsilon = profile.epsilon * factor
        total = tight_total([event(profile)] * 2, epsilon=epsilon, delta=Fraction(1, 2))
        assert worst_divergence([*stages, *stages], keys, epsilon) <= total.delta


@pytest.mark.parametrize("setting", [("1", "1e-6", None), ("1/10", "1e-8", None), ("3", "1e-6", 10)])
def test_profiles_lie_close_above_the_declared_function(setting: tuple[str, str, int | None]) -> None:
    """Rounding never goes below the function, and is small; after its last point nothing is lost or gained."""
    epsilon, delta, bound = setting
    spec = RoundsSpec("rounds", Fraction(epsilon), Fraction(delta), values=True, bound=bound)
    law = spec.law
    profile = DeclaredProfile.from_facts(dict(law.event.law))
    function, points = profile.function, [(1 + Fraction(1, law.scale.density)) ** g for g in _grid(law.scale)]
    step = law.epsilon / 9
    found = profile.profile(step)[0]
    for j, value in enumerate(found):
        low = Fraction(*exp_lower(j * step)) / Fraction(*exp_upper(law.epsilon))
        place = sum(point <= low for point in points) - 1
        if 0 <= place < len(function) - 1:
            share = (low - points[place]) / (points[place + 1] - points[place])
            exact = function[place] + (function[place + 1] - function[place]) * share
            assert exact <= Fraction(value * UNIT, ONE) <= exact * (1 + Fraction(1, 10**9))
    assert Fraction(found[-1], ONE) == Fraction(function[-1], UNIT)


def _grid(scale: Scale) -> range:
    return range(-scale.below, scale.above + 1, COARSE)


def test_releases_in_rounds_compose_better_by_their_profile() -> None:
    """Ten releases cost a third of the epsilon that (1, 1e-6) alone would; one costs what it states at its epsilon."""
    spends = RoundsSpec("rounds", Fraction(1), Fraction("1e-6"), values=True, bound=None).spending
    budget: dict[str, Any] = {"epsilon": Fraction(10), "delta": Fraction(1, 10**4), "with_epsilon": True}
    tight, optimal = (rule([spends] * 10, **budget).epsilon for rule in (tight_total, optimal_total))
    assert tight is not None and optimal is not None and tight < optimal * Fraction(2, 5)
    assert tight_total([spends], epsilon=Fraction(1), delta=Fraction("1e-6")).delta <= Fraction("1e-6")
    # A unit may be the only one with a key, in each release: no composition is below that.
    own = spends.parts[0].law
    assert own is not None
    last = DeclaredProfile.from_facts(dict(own)).function[-1]
    assert tight_total([spends] * 10, epsilon=Fraction(10), delta=Fraction(1, 10**4)).delta >= 1 - (
        1 - Fraction(last, UNIT)
    ) ** 10 - Fraction(1, 10**12)


def test_dp_accounting_agrees() -> None:
    """The second opinion in floating point has the same delta, but for its slack."""
    pytest.importorskip("dp_accounting")
    spends = RoundsSpec("rounds", Fraction(1), Fraction("1e-6"), values=True, bound=None).spending
    for epsilon in (Fraction(3, 2), Fraction(3)):
        exact = float(tight_total([spends] * 4, epsilon=epsilon, delta=Fraction(1, 100)).delta)
        assert numerical_delta([spends] * 4, epsilon=epsilon) == pytest.approx(exact, rel=1e-3)


# ---- forged ----


def forged(profile: DeclaredProfile, **changed: Any) -> dict[str, Any]:
    """The facts of a profile with some of them changed."""
    return {**dict(profile.facts()), **changed}


def test_functions_that_are_none_are_refused() -> None:
    """Damaged bytes, other lengths, functions that rise, and functions above delta at epsilon have no profile."""
    law = RoundsSpec("rounds", Fraction(1), Fraction("1e-6"), values=False, bound=3).law
    profile = DeclaredProfile.from_facts(dict(law.event.law))
    assert DeclaredProfile.from_facts(forged(profile)) == profile
    rising = replace_function(profile, profile.function[::-1])
    for wrong in (
        forged(profile, function="?"),
        forged(profile, function=""),
        forged(profile, density=0),
        forged(profile, above="512"),
        forged(profile, delta="1/1000000000"),
        forged(profile, epsilon="one"),
        {"name": "DeclaredProfile"},
        rising,
    ):
        with pytest.raises(InvalidParameter, match="cannot be accounted for"):
            DeclaredProfile.from_facts(wrong)
        spends = replace(event(profile), parts=(Part(Fraction(1), law.delta, law=tuple(sorted(wrong.items()))),))
        with pytest.raises(InvalidParameter, match="cannot be accounted for"):
            tight_total([spends], epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))


def replace_function(profile: DeclaredProfile, function: tuple[int, ...]) -> dict[str, Any]:
    """Facts with another function, unchecked."""
    packed = b"".join(value.to_bytes(16, "little") for value in function)
    return forged(profile, function=base64.b64encode(packed).decode())


def test_a_ledger_with_another_profile_did_not_pay_for_the_release(tmp_path: Path) -> None:
    """The entry must have the function that the release declares; entries of epsilon and delta alone are as before."""
    table = pa.table({"u": [n // 3 for n in range(600)], "k": [f"k{n % 7}" for n in range(600)]})
    ledger = Ledger(tmp_path / "budget.db", epsilon=5, delta="1e-2", accounting="tight")
    request: dict[str, Any] = {"key": "k", "unit": "u", "epsilon": 1, "delta": "1e-3", "mechanism": "rounds"}
    release = dptally.publish(table, **request, max_keys_per_unit=3, ledger=ledger)
    other = dptally.publish(table, **request, max_keys_per_unit=2, ledger=ledger)
    assert ledger.find(release.guarantee, release.law).number == 1
    with pytest.raises(PrivacyViolation, match="another privacy profile"):
        ledger.find(release.guarantee, other.law)
    stored = Ledger(ledger.path).find(release.guarantee).spending
    assert stored.parts == (release.law.event,)
    alone = replace(stored, parts=(replace(release.law.event, law=None),))  # as earlier versions wrote it
    assert Spending.read(json.loads(json.dumps(alone.facts()))) == alone
    old = Ledger(tmp_path / "old.db", epsilon=5, delta="1e-2")
    paid = old.reserve(alone, unit="u")
    paid.drawn()
    assert old.find(replace(release.guarantee, record=paid.record), release.law).number == 1
