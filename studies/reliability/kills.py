"""Processes killed while they publish, at random moments and right after each step."""

from __future__ import annotations

import random
import time
from pathlib import Path

from studies.reliability.outcomes import Outcome, Settings
from studies.reliability.outside import LedgerWatch
from studies.reliability.processes import Victim, WarmStart, start_cold, until
from studies.reliability.scenes import Scene, make_scene

__all__ = ["kill_publishing", "kill_spilling"]

_MOMENTS = ("any", "reserved", "any", "drawn", "any", "published", "any", "file")
_COLD_EVERY = 15  # one of so many kills hits a process from scratch
_START_EVERY = 5  # after so many kills a process may end by itself, and must find and leave everything in order


def kill_publishing(settings: Settings, directory: Path) -> Outcome:
    """Kill ``dptally publish --ledger``; look at everything after every kill."""
    outcome, moments = Outcome(), settings.moments("kills")
    with WarmStart() as warm:
        scene = make_scene(directory, "scene-0")
        longest = _measure(scene, warm)
        number = tried = 0
        while number < settings.kills:
            tried += 1
            if tried > 10 * settings.kills:
                outcome.blame("kills", [f"of {tried} processes only {number} could be killed"])
                break
            if len(scene.books().spent) >= scene.releases:
                _refused(scene, warm, outcome)
                outcome.counts["budgets emptied"] += 1
                scene = make_scene(directory, f"scene-{outcome.counts['budgets emptied']}")
            cold = tried % _COLD_EVERY == _COLD_EVERY - 1
            job = scene.job(overwrite=tried % 3 > 0, target=None if tried % 3 else scene.output / f"{tried}.parquet")
            before, expected = scene.books(), Path(job.arguments[job.arguments.index("-o") + 1])
            expected_before = _stamp(expected)
            victim = start_cold(job) if cold else warm.start(job)
            moment = "any" if cold else _MOMENTS[tried % len(_MOMENTS)]
            if moment == "any":
                victim.ended(moments.uniform(0.2 * longest[cold] if cold else 0.0, 1.05 * longest[cold]))
            else:
                _await(moment, scene, before.rows, expected, expected_before, victim, moments)
            hit, _, said = victim.kill()
            number += hit
            if moment == "any":  # runs take longer or shorter as the machine is busy: follow them
                longest[cold] *= 1.05 if hit else 0.8
            outcome.counts["killed" if hit else "ended before the kill"] += 1
            outcome.counts["killed from scratch"] += hit and cold
            books, found = scene.after_a_kill()
            outcome.counts[f"killed when {_reached(books.states(), len(before.spent), expected, expected_before)}"] += (
                hit
            )
            if not hit:
                found += scene.after_a_start(0, said, expected)
            outcome.blame(f"kill {number}", found)
            if hit and number % _START_EVERY == 0:
                _start(scene, warm, outcome, f"start after kill {number}")
        _start(scene, warm, outcome, "last start")
    outcome.measured |= {"seconds_of_a_run": round(longest[0], 3), "from_scratch": round(longest[1], 3)}
    return outcome


def _measure(scene: Scene, warm: WarmStart) -> list[float]:
    """Seconds that a forked process and one from scratch take."""
    taken = []
    for start in (warm.start, start_cold):
        runs = []
        for _ in range(2 if start == warm.start else 1):
            began = time.monotonic()
            start(scene.job()).wait()
            runs.append(time.monotonic() - began)
        taken.append(min(runs))
    return taken


def _await(
    moment: str,
    scene: Scene,
    rows: int,
    expected: Path,
    stamp: tuple[int, int] | None,
    victim: Victim,
    moments: random.Random,
) -> None:
    """Wait for a step, seen from outside, and then for nothing or a few milliseconds."""
    if moment == "file":
        until(lambda: _stamp(expected) != stamp, victim)
    else:
        watch = LedgerWatch(scene.ledger)

        def reached() -> bool:
            last, state = watch.last()
            return last >= rows and state == moment

        until(reached, victim)
        watch.close()
    victim.ended(moments.choice([0.0, 0.0, moments.uniform(0.0, 0.02)]))


def _stamp(path: Path) -> tuple[int, int] | None:
    """What tells one file from another of its name."""
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


def _reached(states: list[str], before: int, expected: Path, stamp: tuple[int, int] | None) -> str:
    if len(states) == before:
        return "nothing was reserved"
    return "saved" if _stamp(expected) != stamp else states[-1]


def _start(scene: Scene, warm: WarmStart, outcome: Outcome, where: str) -> None:
    """A start that is left alone must work, or be refused for the budget alone, and leave everything in order."""
    full = len(scene.books().spent) >= scene.releases
    status, said = warm.run(scene.job())
    found = scene.after_a_start(status, said) + scene.after_a_kill()[1]
    if (status == 0) == full:
        found.append(f"it ended with status {status}")
    outcome.counts["starts left alone"] += 1
    outcome.blame(where, found)


def _refused(scene: Scene, warm: WarmStart, outcome: Outcome) -> None:
    """With nothing left a start is refused, and neither the ledger nor any release changes."""
    rows, files = scene.books().rows, sorted((path.name, _stamp(path)) for path in scene.output.iterdir())
    status, said = warm.run(scene.job())
    outcome.counts["starts refused for the budget"] += 1
    if (
        status == 0
        or "Budget exceeded" not in said
        or scene.books().rows != rows
        or [entry for entry in files if not entry[0].startswith(".")]
        != sorted((path.name, _stamp(path)) for path in scene.output.iterdir() if not path.name.startswith("."))
    ):
        outcome.blame("empty budget", ["a start was not refused, or changed something"])


def kill_spilling(settings: Settings, directory: Path) -> Outcome:
    """Kill a process while rows that do not fit in memory are on disk; the next start removes them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    outcome = Outcome()
    scene = make_scene(directory, "spill")
    numbers = np.random.default_rng(1).permutation(1_500_000)
    keys = pc.binary_join_element_wise(pa.array(numbers).cast(pa.string()), scene.rare + "x" * 30, "-")
    scene.data = scene.data.with_suffix(".parquet")
    pq.write_table(pa.table({"key": keys, "unit": numbers // 7}), scene.data)
    job = scene.job()
    job.arguments.extend(["--memory-limit", "150MB"])
    moments = settings.moments("spills")
    with WarmStart() as warm:
        for number in range(max(1, settings.kills // 60)):

            def spilled() -> bool:
                return any(_size(path) > 1 << 20 for path in scene.temporary.glob("*/*"))

            victim = warm.start(job)
            until(spilled, victim)
            victim.ended(moments.uniform(0.0, 0.2))
            hit, _, said = victim.kill()
            outcome.counts["killed" if hit else "ended before the kill"] += 1
            outcome.counts["killed with rows on disk"] += bool(_left_bytes(scene.temporary))
            outcome.blame(f"kill {number}", scene.after_a_kill()[1])
            small = make_scene(directory, f"small-{number}")
            small.temporary = scene.temporary
            status, said = warm.run(small.job())
            outcome.counts["starts left alone"] += 1
            outcome.blame(f"start after kill {number}", small.after_a_start(status, said))
    return outcome


def _left_bytes(directory: Path) -> int:
    """Bytes in files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _size(path: Path) -> int:
    """Of a file that may be gone before it is asked for."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
