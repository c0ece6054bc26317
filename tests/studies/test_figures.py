"""The figures of the paper: known numbers, stored tables, and the command that writes them."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from studies.figures import estimation, reporting
from studies.figures.__main__ import main, zipf_populations
from studies.figures.populations import REAL_DATA, Population, uniform, zipf
from studies.figures.tables import Table

from dptally.laws.sampling_schemes import Ppswor, Priority
from dptally.laws.weighted_sample import WeightedSample

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "figures" / "weighted_sampling"
DATA = ROOT.parent / "shared" / "data"


def agrees_with_stored(table: Table) -> bool:
    """Every recomputed row is in the stored table, up to the last written digits."""
    stored = Table.read(STORED / f"{table.name}.csv").rows
    names = {"population", "epsilon", "delta", "rate", "frequency"} & set(table.rows[0])
    known = {tuple(str(row[name]) for name in sorted(names)): row for row in stored}
    for row in table.rows:
        written = dict(zip(row, next(csv.reader([Table("", [row]).text().splitlines()[1]])), strict=True))
        read = {name: _number(text) for name, text in written.items()}
        other = known[tuple(str(read[name]) for name in sorted(names))]
        for name, value in read.items():
            assert other[name] == (pytest.approx(value, rel=2e-5, abs=1e-12) if isinstance(value, float) else value), (
                row
            )
    return True


def test_the_comparison_notices_a_change() -> None:
    """A number that is off by one part in a thousand is not taken for the stored one."""
    stored = Table.read(STORED / "figure_7.csv")
    assert agrees_with_stored(stored)
    first = {**stored.rows[0], "ratio_tight": float(stored.rows[0]["ratio_tight"]) * 1.001}
    with pytest.raises(AssertionError):
        agrees_with_stored(Table("figure_7", [first]))


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def test_figure_2_known_range() -> None:
    """Over delta, the optimal law reports 1.20 to 3.24 times (Zipf 1) and 1.095 to 2.06 times (Zipf 2) the keys."""
    table = reporting.by_delta("figure_2", zipf_populations(["1", "2"]))
    for label, least, most in (("Zipf 1", 1.20, 3.24), ("Zipf 2", 1.095, 2.06)):
        ratios = [float(row["ratio_printed"]) for row in table.rows if row["population"] == label]
        assert min(ratios) == pytest.approx(least, abs=0.005) and max(ratios) == pytest.approx(most, abs=0.005)
    assert all(float(row["ratio_tight"]) <= float(row["ratio_printed"]) + 1e-12 for row in table.rows)
    assert all(float(row["ratio_integer"]) > 1 for row in table.rows)
    first = table.rows[0]
    assert first["delta"] == "1" and first["optimal"] == 1 > float(first["stability_printed"])
    assert agrees_with_stored(table)


def test_figure_5_known_gains() -> None:
    """230.6, 97.2 and 37.2 % more keys at rate 1; for Zipf 1, 95 % at 0.01 and 68 % at 1e-4."""
    table = reporting.by_rate("figure_5", zipf_populations(["1/2", "1", "2"]), rates=["1", "0.01", "1e-4"])
    gains = {(row["population"], row["rate"]): float(row["gain_printed"]) for row in table.rows}
    for label, gain in (("Zipf 0.5", 230.6), ("Zipf 1", 97.2), ("Zipf 2", 37.2)):
        assert gains[label, "1"] == pytest.approx(gain, abs=0.05)
    assert gains["Zipf 1", "0.01"] == pytest.approx(95, abs=0.5)
    assert gains["Zipf 1", "1e-4"] == pytest.approx(68, abs=0.5)
    assert agrees_with_stored(table)


@pytest.mark.parametrize(("epsilon", "best"), [("0.5", "1e-3"), ("0.25", "1e-4"), ("0.1", "1e-5")])
def test_figure_8_minimum_is_midway(epsilon: str, best: str) -> None:
    """Over powers of ten, the error of the optimal law is least at rate 1e-3, 1e-4 and 1e-5; the baseline's at 1."""
    rates = ["1", "0.1", "0.01", "0.001", "1e-4", "1e-5", "1e-6"]
    table = estimation.error_by_rate(epsilons=[epsilon], rates=rates)
    errors = {str(row["rate"]): float(row["optimal"]) for row in table.rows}
    assert float(min(errors, key=errors.__getitem__)) == float(best)
    assert min(float(row["stability_printed"]) for row in table.rows) == table.rows[0]["stability_printed"]
    assert errors["1"] < float(table.rows[0]["stability_tight"]) < float(table.rows[0]["stability_printed"])
    assert agrees_with_stored(table)


@pytest.mark.parametrize("table", [reporting.by_frequency, reporting.sampled_by_frequency])
def test_reporting_probabilities_are_the_stored_ones(table: object) -> None:
    """Figures 1 and 4: recomputed numbers are the stored ones, and no baseline exceeds the optimum."""
    assert callable(table)
    made: Table = table()
    for row in made.rows:
        for name in ("stability_tight", "stability_printed", "stability_integer"):
            assert float(row.get(name, 0)) <= float(row["optimal"]) + 1e-12
        assert float(row["optimal"]) <= float(row.get("sampled", 1)) + 1e-12
    assert agrees_with_stored(made)


def test_errors_by_frequency_are_the_stored_ones() -> None:
    """Figures 8 (top) and 9 at epsilon 0.5; the bias of the optimal law shrinks with the rate."""
    bias = estimation.bias_by_frequency(epsilons=["0.5"])
    assert agrees_with_stored(bias)
    assert agrees_with_stored(estimation.variance_by_frequency(epsilons=["0.5"]))
    worst = [max(-float(row["optimal"]) for row in bias.rows if row["rate"] == rate) for rate in ("1", "1e-4", "1e-5")]
    assert worst == sorted(worst, reverse=True)


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not here")
def test_real_data_figures_are_the_stored_ones() -> None:
    """Figures 3, 6 and 7: the populations have the published sizes, and some rows are recomputed."""
    real = {name: read(DATA) for name, read in REAL_DATA.items()}
    words, users = real["ABC words"], real["MathOverflow degrees"]
    assert (words.size, int(words.keys @ words.frequencies)) == (24_828, 472_078)
    assert (users.size, int(users.keys @ users.frequencies)) == (24_818, 2 * 506_550)
    assert agrees_with_stored(reporting.by_delta("figure_3", real, deltas=["1", "0.001", "1e-06"]))
    fractions = reporting.by_rate("figure_6", real, rates=["1", "0.01", "1e-4"])
    assert agrees_with_stored(fractions)
    assert agrees_with_stored(reporting.ratios_by_rate(fractions))


def test_chances_are_those_of_the_law() -> None:
    """Exact reporting probabilities, single frequency by single frequency, also far beyond the listed ones."""
    frequencies = np.array([1, 2, 50, 81, 200, 5000, 10**6, 10**12])
    for scheme in (None, Ppswor("0.01")):
        law = WeightedSample("0.1", "0.001", scheme, values=False)
        wanted = [float(law.reporting_probability(int(frequency))) for frequency in frequencies]
        assert reporting.optimal_chances("0.1", "0.001", scheme, frequencies) == pytest.approx(wanted, rel=1e-14)


def test_errors_in_floats_are_the_exact_ones() -> None:
    """Bias and variance summed in floats agree with the exact fractions of the estimator."""
    bias, variance = estimation.most_likely_errors("0.5", estimation.DELTA, "0.01", 60)
    weigh = WeightedSample("0.5", estimation.DELTA, Priority("0.01")).estimator("mle")
    for frequency in (1, 7, 20, 27, 40, 60):
        assert bias[frequency - 1] == pytest.approx(float(weigh.bias(frequency)), rel=1e-9, abs=1e-9)
        assert variance[frequency - 1] == pytest.approx(float(weigh.variance(frequency)), rel=1e-9)


def test_populations() -> None:
    """Zipf frequencies by the formula, in whole numbers; uniform ones; the expected fraction by hand."""
    assert _keys(zipf(10, "1")) == {1: 5, 2: 2, 3: 1, 5: 1, 10: 1}
    assert _keys(zipf(10, "2")) == {1: 3, 2: 2, 4: 1, 6: 1, 11: 1, 25: 1, 100: 1}
    assert _keys(zipf(100, "1/2"))[10] == 1 and _keys(zipf(100, "1/2"))[1] == 75
    assert zipf(10**6, "2").frequencies[-1] == 10**12
    small = uniform(3, 2)
    assert small.size == 6 and small.fraction(np.array([0.0, 0.5, 1.0])) == 0.5


def _keys(population: Population) -> dict[int, int]:
    return dict(zip(population.frequencies.tolist(), population.keys.tolist(), strict=True))


def test_stored_tables_are_small() -> None:
    """Every stored table is below 40 KB, has a picture, and is listed with its origin."""
    tables = sorted(STORED.glob("*.csv"))
    assert [table.stem for table in tables] == [
        *(f"figure_{number}" for number in range(1, 8)),
        "figure_8_bias",
        "figure_8_error",
        "figure_9",
    ]
    assert all(table.stat().st_size < 40_000 for table in tables)
    assert len(list(STORED.glob("*.png"))) == 9
    assert "python -m studies.figures weighted_sampling" in (STORED / "README.md").read_text()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and pictures are written; figures that need absent data are named as skipped."""
    plain = (-np.ones(240), np.ones(240))  # the slow part, which other tests look at
    monkeypatch.setattr(estimation, "most_likely_errors", lambda *_: plain)
    monkeypatch.setattr("studies.figures.__main__.zipf_populations", lambda alphas: {"few": zipf(100, "1")})
    status = main(["weighted_sampling", "--output", str(tmp_path / "new"), "--data", str(tmp_path / "none")])
    assert status == 0
    said = capsys.readouterr().out
    assert "Figures 3, 6 and 7 need real data" in said and said.count("\n") == 7
    written = {place.name for place in (tmp_path / "new").iterdir()}
    assert {"figure_1.csv", "figure_1.png", "figure_8_error.csv", "figure_8.png", "figure_9.csv"} <= written
    assert not any(name.startswith(("figure_3", "figure_6", "figure_7")) for name in written)
    assert (tmp_path / "new" / "figure_1.png").read_bytes().startswith(b"\x89PNG")
    assert agrees_with_stored(Table.read(tmp_path / "new" / "figure_1.csv"))


def test_without_the_extra(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vl-convert the command says what to install, before it computes anything."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["weighted_sampling", "--output", str(tmp_path / "new")]) == 1
    assert "pip install 'dptally[plots]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_unknown_paper_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is no paper is refused with status 2."""
    with pytest.raises(SystemExit) as stopped:
        main(["nothing"])
    assert stopped.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
