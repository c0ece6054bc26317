"""The commands ``federated simulate``, ``federated serve`` and ``federated client``, with Flower as the transport.

JSON, for simulate and serve: as ``publish --json`` with ``-o``; for a task from a file, `output` alone.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli.ledger import add_ledger_options, ledger_of
from dptally.cli.parser import Parser, add_command, whole_number
from dptally.errors import DptallyError, InvalidParameter

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands

__all__ = ["add_commands"]

_LAW_OPTIONS = ("rate", "threshold", "key_bytes", "colluding")
_NODE_OPTIONS = (
    "unit",
    "table",
    "capacity",
    "max_epsilon",
    "max_delta",
    "max_rate",
    "min_devices",
    "most_answers",
    "max_message_bytes",
    "trust_contact_rate",
)


def add_commands(commands: Commands) -> None:
    """Add ``federated`` with its own commands."""
    group = commands.add_parser(
        "federated",
        help="ask devices over a network: simulate, serve, client",
        description=(
            "Ask many devices, each of which takes part by a secret coin of its own, and release what enough of them\n"
            "said. The server is trusted until it has applied the threshold. Needs pip install 'dptally[federated]'."
        ),
        epilog="example:\n  dptally federated simulate w.csv --key word --epsilon 1 --delta 1e-6 -o release.parquet",
    )
    inner = group.add_subparsers(title="commands", dest="federated_command", metavar="COMMAND", required=True)
    _add_simulate(inner)
    _add_serve(inner)
    _add_client(inner)


def _add_simulate(commands: Commands) -> None:
    parser = add_command(
        commands,
        "simulate",
        _simulate,
        summary="run a federation on this machine, its devices taken from one table",
        details=(
            "Deal the devices of a table out to simulated nodes, and run the whole protocol between them in Flower's\n"
            "simulation engine. Coins are secret, so the release is as private as that of a real federation."
        ),
        example="dptally federated simulate w.csv --key word --epsilon 1 --delta 1e-6 --nodes 99 -o release.parquet",
        also="dptally federated simulate w.csv --key word --epsilon 1 --delta 1e-6 --rate 0.05 -o release.parquet",
    )
    _add_table(parser)
    _add_run(parser, nodes_help="how many simulated nodes (default: 10)", nodes=10)
    parser.add_argument("--cores", metavar="N", type=whole_number, default=2, help="processes to use (default: 2)")


def _add_serve(commands: Commands) -> None:
    parser = add_command(
        commands,
        "serve",
        _serve,
        summary="start a SuperLink, wait for nodes, and run a task",
        details=(
            "Listen for nodes, run one task over them, write its result, and end. With --state, a server that was\n"
            "killed goes on where it was; a round that was cut off is asked again, and its budget is spent twice.\n"
            "TLS and authentication of nodes are Flower's: give its certificates, or --insecure on a trusted network."
        ),
        example=(
            "dptally federated serve --key word --epsilon 1 --delta 1e-6 --nodes 4 --port 8000 "
            "--ssl-certfile server.pem --ssl-keyfile server.key --ssl-ca-certfile ca.crt -o release.parquet"
        ),
        also="dptally federated serve --epsilon 1 --delta 1e-6 --nodes 4 --insecure -o release.parquet",
    )
    parser.add_argument("--key", metavar="NAME", default="key", help="name of the key column of the release")
    _add_run(parser, nodes_help="how many nodes must have come at least (default: 1)", nodes=1)
    parser.add_argument("--wait-seconds", metavar="S", type=whole_number, default=600, help="for nodes (default: 600)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    parser.add_argument("--port", type=whole_number, default=8000, help="port to listen at (default: 8000)")
    parser.add_argument("--insecure", action="store_true", help="no TLS: votes travel in the clear")
    parser.add_argument("--ssl-certfile", metavar="FILE", help="the server's certificate")
    parser.add_argument("--ssl-keyfile", metavar="FILE", help="the server's private key")
    parser.add_argument("--ssl-ca-certfile", metavar="FILE", help="the authority that signed the certificate")
    parser.add_argument("--enable-supernode-auth", action="store_true", help="take only nodes whose keys are known")


def _add_client(commands: Commands) -> None:
    parser = add_command(
        commands,
        "client",
        _client,
        summary="answer for the devices of a local table",
        details=(
            "Start a SuperNode that answers for the devices of a table, until it is stopped. Each device takes part\n"
            "by a secret coin of its own; a device that does not sends a message of the same size. The node checks\n"
            "every call against limits of its own, and counts what it has answered in a file, over all runs."
        ),
        example="dptally federated client words.csv --key word --superlink server:8000 --root-certificates ca.crt",
        also="dptally federated client words.sqlite --table words --key word --superlink server:8000 --insecure",
    )
    _add_table(parser)
    parser.add_argument("--table", metavar="NAME", help="table or view of an SQLite file")
    parser.add_argument("--capacity", metavar="N", type=whole_number, help="answer as if for this many devices")
    parser.add_argument("--max-epsilon", metavar="E", help="epsilon of all answers together, at most (default: 16)")
    parser.add_argument("--max-delta", metavar="D", help="delta of all answers together, at most (default: 1e-3)")
    parser.add_argument("--max-rate", metavar="P", help="probability of taking part in a round, at most (default: 1/2)")
    parser.add_argument("--min-devices", metavar="N", type=whole_number, help="devices a call must ask (default: 1)")
    parser.add_argument("--most-answers", metavar="N", type=whole_number, help="rounds to answer in all (default: 64)")
    parser.add_argument("--max-message-bytes", metavar="N", type=whole_number, help="longest message (default: 16 MiB)")
    parser.add_argument("--trust-contact-rate", action="store_true", help="answer calls that ask only some devices")
    parser.add_argument("--answers", metavar="FILE", help="where answers are counted (default: one file a table)")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not show Flower's log")
    parser.add_argument("--superlink", metavar="HOST:PORT", required=True, help="where the server listens")
    parser.add_argument("--insecure", action="store_true", help="no TLS: votes travel in the clear")
    parser.add_argument("--root-certificates", metavar="FILE", help="what signed the server's certificate")
    parser.add_argument("--auth-supernode-private-key", metavar="FILE", help="the key the server knows the node by")


def _add_table(parser: Parser) -> None:
    parser.add_argument("input", metavar="TABLE", help="file or glob: CSV, JSON lines, Parquet; SQLite for clients")
    parser.add_argument("--key", metavar="COLUMN", required=True, help="what a device holds")
    parser.add_argument("--unit", metavar="COLUMN", help="whose row it is (default: every row is a device)")


def _add_run(parser: Parser, *, nodes_help: str, nodes: int) -> None:
    parser.add_argument("--epsilon", metavar="E", help='read exactly: "0.1" is 1/10, "1/3" works too')
    parser.add_argument("--delta", metavar="D", help="well below one over the number of devices, as 1e-6")
    parser.add_argument("--rate", metavar="P", help="probability of taking part (default: the best)")
    parser.add_argument("--threshold", metavar="T", type=whole_number, help="votes that are enough (default: the best)")
    parser.add_argument("--key-bytes", metavar="N", type=whole_number, help="longest key, as UTF-8 (default: 64)")
    parser.add_argument("--colluding", metavar="N", type=whole_number, help="devices in league with readers (none)")
    parser.add_argument("--task", metavar="FILE", help="another task, as JSON: its name and parameters")
    parser.add_argument("--nodes", metavar="N", type=whole_number, default=nodes, help=nodes_help)
    parser.add_argument(
        "--max-devices-per-node", metavar="N", type=whole_number, default=10_000, help="refuse nodes with more (10000)"
    )
    parser.add_argument("--contact-rate", metavar="R", help="ask each device with this probability (default: all)")
    parser.add_argument(
        "--round-seconds", metavar="S", type=whole_number, default=120, help="how long a round waits (default: 120)"
    )
    add_ledger_options(parser)
    parser.add_argument("--state", metavar="FILE", help="keep the run's public state here, and resume from it")
    parser.add_argument("--project", metavar="DIRECTORY", help="write the Flower project here, and keep it")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="where to write the release (Parquet)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but what was asked for")


def _simulate(arguments: argparse.Namespace) -> None:
    from dptally.federated.flower_project import run_simulation

    own: dict[str, str | int] = {
        "simulated-source": str(Path(arguments.input).absolute()),
        "simulated-key": arguments.key,
        "simulated-unit": arguments.unit or "",
        "wait-seconds": 120,
    }
    with _project(arguments, own) as project:
        run_simulation(project, nodes=arguments.nodes, cores=arguments.cores, echo=_echo(arguments))
    _deliver(arguments)


def _serve(arguments: argparse.Namespace) -> None:
    from dptally.federated.flower_project import run_server

    certificates = ("ssl_certfile", "ssl_keyfile", "ssl_ca_certfile")
    given = [name for name in certificates if getattr(arguments, name) is not None]
    if arguments.insecure == bool(given) or (given and len(given) < len(certificates)):
        raise InvalidParameter(
            "give --ssl-certfile, --ssl-keyfile and --ssl-ca-certfile for TLS, or --insecure to go without."
        )
    security = ["--insecure"] if arguments.insecure else []
    for name in given:
        security += [f"--{name.replace('_', '-')}", getattr(arguments, name)]
    if arguments.enable_supernode_auth:
        security.append("--enable-supernode-auth")
    with _project(arguments, {"wait-seconds": arguments.wait_seconds}) as project:
        run_server(
            project,
            host=arguments.host,
            port=arguments.port,
            security=security,
            root_certificates=None if arguments.insecure else str(Path(arguments.ssl_ca_certfile).absolute()),
            echo=_echo(arguments),
        )
    _deliver(arguments)


def _client(arguments: argparse.Namespace) -> None:
    from dptally.federated.client import Node
    from dptally.federated.devices import read_devices
    from dptally.federated.flower_app import limits_and_answers, require_flower
    from dptally.federated.flower_project import run_client

    if arguments.insecure == (arguments.root_certificates is not None):
        raise InvalidParameter("give --root-certificates for TLS, or --insecure to go without.")
    require_flower()
    source = str(Path(arguments.input).absolute())
    # Mistakes show here, to the owner of the table, and not in the middle of a round.
    values = read_devices(source, key=arguments.key, unit=arguments.unit, table=arguments.table)
    own: dict[str, str | int] = {"source": source, "key": arguments.key}
    for name in _NODE_OPTIONS:
        if getattr(arguments, name) not in (None, False):
            own[name.replace("_", "-")] = getattr(arguments, name)
    if arguments.answers is not None:
        own["answers"] = str(Path(arguments.answers).absolute())
    limits, answers = limits_and_answers(own)
    Node(values, capacity=arguments.capacity, limits=limits, answers=answers)
    security = ["--insecure"] if arguments.insecure else ["--root-certificates", arguments.root_certificates]
    if arguments.auth_supernode_private_key is not None:
        security += ["--auth-supernode-private-key", arguments.auth_supernode_private_key]
    status = run_client(arguments.superlink, own, security=security, echo=_echo(arguments))
    if status:
        raise DptallyError(f"the SuperNode ended with status {status}.")


@contextlib.contextmanager
def _project(arguments: argparse.Namespace, own: dict[str, str | int]) -> Iterator[Path]:
    """The Flower project of a run, with everything checked that can be before anybody is asked."""
    from dptally.federated.flower_app import require_flower
    from dptally.federated.flower_project import write_project
    from dptally.files import check_target

    require_flower()
    output = Path(arguments.output).absolute()
    check_target(output, overwrite=arguments.overwrite)
    task = _task(arguments)
    settings = {
        "task": json.dumps(task),
        "output": str(output),
        "overwrite": arguments.overwrite,
        "state": str(Path(arguments.state).absolute()) if arguments.state else "",
        "nodes": arguments.nodes,
        "round-seconds": arguments.round_seconds,
        "contact-rate": arguments.contact_rate or "",
        "max-devices-per-node": arguments.max_devices_per_node,
        **_ledger(arguments, task),
        **own,
    }
    if arguments.project is not None:
        yield write_project(arguments.project, settings)
        return
    with tempfile.TemporaryDirectory(prefix="dptally-project-") as place:
        yield write_project(Path(place) / "project", settings)


def _ledger(arguments: argparse.Namespace, task: dict[str, object]) -> dict[str, str]:
    """Settings of the ledger; a run that its budget does not allow is refused here, before anything is started."""
    from dptally.federated.protocol import read_rounds

    account = ledger_of(arguments)
    if account is None:
        return {}
    resumed = arguments.state is not None and Path(arguments.state).exists()
    spends = getattr(read_rounds(task), "spends", None)
    if spends is not None and not resumed:
        account.ledger.check(spends, partitioning=account.partitioning, part=account.part)
    account.ledger.disconnect()
    return {
        "ledger": str(account.ledger.path.absolute()),
        "ledger-source": account.source or "",
        "ledger-unit": account.unit or "",
        "ledger-partitioning": account.partitioning or "",
        "ledger-part": account.part or "",
        "ledger-who": account.who or "",
    }


def _task(arguments: argparse.Namespace) -> dict[str, object]:
    """Name and parameters of the task, checked and judged."""
    from dptally.federated.histogram import HistogramRounds
    from dptally.federated.protocol import read_rounds

    law = {name: getattr(arguments, name) for name in _LAW_OPTIONS if getattr(arguments, name) is not None}
    if arguments.task is not None:
        if law or arguments.epsilon is not None or arguments.delta is not None:
            raise InvalidParameter("--task has all parameters in its file; give no others.")
        try:
            data = json.loads(Path(arguments.task).read_bytes())
        except ValueError:
            data = None
        if not isinstance(data, dict):
            raise InvalidParameter(f"{arguments.task} must hold one JSON object: a task's name and parameters.")
        task = read_rounds(data)
    else:
        if arguments.epsilon is None or arguments.delta is None:
            raise InvalidParameter("give --epsilon and --delta, or a --task.")
        task = HistogramRounds(arguments.epsilon, arguments.delta, key=arguments.key, **law)
    return {"task": task.task, **task.to_dict()}


def _echo(arguments: argparse.Namespace) -> Callable[[str], None] | None:
    """Where Flower's log goes: to standard error, unless nothing is to be said."""
    return None if arguments.quiet else _print_remark


def _print_remark(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _deliver(arguments: argparse.Namespace) -> None:
    """Say what was released."""
    from dptally.cli.printing import describe, print_json, say
    from dptally.cli.publish import summarize

    output = Path(arguments.output)
    if not output.exists():
        raise DptallyError("the run ended without a result; Flower's log says why (leave out --quiet to see it).")
    if arguments.task is not None:
        if arguments.json:
            print_json({"output": str(output)})
        elif not arguments.quiet:
            say(f"The result is in {output}.", style="bold")
        return
    from dptally.releases.release_file import load_release

    release = load_release(output)
    if arguments.json:
        print_json({**describe(release), "output": str(output)})
    elif not arguments.quiet:
        summarize(release, output, remark=False)
