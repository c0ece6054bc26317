"""The commands ``federated simulate``, ``federated serve`` and ``federated client``, with Flower as the transport."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dptally.cli.explain import Explanation, described, explain_release, inputs, outputs, with_ledger
from dptally.cli.options import DELTA, EPSILON, add_ledger_options, add_overwrite, given, ledger_of
from dptally.cli.outputs import summarize
from dptally.cli.parser import Commands, Parser, add_command, add_flag, add_group, add_number, add_value
from dptally.cli.printing import describe, print_json, say
from dptally.errors import DptallyError, InvalidParameter
from dptally.files import check_target
from dptally.loading import load

_CERTIFICATES = "ssl_certfile ssl_keyfile ssl_ca_certfile"
_LAW_OPTIONS = "rate threshold key_bytes colluding"
_NODE_OPTIONS = (
    "unit table capacity max_epsilon max_delta max_rate min_devices most_answers max_message_bytes trust_contact_rate"
)


def add_commands(commands: Commands) -> None:
    """Add ``federated`` with its own commands."""
    inner = add_group(
        commands,
        "federated",
        summary="ask devices over a network: simulate, serve, client",
        details=(
            "Ask many devices, each of which takes part by a secret coin of its own, and release what enough of them\n"
            "said. The server is trusted until it has applied the threshold. Needs pip install 'dptally[federated]'."
        ),
        example="dptally federated simulate w.csv --key word --epsilon 1 --delta 1e-6 -o release.parquet",
    )
    parser = add_command(inner, "simulate", _simulate, _explain_run)
    _add_table(parser)
    add_number(parser, "--nodes", "N", "how many simulated nodes", default=10)
    _add_run(parser)
    add_number(parser, "--cores", "N", "processes to use", default=2)

    parser = add_command(inner, "serve", _serve, _explain_run)
    add_value(parser, "--key", "NAME", "name of the key column of the release", default="key")
    add_number(parser, "--nodes", "N", "how many nodes must have come at least", default=1)
    _add_run(parser)
    add_number(parser, "--wait-seconds", "S", "how long to wait for nodes", default=600)
    add_value(parser, "--host", "HOST", "address to listen at", default="127.0.0.1")
    add_number(parser, "--port", "PORT", "port to listen at", default=8000)
    add_flag(parser, "--insecure", "no TLS: votes travel in the clear")
    add_value(parser, "--ssl-certfile", "FILE", "the server's certificate")
    add_value(parser, "--ssl-keyfile", "FILE", "the server's private key")
    add_value(parser, "--ssl-ca-certfile", "FILE", "the authority that signed the certificate")
    add_flag(parser, "--enable-supernode-auth", "take only nodes whose keys are known")

    parser = add_command(inner, "client", _client, _explain_client)
    _add_table(parser)
    add_value(parser, "--table", "NAME", "table or view of an SQLite file")
    add_number(parser, "--capacity", "N", "answer as if for this many devices")
    add_value(parser, "--max-epsilon", "E", "epsilon of all answers together, at most (default: 16)")
    add_value(parser, "--max-delta", "D", "delta of all answers together, at most (default: 1e-3)")
    add_value(parser, "--max-rate", "P", "probability of taking part in a round, at most (default: 1/2)")
    add_number(parser, "--min-devices", "N", "devices a call must ask (default: 1)")
    add_number(parser, "--most-answers", "N", "rounds to answer in all (default: 64)")
    add_number(parser, "--max-message-bytes", "N", "longest message (default: 16 MiB)")
    add_flag(parser, "--trust-contact-rate", "answer calls that ask only some devices")
    add_value(parser, "--answers", "FILE", "where answers are counted (default: one file a table)")
    add_flag(parser, "-q --quiet", "do not show Flower's log")
    add_value(parser, "--superlink", "HOST:PORT", "where the server listens", required=True)
    add_flag(parser, "--insecure", "no TLS: votes travel in the clear")
    add_value(parser, "--root-certificates", "FILE", "what signed the server's certificate")
    add_value(parser, "--auth-supernode-private-key", "FILE", "the key the server knows the node by")


def _add_table(parser: Parser) -> None:
    add_value(parser, "input", "TABLE", "file or glob: CSV, JSON lines, Parquet; SQLite for clients")
    add_value(parser, "--key", "COLUMN", "what a device holds", required=True)
    add_value(parser, "--unit", "COLUMN", "column that identifies the device (default: every row is a device)")


def _add_run(parser: Parser) -> None:
    add_value(parser, "--epsilon", "E", EPSILON)
    add_value(parser, "--delta", "D", DELTA)
    add_value(parser, "--rate", "P", "probability of taking part (default: the best)")
    add_number(parser, "--threshold", "T", "votes that are enough (default: the best)")
    add_number(parser, "--key-bytes", "N", "longest key, as UTF-8 (default: 64)")
    add_number(parser, "--colluding", "N", "devices that share what they know with readers (default: 0)")
    add_value(parser, "--task", "FILE", "another task, as JSON: its name and parameters")
    add_number(parser, "--max-devices-per-node", "N", "refuse nodes with more", default=10_000)
    add_value(parser, "--contact-rate", "R", "ask each device with this probability (default: all)")
    add_number(parser, "--round-seconds", "S", "how long a round waits", default=120)
    add_ledger_options(parser)
    add_value(parser, "--state", "FILE", "keep the run's public state here, and resume from it")
    add_value(parser, "--project", "DIR", "write the Flower project here, and keep it")
    add_value(parser, "-o --output", "FILE", "where to write the release (Parquet)", required=True)
    add_overwrite(parser)
    add_flag(parser, "-q --quiet", "print only the requested output")


def _simulate(arguments: argparse.Namespace) -> None:
    """Run a federation on this machine, its devices taken from one table.

    Deal the devices of a table out to simulated nodes, and run the whole protocol between them in Flower's
    simulation engine. Coins are secret, so the release is as private as that of a real federation.

    dptally federated simulate w.csv --key word --epsilon 1 --delta 1e-6 --nodes 99 -o release.parquet
    dptally federated simulate w.csv --key word --epsilon 1 --delta 1e-6 --rate 0.05 -o release.parquet
    """
    from dptally.federated.flower_project import run_simulation

    own = {"source": str(Path(arguments.input).absolute()), "key": arguments.key, "unit": arguments.unit or ""}
    simulated = {f"simulated-{name}": part for name, part in own.items()}
    with _project(arguments, {**simulated, "wait-seconds": 120}) as project:
        run_simulation(project, nodes=arguments.nodes, cores=arguments.cores, echo=None if arguments.quiet else _echo)
    _deliver(arguments)


def _serve(arguments: argparse.Namespace) -> None:
    """Start a SuperLink, wait for nodes, and run a task.

    Listen for nodes, run one task over them, write its result, and end. With --state, a server that was
    killed goes on where it was; a round that was cut off is asked again, and its budget is spent twice.
    TLS and authentication of nodes are Flower's: give its certificates, or --insecure on a trusted network.

    dptally federated serve --task t.json --ssl-certfile s.pem --ssl-keyfile s.key --ssl-ca-certfile ca.crt -o r.parquet
    dptally federated serve --epsilon 1 --delta 1e-6 --nodes 4 --insecure -o release.parquet
    """
    from dptally.federated.flower_project import run_server

    files = {name: file for name, file in given(arguments, _CERTIFICATES).items() if file is not None}
    if arguments.insecure == bool(files) or len(files) not in (0, 3):
        raise InvalidParameter(
            "give --ssl-certfile, --ssl-keyfile and --ssl-ca-certfile for TLS, or --insecure to go without."
        )
    security = ["--insecure"] if arguments.insecure else []
    for name, file in files.items():
        security += [f"--{name.replace('_', '-')}", file]
    if arguments.enable_supernode_auth:
        security.append("--enable-supernode-auth")
    with _project(arguments, {"wait-seconds": arguments.wait_seconds}) as project:
        run_server(
            project,
            host=arguments.host,
            port=arguments.port,
            security=security,
            root_certificates=None if arguments.insecure else str(Path(arguments.ssl_ca_certfile).absolute()),
            echo=None if arguments.quiet else _echo,
        )
    _deliver(arguments)


def _client(arguments: argparse.Namespace) -> None:
    """Answer for the devices of a local table.

    Start a SuperNode that answers for the devices of a table, until it is stopped. Each device takes part
    by a secret coin of its own; a device that does not sends a message of the same size. The node checks
    every call against limits of its own, and counts what it has answered in a file, over all runs.

    dptally federated client words.csv --key word --superlink server:8000 --root-certificates ca.crt
    dptally federated client words.sqlite --table words --key word --superlink server:8000 --insecure
    """
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
    for name, value in given(arguments, _NODE_OPTIONS).items():
        if value not in (None, False):
            own[name.replace("_", "-")] = value
    if arguments.answers is not None:
        own["answers"] = str(Path(arguments.answers).absolute())
    limits, answers = limits_and_answers(own)
    Node(values, capacity=arguments.capacity, limits=limits, answers=answers)
    security = ["--insecure"] if arguments.insecure else ["--root-certificates", arguments.root_certificates]
    if arguments.auth_supernode_private_key is not None:
        security += ["--auth-supernode-private-key", arguments.auth_supernode_private_key]
    status = run_client(arguments.superlink, own, security=security, echo=None if arguments.quiet else _echo)
    if status:
        raise DptallyError(f"the SuperNode ended with status {status}.")


@contextlib.contextmanager
def _project(arguments: argparse.Namespace, own: Mapping[str, str | int]) -> Iterator[Path]:
    """The Flower project of a run, with everything checked that can be before any device is asked."""
    from dptally.federated.flower_app import require_flower
    from dptally.federated.flower_project import write_project

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
    names = ("source", "unit", "partitioning", "part", "who")
    settings = {f"ledger-{name}": getattr(account, name) or "" for name in names}
    return {"ledger": str(account.ledger.path.absolute()), **settings}


def _task(arguments: argparse.Namespace) -> dict[str, object]:
    """Name and parameters of the task, checked and verified."""
    from dptally.federated.histogram import HistogramRounds
    from dptally.federated.protocol import read_rounds

    law = {name: value for name, value in given(arguments, _LAW_OPTIONS).items() if value is not None}
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


def _echo(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _deliver(arguments: argparse.Namespace) -> None:
    output = Path(arguments.output)
    if not output.exists():
        raise DptallyError("the run ended without a result; Flower's log says why (leave out --quiet to see it).")
    if arguments.task is not None:
        if arguments.json:
            print_json({"output": str(output)})
        elif not arguments.quiet:
            say(f"The result is in {output}.", style="bold")
        return
    from dptally.releases.table_release import TableRelease

    release = load(output, TableRelease)
    if arguments.json:
        print_json({**describe(release), "output": str(output)})
    elif not arguments.quiet:
        summarize(release, output, remark=False)


def _explain_run(arguments: argparse.Namespace) -> Explanation:
    simulated = "input" in arguments
    reads = inputs(arguments) if simulated else ("votes of devices, over the network (private)",)
    if arguments.task is not None:
        reads = (*reads, f"{arguments.task} (the task)")
    writes = outputs(arguments, "the release, which anyone may see")
    if arguments.state is not None:
        writes = (*writes, f"{arguments.state}: the public state of the run")
    told: dict[str, Any] = {
        "reads": reads,
        "writes": writes,
        "guarantee": "The server is trusted until it has applied the threshold.",
        "cost": "A round that is cut off and asked again is spent twice.",
        "resources": "Seconds to minutes for each round, mostly waiting; a process for each node that answers.",
    }
    if arguments.task is None:
        return explain_release(arguments, unit="device", **told)
    size = "what the task of the file states"
    told["cost"] = f"For each device that is asked, {size}. {told['cost']}"
    return with_ledger(Explanation(described(arguments), **told), arguments, size)


def _explain_client(arguments: argparse.Namespace) -> Explanation:
    security = "without TLS, in the clear" if arguments.insecure else "over TLS"
    return Explanation(
        described(arguments),
        reads=inputs(arguments),
        writes=(f"votes of the devices that take part, to {arguments.superlink}, {security}",),
        guarantee="That of each task, which the server states; a device trusts the server until the threshold.",
        cost="What each task that is answered states, once for each device.",
        resources="A process while it runs; little work.",
    )
