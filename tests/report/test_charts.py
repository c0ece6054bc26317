"""Charts as files: the same drawings as on the page, readable by others, without a browser."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dptally import report
from dptally.errors import InvalidParameter, MissingDependency
from dptally.report.axes import Axis, Log
from dptally.report.colours import DARK, LIGHT
from dptally.report.curves_chart import Series, legend_chart, series_chart
from dptally.report.drawing import grid
from tests.report.releases import KINDS, make

INTENDED = {
    "weighted_sample": ["top-keys", "frequencies", "chance"],
    "keys_only": ["chance"],
    "empty": ["chance"],
    "dense": ["top-keys", "frequencies"],
    "compact": ["error"],
    "ranges": ["distribution", "shares", "chance"],
    "ranges_dense": ["distribution", "shares"],
    "tree": ["top-keys", "chance"],
}


@pytest.mark.parametrize("kind", sorted(INTENDED))
def test_charts_of_each_kind(kind: str, tmp_path: Path) -> None:
    """The files are well-formed SVG of the same drawings as on the page, with colours of their own."""
    release = make(kind)
    made = report.make_report(release)
    assert [chart.name for chart in made.charts] == INTENDED[kind]
    page = report.page(release)
    files = report.write_charts(made, tmp_path / "charts", formats=("svg",))
    for chart, file in zip(made.charts, files, strict=True):
        assert chart.drawing in page
        root = ElementTree.fromstring(file.read_bytes())  # noqa: S314 - our own file
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in file.read_text()
        assert chart.title in "".join(root.itertext())


def test_hostile_keys_stay_text_in_pictures(tmp_path: Path) -> None:
    """Keys that look like markup are text in an SVG file."""
    [first, *_] = report.write_charts(report.make_report(make("hostile")), tmp_path, formats=("svg",))
    root = ElementTree.fromstring(first.read_bytes())  # noqa: S314 - our own file
    assert {element.tag.split("}")[1] for element in root.iter()} <= {
        "svg",
        "style",
        "rect",
        "text",
        "title",
        "g",
        "path",
        "circle",
    }
    assert "<script>" in "".join(root.itertext())


def test_pictures_without_a_browser(tmp_path: Path) -> None:
    """PNG files are made from the same SVG."""
    pytest.importorskip("vl_convert")
    files = report.write_charts(report.make_report(make("empty")), tmp_path)
    assert [file.name for file in files] == ["chance.svg", "chance.png"]
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert len(files[1].read_bytes()) > 5_000


def test_pictures_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vl-convert PNG is refused with the line that installs it, before anything is written; SVG is not."""
    real = builtins.__import__

    def no_converter(name: str, *rest: Any, **options: Any) -> Any:
        if name == "vl_convert":
            raise ImportError
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", no_converter)
    made = report.make_report(make("empty"))
    with pytest.raises(MissingDependency, match=r"pip install 'dptally\[plots\]'"):
        report.write_charts(made, tmp_path / "charts")
    assert not (tmp_path / "charts").exists()
    assert len(report.write_charts(made, tmp_path / "charts", formats=("svg",))) == 1


def test_chart_files_are_replaced_only_when_asked(tmp_path: Path) -> None:
    """One file that exists stops all of them; formats and directories are checked."""
    made = report.make_report(make("empty"))
    (tmp_path / "chance.svg").write_text("mine")
    with pytest.raises(InvalidParameter, match="exists; use overwrite"):
        report.write_charts(made, tmp_path, formats=("svg",))
    assert (tmp_path / "chance.svg").read_text() == "mine"
    report.write_charts(made, tmp_path, formats=("svg",), overwrite=True)
    with pytest.raises(InvalidParameter, match="formats must be of 'svg' and 'png'"):
        report.write_charts(made, tmp_path, formats=("gif",))
    with pytest.raises(InvalidParameter, match="is not a directory"):
        report.write_charts(made, tmp_path / "chance.svg", formats=("svg",))


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_have_enough_contrast(colours: dict[str, str]) -> None:
    """Text reaches 4.5 on everything it stands on, and lines that carry meaning 3 (WCAG AA)."""
    for text in ("ink", "faint", "accent", "warn"):
        for ground in ("paper", "raised"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for ground in ("hidden", "wash", "alert"):
        assert contrast(colours["ink"], colours[ground]) >= 4.5, ground
    assert contrast(colours["paper"], colours["accent"]) >= 4.5  # the button
    for line in ("edge", *(name for name in colours if name.startswith("curve"))):
        assert contrast(colours[line], colours["paper"]) >= 3, line


def test_axes_have_round_numbers_between_their_ends() -> None:
    """Powers of ten with 2 and 5 or 3 times them where there is room; plain steps where no power fits; shares as %."""
    assert Log(1, 50, 0, 1).ticks(6) == [1, 2, 5, 10, 20, 50]
    assert Log(1e-8, 1, 0, 1).ticks(6) == [1e-8, 1e-6, 1e-4, 1e-2, 1]
    assert Log(3.1, 4.4, 0, 1).ticks(6) == [3.5, 4]
    assert Axis("", 0, 1, percent=True).label(0.001) == "0.1%"
    assert Axis("", 1, 10, log=True, backwards=True).scale(0, 100)(10) == 0


def test_curves_side_by_side_share_a_legend() -> None:
    """Panels stand side by side below their titles, the legend below them, and nothing leaves the picture."""
    series = [Series("one", [(0, 0), (1, 1)], 1), Series("other", [(0, 1), (1, 0)], 2), Series("level", [(0, 0.5)], 0)]
    axis = Axis("x", 0, 1)
    panels = [series_chart("panel", f"Panel {place}", series, axis, axis, legend=False) for place in range(2)]
    whole = grid("both", "Both", "in a line", [panels, [legend_chart(series, 2 * panels[0].width)]])
    assert whole.width >= 2 * panels[0].width and whole.height > panels[0].height
    root = ElementTree.fromstring(whole.content())  # noqa: S314 - our own drawing
    words = [text.text for text in root.iterfind(".//{*}text")]
    assert words[0] == "Both" and words.count("one") == words.count("other") == words.count("level") == 1
    assert {"Panel 0", "Panel 1", "in a line"} <= set(words)
    bars = series_chart("bars", "Bars", series[:2], axis, axis, bars=True)
    assert bars.drawing.count("fill-1") == 3  # two bars, and the legend


def test_every_kind_of_release_is_listed() -> None:
    """The kinds whose charts are checked are kinds that are made."""
    assert set(INTENDED) <= set(KINDS)
