"""Processes killed while they write: a release, a checkpoint of a sketch, the state of a federation."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

from dptally.ledger import Ledger
from studies.reliability.outcomes import Outcome, Settings
from studies.reliability.outside import hidden_files, read_books, read_release, read_sketch, written_files
from studies.reliability.processes import Job, WarmStart, fresh, until
from studies.reliability.scenes import make_scene

__all__ = ["kill_checkpoints", "kill_federations", "kill_saves"]

_WORKERS = "studies.reliability.workers"
_KEYS = 20_000
_TRIES = 400


def kill_saves(settings: Settings, directory: Path) -> Outcome:
    """Kill ``release.save``, over an older file and under a new name; whatever has a name is whole."""
    outcome, moments = Outcome(), settings.moments("saves")
    with WarmStart() as warm:
        kills = max(2, settings.kills // 10)
        scene = make_scene(directory, "scene")
        for number in range(kills):
            overwrite = number % 2 == 0
            times = "100000"
            job = _call(
                "save_a_release", scene.target, scene.ledger, _KEYS, times, "yes" if overwrite else "no", at=scene
            )
            before = set(scene.output.iterdir())
            stamp = scene.target.stat().st_mtime_ns if scene.target.exists() else 0

            def begun() -> bool:
                if overwrite:  # noqa: B023
                    return scene.target.exists() and scene.target.stat().st_mtime_ns != stamp  # noqa: B023
                return bool(set(scene.output.iterdir()) - before)  # noqa: B023

            victim = warm.start(job)
            until(begun, victim)
            if number % 4 == 0:
                victim.stop_when(lambda: bool(hidden_files(scene.output)), moments, tries=_TRIES)  # noqa: B023
            else:
                victim.ended(moments.uniform(0.0, 0.1))
            hit, _, _ = victim.kill()
            outcome.counts["killed" if hit else "ended before the kill"] += 1
            outcome.counts["killed with a hidden name on disk"] += bool(hidden_files(scene.output))
            books, found = scene.after_a_kill()
            for path in written_files(scene.output):
                outcome.counts["files looked at"] += 1
                if read_release(path, books, scene.rare)[1] != _KEYS:
                    found.append("a release lacks rows")
                if path not in before and not overwrite:
                    path.unlink()
            outcome.blame(f"kill {number}", found)
            job = _call("save_a_release", scene.target, scene.ledger, 1, 1, "yes", at=scene)
            if number % 6 == 5 or number == kills - 1:
                status, said = warm.run(job)
                outcome.counts["starts left alone"] += 1
                outcome.blame(f"start after kill {number}", scene.after_a_start(status, said))
                scene = make_scene(directory, f"scene-{number}-after")
    return outcome


def kill_checkpoints(settings: Settings, directory: Path) -> Outcome:
    """Kill a process that writes checkpoints of a sketch, which is private, at every batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    outcome, moments = Outcome(), settings.moments("checkpoints")
    source, output = directory / "data.parquet", fresh(directory, "output")
    pq.write_table(pa.table({"key": [f"key {number % 3000}" for number in range(50_000)]}), source)
    checkpoint = output / "stream.sketch"
    with WarmStart() as warm:
        for number in range(max(2, settings.kills // 10)):
            stamp = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
            victim = warm.start(_call("checkpoint_a_sketch", source, checkpoint, "100000"))

            def begun() -> bool:
                return checkpoint.exists() and checkpoint.stat().st_mtime_ns != stamp  # noqa: B023

            until(begun, victim)
            if number % 2 == 0:
                victim.stop_when(lambda: bool(hidden_files(output)), moments, tries=_TRIES)
            else:
                victim.ended(moments.uniform(0.0, 0.05))
            hit, _, _ = victim.kill()
            outcome.counts["killed" if hit else "ended before the kill"] += 1
            outcome.counts["killed with a hidden name on disk"] += bool(hidden_files(output))
            outcome.blame(f"kill {number}", [text for path in written_files(output) for text in read_sketch(path)])
        status, said = warm.run(_call("checkpoint_a_sketch", source, checkpoint, "1"))
        outcome.counts["starts left alone"] += 1
        if status or hidden_files(output):
            outcome.blame("last start", [f"status {status}, {len(hidden_files(output))} hidden files: {said[-200:]}"])
    return outcome


def kill_federations(settings: Settings, directory: Path) -> Outcome:
    """Kill the server of a federation; every attempt at a round that its state names has been paid for."""
    outcome, moments = Outcome(), settings.moments("federations")
    rare = "zqzqz"
    with WarmStart() as warm:
        longest = 2.0
        for number in range(max(1, settings.kills // 10)):
            scene = make_scene(directory, f"scene-{number}")
            ledger = scene.ledger.with_name("federation.db")
            Ledger(ledger, epsilon=4, delta="1e-4").disconnect()
            scene.ledger, state = ledger, scene.output / "run.json"
            job = _call("run_a_federation", state, ledger, rare, at=scene)
            for _ in range(3):
                victim = warm.start(job)
                victim.ended(moments.uniform(0.0, longest))
                hit, _, _ = victim.kill()
                longest *= 1.05 if hit else 0.7
                outcome.counts["killed" if hit else "ended before the kill"] += 1
                outcome.blame(f"kill {number}", _paid(scene.books().violations + scene.opens(), state, ledger))
            status, said = warm.run(job)
            outcome.counts["starts left alone"] += 1
            found = _paid(scene.books().violations, state, ledger) + scene.after_a_start(status, said)
            if status or not json.loads(state.read_text())["finished"]:
                found.append(f"it was not finished, and ended with status {status}: {said[-200:]}")
            if rare.encode().hex() in state.read_text() or rare in state.read_text():
                found.append("the rare value is in the state")
            outcome.blame(f"start after kill {number}", found)
    return outcome


def _paid(found: list[str], state: Path, ledger: Path) -> list[str]:
    """Whether the ledger has what the state file says was asked: the whole task once, and every repeated round."""
    if not state.exists():
        return found
    try:
        facts = json.loads(state.read_bytes())
    except ValueError:
        return [*found, "the state is half a file"]
    books = read_books(ledger, ledger.parent / "scratch")
    asked = [attempt["number"] for attempt in facts["attempts"]]
    again = len(asked) - len(set(asked))
    drawn = [one for one in books.spent.values() if one.state in ("drawn", "published")]
    release = (facts["paid"] or {"release_id": None})["release_id"]
    paid = next((one for one in books.spent.values() if one.release_id == release), None)
    if asked and (paid is None or paid.state not in ("drawn", "published") or paid.epsilon != Fraction(1, 4)):
        found = [*found, "a round was asked, and its task was not paid for"]
    if len(drawn) < (1 if asked else 0) + again:
        found = [*found, "a round was asked again, and not paid for again"]
    return found


def _call(function: str, *arguments: object, at: object = None) -> Job:
    temporary = getattr(at, "temporary", None)
    return Job(
        [str(argument) for argument in arguments],
        function=f"{_WORKERS}:{function}",
        temporary=None if temporary is None else str(temporary),
    )
