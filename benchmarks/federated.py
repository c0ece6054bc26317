"""What a federated round costs: bytes per client, work of both ends, and what Flower adds.

Without options: the protocol alone, in one process, for nodes of different sizes. With ``--flower N``: also a run of
`--rounds` rounds over N simulated nodes in Flower's simulation engine (needs the extra ``federated``), beside the same
rounds without Flower.

    python benchmarks/federated.py
    python benchmarks/federated.py --flower 1000 --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dptally
from dptally.federated import HistogramRounds, Node, Round, Server, register_task
from dptally.federated.flower_project import run_simulation, write_project

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon"]


class Repeated(HistogramRounds):
    """The same question several times over."""

    task = "repeated"
    rounds = int(os.environ.get("DPTALLY_BENCHMARK_ROUNDS", "5"))
    done = 0

    def start(self) -> Round:
        """The next round."""
        return Round(**{**super().start().to_dict(), "number": self.done + 1})

    def receive(self, sampled: Mapping[bytes, int]) -> Any:
        """Ask again, or be done."""
        self.done += 1
        return super().receive(sampled) if self.done == self.rounds else self.start()


def protocol(nodes: int, devices: int, key_bytes: int) -> None:
    """One round between nodes in this process."""
    task = HistogramRounds("1", "1e-6", key_bytes=key_bytes)
    server = Server(task, max_devices_per_node=devices)
    held = [WORDS[i % len(WORDS)] for i in range(devices)]
    members = {name: Node(held) for name in range(nodes)}
    for name, node in members.items():
        server.enrol(name, node.enrol(server.registration()))
    start = time.process_time()
    calls = server.begin_round()
    asked = time.process_time()
    ballots = {name: members[name].answer(call) for name, call in calls.items()}
    answered = time.process_time()
    for name, ballot in ballots.items():
        assert server.receive(name, ballot) == "counted"
    server.close_round()
    counted = time.process_time()
    everybody = nodes * devices
    print(
        f"| {nodes:,} | {devices:,} | {key_bytes} | {len(calls[0]):,} | {len(ballots[0]):,} | "
        f"{1e6 * (answered - asked) / everybody:.1f} | {1e6 * (asked - start + counted - answered) / everybody:.1f} |"
    )


def processor_seconds(stop: threading.Event, found: dict[int, float]) -> None:
    """Watch the CPU time of all processes that descend from this one, or carry its mark, until told to stop."""
    ticks = os.sysconf("SC_CLK_TCK")
    while not stop.wait(0.5):
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if f"DPTALLY_BENCHMARK={os.getpid()}".encode() not in (place / "environ").read_bytes():
                    continue
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                found[int(place.name)] = (int(fields[11]) + int(fields[12])) / ticks
            except OSError:
                continue


def flower(nodes: int, rounds: int) -> None:
    """Rounds over simulated nodes of five devices each, through Flower."""
    os.environ["DPTALLY_BENCHMARK"] = str(os.getpid())
    os.environ["DPTALLY_BENCHMARK_ROUNDS"] = str(rounds)
    source = str(Path(dptally.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    task = HistogramRounds("1", "1e-6")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "t.csv").write_text("word\n" + "".join(f"{word}\n" for word in WORDS * nodes))
        settings = {
            "task": json.dumps({"task": "repeated", **task.to_dict()}),
            "output": str(place / "release.parquet"),
            "nodes": nodes,
            "simulated-source": str(place / "t.csv"),
            "simulated-key": "word",
        }
        project = write_project(place / "project", settings, own_task=(__file__, "Repeated"))
        stop, found = threading.Event(), dict[int, float]()
        watch = threading.Thread(target=processor_seconds, args=(stop, found), daemon=True)
        watch.start()
        start = time.monotonic()
        log = run_simulation(project, nodes=nodes)
        wall = time.monotonic() - start
        stop.set()
        watch.join()
    seconds = [float(part) for part in re.findall(r"round \d+ took ([\d.]+) s", log)]
    enrolment = re.findall(r"enrolment took ([\d.]+) s", log)
    assert len(seconds) == rounds, log
    Repeated.rounds = rounds
    register_task(Repeated.task, Repeated)
    server = Server(Repeated("1", "1e-6"))
    members = {i: Node(WORDS) for i in range(nodes)}
    for i, node in members.items():
        server.enrol(i, node.enrol(server.registration()))
    start = time.monotonic()
    while not server.finished:
        for i, call in server.begin_round().items():
            server.receive(i, members[i].answer(call))
        server.close_round()
    alone = (time.monotonic() - start) / rounds
    print(
        f"\n{nodes:,} simulated nodes, {rounds} rounds: {wall:.1f} s wall, {sum(found.values()):.0f} s CPU; "
        f"enrolment with Ray's start {enrolment[0]} s, rounds {', '.join(map(str, seconds))} s; "
        f"without Flower {alone:.2f} s a round."
    )


def main() -> None:
    """Print the table, and the run if it was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flower", metavar="NODES", type=int, help="simulated nodes")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    HistogramRounds("1", "1e-6").receive({})  # imports and the judge, once
    print("| nodes | devices each | key_bytes | call bytes | ballot bytes | client us/device | server us/device |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for nodes, devices, key_bytes in ((1000, 1, 64), (1000, 1, 16), (100, 100, 64), (4, 10_000, 64), (4, 10_000, 16)):
        protocol(nodes, devices, key_bytes)
    if arguments.flower:
        flower(arguments.flower, arguments.rounds)


if __name__ == "__main__":
    main()
