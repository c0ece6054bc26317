"""A running server, and how to talk to it without a browser."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from dptally.explore.server import ExploreServer
from tests.report.releases import make

TOKEN = "X-Dptally-Token"  # noqa: S105 - the name of a header


class Answer(NamedTuple):
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


Talk = Callable[..., Answer]


@pytest.fixture(scope="module")
def server() -> Iterator[ExploreServer]:
    """A server with a release of some hundred keys."""
    with ExploreServer(make("weighted_sample"), name="words.parquet") as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join(timeout=10)


@pytest.fixture
def talk(server: ExploreServer) -> Talk:
    """Send a request, by default as the page would."""

    def send(method: str, path: str, body: object = None, *, headers: dict[str, str | None] | None = None) -> Answer:
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        usual = {"Host": f"127.0.0.1:{server.server_port}", TOKEN: server.token, "Content-Type": "application/json"}
        if content is not None:
            usual["Content-Length"] = str(len(content))
        wanted = {**usual, **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, text in wanted.items():
                if text is not None:
                    connection.putheader(name, text)
            connection.endheaders(content)
            response = connection.getresponse()
            found = {name.lower(): text for name, text in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    return send
