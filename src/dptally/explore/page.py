"""The page of `dptally explore`: written once, at the start, for the release that is there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

from dptally.labels import key_label
from dptally.report.colours import CURVES, own_file
from dptally.report.document import document, page_style, policy_of
from dptally.report.markup import Child, Markup, fill, tag

if TYPE_CHECKING:
    from dptally.explore.questions import Questions
    from dptally.privacy.guarantee import Guarantee

# Name, label, what it means, smallest and largest exponent of ten, its number at the start.
_SLIDERS = (
    ("epsilon", "Epsilon", "bound on the privacy loss; smaller is more private", -2, 1, "1"),
    ("delta", "Delta", "additive slack of the guarantee; far below 1 / units", -15, -2, "1e-6"),
    ("rate", "Sampling rate", "1 for no sampling; for weighted samples", -4, 0, "1"),
    ("max_keys_per_unit", "Keys per unit", "how many keys of one unit are counted at most", 0, 2, "1"),
)
_SHARES = {"half": "50 %", "likely": "95 %", "surely": "99.9 %"}


def page_of(
    mechanisms: Mapping[str, tuple[str, str]], questions: Questions | None, name: str | None
) -> tuple[str, str]:
    """The page, and the Content-Security-Policy that fits it: nothing is loaded, and only this server is asked."""
    style, script = page_style(own_file("page.css"), _own("explore.css")), _own("explore.js")
    policy = policy_of(style, script, "connect-src 'self'", "frame-ancestors 'none'")
    start = _start(None if questions is None else questions.release.guarantee)
    body = fill(
        _own("page.html"),
        sliders=[_slider(start, *facts) for facts in _SLIDERS],
        shares=[tag("th", text, scope="col", class_="number") for text in _SHARES.values()],
        mechanisms=[_mechanism(place, key, *shown) for place, (key, shown) in enumerate(mechanisms.items())],
        release=None if questions is None else _release(questions, name),
    )
    return document("dptally explore", body, style=style, script=script, policy=None), policy


def _own(name: str) -> str:
    return files("dptally.explore").joinpath(name).read_text(encoding="utf-8")


def _start(guarantee: Guarantee | None) -> dict[str, str]:
    """Where the sliders stand: at the parameters of the release, as far as they reach."""
    start = {name: begin for name, *_, begin in _SLIDERS}
    if guarantee is not None:
        start["epsilon"] = f"{min(10.0, max(0.01, float(guarantee.epsilon))):.6g}"
        start["max_keys_per_unit"] = str(min(100, max(1, guarantee.max_keys_per_unit)))
        if guarantee.delta:
            start["delta"] = f"{min(0.01, max(1e-15, float(guarantee.delta))):.6g}".replace("e-0", "e-")
    return start


def _slider(start: dict[str, str], name: str, label: str, words: str, low: int, high: int, _: str) -> Markup:
    number = tag(
        "input", id=f"{name}-number", name=name, value=start[name], inputmode="decimal", autocomplete="off",
        aria_describedby=f"{name}-help", maxlength=24,
    )  # fmt: skip
    slider = tag(
        "input", type="range", id=f"{name}-slider", min=low, max=high, step="0.02", aria_label=f"{label}, slider"
    )
    named = tag("label", label, for_=f"{name}-number")
    return tag("div", named, number, slider, tag("small", words, id=f"{name}-help"), class_="slider", data_name=name)


def _mechanism(place: int, name: str, title: str, note: str) -> Markup:
    """A row of the table of mechanisms, which is also the legend of the chart."""
    line = tag("path", d="M1 6H27", class_=f"curve curve-{place % CURVES + 1}")
    swatch = tag("svg", line, class_="swatch chart", viewBox="0 0 28 12", width=28, height=12, aria_hidden="true")
    box = tag("input", type="checkbox", checked=True, value=name)
    head = tag("th", tag("label", box, swatch, tag("span", title)), tag("small", note), scope="row")
    cells = [tag("td", "…", class_="number", data_share=share) for share in _SHARES]
    return tag("tr", head, cells, data_mechanism=name)


def _release(questions: Questions, name: str | None) -> Markup:
    release, counts = questions.release, questions.release.law.values
    names = [key_label(column, longest=40) for column in release.key]
    more = ", and value, estimate, lower, upper" if counts else ""
    heads: Child = [
        tag("th", text, scope="col", class_="word" if 0 < place <= len(names) else "number")
        for place, text in enumerate(questions.columns)
    ]
    return fill(
        _own("release.html"),
        title=f"The release {key_label(name, longest=60)}" if name else "The release",
        guarantee=tag("p", str(release.guarantee), class_=None if release.guarantee.private else "warning"),
        example=f"{names[0]} LIKE 'a%'",
        columns=f"SQL on the columns {', '.join(names)}{more}; empty for all keys",
        caption=f"Released keys, with {release.top_in_words()}" if counts else "Released keys",
        heads=heads,
    )
