from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest

import dptally
from dptally.errors import InvalidParameter, MissingDependency
from dptally.labels import key_label, printable
from dptally.report import plots
from dptally.report.drawing import Chart

HOSTILE = "</script><script>alert(1)</script>"


def _release(counts: dict[str, int], **options: Any) -> dptally.Release:
    return dptally.publish(counts, epsilon=1, delta="1e-6", **options)


def _drawn(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(chart.content())  # noqa: S314 - our own drawing


def _tips(chart: Chart) -> list[str]:
    """What is said when the pointer rests on a bar."""
    return [str(title.text) for title in _drawn(chart).iterfind(".//{*}rect/{*}title")]


def test_bars_are_the_top_of_the_release() -> None:
    """The first panel holds the n largest keys with their estimates and intervals, in order."""
    release = _release({f"k{number}": 100 * (number + 1) for number in range(9)})
    rows = release.top(4).select("key", "estimate", "lower", "upper").iter_rows()
    wanted = [f"{key}: {estimate:,} ({lower:,} to {upper:,})" for key, estimate, lower, upper in rows]
    assert _tips(release.plot(4)) == wanted
    assert len(_tips(release.plot())) == 9


def test_the_curve_is_the_exact_reporting_probability() -> None:
    """The second panel is drawn through the law's own probabilities."""
    release = _release({"a": 100})
    [line] = [path.attrib["d"] for path in _drawn(release.plot(0)).iterfind(".//{*}path[@class='line']")]
    points = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", line)]
    (left, bottom), (right, top) = points[0], points[-1]
    last = round((right - left) / (points[1][0] - left))  # the first two points are the counts 0 and 1
    assert len(points) > 20
    for x, y in points:
        count = round((x - left) / (right - left) * last)
        chance = float(release.law.reporting_probability(count))
        assert (bottom - y) / (bottom - top) == pytest.approx(chance, abs=0.001)


@pytest.mark.parametrize(("counts", "values"), [({"a": 1}, True), ({"a": 1000}, False)])
def test_without_values_or_keys_only_the_curve_is_drawn(counts: dict[str, int], values: bool) -> None:
    """An empty release, and one without values, have one panel."""
    chart = _release(counts, values=values).plot()
    assert _tips(chart) == []
    assert "Chance that a key appears" in "".join(_drawn(chart).itertext())


def test_where_all_keys_are_released_only_bars_are_drawn() -> None:
    """A dense histogram hides nothing, so there is no chance to show."""
    chart = dptally.publish({"a": 50}, epsilon=1, delta=0, mechanism="dense", universe=["a", "b"]).plot()
    assert len(_tips(chart)) == 2
    assert "Chance that a key appears" not in "".join(_drawn(chart).itertext())


def test_a_wide_law_makes_a_small_picture() -> None:
    """A law with many thousand rows is drawn through few points."""
    release = dptally.publish({"a": 10**6}, epsilon="0.01", delta="1e-9")
    assert cast(Any, release.law).width > 2_000
    assert len(release.plot().content()) < 20_000


def test_keys_with_equal_labels_stay_apart() -> None:
    """Keys that look the same once cut have a bar each."""
    assert len(_tips(_release({"x" * 200 + "1": 500, "x" * 200 + "2": 600}).plot())) == 2


def test_a_seeded_release_says_so_in_the_picture() -> None:
    """The subtitle of a picture of a seeded release says that it is not private."""
    from dptally.randomness import SeededBits

    chart = _release({"a": 1000}, randomness=SeededBits(1)).plot()
    assert chart.caption.startswith("NOT PRIVATE")
    assert chart.caption in "".join(_drawn(chart).itertext())


@pytest.mark.parametrize("kind", ["svg", "html"])
@pytest.mark.parametrize("key", [HOSTILE, "<image href='x'/>"])
def test_a_key_stays_text(tmp_path: Path, kind: str, key: str) -> None:
    """A key that looks like markup is text in every picture, and no picture loads anything."""
    place = tmp_path / f"picture.{kind}"
    plots.save(_release({key: 1000}).plot(), place)
    text = place.read_text()
    assert key not in text and "alert(1)</script>" not in text and "<image" not in text
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", text)
    assert ("Content-Security-Policy" in text) == (kind == "html")


def test_a_notebook_shows_it() -> None:
    """Notebooks find SVG, and an image whose style stays its own; the text form is short."""
    chart = _release({"a": 1000}).plot()
    assert chart._repr_svg_().startswith("<svg")
    assert chart._repr_html_().startswith('<img src="data:image/svg+xml;base64,')
    assert repr(chart).startswith("Chart('1 released key, by key', ")


def test_other_endings_are_refused(tmp_path: Path) -> None:
    """Only .png, .svg and .html can be written."""
    with pytest.raises(InvalidParameter, match=r"must end in \.png, \.svg or \.html"):
        _release({"a": 100}).plot().save(tmp_path / "picture.pdf")


def test_a_negative_number_of_keys_is_refused() -> None:
    """The number of bars cannot be negative."""
    with pytest.raises(InvalidParameter, match="n must not be negative, got -1"):
        _release({"a": 100}).plot(-1)
    with pytest.raises(InvalidParameter, match="n must be a whole number; a picture is written by"):
        _release({"a": 100}).plot("x.png")  # type: ignore[arg-type]


def test_png_needs_the_extra_and_nothing_else_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vl-convert the error for PNG holds the line that installs it; SVG and HTML are written."""
    chart = _release({"a": 100}).plot()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingDependency, match=r"pip install 'dptally\[plots\]'"):
        chart.save(tmp_path / "picture.png")
    chart.save(tmp_path / "picture.svg")
    chart.save(tmp_path / "picture.html")
    assert len(list(tmp_path.iterdir())) == 2


def test_png_has_twice_the_pixels(tmp_path: Path) -> None:
    """A PNG picture has two pixels for each of the drawing, in both directions."""
    pytest.importorskip("vl_convert")
    chart = _release({"a": 100}).plot()
    chart.save(tmp_path / "picture.png")
    size = (tmp_path / "picture.png").read_bytes()[16:24]
    drawn = _drawn(chart).attrib
    assert (int.from_bytes(size[:4], "big"), int.from_bytes(size[4:], "big")) == (
        2 * int(drawn["width"]),
        2 * int(drawn["height"]),
    )


def test_labels_are_one_printable_line() -> None:
    """Control characters, line separators and changes of direction are written out; other letters stay."""
    assert printable("a\x1b[0m\u2028\u202e\x9b") == r"a\x1b[0m\u2028\u202e\x9b"
    assert printable("café 日本 😀 [b]") == "café 日本 😀 [b]"
    assert key_label(b"\x01\xff") == "01ff"
