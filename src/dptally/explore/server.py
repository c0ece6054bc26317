"""The server of the local page: this machine only, one secret token, nothing else on the network.

Who may ask. It listens on 127.0.0.1. A page of another site can still make a browser send requests there, so every
request must name this server as its host (a name that an attacker has pointed to 127.0.0.1 is refused), and carry the
token, which is new at every start and compared in constant time: in the address for the page, in a header for
questions. A header cannot be sent from another site without this server's consent, which it never gives. There is no
cookie, since cookies of 127.0.0.1 go to all its ports. Other users of the machine do not know the token.

What can be asked: reporting curves of laws, and sums and rows of one release, which is public. Requests are small,
methods are two, and what is not understood is refused in one sentence.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from dptally.errors import DptallyError, InvalidParameter
from dptally.explore.curves import CurveDesk, read_settings, shown_mechanisms
from dptally.explore.page import page_of
from dptally.explore.questions import Questions

if TYPE_CHECKING:
    from dptally.releases.table_release import TableRelease

_ADDRESS = "127.0.0.1"
_LARGEST_REQUEST = 1 << 14
_PATIENCE = 20.0  # seconds that a connection may be silent
_MOST_PAGES = 64
_TOKEN_HEADER = "X-Dptally-Token"  # noqa: S105 - its name


class _Superseded(Exception):  # noqa: N818 - nothing went wrong
    """The page has asked for other parameters since."""


class ExploreServer(ThreadingHTTPServer):
    """Serves the page of a release, or of the curves alone, until it is told to stop; port 0 is any free one."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, release: TableRelease | None = None, *, port: int = 0, name: str | None = None) -> None:
        if not 0 <= port <= 65535:
            raise InvalidParameter(f"port must be from 0 to 65535, got {port}.")
        self.token = secrets.token_urlsafe(32)
        self.questions = None if release is None else Questions(release)
        try:
            super().__init__((_ADDRESS, port), _Handler)
        except OSError as error:
            raise InvalidParameter(f"port {port} cannot be used: {error.strerror}.") from None
        mechanisms = shown_mechanisms()
        self.page, self.policy = page_of(mechanisms, self.questions, name)
        self._turns: dict[str, int] = {}
        self._lock, self._desk = threading.Lock(), CurveDesk(mechanisms)

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://{_ADDRESS}:{self.server_port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names under which this server may be addressed."""
        names = (_ADDRESS, "localhost")
        return tuple(f"{name}:{self.server_port}" for name in names) + (names if self.server_port == 80 else ())

    def may_enter(self, token: str) -> bool:
        """Whether this is the token; takes as long whatever part of it is right."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about connections that break."""

    # ---- questions ----

    def curve(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Where the curve of a mechanism passes its milestones; a newer request of the page ends this one."""
        name, settings = str(asked.get("mechanism")), read_settings(asked)
        visitor, turn = str(asked.get("visitor"))[:40], asked.get("turn")
        if isinstance(turn, bool) or not isinstance(turn, int):
            raise InvalidParameter("turn must be a whole number.")
        with self._lock:
            if visitor not in self._turns and len(self._turns) >= _MOST_PAGES:
                self._turns.clear()
            self._turns[visitor] = max(turn, self._turns.get(visitor, turn))

        def proceed() -> None:
            if self._turns.get(visitor, turn) > turn:
                raise _Superseded

        try:
            found = self._desk.curve(name, settings, proceed)
        except _Superseded:
            return {"superseded": True}
        return {"half": found.half, "likely": found.likely, "surely": found.surely, "at_least": found.at_least}

    def chart(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The inside of the chart, for those of the mechanisms asked for whose curves are computed."""
        names = asked.get("mechanisms")
        if not isinstance(names, list):
            raise InvalidParameter("mechanisms must be a list of names.")
        return {"drawing": self._desk.drawing([str(name) for name in names], read_settings(asked))}

    def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A sum and rows of the release."""
        if self.questions is None:
            raise InvalidParameter("there is no release on this page; start dptally explore with one.")
        return self.questions.answer(asked)


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer
    server_version = "dptally"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the standard library
        """Log nothing: addresses hold the token."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse in one sentence, with the same headers as everything else."""
        del explain
        self.close_connection = True
        self._send(code, "text/plain; charset=utf-8", (message or HTTPStatus(code).phrase).encode())

    def do_GET(self) -> None:
        """The page."""
        if not self._is_for_us():
            return
        address = urlsplit(self.path)
        if address.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND, "There is nothing here.")
            return
        given = parse_qs(address.query, max_num_fields=4).get("token", [""]) if len(address.query) < 500 else [""]
        if self.server.may_enter(given[0]):
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page.encode())
        else:
            self.send_error(HTTPStatus.FORBIDDEN, "Open the whole address that dptally explore printed.")

    def do_POST(self) -> None:
        """Questions of the page."""
        if not self._is_for_us():
            return
        if not self.server.may_enter(self.headers.get(_TOKEN_HEADER, "")):
            self.send_error(HTTPStatus.FORBIDDEN, "The token is missing or wrong.")
            return
        answers = {"/api/curve": self.server.curve, "/api/chart": self.server.chart, "/api/ask": self.server.ask}
        answer = answers.get(self.path)
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND, "There is nothing here.")
            return
        asked = self._read()
        if asked is None:
            return
        try:
            self._send_json(HTTPStatus.OK, answer(asked))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True  # the page has gone away
        except DptallyError as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except BaseException as error:  # also the panics of the engines, which are no Exceptions
            sentence = f"This cannot be answered ({type(error).__name__})."
            self._send_json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": sentence})

    def _is_for_us(self) -> bool:
        """Whether the request names this server, and comes from its own page if it comes from a page."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        ours = host in self.server.hosts and len(self.headers.get_all("Host", [])) == 1
        if not ours or (origin is not None and origin != f"http://{host}"):
            self.send_error(HTTPStatus.FORBIDDEN, "This server answers its own page only.")
            return False
        return True

    def _read(self) -> dict[str, Any] | None:
        """The JSON object of a request, or None after it was refused."""
        length = self.headers.get("Content-Length", "")
        refusal = None
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            refusal = HTTPStatus.LENGTH_REQUIRED, "A request must state its length."
        elif int(length[:12]) > _LARGEST_REQUEST:
            refusal = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is too large."
        elif self.headers.get_content_type() != "application/json":
            refusal = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A request must be JSON."
        if refusal is not None:
            self.send_error(*refusal)
            return None
        try:
            asked = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            asked = None
        except (TimeoutError, OSError):
            self.close_connection = True
            return None
        if not isinstance(asked, dict):
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": "The request must be a JSON object."})
            return None
        return asked

    def _send_json(self, status: int, data: dict[str, Any]) -> None:
        content = json.dumps(data, allow_nan=False).encode()
        self._send(status, "application/json", content)

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, text in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", self.server.policy),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            *((("Connection", "close"),) if self.close_connection else ()),
        ):
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
