from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dptally.cli.plan import text_chart
from dptally.laws.reporting_curves import reporting_curve
from dptally.laws.sampling_schemes import Ppswor
from dptally.laws.weighted_sample import WeightedSample
from dptally.plan_requests import plan
from dptally.planning import Plan
from dptally.planning.page import plan_page
from dptally.report.curves_chart import curves_chart
from tests.cli.conftest import MARKER, PRIVACY, Run


def test_plan_says_at_which_frequency_keys_are_reported(run: Run) -> None:
    """The sentence and the table give the frequencies for the bound asked for and for others."""
    done = run("plan", *PRIVACY, "--max-keys-per-unit", 5)
    assert done.status == 0
    assert "at most 5 keys per unit" in done.out
    assert "always, if divided" in done.out
    assert [line.split()[0] for line in done.out.splitlines() if line.strip()[:1].isdigit()] == [
        "1",
        "3",
        "5",
        "10",
        "30",
    ]


def test_plan_as_json(run: Run) -> None:
    """JSON holds the exact parameters and a line for each bound."""
    facts = json.loads(run("plan", *PRIVACY, "--json").out)
    assert (facts["epsilon"], facts["delta"]) == ("1", "1/1000000")
    assert facts["asked"]["always"] == 28
    assert [line["max_keys_per_unit"] for line in facts["others"]] == [3, 10, 30]


def test_plan_for_keys_only_has_no_error_of_estimates(run: Run) -> None:
    """Without values there is no estimate to be off."""
    assert json.loads(run("plan", *PRIVACY, "--keys-only", "--json").out)["asked"]["mean_absolute_error"] is None
    assert run("plan", *PRIVACY, "--keys-only").status == 0


def test_plan_refuses_bad_parameters(run: Run) -> None:
    """A plan for a negative epsilon is refused like a publication."""
    done = run("plan", "--epsilon", "-1", "--delta", "1e-6")
    assert (done.status, done.err) == (2, "dptally: --epsilon must be a positive number, got -1.\n")


def test_plan_compares_mechanisms_and_recommends_one(run: Run) -> None:
    """Supposed rows give expected keys, errors and costs; there is a chart, unless it is not wanted."""
    done = run("plan", *PRIVACY, "--rows", 1_000_000, "--keys", 100_000)
    assert done.status == 0
    for part in ("Recommendation: take 'weighted_sample'", "6,406", "sample_and_threshold", "sum error", "┤ 50 %"):
        assert part in done.out
    assert "dense does not apply: mechanism 'dense' needs a universe" in done.out
    assert "┤" not in run("plan", *PRIVACY, "--no-chart").out


def test_plan_json_is_complete(run: Run) -> None:
    """Forecasts, reasons, population, recommendation and curves are in the JSON."""
    options = ("--rows", 10_000, "--zipf", "1.2", "--share", "1/2", "--sampling", "ppswor:0.1", "--levels", 2)
    facts = json.loads(run("plan", *PRIVACY, *options, "--json").out)
    names = [each["mechanism"] for each in facts["forecasts"]]
    assert names == [
        "weighted_sample",
        "weighted_sample ppswor:1/10",
        "stability",
        "gaussian",
        "rounds",
        "sample_and_threshold",
        "misra_gries",
        "heavy_hitters",
    ]
    assert facts["recommended"] in names and facts["recommendation"].startswith(f"take '{facts['recommended']}'")
    assert set(facts["left_out"]) == {"dense", "sparse", "compact"} and facts["share"] == 0.5
    assert facts["population"]["must_be_public"] is False and facts["need"] is None
    assert set(facts["curves"]) == {"frequency", *names}
    assert all(len(curve) == len(facts["curves"]["frequency"]) for curve in facts["curves"].values())


def test_plan_from_a_public_example(run: Run, events: Path) -> None:
    """The example's frequencies are supposed, and the output says that it must be public; no key of it is shown."""
    options = ("--example", events, "--key", "fruit", "--no-chart")
    done = run("plan", *PRIVACY, *options)
    assert done.status == 0
    assert "4 keys with 1,200 counts, from the public example" in done.out and "must be public" in done.out
    assert MARKER not in done.out and "apple" not in done.out
    facts = json.loads(run("plan", *PRIVACY, *options, "--unit", "user", "--rows", 12_000, "--json").out)
    assert facts["population"]["must_be_public"] is True and facts["population"]["counts"] == 12_000


def test_plan_answers_the_inverse_question(run: Run) -> None:
    """--need finds the epsilon; with --epsilon the delta; with both the keys per unit."""
    done = run("plan", "--delta", "1e-6", "--need", "30:95%", "--no-chart")
    assert done.status == 0
    assert "The smallest epsilon to report keys of frequency 30 with a probability of 95 % is 0.499" in done.out
    assert "epsilon needed" in done.out
    facts = json.loads(run("plan", "--delta", "1e-6", "--need", "30:95%", "--json").out)
    assert facts["need"]["answers"]["weighted_sample"] == "499/1000" and facts["epsilon"] == "499/1000"
    assert facts["need"]["answers"]["sample_and_threshold"] is None
    one = ("--mechanism", "weighted_sample", "--no-chart")
    assert "The smallest delta" in run("plan", "--epsilon", 1, "--need", "30:0.95", *one).out
    assert "A unit may have at most" in run("plan", *PRIVACY, "--need", "100:95%", *one).out


@pytest.mark.parametrize("need", ["30", "x:95%", "30:", "30:200%"])
def test_bad_needs(run: Run, need: str) -> None:
    """A need that is none is refused in one sentence."""
    done = run("plan", "--delta", "1e-6", "--need", need)
    assert done.status == 2 and done.err.count("\n") == 1 and done.out == ""


def test_plan_as_a_page(run: Run, tmp_path: Path) -> None:
    """The page stands alone, with a policy that names what is inside; it is not replaced without --overwrite."""
    place = tmp_path / "plan.html"
    done = run("plan", *PRIVACY, "--rows", 1000, "--html", place)
    assert done.status == 0 and "Page written to" in done.err
    page = place.read_text()
    assert "<svg" in page and 'name="viewport"' in page and "prefers-color-scheme:dark" in page
    for name in ("style", "script"):
        [inside] = re.findall(f"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{name}-src &#x27;sha256-{digest}&#x27;" in page
    assert "unsafe" not in page and "default-src &#x27;none&#x27;;" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    command = "dptally publish FILE --key COLUMN --epsilon 1 --delta 1/1000000 --mechanism weighted_sample -o"
    assert command in page
    assert run("plan", *PRIVACY, "--html", place).status == 2
    again = json.loads(run("plan", *PRIVACY, "--html", place, "--overwrite", "--json").out)
    assert again["page"] == str(place)
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])  # noqa: S314 - our own page


def test_pages_escape_what_they_show() -> None:
    """Names in a page or picture are text, whatever they hold."""
    forecast = plan(epsilon=1, delta="1e-6", population={20: 3})
    assert isinstance(forecast, Plan)
    odd = replace(forecast, recommendation="<script>&", left_out={"<em>": "<i>"})
    page = plan_page(odd)
    assert "<em>" not in page and "<i>" not in page and "&lt;script&gt;&amp;" in page
    picture = curves_chart({'"><script>': reporting_curve(WeightedSample(1, "1e-6"))})
    for drawn in (picture.inline(), picture.content().decode()):
        assert "<script" not in drawn
        ElementTree.fromstring(drawn)  # noqa: S314


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 1, "universe": "ipv4"},
        {"epsilon": 1, "universe": "ipv4", "asked_for": "any", "max_keys_per_unit": 2},
        {"epsilon": 1, "delta": "1e-6", "sampling": Ppswor("0.1"), "levels": 3},
        {"epsilon": 1, "delta": "1e-6", "sampling": Ppswor("0.1"), "mechanisms": ["weighted_sample ppswor:1/10"]},
        {"epsilon": 1, "delta": "1e-6", "mechanisms": ["misra_gries"], "capacity": 50, "max_keys_per_unit": 3},
    ],
)
def test_pages_of_all_plans(options: dict[str, Any], run: Run) -> None:
    """Every plan has a page that names its mechanisms, and a command that dptally understands."""
    forecast = plan(**options)
    assert isinstance(forecast, Plan)
    page = plan_page(forecast).replace("<wbr>", "")
    for each in forecast.forecasts:
        assert each.mechanism in page
    [command] = re.findall(r"<code>(.*?)</code>", page)
    done = run(*shlex.split(html.unescape(command))[1:], "--explain")
    assert (done.status, done.err) == (0, "")
    assert f"by the mechanism '{forecast.recommended.split()[0]}'" in " ".join(done.out.split())


def test_text_charts_rise_from_left_to_right() -> None:
    """A step is low at the left and high at the right; its letter stands where it passes one half."""
    lines = text_chart([0, 10, 11, 20], {"step": [0.0, 0.0, 1.0, 1.0]}, width=20, height=5)
    top, middle, bottom = lines[0], lines[2], lines[4]
    assert top[0] == "⠀" and top[19] != "⠀" and bottom[0] != "⠀" and bottom[19] == "⠀"
    assert 9 <= middle.index("A") <= 11
    assert lines[-2].startswith("frequency 0") and lines[-2].endswith("20") and lines[-1] == "A step"


@pytest.mark.parametrize("options", [("--rows", 100_000), ("--need", "30:95%"), ("--json",)])
def test_a_plan_for_what_does_not_apply_is_refused(run: Run, options: tuple[object, ...]) -> None:
    """If no mechanism meets the request, the reason is all that is printed."""
    done = run("plan", *PRIVACY, "--mechanism", "dense", *options)
    assert (done.status, done.out) == (2, "")
    assert "no mechanism can meet this request. dense does not apply: mechanism 'dense' needs a universe" in done.err


def test_a_bound_of_one_key_is_singular(run: Run) -> None:
    """One key is not "1 keys"."""
    done = run("plan", *PRIVACY, "--need", "16:95%")
    assert done.out.startswith("A unit may have at most one key to report")
