"""The tables of errors on the pages of mechanisms are what the laws give: Figures 3, 4 and 6 of [BV19] in numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.field_geometric import choose_law
from dptally.laws.stability import Stability
from dptally.laws.weighted_sample import WeightedSample

PAGES = Path(__file__).parents[2] / "docs" / "mechanisms"


def table(page: str, first: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    lines = (PAGES / page).read_text().splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([part.strip() for part in line.split("|")[1:-1]])
    return rows


def test_errors_of_the_dense_histogram() -> None:
    """One key at three levels, and many keys at once, for every epsilon on the page."""
    rows = table("dense.md", "epsilon / l")
    assert len(rows) == 3
    for epsilon, *stated in rows:
        law = DyadicGeometric(epsilon, 1 << 40)
        one = [law.error_quantile(beta) for beta in ("0.5", "0.05", "0.001")]
        many = [law.simultaneous_error("0.05", bins) for bins in (1_000, 1_000_000)]
        assert [int(number) for number in stated] == [*one, *many]


def test_errors_of_the_stability_histogram() -> None:
    """Threshold, the counts that are reported half of the time and 95 % of it, and the mean error of a value."""
    rows = table("stability.md", "epsilon, delta")
    assert len(rows) == 5
    for parameters, threshold, half, often, mean in rows:
        epsilon, delta = parameters.split(", ")
        law, best = Stability(epsilon, delta), WeightedSample(epsilon, delta)
        assert int(threshold) == law.threshold
        for stated, chance in ((half, Fraction(1, 2)), (often, Fraction(95, 100))):
            assert stated == f"{law.first_frequency(chance)} / {best.first_frequency(chance)}"
        assert mean == f"{float(sum(abs(z) * chance for z, chance in law.noise_law.items())):.2f}"


def test_errors_of_the_compact_histogram() -> None:
    """The error of one key at four levels, and what the paper prints for one of them, for every epsilon on the page."""
    rows = table("compact.md", "epsilon'")
    assert len(rows) == 4
    for epsilon, *stated, printed in rows:
        law = choose_law(Fraction(epsilon), universe_size=1 << 64, largest_count=(1 << 32) - 1)
        found = [law.error(beta) for beta in (Fraction(1, 2), Fraction(1, 20), Fraction(1, 1000), Fraction(1, 10**6))]
        assert [int(number) for number in stated] == found
        assert int(printed) == math.ceil(5 / (2 * float(epsilon)) * math.log(40))
