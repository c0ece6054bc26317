"""The local page in a real browser: accessible, quiet, live, usable with the keyboard."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dptally.explore.server import ExploreServer
from tests.browser.driver import look_at
from tests.report.releases import make

READY = """() => document.querySelectorAll("#mechanisms tr.waiting").length === 0
  && document.querySelectorAll("#rows tbody tr").length > 0"""
MOVE = """async () => {
  const cell = () => document.querySelector("[data-mechanism=weighted_sample] [data-share=half]").textContent;
  const before = cell();
  const number = document.getElementById("epsilon-number");
  const slider = document.getElementById("epsilon-slider");
  slider.value = String(Math.log10(2));
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  const begin = performance.now();
  while (cell() === before && performance.now() - begin < 10000) await new Promise((go) => setTimeout(go, 10));
  const first = performance.now() - begin;
  const curves = () => document.querySelectorAll("#curves .curve").length;
  const waiting = () => document.querySelectorAll("#mechanisms tr.waiting").length;
  const late = () => performance.now() - begin > 20000;
  while ((waiting() || curves() < 7) && !late()) await new Promise((go) => setTimeout(go, 10));
  return [before, number.value, cell(), first, curves()];
}"""
WRONG = """async () => {
  const number = document.getElementById("epsilon-number");
  number.value = "-3";
  number.dispatchEvent(new Event("input", {bubbles: true}));
  const said = document.getElementById("problem");
  const begin = performance.now();
  while (!said.textContent && performance.now() - begin < 10000) await new Promise((go) => setTimeout(go, 10));
  return said.textContent;
}"""
ASK = """async () => {
  const where = document.getElementById("where");
  where.value = "key = 'apple'";
  document.getElementById("ask").requestSubmit();
  const rows = () => document.querySelectorAll("#rows tbody tr").length;
  const begin = performance.now();
  while (rows() !== 1 && performance.now() - begin < 10000) await new Promise((go) => setTimeout(go, 10));
  return [rows(), document.getElementById("answer").textContent, document.getElementById("next").disabled];
}"""


@pytest.fixture(scope="module")
def seen() -> list[dict[str, Any]]:
    """What the browser saw, in light on a desktop and in dark on a phone."""
    with ExploreServer(make("weighted_sample"), name="words.parquet") as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        common = {"url": server.url, "ready": READY, "tabs": 24}
        pages = [
            {**common, "scheme": "light", "width": 1280, "actions": [MOVE, ASK]},
            {**common, "scheme": "dark", "width": 390, "actions": [WRONG]},
        ]
        found = look_at(pages)
        server.shutdown()
    return found


def test_the_page_is_accessible_and_quiet(seen: list[dict[str, Any]]) -> None:
    """No rule of axe-core is broken, nothing is logged but a refusal, and only this server is asked."""
    for page in seen:
        assert page["violations"] == []
        assert page["rules"] > 15
        assert page["overflow"] <= 0
        own = page["url"].split("?")[0]
        assert [url for url in page["requests"] if not url.startswith((own, "data:"))] == []
    assert seen[0]["console"] == []


def test_the_page_loads_within_a_second(seen: list[dict[str, Any]]) -> None:
    """The load event is over within a second; curves follow."""
    times = [page["load"] for page in seen]
    print(f"load events after {', '.join(f'{time:.0f}' for time in times)} ms")  # noqa: T201 - measured
    assert min(times) < 1000


def test_curves_follow_the_sliders(seen: list[dict[str, Any]]) -> None:
    """Moving a slider changes its number, the table and the curves, within seconds."""
    before, number, after, milliseconds, curves = seen[0]["answers"][0]
    print(f"a new curve after {milliseconds:.0f} ms")  # noqa: T201 - measured
    assert (before, number) == ("14", "2")
    assert int(after) < 14
    assert milliseconds < 5000
    assert curves == 7


def test_questions_are_answered(seen: list[dict[str, Any]]) -> None:
    """A condition leaves the rows that meet it, and their sum."""
    rows, text, disabled = seen[0]["answers"][1]
    assert rows == 1
    assert text.startswith("Counts: ") and 670 < int(text.split()[1].rstrip(",")) < 730
    assert "over 1 released key." in text
    assert disabled is True


def test_a_wrong_number_is_answered_by_a_sentence(seen: list[dict[str, Any]]) -> None:
    """The page says what is wrong."""
    assert seen[1]["answers"] == ["epsilon must be a number, such as 0.1 or 1e-6."]


def test_the_keyboard_reaches_everything(seen: list[dict[str, Any]]) -> None:
    """Every number, slider and box and the question can be reached, and every stop can be seen."""
    stops = seen[0]["focused"]
    names = [stop["name"] for stop in stops]
    assert names[0] == "skip"
    for name in ("epsilon", "delta", "rate", "max_keys_per_unit"):
        assert names.index(f"{name}-number") < names.index(f"{name}-slider")
    assert "where" in names
    assert [stop["name"] for stop in stops if not stop["ring"] and stop["name"] != "BODY"] == []
