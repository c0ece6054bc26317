"""The page of every kind of release: well formed, closed to the network, faithful, and nothing private in it."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dptally
from dptally import report
from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.labels import key_label
from tests.report.pages import Page
from tests.report.releases import HOSTILE, KINDS, MARKER, make

ELEMENTS = {
    *("html", "head", "meta", "title", "link", "style", "body", "script", "a", "header", "main", "nav", "footer"),
    *("section", "h1", "h2", "h3", "p", "ul", "li", "b", "span", "strong", "bdi", "details", "summary", "figure"),
    *("figcaption", "svg", "g", "rect", "path", "circle", "text", "div", "table", "caption", "thead", "tbody", "tr"),
    *("th", "td", "pre", "code", "dl", "dt", "dd", "blockquote"),
}


@pytest.fixture(scope="module", params=sorted(KINDS))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, str]:
    """A kind of release, a release of it, and its page."""
    release = make(request.param)
    file = tmp_path_factory.mktemp("releases") / "my release.parquet"
    release.save(file)
    return request.param, release, report.page(release, file=file, n=40)


def test_the_page_is_well_formed(written: tuple[str, Any, str]) -> None:
    """Elements are known and closed, ids are unique, links lead somewhere, headings skip no level."""
    page = Page(written[2])
    assert page.problems == []
    assert {name for name, _ in page.elements} <= ELEMENTS
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(link["href"][1:] in ids for link in page.all("a"))
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_page_loads_nothing(written: tuple[str, Any, str]) -> None:
    """No address but the icon's data, no style or script in attributes, and a policy that names what is inside."""
    page = Page(written[2])
    for name, attributes in page.elements:
        assert not {"src", "srcset", "action", "style", "background"} & set(attributes)
        assert not [attribute for attribute in attributes if attribute.startswith("on")]
        if name == "link":
            assert attributes["href"].startswith("data:")
    [policy] = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    for name in ("style", "script"):
        [content] = page.texts[name]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
        assert not re.search(r"https?:|//[a-z]|url\(|@import", content.replace("// ", ""))


def test_the_page_is_small_and_says_what_it_must(written: tuple[str, Any, str]) -> None:
    """Under 300 kB; with a guarantee, a certificate, questions and a citation, tables with captions and headings."""
    kind, release, text = written
    page = Page(text)
    assert len(text.encode()) < 300_000
    sections = {attributes["id"] for attributes in page.all("section")}
    assert {"guarantee", "questions", "certificate", "cite"} <= sections
    assert release.certificate.table_sha256 in text
    assert "dptally verify 'my release.parquet'" in Page(text).texts["pre"][-1]
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(head.get("scope") == "col" for head in page.all("th"))
    drawings = page.all("svg")
    assert all(drawing["role"] == "img" and drawing["aria-label"] for drawing in drawings)
    assert bool(drawings) or kind == "empty"


def test_no_private_key_is_on_the_page(written: tuple[str, Any, str]) -> None:
    """A key that one row had is not there."""
    assert MARKER not in written[2]


def test_a_release_that_is_not_private_says_so_first(written: tuple[str, Any, str]) -> None:
    """A seeded release has a warning before everything else, and no other has one."""
    kind, release, text = written
    assert ("NOT PRIVATE" in text) == (kind == "seeded") == (not release.guarantee.private)
    assert ("Suppose a fair coin decides" in text) != (kind == "seeded")


def test_the_table_is_the_top_of_the_release(written: tuple[str, Any, str]) -> None:
    """Rows of the table are the released keys with estimates and bounds, largest first."""
    kind, release, text = written
    if not isinstance(release, dptally.TableRelease) or not len(release):
        assert kind in ("empty", "compact", "ranges", "ranges_dense", "dates", "tree")
        return
    page = Page(text)
    top = release.top(40)
    names = release.key
    labels = [key_label(part, longest=120) or "(empty)" for row in top.select(names).iter_rows() for part in row]
    assert page.texts["bdi"] == labels
    if release.law.values:
        cells = page.texts["td"]
        for column, place in (("estimate", 1), ("lower", 2), ("upper", 3)):
            width = len(names) + 5
            shown = [cells[row * width + len(names) + place] for row in range(len(top))]
            assert shown == [f"{number:,}" for number in top.get_column(column)]


def test_keys_are_text_and_nothing_else() -> None:
    """Keys that look like markup, end elements, hold quotes, line breaks or changes of direction stay text."""
    text = report.page(make("hostile"))
    page = Page(text)
    assert page.problems == []
    assert len(page.all("script")) == 1 and not page.all("img")
    for key in HOSTILE:
        assert (key_label(key, longest=120) or "(empty)") in page.texts["bdi"]
    assert "\u202e" not in text and "\u2066" not in text
    assert "alert(1)</script>" not in text
    assert max(len(label) for label in page.texts["bdi"]) <= 120


def test_names_of_columns_are_text_too() -> None:
    """A column name with quotes and markup is escaped on the page, and quoted in the commands."""
    page = Page(report.page(make("by_user")))
    assert 'a "b" <i>' in page.texts["th"]
    [command] = [text for text in page.texts["pre"] if "--where" in text]
    assert command == 'dptally sum FILE --where \'"a ""b"" <i>" LIKE \'"\'"\'b%\'"\'"\'\''


def test_bytes_that_are_no_text_are_shown_in_hexadecimal() -> None:
    """Binary keys appear as their digits."""
    assert "fffe3c623e" in Page(report.page(make("binary"))).texts["bdi"]


def test_the_plain_words_follow_from_the_definition() -> None:
    """The two percentages bound every test that epsilon and delta allow, and are attained by a worst case."""
    epsilon, delta = 0.5, 1e-3
    release = dptally.publish({"a": 10_000}, epsilon="0.5", delta="0.001")
    shown = re.findall(r"<strong>([\d.]+) %</strong>", report.page(release))
    # Randomized response that reveals the truth with probability delta attains both.
    truth = delta + (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    assert float(shown[0]) == math.ceil(1000 * truth) / 10
    assert float(shown[1]) == math.ceil(1000 * (0.05 * math.exp(epsilon) + delta)) / 10


@pytest.mark.parametrize(
    ("epsilon", "sentence"),
    [("1", "Nobody can tell well"), ("2", "This release limits how well"), ("8", "weakly: see how much can be told")],
)
def test_a_weak_promise_is_not_praised(epsilon: str, sentence: str) -> None:
    """The first sentence is no stronger than epsilon allows."""
    leads = Page(report.page(dptally.publish({"a": 1000}, epsilon=epsilon, delta="1e-6"))).texts["p"]
    assert any(sentence in lead for lead in leads)


def test_conditions_of_a_promise_are_not_folded_away() -> None:
    """Where the guarantee rests on a condition, its definition is open, and the plain words point to it."""
    text = report.page(make("sanitized"))
    assert "<details open>" in text and "holds under a condition" in text
    assert "<details>" in report.page(make("empty"))


def test_chances_on_the_page_are_those_of_the_law() -> None:
    """Each line of the table of chances is the law's own probability."""
    release = make("weighted_sample")
    text = report.page(release)
    chance = float(release.law.reporting_probability(10))
    assert f'<td class="number">10</td><td class="number">{100 * chance:.3g} %</td>' in text


def test_answers_on_the_page_are_those_of_the_release() -> None:
    """The example questions are answered by `Release.sum`."""
    release = make("weighted_sample")
    text = report.page(release)
    assert f"<strong>{release.sum().estimate:,.0f}</strong>" in text
    among = release.sum("key LIKE 'a%'").estimate
    assert f"<strong>{among:,.0f}</strong>" in text
    assert "dptally sum FILE --where &quot;key LIKE &#x27;a%&#x27;&quot;" in text


def test_a_sketch_tells_how_far_it_falls_short() -> None:
    """The page of a sketch has the sentence about its error, and one that leaves the shortfall open says so."""
    sketch, unknown = make("sketch"), make("sketch_open")
    assert any(str(sketch.sketch_error()) in note for note in Page(report.page(sketch)).texts["li"])
    assert "how far the sketch falls short of frequencies is not told" in report.page(unknown)


def test_a_release_that_does_not_keep_its_promise_gets_no_page(tmp_path: Path) -> None:
    """The certificate is checked before anything is written."""
    from dataclasses import replace

    release = make("weighted_sample")
    release = release.stating(replace(release.guarantee, epsilon=release.guarantee.epsilon / 2))
    with pytest.raises(PrivacyViolation):
        release.report(tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_a_title_is_text() -> None:
    """A title of one's own is escaped."""
    page = Page(report.page(make("empty"), title="<b>Mine & yours</b>"))
    assert page.texts["h1"] == ["<b>Mine & yours</b>"] == page.texts["title"]


def test_pages_are_complete_or_absent(tmp_path: Path) -> None:
    """An existing page is replaced only when asked; another ending is refused; nothing else is left behind."""
    release, place = make("empty"), tmp_path / "r.html"
    release.report(place)
    with pytest.raises(InvalidParameter, match="exists; use overwrite"):
        release.report(place)
    release.report(place, overwrite=True)
    with pytest.raises(InvalidParameter, match=r"must end in \.html"):
        release.report(tmp_path / "r.pdf")
    with pytest.raises(InvalidParameter, match="n must be from 0 to 1,000"):
        release.report(place, n=1001, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]
    assert place.read_text(encoding="utf-8") == report.page(release)
