"""Who may ask the server, what it answers, and what it refuses."""

from __future__ import annotations

import socket
import threading
import time
from fractions import Fraction
from typing import Any

import pytest

from dptally.errors import InvalidParameter
from dptally.explore.server import ExploreServer
from dptally.laws.base import Reporting
from tests.explore.conftest import TOKEN, Talk
from tests.report.releases import MARKER

SETTINGS = {"epsilon": "1", "delta": "1e-6", "rate": "1", "max_keys_per_unit": "1", "visitor": "me", "turn": 1}


def test_the_page_needs_its_token(server: ExploreServer, talk: Talk) -> None:
    """With the token in the address the page is there; without it, or with another, nothing is told."""
    whole = talk("GET", f"/?token={server.token}", headers={TOKEN: None})
    assert whole.status == 200 and b"dptally explore" in whole.body
    for path in ("/", "/?token=", f"/?token={server.token[:-1]}", "/?token=" + "x" * 43, "/?token=%ff%00%e9"):
        refused = talk("GET", path)
        assert refused.status == 403
        assert b"words.parquet" not in refused.body and server.token.encode() not in refused.body


def test_tokens_are_new_and_long() -> None:
    """Two servers have different tokens of 256 bits."""
    with ExploreServer() as one, ExploreServer() as other:
        assert one.token != other.token
        assert len(one.token) >= 43


def test_only_this_machine_can_reach_it(server: ExploreServer) -> None:
    """It listens on the loopback address and nowhere else."""
    assert server.server_address[0] == "127.0.0.1"
    name = socket.gethostname()
    try:
        outside = socket.gethostbyname(name)
    except OSError:
        pytest.skip("the machine has no address of its own")
    if outside.startswith("127."):
        pytest.skip("the machine's name is the loopback address")
    with socket.socket() as probe:
        probe.settimeout(2)
        assert probe.connect_ex((outside, server.server_port)) != 0


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", None])
def test_other_names_of_this_machine_are_refused(server: ExploreServer, talk: Talk, host: str | None) -> None:
    """A name that somebody has pointed to 127.0.0.1 gets nothing, even with the token (DNS rebinding)."""
    name = None if host is None else host.format(port=server.server_port)
    assert talk("GET", f"/?token={server.token}", headers={"Host": name}).status == 403
    assert talk("POST", "/api/ask", {}, headers={"Host": name}).status == 403


def test_localhost_is_a_name_of_this_machine(server: ExploreServer, talk: Talk) -> None:
    """The page can be opened as localhost too."""
    answer = talk("GET", f"/?token={server.token}", headers={"Host": f"localhost:{server.server_port}"})
    assert answer.status == 200


def test_pages_of_other_sites_are_refused(server: ExploreServer, talk: Talk) -> None:
    """A request that names another origin is refused, and no answer allows other origins anything."""
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{server.server_port + 1}"):
        assert talk("POST", "/api/ask", {}, headers={"Origin": origin}).status == 403
    own = talk("POST", "/api/ask", {}, headers={"Origin": f"http://127.0.0.1:{server.server_port}"})
    assert own.status == 200
    assert not [name for name in own.headers if name.startswith("access-control")]
    assert "set-cookie" not in own.headers


@pytest.mark.parametrize("path", ["/api/ask", "/api/curve", "/api/chart"])
@pytest.mark.parametrize("token", [None, "", "wrong", "é".encode().decode("latin-1")])
def test_questions_need_the_token_in_a_header(server: ExploreServer, talk: Talk, path: str, token: str | None) -> None:
    """The token in the address is not enough for questions."""
    assert talk("POST", path, {}, headers={TOKEN: token}).status == 403
    assert talk("POST", f"{path}?token={server.token}", {}, headers={TOKEN: token}).status == 403


@pytest.mark.parametrize("path", ["/favicon.ico", "/api/ask", "/../etc/passwd", "/index.html", "//", "/%2e%2e/x"])
def test_other_places_are_empty(talk: Talk, path: str) -> None:
    """There is nothing but the page."""
    assert talk("GET", path).status in (403, 404)
    assert talk("POST", path + "x", {}).status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "BREW"])
def test_other_methods_are_refused(talk: Talk, method: str) -> None:
    """GET and POST are all there is."""
    assert talk(method, "/").status == 501


def test_every_answer_has_the_same_strict_headers(server: ExploreServer, talk: Talk) -> None:
    """Also refusals may not be stored, framed, sniffed, or load anything."""
    for answer in (
        talk("GET", f"/?token={server.token}"),
        talk("GET", "/"),
        talk("PUT", "/"),
        talk("POST", "/api/ask", {}),
    ):
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"Content-Length": None}, 411),
        (b"{}", {"Content-Length": "-1"}, 411),
        (b"{}", {"Content-Length": "many"}, 411),
        (b"{}", {"Transfer-Encoding": "chunked"}, 411),
        (b"x" * 20_000, {}, 413),
        (b"{}", {"Content-Length": "9" * 30}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"not json", {}, 400),
        (b"[1, 2]", {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"[" * 10_000, {}, 400),
    ],
)
def test_malformed_requests_are_refused(talk: Talk, body: bytes, headers: dict[str, str | None], status: int) -> None:
    """Each way of being malformed has its status, and the server goes on."""
    assert talk("POST", "/api/ask", body, headers=headers).status == status
    assert talk("POST", "/api/ask", {}).status == 200


def test_a_curve_is_that_of_the_law(talk: Talk) -> None:
    """Milestones are the exact ones of the law, and the chart is the one that reports and plans have."""
    from dptally.laws.reporting_curves import reporting_curve
    from dptally.laws.weighted_sample import WeightedSample
    from dptally.report.curves_chart import curves_chart

    found = talk("POST", "/api/curve", {**SETTINGS, "mechanism": "weighted_sample"}).json()
    assert found == {"half": 14, "likely": 16, "surely": 20, "at_least": False}
    curve = reporting_curve(WeightedSample("1", "1e-6"), points=48)
    drawn = talk("POST", "/api/chart", {**SETTINGS, "mechanisms": ["weighted_sample", "unknown"]}).json()["drawing"]
    assert drawn == curves_chart({"weighted_sample": curve}, legend=False).drawing


def test_the_chart_shows_what_is_asked_for_and_computed(talk: Talk) -> None:
    """Each mechanism keeps its colour; without curves there is no chart; other questions are refused."""
    asked = {**SETTINGS, "epsilon": "0.7"}
    talk("POST", "/api/curve", {**asked, "mechanism": "stability"})
    known = talk("POST", "/api/chart", {**asked, "mechanisms": ["weighted_sample", "stability"]}).json()["drawing"]
    assert "curve-2" in known and "curve-1" not in known
    assert talk("POST", "/api/chart", {**asked, "mechanisms": []}).json() == {"drawing": ""}
    assert talk("POST", "/api/chart", {**asked, "mechanisms": "stability"}).status == 400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": "-1"}, "epsilon must be a number"),
        ({"epsilon": "0"}, "epsilon must be from 0.005 to 20"),
        ({"epsilon": "1e99"}, "epsilon must be from"),
        ({"epsilon": "1e999999999"}, "epsilon must be a number"),
        ({"epsilon": None}, "epsilon must be a number"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"epsilon": ["1"]}, "epsilon must be a number"),
        ({"delta": "0.5"}, "delta must be from"),
        ({"delta": "nan"}, "delta must be a number"),
        ({"rate": "2"}, "rate must be from"),
        ({"rate": "1/0"}, "rate must be a number"),
        ({"max_keys_per_unit": "1.5"}, "max_keys_per_unit must be a whole number"),
        ({"max_keys_per_unit": "1000000"}, "max_keys_per_unit must be a whole number"),
        ({"mechanism": "nonsense"}, "mechanism must be one of those on the page"),
        ({"turn": "x"}, "turn must be a whole number"),
    ],
)
def test_wrong_parameters_are_refused_in_one_sentence(talk: Talk, change: dict[str, Any], message: str) -> None:
    """Whatever a page sends is checked again here."""
    answer = talk("POST", "/api/curve", {**SETTINGS, "mechanism": "weighted_sample", **change})
    assert answer.status == 400
    assert message in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_wishes_that_were_overtaken_end(server: ExploreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a page asks for other parameters, the curve it asked for before stops being computed."""
    started, overtaken = threading.Event(), threading.Event()
    answers: list[dict[str, Any]] = []

    class Slow(Reporting):
        """A law that waits until it is overtaken."""

        def reporting_probability(self, true_frequency: int) -> Fraction:
            started.set()
            overtaken.wait(10)
            return min(Fraction(1), Fraction(true_frequency, 100))

        def first_frequency(self, probability: object) -> int:
            return 50

    from dptally.explore import curves

    known = curves.law_of
    monkeypatch.setattr(curves, "law_of", lambda name, of: Slow() if name == "slow" else known(name, of))
    monkeypatch.setattr(server, "_desk", curves.CurveDesk(["slow", "stability"]))
    asked = {**SETTINGS, "visitor": "overtaken", "mechanism": "slow", "turn": 5}
    thread = threading.Thread(target=lambda: answers.append(server.curve(asked)))
    thread.start()
    assert started.wait(10)
    newer = {**SETTINGS, "visitor": "overtaken", "mechanism": "stability", "turn": 6}
    assert server.curve(newer)["half"] == 15
    other = {**SETTINGS, "visitor": "somebody else", "mechanism": "stability", "turn": 9}
    assert server.curve(other)["half"] == 15
    overtaken.set()
    thread.join(10)
    assert answers == [{"superseded": True}]


def test_rows_and_sums_are_those_of_the_release(server: ExploreServer, talk: Talk) -> None:
    """A question gives what `Release.sum` and `Release.top` give, a page at a time."""
    assert server.questions is not None
    release = server.questions.release
    found = talk("POST", "/api/ask", {"where": "key LIKE 'word1%'", "of": "count", "page": 0}).json()
    assert found["sum"]["estimate"] == pytest.approx(release.sum("key LIKE 'word1%'").estimate)
    first = talk("POST", "/api/ask", {}).json()
    top = release.top(25)
    assert [row[1] for row in first["rows"]] == top.get_column("key").to_list()
    assert [row[2] for row in first["rows"]] == [f"{number:,}" for number in top.get_column("estimate")]
    last = talk("POST", "/api/ask", {"page": 10**8}).json()
    assert last["page"] == last["pages"] - 1 == (len(release) - 1) // 25
    assert first["found"] == len(release)


def test_a_condition_on_values_counts_the_same_rows(server: ExploreServer, talk: Talk) -> None:
    """Conditions may look at estimates and bounds."""
    found = talk("POST", "/api/ask", {"where": "estimate > 880 AND lower > 850"}).json()
    assert found["found"] == found["sum"]["keys"] == 3


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"where": "nonsense = 1"}, "nonsense"),
        ({"where": "key LIKE"}, "where cannot be evaluated"),
        ({"where": "key"}, "where must be a condition"),
        ({"where": "key IN (SELECT column_1 FROM read_csv('/etc/passwd'))"}, "must not hold SELECT"),
        ({"where": "key = 'a' -- comment"}, "is not an expression"),
        ({"where": 5}, "must be text"),
        ({"where": "x" * 1001}, "at most 1,000 characters"),
        ({"of": "power:2"}, "'count' or 'keys'"),
        ({"page": -1}, "the page must be"),
        ({"page": "1"}, "the page must be"),
        ({"page": True}, "the page must be"),
    ],
)
def test_questions_that_make_no_sense_are_refused(talk: Talk, asked: dict[str, Any], message: str) -> None:
    """One sentence, and nothing of any file in it."""
    answer = talk("POST", "/api/ask", asked)
    assert answer.status == 400
    sentence = answer.json()["error"]
    assert message in sentence
    assert "\n" not in sentence and "root:" not in sentence


def test_without_a_release_there_is_nothing_to_ask() -> None:
    """The page of parameters alone has no part for a release, and refuses questions."""
    with ExploreServer() as server:
        assert 'id="release"' not in server.page
        with pytest.raises(InvalidParameter, match="there is no release on this page"):
            server.ask({})


def test_no_private_key_is_on_the_page(server: ExploreServer, talk: Talk) -> None:
    """A key that one row had is neither on the page nor in any answer."""
    assert MARKER not in server.page
    pages = talk("POST", "/api/ask", {}).json()["pages"]
    for page in range(pages):
        assert MARKER.encode() not in talk("POST", "/api/ask", {"page": page}).body
    assert talk("POST", "/api/ask", {"where": f"key = '{MARKER}'"}).json()["found"] == 0


def test_a_port_that_is_taken_is_refused(server: ExploreServer) -> None:
    """One sentence, not a traceback."""
    with pytest.raises(InvalidParameter, match="cannot be used"):
        ExploreServer(port=server.server_port)
    with pytest.raises(InvalidParameter, match="port must be from 0 to 65535"):
        ExploreServer(port=70_000)


def test_a_silent_connection_does_not_hold_others_up(server: ExploreServer, talk: Talk) -> None:
    """A client that sends half a request leaves the others their answers."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as silent:
        silent.sendall(b"POST /api/ask HTTP/1.1\r\nHost: x\r\n")
        begin = time.monotonic()
        assert talk("POST", "/api/ask", {}).status == 200
        assert time.monotonic() - begin < 5
