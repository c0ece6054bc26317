"""Reporting curves of all mechanisms for given parameters, from their exact output distributions. No data is read."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from dptally.errors import InvalidParameter
from dptally.exact import as_fraction
from dptally.laws.base import Reporting
from dptally.laws.registry import USUAL, mechanism_class
from dptally.laws.reporting_curves import ReportingCurve, reporting_curve
from dptally.laws.sampling_schemes import Ppswor
from dptally.planning.mechanisms import Setting, choose_mechanisms, make_mechanism, sampled_name
from dptally.report.colours import CURVES
from dptally.report.curves_chart import curves_chart

_NUMBER = re.compile(r"(?:\d{1,12}(?:\.\d{0,24})?|\.\d{1,24})(?:[eE][+-]?\d{1,2})?|\d{1,12}/[1-9]\d{0,11}")
_LIMITS = {
    "epsilon": (Fraction(1, 200), Fraction(20)),
    "delta": (Fraction(1, 10**18), Fraction(1, 10)),
    "rate": (Fraction(1, 10_000), Fraction(1)),
}
_MOST_KEYS = 300
_CAPACITY = 10_000
_UNIVERSE, _UNIVERSE_SIZE = "ipv4", 1 << 32
_POINTS = 48
_REMEMBERED = 2000


def shown_mechanisms() -> dict[str, tuple[str, str]]:
    """The mechanisms that may leave a key out: by name, a title, and what to know about the curve."""
    planned, _ = choose_mechanisms(_setting(Fraction(1), Fraction(1, 10**6), Fraction(1), 1))
    found = {}
    for each in planned:
        if each.hides:
            note = each.note or mechanism_class(each.name).summary
            bound = " A lower bound." if each.at_least else ""
            found[each.name] = each.name.replace("_", " ").capitalize(), f"{note[:1].upper()}{note[1:]}{bound}"
    return found


def law_of(name: str, setting: Setting) -> Reporting:
    """The law of a mechanism, as a plan has it."""
    if setting.sampling is not None and name == USUAL:
        name = sampled_name(setting.sampling)
    return make_mechanism(name, setting).law


def _setting(epsilon: Fraction, delta: Fraction, rate: Fraction, max_keys_per_unit: int) -> Setting:
    """What the sliders say; the rate is that of ppswor sampling, 1 for none."""
    return Setting(
        epsilon,
        delta,
        max_keys_per_unit,
        sampling=None if rate == 1 else Ppswor(rate),
        capacity=_CAPACITY,
        universe=_UNIVERSE,
        universe_size=_UNIVERSE_SIZE,
    )


def read_settings(facts: dict[str, Any]) -> Setting:
    """Read and check what a page sent."""
    numbers = {name: _read(name, facts.get(name)) for name in _LIMITS}
    keys = _read("max_keys_per_unit", facts.get("max_keys_per_unit"))
    if keys.denominator != 1 or not 1 <= keys <= _MOST_KEYS:
        raise InvalidParameter(f"max_keys_per_unit must be a whole number from 1 to {_MOST_KEYS}.")
    for name, (low, high) in _LIMITS.items():
        if not low <= numbers[name] <= high:
            raise InvalidParameter(f"{name} must be from {float(low):g} to {float(high):g} on this page.")
    return _setting(**numbers, max_keys_per_unit=int(keys))


def _read(name: str, given: object) -> Fraction:
    """A number as text, in a form that cannot be huge."""
    text = str(given).strip() if isinstance(given, str | int) and not isinstance(given, bool) else ""
    if not _NUMBER.fullmatch(text):
        raise InvalidParameter(f"{name} must be a number, such as 0.1 or 1e-6.")
    return as_fraction(name, text)


class CurveDesk:
    """Computes curves and remembers them.

    At most one curve of each mechanism is computed at a time: while a slow one runs, requests for others of its kind
    wait, and most have been superseded by the time they get their turn.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._known: OrderedDict[tuple[str, Setting], ReportingCurve] = OrderedDict()
        self._turns = {name: threading.Lock() for name in names}

    def curve(self, name: str, setting: Setting, proceed: Callable[[], None] | None = None) -> ReportingCurve:
        """The reporting curve of a mechanism; `proceed` may raise to stop one that is no longer waited for."""
        if name not in self._turns:
            raise InvalidParameter("mechanism must be one of those on the page.")
        place = name, setting
        found = self._known.get(place)
        if found is not None:
            return found
        with self._turns[name]:
            if proceed is not None:
                proceed()
            found = self._known.get(place)
            if found is None:
                found = reporting_curve(law_of(name, setting), points=_POINTS, proceed=proceed)
                self._known[place] = found
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        return found

    def drawing(self, names: list[str], setting: Setting) -> str:
        """What is inside the chart of these mechanisms; curves that are not computed yet are left out."""
        places = {name: place % CURVES + 1 for place, name in enumerate(self._turns) if name in names}
        known = {name: curve for name in places if (curve := self._known.get((name, setting))) is not None}
        return curves_chart(known, colours=[places[name] for name in known], legend=False).drawing if known else ""
