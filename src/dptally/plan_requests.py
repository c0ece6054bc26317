"""`dptally.plan`: read the request, make the forecasts, recommend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon, as_fraction
from dptally.laws.choosing import choose_mechanism
from dptally.laws.registry import mechanism_class, mechanism_names
from dptally.laws.sampling_schemes import Scheme
from dptally.laws.weighted_sample import WeightedSample
from dptally.planning.forecasts import Forecast, make_forecast
from dptally.planning.mechanisms import USUAL_CAPACITY, Planned, Setting, choose_mechanisms, spec_for
from dptally.planning.plans import Measured, Plan, PlanLine
from dptally.planning.populations import Population, example_population, listed_population, zipf_population
from dptally.planning.requirements import Need, Sought, find_need, settled
from dptally.planning.universes import AskedFor, UniversePlan, compare_over_universe
from dptally.privacy.composition import LARGEST_UNIT, share_between_keys
from dptally.request import read_request
from dptally.universes import read_universe

_UNIT_SIZES = (1, 3, 10, 30)
_MEASURED_SIZES = (3, 10, 30, 100)
_MOST_LEVELS = 64


def plan(
    *,
    epsilon: float | str | Fraction | None = None,
    delta: float | str | Fraction | None = None,
    sampling: Scheme | None = None,
    max_keys_per_unit: int | None = None,
    values: bool = True,
    universe: Any = None,
    capacity: int | None = None,
    asked_for: AskedFor | None = None,
    rows: int | None = None,
    units: int | None = None,
    keys: int | None = None,
    zipf: float | str | Fraction | None = None,
    example: Any = None,
    key: str | Sequence[str] | None = None,
    count: str | None = None,
    unit: str | None = None,
    population: Mapping[int, int] | Population | None = None,
    share: float | str | Fraction = 1,
    levels: int | None = None,
    mechanisms: Sequence[str] | None = None,
    frequency: int | None = None,
    probability: float | str | Fraction | None = None,
    sums: Mapping[str, Any] | None = None,
    means: Mapping[str, Any] | None = None,
    totals: bool = False,
) -> Plan | UniversePlan:
    """Say for every mechanism which keys are reported, how many, how good estimates are, and what it costs.

    No private data is needed and nothing is spent. Reporting probabilities are exact; see `dptally.planning.forecasts`
    for where floating point begins.

    Args:
        epsilon: as in `publish`; None to ask which one it takes to report `frequency` with `probability`.
        delta: as in `publish`; with a universe it may be left out or 0. None with `epsilon` and `frequency` asks which
            delta it takes.
        sampling: as in `publish`.
        max_keys_per_unit: as in `publish`. Left out, it is 1 for mechanisms that need it; with `unit`, the plan also
            says what to expect where it is measured (`Plan.measured`).
        values: as in `publish`.
        universe: a universe or its name: the mechanisms over it are planned too, see `dptally.planning.universes`.
        capacity: as in `publish`: of a sketch, of a sparse or compact release.
        asked_for: with a universe, "frequent" (which keys are) or "any" (key that somebody asks for).
        rows: supposed: how many counts the data will have, units times keys of each.
        units: supposed: how many units, each with `max_keys_per_unit` keys; instead of `rows`.
        keys: supposed: how many different keys there may be; a tenth of the rows if left out.
        zipf: supposed: frequencies fall like 1 / rank^zipf; 1 if left out.
        example: a *public* table or file, as in `publish`, whose frequencies are supposed instead. The plan shows what
            it holds. With `rows` it is scaled to as many counts.
        key: key columns of the example.
        count: column of counts of the example.
        unit: column of units: of the example; without one, that rows will belong to units.
        population: supposed frequencies themselves: a mapping from frequency to number of keys.
        share: of the keys, chosen by what they are, for the error of a sum.
        levels: how many levels a tree of prefixes has, to have heavy hitters planned.
        mechanisms: names, to leave out the others.
        frequency: the inverse question: of keys that are to be reported.
        probability: with which; text may be a percentage, as "95%".
        sums: columns with ranges, as in `publish`, to see how far off they are; so for `means`.
        means: as in `publish`.
        totals: as in `publish`.

    Returns:
        Plan: or a `UniversePlan` with a universe. For an inverse question it has `need`, and is made for the answer;
        with epsilon and delta given, the question is how many keys a unit may have.

    Raises:
        InvalidParameter: a request that cannot be met.

    >>> plan(epsilon=1, universe="ipv4", capacity=1000).recommended
    'sparse'
    >>> plan(epsilon=1, delta="1e-6").asked.always
    28
    >>> plan(delta="1e-6", frequency=30, probability="95%").need.best
    ('weighted_sample', Fraction(499, 1000))
    """
    pure = delta is None or as_fraction("delta", delta) == 0
    inverse = frequency is not None or probability is not None
    if inverse and (frequency is None or probability is None):
        raise InvalidParameter("an inverse question needs both: frequency and probability.")
    if epsilon is None and not inverse:
        raise InvalidParameter("epsilon is missing; leave it out only to find it for a frequency and a probability.")
    if universe is None:
        if delta is None and not (inverse and epsilon is not None):
            raise InvalidParameter("delta is missing; a plan for delta = 0 needs a universe, such as 'ipv4'.")
        if delta is not None and pure:
            raise InvalidParameter("a plan for delta = 0 needs a universe, such as 'ipv4'.")
        if asked_for is not None:
            raise InvalidParameter("asked_for is for plans with a universe.")
    bound = 1 if max_keys_per_unit is None else as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT)

    def suppose(bound: int) -> Population | None:
        return _suppose(rows, units, keys, zipf, example, key, count, unit, population, bound)

    supposed = suppose(bound)
    known = None if universe is None else read_universe(universe)
    if sampling is not None and not isinstance(sampling, Scheme):
        raise InvalidParameter(
            f"sampling must be a scheme such as dptally.Ppswor(rate), got {type(sampling).__name__}."
        )
    setting = Setting(
        Fraction(1) if epsilon is None else as_epsilon(epsilon),
        Fraction(0) if pure else as_delta(delta),
        bound,
        by_unit=unit is not None,
        values=bool(values),
        sampling=sampling,
        capacity=as_count("capacity", USUAL_CAPACITY if capacity is None else capacity, largest=10_000_000),
        universe=None if known is None else known.name,
        universe_size=0 if known is None else known.size,
        levels=None if levels is None else as_count("levels", levels, largest=_MOST_LEVELS),
        rows=None if supposed is None else round(supposed.total),
    )
    need = None
    if inverse:
        sought: Sought = "delta" if delta is None and universe is None else "max_keys_per_unit"
        sought = "epsilon" if epsilon is None else sought
        need, setting = _answer(setting, sought, mechanisms, frequency, probability)
    planned, left_out = choose_mechanisms(setting, mechanisms)
    part = as_fraction("share", share)
    if not 0 < part <= 1:
        raise InvalidParameter(f"share must be above 0 and at most 1, got {share}.")
    forecasts = tuple(make_forecast(each, setting, supposed, float(part)) for each in planned)
    names = ("epsilon", "delta", "values", "max_keys_per_unit", "capacity")
    facts: dict[str, Any] = {
        **{name: getattr(setting, name) for name in names},
        **_by_keys_of_a_unit(setting),
        "sampling": None if sampling is None else str(sampling),
        "population": supposed,
        "share": float(part),
        "forecasts": forecasts,
        "left_out": left_out,
        "need": need,
        "mechanisms": planned,
        "statistics": _noise(setting, sums=sums, means=means, totals=totals),
    }
    if unit is not None and max_keys_per_unit is None and not pure and sampling is None and not inverse:
        facts["measured"] = _measured(setting, mechanisms, suppose, float(part))
    if universe is not None:
        return UniversePlan(**facts, **compare_over_universe(setting, asked_for))
    name, sentence = recommend(forecasts)
    return Plan(**facts, recommended=name, recommendation=sentence)


def _measured(
    setting: Setting, only: Sequence[str] | None, suppose: Callable[[int], Population | None], share: float
) -> Measured | None:
    """The mechanism that measures how many keys units have, for a few supposed sizes; None where it does not apply."""
    names = [name for name in only or mechanism_names() if name in mechanism_names() and mechanism_class(name).measures]
    for name in names:
        try:
            spec = spec_for(name, replace(setting, measured=True))
        except InvalidParameter:
            continue
        sizes = tuple(
            (size, make_forecast(Planned(name, spec.law_for_size(size), at_least=True), setting, suppose(size), share))
            for size in _MEASURED_SIZES
        )
        return Measured(name, spec.shares, sizes)
    return None


def _noise(setting: Setting, **asked: Any) -> str:
    """How far off sums, means and totals are, in words; empty where none are asked for."""
    request = read_request(
        epsilon=setting.epsilon, delta=setting.delta, max_keys_per_unit=setting.max_keys_per_unit, unit="unit", **asked
    )
    if request.statistics is None:
        return ""
    words: str = choose_mechanism(request).mechanism.plan(request).law.statistics.noise_in_words()
    return words


def _suppose(
    rows: int | None,
    units: int | None,
    keys: int | None,
    zipf: object,
    example: Any,
    key: str | Sequence[str] | None,
    count: str | None,
    unit: str | None,
    population: Mapping[int, int] | Population | None,
    max_keys_per_unit: int,
) -> Population | None:
    """What is supposed about the data, from whichever of the ways to say it was taken."""
    if rows is not None and units is not None:
        raise InvalidParameter("give rows or units, not both.")
    if units is not None:
        rows = as_count("units", units, largest=10**12) * max_keys_per_unit
    by_law = keys is not None or zipf is not None
    if sum((population is not None, example is not None, by_law)) > 1:
        raise InvalidParameter("suppose one thing: a population, an example, or rows with keys and zipf.")
    if example is not None:
        return example_population(_count(example, key, unit, count, max_keys_per_unit), rows=rows)
    if key is not None or count is not None:
        raise InvalidParameter("key and count name columns of an example, and there is none.")
    if population is not None:
        if rows is not None:
            raise InvalidParameter("a population has its own number of rows.")
        return population if isinstance(population, Population) else listed_population(population)
    if rows is None:
        if by_law:
            raise InvalidParameter("keys and zipf need the number of rows, or of units.")
        return None
    return zipf_population(rows, keys, 1 if zipf is None else zipf)


def _count(
    source: Any, key: str | Sequence[str] | None, unit: str | None, count: str | None, max_keys_per_unit: int
) -> NDArray[np.int64]:
    """The counts of a public example, as `dptally.publish` counts."""
    from dptally.randomness import SystemBits
    from dptally.sources import open_rows
    from dptally.summaries.frequencies import count_keys

    bound = max_keys_per_unit if unit is not None else 1
    opened = open_rows(source, key=key, unit=unit, count=count)
    with count_keys(opened, max_keys_per_unit=bound, bits=SystemBits()) as counted:
        parts = [counts for _, counts in counted.batches()]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _answer(
    setting: Setting, sought: Sought, mechanisms: Sequence[str] | None, frequency: object, probability: object
) -> tuple[Need, Setting]:
    probe = setting if setting.delta or sought != "delta" else replace(setting, delta=Fraction(1, 10**6))
    planned, _ = choose_mechanisms(probe, mechanisms)
    # What answers every key has nothing to report, and the question is not for it.
    names = [each.name for each in planned if each.hides]
    need = find_need(names, setting, sought, frequency, probability)
    best = need.best
    if best is None:
        raise InvalidParameter(str(need))
    return need, settled(setting, sought, best[1])


def _by_keys_of_a_unit(setting: Setting) -> dict[str, Any]:
    """What the bound on keys per unit leads to, and others to compare; nothing for delta = 0."""
    scheme = setting.sampling
    if not setting.delta or (scheme is not None and scheme.size is not None):
        return {"asked": None, "others": ()}
    lines = {size: _line(setting, size) for size in sorted({setting.max_keys_per_unit, *_UNIT_SIZES})}
    return {"asked": lines.pop(setting.max_keys_per_unit), "others": tuple(lines.values())}


def _line(setting: Setting, keys: int) -> PlanLine:
    epsilon, delta, values, sampling = setting.epsilon, setting.delta, setting.values, setting.sampling
    key_epsilon, key_delta = share_between_keys(epsilon, delta, keys)
    law = WeightedSample(key_epsilon, key_delta, sampling, values=values)
    divided = law if (key_epsilon, key_delta) == (epsilon / keys, delta / keys) else None
    divided = divided or WeightedSample(epsilon / keys, delta / keys, sampling, values=values)
    absolute = square = None
    if values and sampling is None:
        # Floating point from here on: a forecast, not a guarantee.
        masses, _ = law.float_table
        errors = np.arange(len(masses)) - int(masses.argmax())
        absolute, square = float(masses @ np.abs(errors)), math.sqrt(float(masses @ errors**2))
    return PlanLine(
        max_keys_per_unit=keys,
        key_epsilon=float(key_epsilon),
        key_delta=float(key_delta),
        half=law.first_frequency(Fraction(1, 2)),
        likely=law.first_frequency(Fraction(95, 100)),
        always=law.first_frequency(Fraction(1)),
        always_if_divided=divided.first_frequency(Fraction(1)),
        mean_absolute_error=absolute,
        root_mean_square_error=square,
    )


def recommend(forecasts: Sequence[Forecast]) -> tuple[str, str]:
    """The mechanism that reports most, why, and what the next best one costs in keys: a name and a sentence.

    With a population, the expected number of keys decides; without one, the frequency at which keys are reported with
    95 % probability. Where two are equal, the one that comes first in the list, whose estimates are better.
    """
    if not forecasts:
        return "", "no mechanism can meet this request."
    known = [each for each in forecasts if each.expected_keys is not None]
    if known:
        order = sorted(known, key=lambda each: -(each.expected_keys or 0.0))
        best = order[0]
        text = f"take '{best.mechanism}': it is expected to release {best.expected_keys:,.0f} keys"
        if len(order) > 1:
            second = order[1]
            fewer = (best.expected_keys or 0.0) - (second.expected_keys or 0.0)
            lead = f"{fewer:,.0f} more than" if fewer >= 0.5 else "as many as"
            text += f", {lead} '{second.mechanism}', the next best"
    else:
        order = sorted(forecasts, key=lambda each: (each.likely is None, each.likely or 0, each.half or 0))
        best = order[0]
        if best.likely is None:
            return best.mechanism, f"take '{best.mechanism}'; no mechanism reports any key 95 % of the time."
        text = f"take '{best.mechanism}': it reports keys from frequency {best.likely:,} on (95 %)"
        if len(order) > 1 and order[1].likely is not None:
            next_best, same = f"'{order[1].mechanism}', the next best,", order[1].likely == best.likely
            text += f", as {next_best} does" if same else f", where {next_best} needs {order[1].likely:,}"
    because = mechanism_class(best.mechanism).because if best.mechanism in mechanism_names() else ""
    if because:
        text += f", because {because}"
    return best.mechanism, text + "."
