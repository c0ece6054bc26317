"""Section 5 of [BC22]: laws of the other mechanisms, stored tables, and what wins where."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from studies.baselines.histograms import (
    BernoulliShuffle,
    HadamardResponse,
    amplified_epsilon,
    binomial_numbers,
    laplace_counts,
    shifted_binomial_delta,
    uniform_numbers,
)
from studies.figures import histograms, sample_and_threshold
from studies.figures.__main__ import main
from studies.figures.tables import Row, Table

from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.randomness import SeededBits
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue, mean_z

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "figures" / "sample_and_threshold"
DATA = ROOT.parent / "shared" / "data"
WORST_Z = float(stats.norm.isf(FALSE_ALARM / 2))

Cells = dict[tuple[str, int, float], dict[str, float]]


def stored(name: str) -> Cells:
    """A stored table by population, buckets and epsilon; empty cells are left out."""
    return keyed(Table.read(STORED / f"{name}.csv").rows)


def keyed(rows: list[Row]) -> Cells:
    """Rows of numbers by population, buckets and epsilon."""
    found: Cells = {}
    for row in rows:
        key = (str(row["population"]), int(row["buckets"]), float(row["epsilon"]))
        found[key] = {name: float(row[name]) for name in list(row)[3:] if row[name] != ""}
    return found


def losses(name: str, smaller: str, larger: str) -> dict[tuple[str, int], list[float]]:
    """Where the first column of a stored table is NOT below the second."""
    found: dict[tuple[str, int], list[float]] = {}
    for (population, buckets, epsilon), row in stored(name).items():
        if smaller in row and larger in row and row[smaller] >= row[larger]:
            found.setdefault((population, buckets), []).append(epsilon)
    return found


# ---- Hadamard response ----


def report_law(response: HadamardResponse) -> NDArray[np.float64]:
    """Chances of all symbols (columns) for all buckets (rows), from the definition, symbol by symbol."""
    grow = math.exp(response.epsilon)
    law = np.array(
        [
            [grow if (bucket + 1 & symbol).bit_count() % 2 == 0 else 1.0 for symbol in range(response.symbols)]
            for bucket in range(response.buckets)
        ]
    )
    return law / law.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("buckets", [1, 5, 7, 8])
def test_hadamard_response_is_unbiased_and_private(buckets: int) -> None:
    """The estimate of the expected reports is the counts; rows sum alike and differ by at most e^epsilon."""
    response = HadamardResponse(buckets, 0.7)
    law = report_law(response)
    assert law.max() / law.min() == pytest.approx(math.exp(0.7))
    assert law[0, 0] == pytest.approx(2 * math.exp(0.7) / (1 + math.exp(0.7)) / response.symbols)
    counts = np.arange(3, 3 + buckets) ** 2
    expected: Any = counts @ law
    assert response.estimate(expected) == pytest.approx(counts)


def test_hadamard_response_variance() -> None:
    """The stated variance is that of the sum of independent signs, added up over persons and symbols."""
    response = HadamardResponse(5, 0.4)
    law, counts = report_law(response), np.array([3, 0, 11, 1, 6])
    for bucket, count in enumerate(counts):
        signs = np.array([1 - 2 * ((bucket + 1 & symbol).bit_count() % 2) for symbol in range(response.symbols)])
        spread = counts @ (1 - (law @ signs) ** 2) / response.gain**2
        assert response.variance(int(count), int(counts.sum())) == pytest.approx(spread)


def test_hadamard_reports_follow_the_law() -> None:
    """200,000 reports of one bucket; false alarm 1e-6. Symbols that are never moved into the half are rejected."""
    response, count = HadamardResponse(6, 0.5), 200_000
    law = dict(enumerate(report_law(response)[3]))
    sent = response.report(np.array([0, 0, 0, count, 0, 0]), SeededBits(61))
    assert sent.sum() == count
    assert chi_square_pvalue(dict(enumerate(sent.tolist())), law, count) > FALSE_ALARM
    uniform = Counter((SeededBits(62).words(count) % np.uint64(response.symbols)).tolist())
    assert chi_square_pvalue({int(k): n for k, n in uniform.items()}, law, count) < FALSE_ALARM


# ---- shuffled coins ----


def test_bernoulli_formulas() -> None:
    """c = 50 ln(2 / delta) / (epsilon^2 m), only up to 1/2; variance m c (1 - c)."""
    noise = BernoulliShuffle.printed(100_000, 1, 1e-8)
    assert noise is not None
    assert noise.chance == pytest.approx(50 * math.log(2e8) / 100_000)
    assert noise.variance(100_000) == pytest.approx(100_000 * noise.chance * (1 - noise.chance))
    needed = 100 * math.log(2e8) / 0.2**2
    assert BernoulliShuffle.printed(needed * 1.0001, 0.2, 1e-8) is not None
    assert BernoulliShuffle.printed(needed * 0.9999, 0.2, 1e-8) is None
    assert BernoulliShuffle.printed(10**9, 1.01, 1e-8) is None


def test_bernoulli_mean_and_variance() -> None:
    """Over 20,000 buckets the unbiased estimate has mean X and variance m c (1 - c); false alarm 1e-6 each.

    Without subtracting the expected extra messages, or with half of the noise, the test fails.
    """
    noise = BernoulliShuffle(0.02)
    counts = np.full(20_000, 7)
    persons = int(counts.sum())
    messages = noise.messages(counts, SeededBits(63))
    off = noise.unbiased(messages, persons) - 7
    spread = noise.variance(persons)
    assert abs(mean_z(off.tolist(), 0, spread)) < WORST_Z
    assert abs(mean_z((off**2).tolist(), spread, 2 * spread**2)) < WORST_Z
    assert abs(mean_z((messages - persons).tolist(), 0, spread)) > WORST_Z
    half = BernoulliShuffle(0.01).messages(counts, SeededBits(64)) - persons * 0.99 - 7
    assert abs(mean_z((half**2).tolist(), spread, 2 * spread**2)) > WORST_Z


def test_bernoulli_keeps_zeros() -> None:
    """The printed analyser gives 0 for empty buckets, always, and the unbiased estimate wherever it gives more."""
    noise = BernoulliShuffle(0.3)
    counts = np.array([0] * 50 + [40] * 50)
    messages = noise.messages(counts, SeededBits(65))
    shown = noise.zero_preserving(messages, 2000)
    assert not shown[:50].any() and not shown[50:].any()  # 40 is far below m c = 600
    counts = np.array([0] * 50 + [2000] * 2)
    messages = noise.messages(counts, SeededBits(66))
    shown = noise.zero_preserving(messages, 4000)
    assert not shown[:50].any() and (shown[50:] == noise.unbiased(messages, 4000)[50:]).all()


@pytest.mark.parametrize(("trials", "chance"), [(5, 0.5), (40, 0.07), (1000, 0.3)])
def test_binomial_noise(trials: int, chance: float) -> None:
    """100,000 numbers follow the binomial law, false alarm 1e-6; those of one trial more are rejected."""
    law = {k: float(stats.binom.pmf(k, trials, chance)) for k in range(trials + 1)}
    drawn = Counter(binomial_numbers(trials, chance, 100_000, SeededBits(67)).tolist())
    assert chi_square_pvalue(dict(drawn), law, 100_000) > FALSE_ALARM
    wrong = Counter(binomial_numbers(trials + 1, chance * 1.05, 100_000, SeededBits(67)).tolist())
    assert chi_square_pvalue(dict(wrong), law, 100_000) < FALSE_ALARM


def test_shifted_binomial_delta_is_the_exact_one() -> None:
    """The divergence of the noise from itself moved by one, against fractions, in both directions."""
    trials, chance, factor = 30, Fraction(1, 8), Fraction(math.exp(0.6))
    law = [math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(trials + 1)]
    here, moved = [*law, Fraction(0)], [Fraction(0), *law]
    exact = [
        sum(max(Fraction(0), a - factor * b) for a, b in zip(*pair, strict=True))
        for pair in ((here, moved), (moved, here))
    ]
    assert shifted_binomial_delta(trials, 0.125, 0.6) == pytest.approx(float(max(exact)), rel=1e-12)


@pytest.mark.parametrize(("persons", "epsilon"), [(15_860, 0.1), (105_353, 1.0)])
def test_smallest_noise(persons: int, epsilon: float) -> None:
    """The smallest chance meets delta, a slightly smaller one does not, and the printed one is far larger."""
    noise = BernoulliShuffle.smallest(persons, epsilon, 1e-8)
    assert noise is not None
    assert shifted_binomial_delta(persons, noise.chance, epsilon) <= 1e-8
    assert shifted_binomial_delta(persons, noise.chance * (1 - 1e-5), epsilon) > 1e-8
    printed = BernoulliShuffle.printed(persons, epsilon, 1e-8)
    assert printed is None or printed.chance > 15 * noise.chance
    assert BernoulliShuffle.smallest(200, epsilon / 10, 1e-8) is None


# ---- Laplace ----


def test_laplace_noise() -> None:
    """100,000 values: mean 0, mean size 1 / epsilon, false alarm 1e-6 each; half of the scale is rejected."""
    off = laplace_counts(np.full(100_000, 9), 0.25, SeededBits(68)) - 9
    assert abs(mean_z(off.tolist(), 0, 2 * 16)) < WORST_Z
    assert abs(mean_z(np.abs(off).tolist(), 4, 16)) < WORST_Z
    assert abs(mean_z(np.abs(off / 2).tolist(), 4, 16)) > WORST_Z
    uniform = uniform_numbers(1000, SeededBits(69))
    assert 0 < uniform.min() < uniform.max() < 1


def test_amplified_epsilon() -> None:
    """What is spent on the sample costs the population epsilon; at rate 1 nothing is won."""
    for epsilon, rate in ((0.1, 0.0158), (1, 0.105)):
        assert math.log1p(rate * math.expm1(amplified_epsilon(epsilon, rate))) == pytest.approx(epsilon)
    assert amplified_epsilon(0.7, 1) == pytest.approx(0.7)


# ---- measures ----


def test_expected_error_is_that_of_the_law() -> None:
    """The closed form, against exact rows of the law, added up."""
    law = SampleAndThreshold("1", "1e-4", rate="0.3")
    counts = np.array([0, 1, law.threshold - 1, law.threshold, 30, 30, 95, 200])
    total = Fraction(0)
    for count in counts.tolist():
        for value, chance in law.row(count).items():
            total += chance * abs((value or 0) / law.rate - count)
    wanted = float(total) / len(counts) / int(counts.sum())
    assert sample_and_threshold.expected_error(counts, float(law.rate), law.threshold) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("estimates", "wanted"),
    [
        ([9.0, 8, 7, 0, 0, 0], 1),
        ([9.0, 0, 0, 0, 0, 0], 1 / 3),
        ([0.0, 0, 0, 5, 5, 0], 0),
        ([9.0, 8, -1, 4, 4, 0], 2 / 3),
        ([9.0, 8, 4, 4, 4, 4], (2 + 1 / 4) / 3),  # one of four tied buckets is taken
        ([9.0, 7, 0, 8, 0, 0], 2 / 3),
    ],
)
def test_recall(estimates: list[float], wanted: float) -> None:
    """The largest three of six, by hand: unreported ones are missed, ties are shared."""
    counts = np.array([50, 40, 30, 20, 10, 0])
    assert sample_and_threshold.recall(counts, np.array(estimates), 3) == pytest.approx(wanted)


def test_recall_of_few_and_equal_buckets() -> None:
    """Empty buckets are not asked for; any bucket as large as the last one is right."""
    assert sample_and_threshold.recall(np.array([5, 0, 0, 0]), np.array([4.0, 0, 0, 0]), 3) == 1
    assert sample_and_threshold.recall(np.array([5, 2, 2, 2]), np.array([4.0, 0, 0, 3]), 2) == 1


@pytest.mark.parametrize("draw", [histograms.binomial, histograms.geometric])
def test_made_up_histograms(draw: Callable[[int], NDArray[np.int64]]) -> None:
    """A million persons follow the stated laws, false alarm 1e-6, and not each other's."""
    size, places = 64, np.arange(64)
    laws = {
        "binomial": stats.binom.pmf(places, size, 0.5) + (places == 0) * 0.5**size,
        "geometric": (1 - 1 / 8) ** places / 8 / (1 - (1 - 1 / 8) ** size),
    }
    counts = draw(size)
    assert counts.sum() == 10**6
    for name, law in laws.items():
        right = chi_square_pvalue(dict(enumerate(counts.tolist())), dict(enumerate(law.tolist())), 10**6) > FALSE_ALARM
        assert right == (name == draw.__name__)


# ---- stored tables ----


def agrees(made: dict[str, Table]) -> None:
    """Each recomputed row is in the stored table of its name."""
    for name, table in made.items():
        known = stored(name)
        for key, row in keyed(table.rows).items():
            assert known[key].keys() == row.keys()
            assert known[key] == pytest.approx(row, rel=1e-5)


@pytest.mark.parametrize(("draw", "size"), [(histograms.binomial, 1 << 6), (histograms.geometric, 1 << 12)])
def test_made_up_curves_are_the_stored_ones(draw: Callable[[int], NDArray[np.int64]], size: int) -> None:
    """Every mechanism at two settings, recomputed, with its standard errors and expectations."""
    some = {draw.__name__.capitalize(): {size: draw(size)}}
    agrees(sample_and_threshold.comparison(some, epsilons=["0.2", "1"]))
    agrees({"error_expected": sample_and_threshold.expected_errors(some, epsilons=["0.2", "1"])})


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")
def test_shakespeare_curves_are_the_stored_ones() -> None:
    """The words have the known number, and a setting is recomputed."""
    some = {"Shakespeare": {1024: histograms.shakespeare(1024, DATA)}}
    assert some["Shakespeare"][1024].sum() == 944_615
    agrees(sample_and_threshold.comparison(some, epsilons=["0.5"]))
    agrees({"error_expected": sample_and_threshold.expected_errors(some, epsilons=["0.5"])})


def test_the_comparison_notices_a_change() -> None:
    """A stored number that is off by one part in a thousand is not taken for the right one."""
    table = Table.read(STORED / "error.csv")
    agrees({"error": table})
    changed = {**table.rows[0], "hadamard": float(table.rows[0]["hadamard"]) * 1.001}
    with pytest.raises(AssertionError):
        agrees({"error": Table("error", [changed])})


def test_parameters_are_the_stored_ones() -> None:
    """Rates and thresholds: 20 as printed, 11 exactly for every epsilon; the laws are certified."""
    table = sample_and_threshold.parameters_table()
    assert table.text() == (STORED / "parameters.csv").read_text()
    for row in table.rows:
        assert (row["threshold_printed"], row["threshold_exact"]) == (20, 11)
        assert float(row["least_best"]) < float(row["least_exact"]) < float(row["least_printed"])
    used = sample_and_threshold.parameters("0.2")
    used.exact.certify()
    used.best.certify()
    assert float(table.rows[1]["least_printed"]) < 0.001 * 10**6  # "at epsilon 0.2, only below 0.1 %" [BC22]


def test_simulation_meets_expectation() -> None:
    """Stored means of 10 runs, less the expectation, over the standard error: Student's t, at 150 settings a column.

    No one of 450 is beyond, and no average of 150 independent ones, of variance 9/7 each: false alarm 1e-6 each. The
    averages reject the expectation for the other threshold.
    """
    means, errors, expected = stored("error"), stored("error_standard_error"), stored("error_expected")
    assert len(means) == 150
    names = sample_and_threshold.METHODS[:3]
    farthest = float(stats.t.isf(FALSE_ALARM / (2 * 450), 9))
    for name, other in zip(names, ("sample_threshold_exact", *names[:0:-1]), strict=True):
        away = [(row[name] - expected[key][name]) / errors[key][name] for key, row in means.items()]
        assert max(abs(z) for z in away) < farthest
        assert abs(mean_z(away, 0, 9 / 7)) < WORST_Z
        wrong = [(row[name] - expected[key][other]) / errors[key][name] for key, row in means.items()]
        assert abs(mean_z(wrong, 0, 9 / 7)) > WORST_Z


# ---- what wins where ----


def test_local_is_far_behind() -> None:
    """Hadamard response has over ten times the error of any other, and more than nothing has from 2^8 buckets on."""
    for (_, buckets, _), row in stored("error").items():
        others = [
            row[name]
            for name in ("sample_threshold_printed", "laplace", "bernoulli_smallest", "bernoulli_printed")
            if name in row
        ]
        assert row["hadamard"] > 10 * max(others)
        assert buckets == 64 or row["hadamard"] > row["all_zero"]


def test_shuffled_noise_is_behind_and_falls_back_with_size() -> None:
    """Sample-and-threshold beats shuffled coins everywhere; more so with more buckets, less so with epsilon."""
    for other in ("bernoulli_printed", "bernoulli_smallest"):
        assert not losses("error", "sample_threshold_printed", other)
    assert not losses("error", "bernoulli_smallest", "bernoulli_printed")
    found = stored("error")
    for population in ("Binomial", "Geometric"):
        for epsilon in (0.1, 0.3, 1.0):
            rows = [found[population, size, epsilon] for size in sample_and_threshold.BUCKETS]
            gaps = [row["bernoulli_smallest"] / row["sample_threshold_printed"] for row in rows]
            assert gaps == sorted(gaps)
        small, large = (found[population, 1 << 14, epsilon] for epsilon in (0.1, 1.0))
        assert small["bernoulli_smallest"] / small["sample_threshold_printed"] > 10 * (
            large["bernoulli_smallest"] / large["sample_threshold_printed"]
        )


def test_laplace_loses_on_made_up_data_and_wins_on_shakespeare() -> None:
    """Against Laplace on the same sample, as printed: where sample-and-threshold does not have the smaller error."""
    lost = losses("error", "sample_threshold_printed", "laplace")
    assert set(lost) == {
        ("Geometric", 64),
        ("Geometric", 256),
        ("Shakespeare", 64),
        ("Shakespeare", 1024),
        ("Shakespeare", 4096),
        ("Shakespeare", 16384),
    }
    assert min(lost["Geometric", 64]) == 0.3 and min(lost["Geometric", 256]) == 0.7
    assert min(lost["Shakespeare", 1024]) == 0.2 and min(lost["Shakespeare", 4096]) == 0.4
    assert min(lost["Shakespeare", 16384]) == 0.9
    assert set(losses("error", "sample_threshold_best", "laplace")) == {("Shakespeare", 4096)}


def test_amplified_laplace_is_mostly_ahead_where_buckets_are_full() -> None:
    """With a secret sample Laplace is ahead of the printed parameters but where most buckets are empty."""
    lost = losses("error", "sample_threshold_printed", "laplace_amplified")
    behind = {key for key, epsilons in lost.items() if len(epsilons) == 10}
    assert behind == {("Binomial", 64), *(("Geometric", size) for size in (64, 256, 1024))} | {
        ("Shakespeare", 1024),
        ("Shakespeare", 4096),
    }
    for population, size in (("Binomial", 4096), ("Binomial", 16384), ("Geometric", 4096), ("Geometric", 16384)):
        assert (population, size) not in lost


def test_exact_parameters_win() -> None:
    """A smaller threshold never expects more error, a better rate always less: up to 2.66 times."""
    gains = []
    for row in stored("error_expected").values():
        assert (
            row["sample_threshold_best"] < row["sample_threshold_exact"] <= row["sample_threshold_printed"] * (1 + 1e-5)
        )
        gains.append(row["sample_threshold_printed"] / row["sample_threshold_best"])
    assert min(gains) > 1.2 and max(gains) > 2.6


def test_better_than_nothing() -> None:
    """Sample-and-threshold is better than reporting nothing; Laplace and coins are not in large histograms."""
    assert not losses("error", "sample_threshold_printed", "all_zero")
    assert losses("error", "laplace", "all_zero")["Shakespeare", 16384] == [0.1, 0.2, 0.3]
    assert len(losses("error", "bernoulli_smallest", "all_zero")["Binomial", 16384]) == 9


def test_recall_statements() -> None:
    """2^8 buckets: at least 92 % throughout; 2^12 buckets of Shakespeare: low at small epsilon, 92 % from 0.5 on."""
    found = stored("recall")
    for (population, buckets, epsilon), row in found.items():
        printed = row["sample_threshold_printed"]
        if buckets == 256:
            assert printed > 0.92
            assert epsilon > 0.1 or (printed > row["bernoulli_smallest"] and printed >= row["laplace"])
        if (population, buckets) == ("Shakespeare", 4096):
            assert printed < 0.3 if epsilon == 0.1 else printed > 0.5
            assert epsilon < 0.5 or printed > 0.92
    assert found["Shakespeare", 16384, 1.0]["sample_threshold_printed"] < 0.4
    assert found["Shakespeare", 16384, 1.0]["sample_threshold_best"] > 0.8
    not_behind = losses("recall", "sample_threshold_printed", "laplace")
    assert not {(name, 16384) for name in ("Binomial", "Geometric", "Shakespeare")} & set(not_behind)
    assert not {("Binomial", 4096), ("Geometric", 4096)} & set(not_behind)


# ---- the command ----


def test_stored_tables_are_small() -> None:
    """Every stored table is below 40 KB and named in the page, with the command that makes it."""
    page = (STORED / "README.md").read_text()
    tables = sorted(STORED.glob("*.csv"))
    assert [table.stem for table in tables] == [
        "error",
        "error_expected",
        "error_standard_error",
        "parameters",
        "recall",
        "recall_standard_error",
    ]
    assert all(table.stat().st_size < 40_000 and f"`{table.name}`" in page for table in tables)
    assert {place.name for place in STORED.glob("*.png")} == {"error.png", "recall.png"}
    assert "python -m studies.figures sample_and_threshold" in page


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and pictures are written, for small sizes here; without the data Shakespeare is named as skipped."""
    whole = sample_and_threshold.comparison
    monkeypatch.setattr(sample_and_threshold, "BUCKETS", (64,))
    monkeypatch.setattr(sample_and_threshold, "SHOWN", {"error": (64,), "recall": (64,)})
    monkeypatch.setattr(sample_and_threshold, "comparison", lambda given: whole(given, epsilons=["0.2", "0.3"]))
    assert main(["sample_and_threshold", "--output", str(tmp_path / "new"), "--data", str(tmp_path / "none")]) == 0
    said = capsys.readouterr().out
    assert "Shakespeare's words are not in" in said and "error.png" in said
    assert len(list((tmp_path / "new").glob("*.csv"))) == 6
    agrees({"error": Table.read(tmp_path / "new" / "error.csv")})
    assert (tmp_path / "new" / "recall.png").read_bytes().startswith(b"\x89PNG")
