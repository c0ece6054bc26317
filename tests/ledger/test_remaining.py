"""What is left is what the next release may spend, under the accounting of the ledger and for the part it is about."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from dptally import BudgetExceeded, Ledger
from dptally.cli import main
from dptally.ledger.accounting import basic_total, short_above
from dptally.privacy.spending import Spending


def event(epsilon: object, delta: object = 0, mechanism: str = "stability") -> Spending:
    """A small event."""
    return Spending(mechanism, Fraction(str(epsilon)), Fraction(str(delta)))


def fits(ledger: Ledger, left: tuple[Fraction, Fraction], **part: str) -> bool:
    """Whether a release that spends all of it is allowed."""
    ledger.check(Spending("stability", *left), **part)
    return True


def test_a_tight_ledger_has_what_still_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beyond the sum of the budget something is left: never less than nothing, and it is allowed."""
    ledger = Ledger(tmp_path / "tight.db", epsilon="1/2", delta="1e-4", accounting="tight")
    assert ledger.remaining() == (Fraction(1, 2), Fraction(1, 10**4))
    for _ in range(30):
        ledger.reserve(event("1/40", "1/1000000000"))
    left = ledger.remaining()
    assert left[0] > 0 and 0 < left[1] < Fraction(1, 10**4) and fits(ledger, left)
    with pytest.raises(BudgetExceeded):
        ledger.check(event(left[0] + Fraction(1, 1000), left[1]))
    assert main(["ledger", "show", str(ledger.path)]) == 0
    shown = capsys.readouterr().out
    assert "Left: one release of epsilon 0." in shown and "epsilon -" not in shown
    assert main(["ledger", "show", str(ledger.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["remaining"] == {"epsilon": str(left[0]), "delta": str(left[1])}
    while True:
        try:
            ledger.reserve(event("1/40", "1/1000000000"))
        except BudgetExceeded:
            break
    left = ledger.remaining()
    assert 0 <= left[0] < Fraction(1, 40) and left[1] >= 0


def test_a_tight_ledger_without_delta_adds_up(tmp_path: Path) -> None:
    """With a budget of delta 0 what is left is the difference."""
    ledger = Ledger(tmp_path / "pure.db", epsilon=1, delta=0, accounting="tight")
    ledger.reserve(event("1/4"))
    assert ledger.remaining() == (Fraction(3, 4), 0) and fits(ledger, ledger.remaining())
    ledger.reserve(event("3/4"))
    assert ledger.remaining() == (0, 0)


@pytest.mark.parametrize("accounting", ["basic", "tight"])
def test_the_next_part_has_all(accounting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where two parts have spent everything, the next one has everything, and both are shown."""
    ledger = Ledger(tmp_path / "parts.db", epsilon=1, delta="1e-6", accounting=accounting)  # type: ignore[arg-type]
    ledger.reserve(event(1, "1/1000000"), partitioning="region", part="north")
    ledger.reserve(event("1/2", "1/2000000"), partitioning="region", part="0")
    assert ledger.remaining()[0] <= Fraction(1, 100)
    assert ledger.remaining("region", "west") == (1, Fraction(1, 10**6))
    assert fits(ledger, ledger.remaining("region", "west"), partitioning="region", part="west")
    assert main(["ledger", "show", str(ledger.path)]) == 0
    shown = capsys.readouterr().out
    amount = "epsilon 1, delta 1e-06"
    full = amount if accounting == "basic" else f"one release of {amount} still fits"
    assert f"Left for any other part of region: {full}." in shown
    assert "Left for releases of the whole data: " in shown and "Left for the part north of region: " in shown
    assert main(["ledger", "show", str(ledger.path), "--json"]) == 0
    parts = {part["part"]: part["epsilon"] for part in json.loads(capsys.readouterr().out)["remaining_parts"]}
    assert set(parts) == {"north", "0", None} and parts[None] == "1" and Fraction(parts["0"]) >= Fraction(1, 2)


def test_numbers_with_thousands_of_digits_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two spendings whose denominators have 2200 digits add up to one with 4400, which Python does not print."""
    ledger = Ledger(tmp_path / "long.db", epsilon=1, delta="1e-6")
    for denominator in (10**2199 + 7, 10**2199 + 9):
        ledger.reserve(Spending("stability", Fraction(denominator // 4, denominator), Fraction(1, denominator)))
    assert main(["ledger", "show", str(ledger.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    left, spent = Fraction(shown["remaining"]["epsilon"]), Fraction(shown["totals"][0]["epsilon"])
    assert Fraction(499, 1000) < left <= 1 - spent + Fraction(1, 10**1999) and Fraction(left).denominator < 10**4000
    ledger.check(Spending("stability", left, Fraction(0)))
    assert main(["ledger", "show", str(ledger.path)]) == 0
    assert main(["ledger", "history", str(ledger.path), "--json"]) == 0


def test_sums_are_never_below_what_was_spent() -> None:
    """Rounding of very long sums goes up, by less than anybody notices; shorter ones are exact."""
    events = [event(Fraction(1, 10**2199 + odd)) for odd in range(1, 40, 2)]
    exact = sum((one.epsilon for one in events), Fraction(0))
    total = basic_total(events, epsilon=Fraction(1), delta=Fraction(0)).epsilon
    assert total is not None and exact <= total < exact + Fraction(1, 2**13_990)
    assert short_above(Fraction(1, 3)) == Fraction(1, 3)
