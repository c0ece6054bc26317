from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

import dptally
from dptally import plots
from dptally.errors import InvalidParameter, MissingDependency
from dptally.labels import key_label, printable

HOSTILE = "</script><script>alert(1)</script>"


def _release(counts: dict[str, int], **options: Any) -> dptally.Release:
    return dptally.publish(counts, epsilon=1, delta="1e-6", **options)


def _rows(chart: Any) -> list[dict[str, Any]]:
    """The rows of the first panel."""
    return chart.to_dict()["hconcat"][0]["data"]["values"]  # type: ignore[no-any-return]


def test_bars_are_the_top_of_the_release() -> None:
    """The first panel holds the n largest keys with their estimates and bounds, in order."""
    release = _release({f"k{number}": 100 * (number + 1) for number in range(9)})
    top = release.top(4)
    rows = _rows(plots.release_chart(release, n=4))
    assert [row["key"] for row in rows] == top.get_column("key").to_list()
    assert [(row["estimate"], row["lower"], row["upper"]) for row in rows] == top.select(
        "estimate", "lower", "upper"
    ).rows()


def test_the_curve_is_the_exact_reporting_probability() -> None:
    """Every point of the second panel is the law's own probability."""
    release = _release({"a": 100})
    panel = plots.release_chart(release).to_dict()["hconcat"][1]
    points = panel["layer"][0]["data"]["values"]
    assert len(points) > 20
    for point in points:
        assert point["chance"] == float(release.law.reporting_probability(point["frequency"]))


@pytest.mark.parametrize(("counts", "values"), [({"a": 1}, True), ({"a": 1000}, False)])
def test_without_values_or_keys_only_the_curve_is_drawn(counts: dict[str, int], values: bool) -> None:
    """An empty release, and one without values, have one panel."""
    chart = plots.release_chart(_release(counts, values=values))
    assert len(chart.to_dict()["hconcat"]) == 1


def test_a_wide_law_has_few_points() -> None:
    """A law with many thousand rows still makes a small picture."""
    release = dptally.publish({"a": 10**6}, epsilon="0.01", delta="1e-9")
    assert release.law.width > 2_000
    assert len(plots.release_chart(release).to_dict()["hconcat"][1]["layer"][0]["data"]["values"]) < 400


def test_keys_with_equal_labels_stay_apart() -> None:
    """Keys that look the same once cut have a bar each."""
    release = _release({"x" * 200 + "1": 500, "x" * 200 + "2": 600})
    assert len({row["place"] for row in _rows(plots.release_chart(release))}) == 2


def test_a_seeded_release_says_so_in_the_picture() -> None:
    """The subtitle of a picture of a seeded release says that it is not private."""
    from dptally.randomness import SeededBits

    chart = plots.release_chart(_release({"a": 1000}, randomness=SeededBits(1)))
    assert chart.to_dict()["title"]["subtitle"].startswith("NOT PRIVATE")


def test_a_key_cannot_leave_the_script_of_a_page(tmp_path: Path) -> None:
    """A key that closes a script element stays inside its string, and the page loads nothing."""
    place = tmp_path / "page.html"
    plots.save(plots.release_chart(_release({HOSTILE: 1000})), place)
    page = place.read_text()
    assert HOSTILE not in page
    assert json.dumps(HOSTILE).replace("<", r"\u003c") in page
    assert 'src="http' not in page
    assert "<link" not in page


def test_a_key_cannot_add_to_a_drawing(tmp_path: Path) -> None:
    """Keys are text in SVG, never elements."""
    place = tmp_path / "drawing.svg"
    plots.save(plots.release_chart(_release({"<image href='x'/>": 1000})), place)
    assert "<image" not in place.read_text()


def test_other_endings_are_refused(tmp_path: Path) -> None:
    """Only .png, .svg and .html can be written."""
    with pytest.raises(InvalidParameter, match=r"must end in \.png, \.svg or \.html"):
        plots.save(plots.release_chart(_release({"a": 100})), tmp_path / "picture.pdf")


def test_a_negative_number_of_keys_is_refused() -> None:
    """The number of bars cannot be negative."""
    with pytest.raises(InvalidParameter, match="n must not be negative, got -1"):
        plots.release_chart(_release({"a": 100}), n=-1)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Altair or vl-convert the error holds the line that installs them."""
    release = _release({"a": 100})
    original = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "vl_convert":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingDependency, match=r"pip install 'dptally\[plots\]'"):
        plots.release_chart(release)


def test_labels_are_one_printable_line() -> None:
    """Control characters, line separators and changes of direction are written out; other letters stay."""
    assert printable("a\x1b[0m\u2028\u202e\x9b") == r"a\x1b[0m\u2028\u202e\x9b"
    assert printable("café 日本 😀 [b]") == "café 日本 😀 [b]"
    assert key_label(b"\x01\xff") == "01ff"
