"""Numbers of Figures 1 to 7 of [CGSS21]: how likely keys are to be reported.

Reporting probabilities of the optimal law and of the certified stability-based histogram are exact integers from the
tables that would be drawn from, turned into floats at the end. The printed baseline is the closed form in real numbers.
Sums over keys are sums over distinct frequencies. Nothing is simulated.

Columns of the tables, where they occur:

- ``sampled``: the sample alone, without privacy;
- ``optimal``: the law of `WeightedSample`;
- ``stability_printed``: Algorithm 6 (sampled from afterwards, where there is sampling), not certified;
- ``stability_tight``: the same with the threshold that uses all of delta, not certified;
- ``stability_integer``: `Stability`, certified;
- ``gain_printed``, ``gain_tight``: by how many percent ``optimal`` exceeds them; ``ratio_*`` is the quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dptally.laws.sampling_schemes import UNIT_BITS, Ppswor
from dptally.laws.stability import Stability
from dptally.laws.weighted_sample import WeightedSample
from studies.baselines.stability import UncertifiedStability
from studies.figures.populations import Population
from studies.figures.tables import Row, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DELTAS",
    "RATES",
    "by_delta",
    "by_frequency",
    "by_rate",
    "optimal_chances",
    "ratios_by_rate",
    "sampled_by_frequency",
]

PARAMETERS = (("0.1", "0.01", 130), ("0.01", "1e-6", 3200))
DELTAS = tuple(f"{10 ** (-quarter / 4):.4g}" for quarter in range(33))  # four to a power of ten
RATES = ("1", "0.5", "0.2", "0.1", "0.05", "0.02", "0.01", "0.005", "0.002", "0.001", "5e-4", "2e-4", "1e-4", "1e-5")
_FIRST_LISTED = 1 << 12
_Chances = Callable[["NDArray[np.int64]"], "NDArray[np.float64]"]


def by_frequency() -> Table:
    """Figure 1: reporting probability by frequency, without sampling."""
    rows: list[Row] = []
    for epsilon, delta, last in PARAMETERS:
        frequencies = np.unique(np.linspace(1, last, 130).round().astype(np.int64))
        optimal = optimal_chances(epsilon, delta, None, frequencies)
        integer = _integer_chances(epsilon, delta, frequencies)
        printed, tight = (chances(frequencies) for chances in _baselines(epsilon, delta, None))
        for place, frequency in enumerate(frequencies.tolist()):
            rows.append(
                {
                    "epsilon": epsilon,
                    "delta": delta,
                    "frequency": frequency,
                    "optimal": float(optimal[place]),
                    "stability_printed": float(printed[place]),
                    "stability_tight": float(tight[place]),
                    "stability_integer": float(integer[place]),
                }
            )
    return Table("figure_1", rows)


def sampled_by_frequency() -> Table:
    """Figure 4: reporting probability by frequency, with ppswor sampling."""
    rows: list[Row] = []
    for epsilon, delta, rates in (("0.1", "0.01", ("0.1", "0.02")), ("0.01", "1e-6", ("0.01", "1e-4"))):
        settled = 2.2 * UncertifiedStability(float(epsilon), float(delta)).threshold
        for rate in rates:
            scheme = Ppswor(rate)
            frequencies = np.unique(np.geomspace(1, max(10 / float(rate), settled), 90).round().astype(np.int64))
            optimal = optimal_chances(epsilon, delta, scheme, frequencies)
            printed, tight = (chances(frequencies) for chances in _baselines(epsilon, delta, scheme))
            sampled = _sampled(scheme, frequencies)
            for place, frequency in enumerate(frequencies.tolist()):
                rows.append(
                    {
                        "epsilon": epsilon,
                        "delta": delta,
                        "rate": rate,
                        "frequency": frequency,
                        "sampled": float(sampled[place]),
                        "optimal": float(optimal[place]),
                        "stability_printed": float(printed[place]),
                        "stability_tight": float(tight[place]),
                    }
                )
    return Table("figure_4", rows)


def by_delta(name: str, populations: Mapping[str, Population], *, deltas: Sequence[str] = DELTAS) -> Table:
    """Figures 2 and 3: expected fraction of keys that are reported as delta falls, epsilon 0.1, without sampling."""
    epsilon = "0.1"
    rows: list[Row] = []
    for label, population in populations.items():
        for delta in deltas:
            frequencies = population.frequencies
            optimal = population.fraction(optimal_chances(epsilon, delta, None, frequencies))
            printed, tight = (population.fraction(chances(frequencies)) for chances in _baselines(epsilon, delta, None))
            integer = population.fraction(_integer_chances(epsilon, delta, frequencies))
            rows.append(
                {
                    "population": label,
                    "delta": delta,
                    "optimal": optimal,
                    "stability_printed": printed,
                    "stability_tight": tight,
                    "stability_integer": integer,
                    "ratio_printed": optimal / printed,
                    "ratio_tight": optimal / tight,
                    "ratio_integer": optimal / integer,
                }
            )
    return Table(name, rows)


def by_rate(name: str, populations: Mapping[str, Population], *, rates: Sequence[str] = RATES) -> Table:
    """Figures 5 and 6: expected fraction of keys over the rate of ppswor sampling, epsilon 0.1, delta 0.001."""
    epsilon, delta = "0.1", "0.001"
    rows: list[Row] = []
    for label, population in populations.items():
        for rate in rates:
            scheme = Ppswor(rate)
            frequencies = population.frequencies
            optimal = population.fraction(optimal_chances(epsilon, delta, scheme, frequencies))
            printed, tight = (
                population.fraction(chances(frequencies)) for chances in _baselines(epsilon, delta, scheme)
            )
            rows.append(
                {
                    "population": label,
                    "rate": rate,
                    "sampled": population.fraction(_sampled(scheme, frequencies)),
                    "optimal": optimal,
                    "stability_printed": printed,
                    "stability_tight": tight,
                    "gain_printed": 100 * (optimal / printed - 1),
                    "gain_tight": 100 * (optimal / tight - 1),
                }
            )
    return Table(name, rows)


def ratios_by_rate(fractions: Table) -> Table:
    """Figure 7: what Figure 6 says about the optimal law against the baseline, as ratios."""
    rows: list[Row] = [
        {
            "population": row["population"],
            "rate": row["rate"],
            "ratio_printed": 1 + float(row["gain_printed"]) / 100,
            "ratio_tight": 1 + float(row["gain_tight"]) / 100,
        }
        for row in fractions.rows
    ]
    return Table("figure_7", rows)


def optimal_chances(
    epsilon: str, delta: str, scheme: Ppswor | None, frequencies: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Exact reporting probabilities of the optimal law, as floats."""
    if float(delta) == 1:
        return np.ones(len(frequencies)) if scheme is None else _sampled(scheme, frequencies)
    law = WeightedSample(epsilon, delta, scheme, values=False)
    if scheme is None:
        listed = np.array([0.0, *(entry / 2**128 for entry in law.cumulative)])
        return listed[np.minimum(frequencies, len(listed) - 1)]
    rows, last = law.sampled_rows, _FIRST_LISTED
    reported = rows.reported(0, last)
    while last < frequencies[-1] and not rows.listed_to_end:
        last *= 2
        reported = rows.reported(0, last)
    listed = np.array([entry / 2**UNIT_BITS for entry in reported])
    # Beyond the listed rows the law reports all that is sampled [CGSS21, Lemma 4.4].
    return np.where(frequencies <= last, listed[np.minimum(frequencies, last)], _sampled(scheme, frequencies))


def _integer_chances(epsilon: str, delta: str, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    """Exact reporting probabilities of the certified stability-based histogram, as floats; delta = 1 is T = 1."""
    law = Stability(epsilon, delta if float(delta) < 1 else "0.99", values=False)
    if float(delta) == 1 and law.threshold != 1:
        raise AssertionError("delta = 1 should allow the smallest threshold")
    listed = np.array([float(law.reporting_probability(frequency)) for frequency in range(law.width + 1)])
    return listed[np.minimum(frequencies, law.width)]


def _baselines(epsilon: str, delta: str, scheme: Ppswor | None) -> tuple[_Chances, _Chances]:
    printed, tight = (
        UncertifiedStability(float(epsilon), float(delta), scheme, tight=wanted) for wanted in (False, True)
    )
    return printed.reporting_probability, tight.reporting_probability


def _sampled(scheme: Ppswor, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = -np.expm1(-float(scheme.rate) * frequencies)
    return result
