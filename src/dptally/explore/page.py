"""The page of `dptally explore`: written once, at the start, for the release that is there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

from dptally.labels import key_label
from dptally.report.colours import CURVES
from dptally.report.document import document, page_style, policy_of
from dptally.report.markup import Child, Markup, join, tag

if TYPE_CHECKING:
    from dptally.explore.curves import Shown
    from dptally.explore.questions import Questions
    from dptally.privacy.guarantee import Guarantee

__all__ = ["page_of"]

# Name, label, what it means, smallest and largest exponent of ten, its number at the start.
_SLIDERS = (
    ("epsilon", "Epsilon", "bound on the privacy loss; smaller is more private", -2, 1, "1"),
    ("delta", "Delta", "additive slack of the guarantee; far below 1 / units", -15, -2, "1e-6"),
    ("rate", "Sampling rate", "1 for no sampling; for weighted samples", -4, 0, "1"),
    ("max_keys_per_unit", "Keys per unit", "how many keys of one unit are counted at most", 0, 2, "1"),
)
_SHARES = {"half": "50 %", "likely": "95 %", "surely": "99.9 %"}


def page_of(mechanisms: Mapping[str, Shown], questions: Questions | None, name: str | None) -> tuple[str, str]:
    """The page, and the Content-Security-Policy that fits it: nothing is loaded, and only this server is asked."""
    sheets = files("dptally.report") / "page.css", files("dptally.explore") / "explore.css"
    style = page_style(*(sheet.read_text(encoding="utf-8") for sheet in sheets))
    script = (files("dptally.explore") / "explore.js").read_text(encoding="utf-8")
    policy = policy_of(style, script, "connect-src 'self'", "frame-ancestors 'none'")
    body = _body(mechanisms, questions, name)
    return document("dptally explore", body, style=style, script=script, policy=None), policy


def _body(mechanisms: Mapping[str, Shown], questions: Questions | None, name: str | None) -> Markup:
    summary = (
        "What would appear in a release, computed exactly for every mechanism, before any budget is spent. "
        "No data is read."
    )
    guarantee = None if questions is None else questions.release.guarantee
    parts = (_curves(mechanisms, guarantee), None if questions is None else _release(questions, name))
    return join(
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("h1", "dptally explore"), tag("p", summary, class_="summary")),
        tag("noscript", tag("p", "This page needs JavaScript: curves are computed while you move.", class_="warning")),
        tag("main", parts, id="content", tabindex=-1),
        tag("footer", tag("p", "Served to this machine only, by dptally; stop it with Ctrl-C in its terminal.")),
    )


def _section(name: str, title: str, *children: Child) -> Markup:
    return tag("section", tag("h2", title, id=f"{name}-title"), children, id=name, aria_labelledby=f"{name}-title")


def _region(label: str, table: Markup) -> Markup:
    """A table that can be scrolled with the keyboard."""
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def _problem(name: str) -> Markup:
    return tag("p", "", id=name, class_="problem", role="alert")


def _curves(mechanisms: Mapping[str, Shown], guarantee: Guarantee | None) -> Markup:
    label = "Chance that a key appears, by its true count; the numbers are in the table."
    svg = tag("svg", id="curves", class_="chart", viewBox="0 0 420 300", role="img", aria_label=label)
    progress = tag("p", "", id="progress", class_="status", role="status")
    figure = tag("figure", tag("h3", "Chance that a key appears"), svg, progress)
    start = _start(guarantee)
    sliders = [_slider(start, *facts) for facts in _SLIDERS]
    return _section(
        "parameters",
        "What appears",
        tag("form", sliders, id="settings", class_="sliders", aria_label="Parameters"),
        _problem("problem"),
        tag("div", figure, _region("Mechanisms", _mechanisms(mechanisms)), class_="side"),
        tag("h3", "What that is on the command line"),
        tag("pre", tag("code", "", id="command"), class_="command", tabindex=0),
    )


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


def _mechanisms(mechanisms: Mapping[str, Shown]) -> Markup:
    """The table of mechanisms, which is also the legend of the chart."""
    rows = []
    for place, (name, shown) in enumerate(mechanisms.items()):
        line = tag("path", d="M1 6H27", class_=f"curve curve-{place % CURVES + 1}")
        swatch = tag("svg", line, class_="swatch chart", viewBox="0 0 28 12", width=28, height=12, aria_hidden="true")
        box = tag("input", type="checkbox", checked=True, value=name)
        head = tag("th", tag("label", box, swatch, tag("span", shown.title)), tag("small", shown.note), scope="row")
        cells = [tag("td", "…", class_="number", data_share=share) for share in _SHARES]
        rows.append(tag("tr", head, cells, data_mechanism=name))
    heads = [tag("th", text, scope="col", class_="number") for text in _SHARES.values()]
    return tag(
        "table",
        tag("caption", "Smallest true count at which a key appears with this chance"),
        tag("thead", tag("tr", tag("th", "Mechanism", scope="col"), heads)),
        tag("tbody", rows),
        id="mechanisms",
    )


def _release(questions: Questions, name: str | None) -> Markup:
    release = questions.release
    counts = release.law.values
    head = [
        tag("th", text, scope="col", class_="word" if 0 < place <= len(release.key) else "number")
        for place, text in enumerate(questions.columns)
    ]
    caption = f"Released keys, with {release.top_in_words()}" if counts else "Released keys"
    table = tag(
        "table", tag("caption", caption, id="rows-caption"), tag("thead", tag("tr", head)), tag("tbody"), id="rows"
    )
    return _section(
        "release",
        f"The release {key_label(name, longest=60)}" if name else "The release",
        tag("p", str(release.guarantee), class_=None if release.guarantee.private else "warning"),
        _question(release.key, counts),
        _problem("question-problem"),
        tag("p", "", id="answer", class_="lead", role="status"),
        _region("Rows of the release", table),
        tag(
            "div",
            tag("button", "Previous", type="button", id="previous"),
            tag("button", "Next", type="button", id="next"),
            tag("span", "", id="where-we-are", class_="status", role="status"),
            class_="paging",
        ),
    )


def _question(key: tuple[str, ...], counts: bool) -> Markup:
    names = [key_label(column, longest=40) for column in key]
    more = ", and value, estimate, lower, upper" if counts else ""
    words = f"SQL on the columns {', '.join(names)}{more}; empty for all keys"
    where = tag(
        "input", id="where", name="where", maxlength=1000, autocomplete="off", spellcheck="false",
        placeholder=f"{names[0]} LIKE 'a%'", aria_describedby="where-help",
    )  # fmt: skip
    condition = (tag("label", "Only keys where", for_="where"), where, tag("small", words, id="where-help"))
    options = tag("option", "counts", value="count"), tag("option", "keys", value="keys")
    return tag(
        "form",
        tag("div", condition, class_="grow"),
        tag("div", tag("label", "Add up", for_="of"), tag("select", options, id="of")),
        tag("button", "Ask", type="submit"),
        id="ask",
        class_="ask",
    )
