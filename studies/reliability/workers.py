"""What forked processes do, beside the command itself, until they are killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["checkpoint_a_sketch", "publish_until_refused", "run_a_federation", "save_a_release", "spend_for_a_while"]


def save_a_release(target: str, ledger: str, keys: str, times: str, overwrite: str) -> None:
    """Publish once, then save that release again and again, over itself or under new names."""
    import dptally

    data = {f"key {number:06d}": 1000 for number in range(int(keys))}
    release = dptally.publish(data, epsilon="1/20", delta="1e-7", mechanism="stability", ledger=ledger, progress=False)
    path = Path(target)
    for number in range(int(times)):
        if overwrite == "yes":
            release.save(path, overwrite=True)
        else:
            release.save(path.with_name(f"{path.stem}-{os.getpid()}-{number}{path.suffix}"))


def checkpoint_a_sketch(source: str, checkpoint: str, times: str) -> None:
    """Build a sketch of a file, writing a checkpoint at every batch, several times over."""
    from dptally import MisraGriesSketch
    from dptally.summaries import counter_sketch

    setattr(counter_sketch, "_CHECKPOINT_SECONDS", 0.0)  # noqa: B010 - for the type checker
    for _ in range(int(times)):
        MisraGriesSketch(2000).update_file(source, key="key", checkpoint=checkpoint)


def run_a_federation(state: str, ledger: str, rare: str) -> None:
    """Run all rounds of a federation that are left, with one node that stands for many devices."""
    from dptally.federated.client import Node
    from dptally.federated.prefix_task import HeavyHitterRounds
    from dptally.federated.server import Server

    rounds = HeavyHitterRounds("1/4", "1e-7", levels=[1, 2, 3, 5])
    server = Server(rounds, state=state, ledger=ledger)
    node = Node(["apple"] * 2000 + [rare])
    server.enrol("node", node.enrol(server.registration()))
    while not server.finished:
        for name, call in server.begin_round().items():
            server.receive(name, node.answer(call))
        server.close_round()


def publish_until_refused(ledger: str, notes: str, go: str) -> None:
    """Publish from one budget as others do, noting every release that was handed over, until there is none left."""
    import dptally
    from studies.reliability.scenes import DELTA, EPSILON

    opened = dptally.Ledger(ledger)
    _wait_for(Path(go))
    with Path(notes).open("a", buffering=1) as written:
        while True:
            try:
                release = dptally.publish(
                    {"common": 1000}, epsilon=EPSILON, delta=DELTA, mechanism="stability", ledger=opened, progress=False
                )
            except dptally.BudgetExceeded:
                written.write("refused\n")
                return
            record = release.guarantee.record
            if record is not None:
                written.write(f"{record.release_id}\n")


def spend_for_a_while(ledger: str, notes: str, go: str, seconds: str) -> None:
    """Spend as fast as can be, without publishing anything, and note how often."""
    from fractions import Fraction

    from dptally import Ledger
    from dptally.privacy.spending import Spending

    opened, spending, spent = Ledger(ledger), Spending("stability", Fraction(1, 1000), Fraction(1, 10**12)), 0
    _wait_for(Path(go))
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        opened.reserve(spending).published()
        spent += 1
    Path(notes).write_text(str(spent))


def _wait_for(path: Path) -> None:
    """Until a file is there: all begin at once."""
    path.with_name(f"ready-{os.getpid()}").touch()
    while not path.exists():
        time.sleep(0.005)
