"""One small picture for each page on a mechanism, from its exact law.

Numbers are exact fractions of the laws that would be drawn from, turned into floats at the end; nothing is simulated.
(The errors of ranges are those of normal sums of such noise.) The settings are epsilon 1 and delta 1e-6 unless a
picture says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dptally.laws.base import Reporting
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.field_geometric import choose_law
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.prefix_plans import plan_trie
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.series import plan_series
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.specs.rounds import RoundsSpec
from dptally.laws.stability import Stability
from dptally.laws.top_k_noise import TopKNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import share_between_keys
from dptally.report.axes import Axis
from dptally.report.curves_chart import Series, series_chart
from dptally.report.drawing import Chart, grid
from studies.figures.charts import limits

__all__ = ["PICTURES", "Panel", "draw"]

_EPSILON, _DELTA = "1", "1e-6"
_HALF = Fraction(1, 2)
_WIDTH, _HEIGHT = 360, 250
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """One picture: titles, and curves by what they are called.

    Attributes:
        title: what is shown.
        x: title of the axis across.
        y: title of the axis upwards.
        curves: points by name, in the order of the legend.
        mark: a line, or bars for laws of one number.
        log: whether both axes are logarithmic.
        percent: whether the axis upwards shows shares.
    """

    title: str
    x: str
    y: str
    curves: Mapping[str, Points]
    mark: Literal["line", "bar"] = "line"
    log: bool = False
    percent: bool = True


def _chances(law: Reporting, last: int, step: int = 1) -> Points:
    return [(w, float(law.reporting_probability(w))) for w in range(0, last + 1, step)]


def _row(row: dict[int | None, Fraction]) -> Points:
    return [(value, float(chance)) for value, chance in sorted((v, p) for v, p in row.items() if v is not None)]


def _reported(curves: Mapping[str, Points], title: str, x: str = "true count") -> Panel:
    return Panel(title, x, "chance to be reported", curves)


def _weighted_sample() -> list[Panel]:
    law = WeightedSample(_EPSILON, _DELTA)
    drops = [(drop - 1, float(chance)) for drop, chance in enumerate(law.drop_law)]
    settings = (("1", "1e-6"), ("0.5", "1e-6"), ("1", "1e-3"))
    curves = {f"epsilon {e}, delta {d}": _chances(WeightedSample(e, d), 60) for e, d in settings}
    return [
        Panel("What is taken off a count", "count - value", "probability", {"count - value": drops}, mark="bar"),
        _reported(curves, "Which keys appear"),
    ]


def _stability() -> list[Panel]:
    law, best = Stability(_EPSILON, _DELTA), WeightedSample(_EPSILON, _DELTA)
    curves = {"stability": _chances(law, 40), "optimal histogram": _chances(best, 40)}
    rows = {f"count {w}": [point for point in _row(law.row(w)) if point[0] <= 45] for w in (15, 30)}
    return [
        _reported(curves, "Which keys appear"),
        Panel("What is reported", "value", "probability", rows, mark="bar"),
    ]


def _misra_gries() -> list[Panel]:
    law = SharedNoise(_EPSILON, _DELTA, 1000)
    ours = _chances(law, 60)
    printed = 1 + 2 * math.ceil(math.log(6 * math.e / ((math.e + 1) * 1e-6)))
    later = printed - law.threshold  # the same noise, a higher threshold
    moved = [(w, float(law.reporting_probability(max(0, w - later))) if w > later else 0.0) for w in range(61)]
    imported = _chances(SharedNoise(_EPSILON, _DELTA, 1000, standard=True), 60)
    curves = {"one stream": ours, "zero counters dropped": imported, "threshold as printed": moved}
    noise: dict[int, float] = {
        value - law.threshold - 60: float(chance)
        for value, chance in law.row(law.threshold + 60).items()
        if value is not None
    }
    shown = [(z, p) for z, p in sorted(noise.items()) if abs(z) <= 12]
    return [
        Panel("Noise of a counter: its own and the shared one", "noise", "probability", {"sum": shown}, mark="bar"),
        _reported(curves, "Which keys appear, 1,000 counters", "counter"),
    ]


def _gaussian() -> list[Panel]:
    sizes = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
    shared = [(n, _half(WeightedSample(*share_between_keys(Fraction(1), Fraction(_DELTA), n)))) for n in sizes]
    gaussian = [(n, _half(GaussianHistogram(_EPSILON, _DELTA, differing=n))) for n in sizes]
    law = GaussianHistogram(_EPSILON, _DELTA, differing=10)
    curves = {
        "Gaussian, 10 keys per unit": _chances(law, 200, 2),
        "optimal, budget shared by 10": _chances(
            WeightedSample(*share_between_keys(Fraction(1), Fraction(_DELTA), 10)), 200, 2
        ),
    }
    return [
        Panel(
            "Count released half the time",
            "keys per unit",
            "true count",
            {"Gaussian": gaussian, "optimal, budget shared": shared},
            log=True,
            percent=False,
        ),
        _reported(curves, "Which keys appear"),
    ]


def _rounds() -> list[Panel]:
    sizes = (2, 3, 5, 10, 20, 30, 50, 100)
    shared = [(n, _half(WeightedSample(*share_between_keys(Fraction(1), Fraction(_DELTA), n)))) for n in sizes]
    gaussian = [(n, _half(GaussianHistogram(_EPSILON, _DELTA, differing=n))) for n in sizes]
    found = {n: [_in_rounds(n, values=values) for values in (False, True)] for n in sizes}
    curves = {
        "rounds, keys only": _chances(found[10][0], 160, 2),
        "rounds, with counts": _chances(found[10][1], 160, 2),
        "Gaussian": _chances(GaussianHistogram(_EPSILON, _DELTA, differing=10), 160, 2),
    }
    return [
        Panel(
            "Count released half the time",
            "keys per unit",
            "true count",
            {
                "rounds, keys only": [(n, _half(keys)) for n, (keys, _) in found.items()],
                "rounds, with counts": [(n, _half(counts)) for n, (_, counts) in found.items()],
                "Gaussian": gaussian,
                "optimal, budget shared": shared,
            },
            log=True,
            percent=False,
        ),
        _reported(curves, "Which keys appear, 10 keys per unit"),
    ]


def _in_rounds(keys: int, *, values: bool) -> Reporting:
    """Rounds for units that all have so many keys, a number that is stated and not measured."""
    spec = RoundsSpec("rounds", Fraction(_EPSILON), Fraction(_DELTA), values=values, bound=keys)
    law: Reporting = spec.planned_law
    return law


def _half(law: Reporting) -> float:
    return float(law.first_frequency(_HALF) or math.nan)


def _sample_and_threshold() -> list[Panel]:
    best, small = SampleAndThreshold(_EPSILON, _DELTA), SampleAndThreshold(_EPSILON, _DELTA, rate="0.1")
    curves = {
        f"rate {float(best.rate):.2f}, threshold {best.threshold}": _chances(best, 160, 2),
        f"rate 0.10, threshold {small.threshold}": _chances(small, 160, 2),
        "optimal histogram": _chances(WeightedSample(_EPSILON, _DELTA), 160, 2),
    }
    rows = {f"count {w}": [point for point in _row(best.row(w)) if point[0] <= 50] for w in (60, 120)}
    return [
        _reported(curves, "Which keys appear"),
        Panel("What is reported, best rate", "value", "probability", rows, mark="bar"),
    ]


def _dense() -> list[Panel]:
    law = DyadicGeometric(_EPSILON, 1 << 20)
    rows = {f"count {w}": [(v, float(law.probability(v, w))) for v in range(max(0, w - 8), w + 9)] for w in (0, 4, 20)}
    errors = {
        ("one key" if keys == 1 else f"{keys:,} keys"): [
            (1 / scale, float(DyadicGeometric(Fraction(1, scale), 1 << 20).simultaneous_error("0.05", keys)))
            for scale in (1, 2, 3, 5, 10, 20)
        ]
        for keys in (1, 1_000, 1_000_000)
    }
    return [
        Panel("What is reported, epsilon 1", "value", "probability", rows, mark="bar"),
        Panel("Largest error of all keys, 95 %", "epsilon", "error", errors, log=True, percent=False),
    ]


def _sparse() -> list[Panel]:
    laws = {f"2^{bits} keys": TopKNoise(_EPSILON, size=1 << bits, keep=1000) for bits in (16, 32, 64)}
    curves = {name: _chances(law, 70) for name, law in laws.items()}
    empty = {
        name: [(value, float(law.chance_of_reaching(value))) for value in range(1, 71)] for name, law in laws.items()
    }
    return [
        _reported(curves, "Which keys appear, capacity 1,000 (at least)"),
        Panel("Keys not present in the data", "value", "chance that one reaches it", empty),
    ]


def _compact() -> list[Panel]:
    laws = {
        f"epsilon {text}": choose_law(Fraction(text), universe_size=1 << 64, largest_count=(1 << 32) - 1)
        for text in ("1", "0.5", "0.2")
    }
    rows = {"count 20": [(v, float(laws["epsilon 1"].probability(v, 20))) for v in range(10, 31)]}
    rows["count 0"] = [(v, float(laws["epsilon 1"].probability(v, 0))) for v in range(9)]
    errors = {
        name: [(power, float(law.error(Fraction(1, 10**power)))) for power in range(1, 10)]
        for name, law in laws.items()
    }
    return [
        Panel("What a key answers, epsilon 1", "value", "probability", rows, mark="bar"),
        Panel(
            "Error that is exceeded once in 10^k keys",
            "k (64-bit universe)",
            "error",
            errors,
            mark="line",
            percent=False,
        ),
    ]


def _heavy_hitters() -> list[Panel]:
    levels = (1, 2, 3, 5, 10, 20)
    curves: dict[str, Points] = {}
    for way in ("exact", "optimal", "basic"):
        plans = [plan_trie(_EPSILON, _DELTA, levels=count, composition=way) for count in levels]
        curves[way] = [
            (count, float(made.law.threshold / made.law.rate)) for count, made in zip(levels, plans, strict=True)
        ]
    laws = {
        f"{count} level{'s'[: count > 1]}": plan_trie(_EPSILON, _DELTA, levels=count).observation_model
        for count in (1, 5, 20)
    }
    return [
        Panel("Count released half the time", "levels", "threshold / rate", curves, log=True, percent=False),
        _reported({name: _chances(law, 200, 2) for name, law in laws.items()}, "One prefix, composed exactly"),
    ]


def _ranges() -> list[Panel]:
    bins = [4**power for power in range(1, 8)]
    flat = [(size, _spread(_EPSILON, size)) for size in bins]
    tree = {
        f"tree, branching {branching}": [
            (size, _spread(Fraction(1, levels), 2 * (branching - 1) * levels))
            for size in bins
            for levels in [round(math.log(size, branching))]
            if branching**levels == size
        ]
        for branching in (4, 2)
    }
    return [
        Panel(
            "95 % error of the widest range, dense, epsilon 1",
            "bins",
            "error",
            {**tree, "no tree: sum of bins": flat},
            log=True,
            percent=False,
        )
    ]


def _spread(epsilon: object, nodes: int) -> float:
    """The 95 % point of the size of a sum of two-sided geometric noises, by their variance: a normal sum.

    Floating point, for a picture only.
    """
    ratio = math.exp(-float(Fraction(str(epsilon))))
    return 1.96 * math.sqrt(nodes * 2 * ratio / (1 - ratio) ** 2)


def _federated() -> list[Panel]:
    law = SampleAndThreshold(_EPSILON, _DELTA)
    guarded = SampleAndThreshold(_EPSILON, _DELTA, rate=law.rate, threshold=law.threshold + 10)
    devices = range(0, 201, 2)
    lost = [(w, float(law.reporting_probability(2 * w // 3))) for w in devices]
    curves = {
        "all nodes answer": _chances(law, 200, 2),
        "a third of the nodes is lost": lost,
        "10 colluding devices guarded against": _chances(guarded, 200, 2),
    }
    return [_reported(curves, "Which keys appear", "devices with the key")]


def _series() -> list[Panel]:
    law, one = plan_series(2, _DELTA, differing=20, periods=365), float(GaussianHistogram(2, _DELTA, 20).sigma)
    places, levels = range(1, 366, 7), (365).bit_length()
    noise = [float(law.sigma) * math.sqrt(float(law.totals[:t] @ law.totals[:t])) / one for t in places]
    curves = {
        "noise of each day, added up": [(t, math.sqrt(t)) for t in places],
        "binary tree": [(t, math.sqrt(levels * t.bit_count())) for t in places],
        "series": list(zip(places, noise, strict=True)),
    }
    thresholds = [(t, law.thresholds[t - 1] / (1 << law.bits)) for t in places]
    return [
        Panel("Noise of a total, one release = 1", "periods", "deviation", curves, percent=False),
        Panel("Threshold of new keys", "periods", "noisy total", {"series": thresholds}, percent=False),
    ]


PICTURES: dict[str, Callable[[], list[Panel]]] = {
    "weighted-sample": _weighted_sample,
    "stability": _stability,
    "misra-gries": _misra_gries,
    "gaussian-histogram": _gaussian,
    "rounds": _rounds,
    "sample-and-threshold": _sample_and_threshold,
    "dense": _dense,
    "sparse": _sparse,
    "compact": _compact,
    "heavy-hitters": _heavy_hitters,
    "ranges": _ranges,
    "federated": _federated,
    "series": _series,
}


def draw(panels: Iterable[Panel]) -> Chart:
    """The panels side by side."""
    return grid("picture", "", "", [[_panel(panel) for panel in panels]])


def _panel(panel: Panel) -> Chart:
    series = [Series(name, points, place) for place, (name, points) in enumerate(panel.curves.items(), start=1)]
    places = [x for one in series for x, _ in one.points]
    numbers = [y for one in series for _, y in one.points]
    room = 1 if panel.mark == "bar" else 0
    across = Axis(panel.x, min(places) - room, max(places) + room, log=panel.log)
    up = Axis(panel.y, *limits(numbers, log=panel.log), log=panel.log, percent=panel.percent, ticks=5)
    return series_chart(
        "panel", panel.title, series, across, up,
        bars=panel.mark == "bar", legend=len(series) > 1, width=_WIDTH, height=_HEIGHT,
    )  # fmt: skip
