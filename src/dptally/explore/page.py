"""The page of `dptally explore`: written once, at the start, for the release that is there."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from dptally.explore.curves import MECHANISMS
from dptally.labels import key_label
from dptally.report.document import document, page_style, policy_of
from dptally.report.markup import Markup, join, tag

if TYPE_CHECKING:
    from dptally.explore.questions import Questions

__all__ = ["page_of"]

# Name, label, what it means, smallest and largest exponent of ten, its number at the start.
_SLIDERS = (
    ("epsilon", "Epsilon", "smaller protects more", -2, 1, "1"),
    ("delta", "Delta", "chance of an exception", -15, -2, "1e-6"),
    ("rate", "Sampling rate", "1 for no sampling; for weighted samples", -4, 0, "1"),
    ("max_keys_per_unit", "Keys per unit", "keys that one unit may count for", 0, 2, "1"),
)


def page_of(questions: Questions | None, name: str | None) -> tuple[str, str]:
    """The page, and the Content-Security-Policy that fits it: nothing is loaded, and only this server is asked."""
    sheets = files("dptally.report") / "page.css", files("dptally.explore") / "explore.css"
    style = page_style(*(sheet.read_text(encoding="utf-8") for sheet in sheets))
    script = (files("dptally.explore") / "explore.js").read_text(encoding="utf-8")
    policy = policy_of(style, script, "connect-src 'self'", "frame-ancestors 'none'")
    return document("dptally explore", _body(questions, name), style=style, script=script, policy=None), policy


def _body(questions: Questions | None, name: str | None) -> Markup:
    return join(
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("h1", "dptally explore"),
            tag(
                "p",
                "What would appear in a release, by the exact laws of all mechanisms, before anything is spent. "
                "No data is read.",
                class_="summary",
            ),
        ),
        tag("noscript", tag("p", "This page needs JavaScript: curves are computed while you move.", class_="warning")),
        tag(
            "main",
            _curves(questions),
            None if questions is None else _release(questions, name),
            id="content",
            tabindex=-1,
        ),
        tag("footer", tag("p", "Served to this machine only, by dptally; stop it with Ctrl-C in its terminal.")),
    )


def _curves(questions: Questions | None) -> Markup:
    start = {name: begin for name, *_, begin in _SLIDERS}
    if questions is not None:
        promise = questions.release.guarantee
        start["epsilon"] = f"{min(10.0, max(0.01, float(promise.epsilon))):.6g}"
        start["delta"] = (
            f"{min(0.01, max(1e-15, float(promise.delta))):.6g}".replace("e-0", "e-")
            if promise.delta
            else start["delta"]
        )
        start["max_keys_per_unit"] = str(min(100, max(1, promise.max_keys_per_unit)))
    sliders = [
        tag(
            "div",
            tag("label", label, for_=f"{name}-number"),
            tag(
                "input",
                id=f"{name}-number",
                name=name,
                value=start[name],
                inputmode="decimal",
                autocomplete="off",
                aria_describedby=f"{name}-help",
                maxlength=24,
            ),
            tag(
                "input",
                type="range",
                id=f"{name}-slider",
                min=low,
                max=high,
                step="0.02",
                aria_label=f"{label}, slider",
            ),
            tag("small", words, id=f"{name}-help"),
            class_="slider",
            data_name=name,
        )
        for name, label, words, low, high, _ in _SLIDERS
    ]
    rows = [
        tag(
            "tr",
            tag(
                "th",
                tag(
                    "label",
                    tag("input", type="checkbox", checked=True, value=made.name),
                    _swatch(place),
                    tag("span", made.title),
                ),
                tag("small", made.note),
                scope="row",
            ),
            [tag("td", "…", class_="number", data_share=share) for share in ("half", "likely", "surely")],
            data_mechanism=made.name,
            data_slow="yes" if made.slow else None,
            data_curve=place,
        )
        for place, made in enumerate(MECHANISMS.values(), start=1)
    ]
    heads = [tag("th", text, scope="col", class_="number") for text in ("50 %", "95 %", "99.9 %")]
    table = tag(
        "table",
        tag("caption", "Smallest frequency at which a key appears with this chance"),
        tag("thead", tag("tr", tag("th", "Mechanism", scope="col"), heads)),
        tag("tbody", rows),
        id="mechanisms",
    )
    svg = tag(
        "svg",
        id="curves",
        class_="chart",
        viewBox="0 0 420 318",
        role="img",
        aria_label="Chance that a key appears, by its true frequency; the numbers are in the table.",
    )
    return tag(
        "section",
        tag("h2", "What appears", id="curves-title"),
        tag("form", sliders, id="settings", class_="sliders", aria_label="Parameters"),
        tag("p", "", id="problem", class_="problem", role="alert"),
        tag(
            "div",
            tag(
                "figure",
                tag("h3", "Chance that a key appears"),
                svg,
                tag("p", "", id="progress", class_="status", role="status"),
            ),
            tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Mechanisms"),
            class_="side",
        ),
        tag("h3", "What that is on the command line"),
        tag("pre", tag("code", "", id="command"), class_="command", tabindex=0),
        aria_labelledby="curves-title",
    )


def _swatch(place: int) -> Markup:
    """A piece of the curve, as a legend."""
    line = tag("path", d="M1 6H27", class_=f"curve curve-{place}")
    return tag("svg", line, class_="swatch chart", viewBox="0 0 28 12", width=28, height=12, aria_hidden="true")


def _release(questions: Questions, name: str | None) -> Markup:
    release = questions.release
    promise = str(release.guarantee)
    columns = ", ".join(key_label(column, longest=40) for column in release.key)
    head = [
        tag("th", text, scope="col", class_="word" if 0 < place <= len(release.key) else "number")
        for place, text in enumerate(questions.columns)
    ]
    more = ", and value, estimate, lower, upper" if release.law.values else ""
    first = key_label(release.key[0], longest=40)
    form = tag(
        "form",
        tag(
            "div",
            tag("label", "Only keys where", for_="where"),
            tag(
                "input",
                id="where",
                name="where",
                maxlength=1000,
                autocomplete="off",
                spellcheck="false",
                placeholder=f"{first} LIKE 'a%'",
                aria_describedby="where-help",
            ),
            tag("small", f"SQL on the columns {columns}{more}; empty for all keys", id="where-help"),
            class_="grow",
        ),
        tag(
            "div",
            tag("label", "Add up", for_="of"),
            tag("select", tag("option", "counts", value="count"), tag("option", "keys", value="keys"), id="of"),
        ),
        tag("button", "Ask", type="submit"),
        id="ask",
        class_="ask",
    )
    kind = f", with {release.top_in_words()}" if release.law.values else ""
    caption = f"Released keys{kind}"
    table = tag(
        "table",
        tag("caption", caption, id="rows-caption"),
        tag("thead", tag("tr", head)),
        tag("tbody"),
        id="rows",
    )
    paging = tag(
        "div",
        tag("button", "Previous", type="button", id="previous"),
        tag("button", "Next", type="button", id="next"),
        tag("span", "", id="where-we-are", class_="status", role="status"),
        class_="paging",
    )
    title = f"The release {key_label(name, longest=60)}" if name else "The release"
    return tag(
        "section",
        tag("h2", title, id="release-title"),
        tag("p", promise, class_=None if release.guarantee.private else "warning"),
        form,
        tag("p", "", id="question-problem", class_="problem", role="alert"),
        tag("p", "", id="answer", class_="lead", role="status"),
        tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Rows of the release"),
        paging,
        id="release",
        aria_labelledby="release-title",
    )
