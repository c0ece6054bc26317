"""Flower as the transport: a ServerApp and a ClientApp around `Server` and `Node` (Flower 1.41, Message API).

`dptally.federated.flower_project` writes a project around them; docs/mechanisms/federated.md lists the settings of a
run and of a node. Nothing private is logged. No privacy claim rests on secure aggregation: the server sees votes of the
devices that take part, and is trusted until the threshold has been applied.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from dptally.errors import DptallyError, InvalidParameter, MissingDependency
from dptally.federated.client import Node
from dptally.federated.devices import read_devices
from dptally.federated.limits import Answers, Limits, default_place
from dptally.federated.protocol import Rounds, read_rounds, register_task
from dptally.federated.server import COUNTED, Server
from dptally.files import check_target, complete_or_absent
from dptally.ledger import Account, Ledger

_RECORD, _PAYLOAD = "dptally", "payload"
_ENROL, _VOTE = "query.enrol", "query.vote"
_LIMITS = {
    "max-epsilon": "epsilon",
    "max-delta": "delta",
    "max-rate": "rate",
    "min-devices": "devices",
    "most-answers": "answers",
    "max-message-bytes": "message_bytes",
    "trust-contact-rate": "trust_contact_rate",
}
_SIMULATED = {"epsilon": 100, "delta": "1/2", "rate": 1, "answers": 1 << 20, "trust_contact_rate": True}
_logger = logging.getLogger("flwr.dptally")  # below Flower's, whose handlers and level it shares


def require_flower() -> None:
    """Say what to install if Flower is missing."""
    try:
        import flwr.clientapp
        import flwr.serverapp  # noqa: F401
    except ImportError:
        raise MissingDependency("a federation needs Flower: pip install 'dptally[federated]'.") from None


# ---- the client ----


def make_client_app(*tasks: type[Rounds]) -> Any:
    """A Flower ClientApp that answers for the devices of its node; also of tasks of your own."""
    require_flower()
    from flwr.clientapp import ClientApp

    # The simulation engine sends these functions to other processes, without the module that made the app: so each
    # of them brings the tasks along.
    def enrol(message: Any, context: Any) -> Any:
        return _reply(message, _node(context).enrol(_payload(message)))

    def vote(message: Any, context: Any) -> Any:
        _register(tasks)
        return _reply(message, _node(context).answer(_payload(message)))

    app = ClientApp()
    app.query("enrol")(enrol)
    app.query("vote")(vote)
    return app


def _node(context: Any) -> Node:
    own = context.node_config
    limits, answers = limits_and_answers(own)
    return Node(_values(own, context.run_config), capacity=own.get("capacity"), limits=limits, answers=answers)


def limits_and_answers(own: Mapping[str, Any]) -> tuple[Limits, Answers]:
    """What a node of these settings answers at most, and the record of what it has answered.

    The record is a file also where none was named, so that a new run or process does not forget.
    """
    given = {part: own[name] for name, part in _LIMITS.items() if name in own}
    if "source" not in own:
        return Limits(**{**_SIMULATED, **given}), Answers()
    place = own.get("answers") or default_place(str(own["source"]), _text(own.get("table")))
    return Limits(**given), Answers(place)


def _values(own: Mapping[str, Any], of_run: Mapping[str, Any]) -> list[Any]:
    if "source" in own:
        key, unit, table = own.get("key"), own.get("unit"), own.get("table")
        return read_devices(str(own["source"]), key=_text(key), unit=_text(unit), table=_text(table))
    if of_run.get("simulated-source") and "partition-id" in own and "num-partitions" in own:
        key, unit = _text(of_run.get("simulated-key")), _text(of_run.get("simulated-unit"))
        everything = _simulated(str(of_run["simulated-source"]), key, unit)
        return list(everything[int(own["partition-id"]) :: int(own["num-partitions"])])
    raise InvalidParameter("the node has no table: start it with dptally federated client, or give it a source.")


@lru_cache(maxsize=1)
def _simulated(source: str, key: str | None, unit: str | None) -> tuple[Any, ...]:
    """The whole table, once for each process of the simulation engine."""
    return tuple(read_devices(source, key=key, unit=unit))


# ---- the server ----


def make_server_app(*tasks: type[Rounds]) -> Any:
    """A Flower ServerApp that runs the task of its run's settings and writes the result; also of tasks of your own."""
    require_flower()
    from flwr.serverapp import ServerApp

    def main(grid: Any, context: Any) -> None:
        _register(tasks)
        _serve(grid, context)

    app = ServerApp()
    app.main()(main)
    return app


def _serve(grid: Any, context: Any) -> None:
    settings = context.run_config
    output = Path(str(settings["output"]))
    overwrite = bool(settings.get("overwrite", False))
    check_target(output, overwrite=overwrite)
    server = Server(
        read_rounds(json.loads(str(settings["task"]))),
        state=_text(settings.get("state")),
        contact_rate=_text(settings.get("contact-rate")),
        max_devices_per_node=int(settings.get("max-devices-per-node", 10_000)),
        ledger=_account(settings),
    )
    if not server.finished:
        seconds = float(settings.get("round-seconds", 120))
        nodes = _wait_for_nodes(grid, int(settings.get("nodes", 1)), float(settings.get("wait-seconds", 60)))
        started = time.monotonic()
        invitation = server.registration()
        for node, answer in _exchange(grid, _ENROL, dict.fromkeys(nodes, invitation), seconds):
            _log_refusal(server.enrol(node, answer))
        _logger.info("enrolment took %.1f s", time.monotonic() - started)
        while not server.finished:
            _run_round(grid, server, seconds)
    _save(server.result, output, overwrite=overwrite)
    epsilon, delta = (float(part) for part in server.total_spent)
    _logger.info("finished; attempts in all spent epsilon %.6g, delta %.6g", epsilon, delta)


def _account(settings: Mapping[str, Any]) -> Account | None:
    path = _text(settings.get("ledger"))
    if path is None:
        return None
    parts = ("source", "unit", "partitioning", "part", "who")
    return Ledger(path).account(**{part: _text(settings.get(f"ledger-{part}")) for part in parts})


def _run_round(grid: Any, server: Server, seconds: float) -> None:
    started = time.monotonic()
    calls = server.begin_round()
    for node, answer in _exchange(grid, _VOTE, calls, seconds):
        _log_refusal(server.receive(node, answer))
    server.close_round()
    _logger.info("round %d took %.1f s", server.spent[-1].number, time.monotonic() - started)


def _wait_for_nodes(grid: Any, fewest: int, seconds: float) -> list[int]:
    end = time.monotonic() + seconds
    while True:
        nodes = sorted(grid.get_node_ids())
        if len(nodes) >= fewest:
            return nodes
        if time.monotonic() > end:
            raise DptallyError(f"fewer than {fewest} nodes connected within {seconds:g} seconds.")
        time.sleep(1)


def _exchange(
    grid: Any, message_type: str, payloads: Mapping[Any, bytes], seconds: float
) -> Iterable[tuple[int, object]]:
    """Send each node its payload, and yield what comes back in time; errors of nodes are nodes that do not answer."""
    from flwr.app import Message

    messages = [
        Message(_content(payload), message_type=message_type, dst_node_id=node, ttl=seconds)
        for node, payload in payloads.items()
    ]
    if not messages:
        return
    for answer in grid.send_and_receive(messages, timeout=seconds):
        if not answer.has_error():
            yield answer.metadata.src_node_id, _payload(answer)


def _log_refusal(outcome: str) -> None:
    if outcome != COUNTED:
        _logger.warning("a message was refused: %s", outcome)


def _save(result: Any, output: Path, *, overwrite: bool) -> None:
    if hasattr(result, "save"):
        result.save(output, overwrite=overwrite)
        return
    with complete_or_absent(output, overwrite=overwrite) as file:
        file.write(json.dumps(result.to_dict(), indent=1).encode())


# ---- both ----


def _register(tasks: Iterable[type[Rounds]]) -> None:
    for known in tasks:
        register_task(known.task, known)


def _payload(message: Any) -> Any:
    """What a message carries; anything at all, if the other end does not keep to the protocol."""
    record = message.content.get(_RECORD)
    return record.get(_PAYLOAD) if isinstance(record, Mapping) else None


def _content(payload: bytes) -> Any:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({_RECORD: ConfigRecord({_PAYLOAD: payload})})


def _reply(message: Any, payload: bytes) -> Any:
    from flwr.app import Message

    return Message(_content(payload), reply_to=message)


def _text(setting: object) -> str | None:
    """A setting as text; Flower has no null, so empty text stands for it."""
    return str(setting) if setting not in (None, "") else None
