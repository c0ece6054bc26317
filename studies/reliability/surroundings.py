"""Publishing where it cannot work: a full disk, files that may not grow, directories that cannot be written, clocks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from studies.reliability.outcomes import Outcome, Settings
from studies.reliability.processes import WarmStart
from studies.reliability.scenes import Scene, make_scene

__all__ = ["fill_disk", "limit_files", "refuse_writing", "set_clock_back"]

_PAGE = 4096


def _ended(scene: Scene, warm: WarmStart, outcome: Outcome, where: str, **more: int | str | None) -> int:
    """Run the command where it may fail: everything holds afterwards, and failures are plain sentences."""
    status, said = warm.run(scene.job(**more))  # type: ignore[arg-type]
    books, found = scene.after_a_kill()
    states = books.states()
    outcome.counts["published" if status == 0 else f"failed when {states[-1] if states else 'nothing was spent'}"] += 1
    if (status == 0) != scene.target.exists() or (status and not said.startswith("dptally: ")):
        found.append(f"status {status}, release {'there' if scene.target.exists() else 'not there'}, said {said!r}")
    outcome.blame(where, found + scene.after_a_start(status, said))
    return status


def _recovers(scene: Scene, warm: WarmStart, outcome: Outcome, where: str) -> None:
    """Without the obstacle it works."""
    status, said = warm.run(scene.job())
    found = scene.after_a_kill()[1] + scene.after_a_start(status, said)
    outcome.blame(where, found + ([f"it does not work afterwards: {said}"] if status else []))
    outcome.counts["worked afterwards"] += status == 0


def limit_files(settings: Settings, directory: Path) -> Outcome:
    """Files that may not grow beyond so many bytes: writes fail half-way, in the ledger and in the release."""
    outcome, moments = Outcome(), settings.moments("limits")
    with WarmStart() as warm:
        for number in range(max(2, settings.kills // 6)):
            scene = make_scene(directory, f"limit-{number}")
            largest = moments.randrange(0, 40_000)
            _ended(scene, warm, outcome, f"files of {largest} bytes", largest_file=largest)
            _recovers(scene, warm, outcome, f"after files of {largest} bytes")
            shutil.rmtree(scene.data.parent)
    return outcome


def fill_disk(settings: Settings, directory: Path) -> Outcome:
    """A file system of its own, in memory, with so many pages left; needs the right to mount in a namespace."""
    program = "import sys; from studies.reliability.surroundings import _filled; _filled(*sys.argv[1:])"
    mounted = directory / "mounted"
    mounted.mkdir()
    unshare = shutil.which("unshare")
    if unshare is None:
        return Outcome(skipped="there is no unshare(1) here.")
    private = [unshare, "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
    tried = subprocess.run(
        [*private, "mount", "-t", "tmpfs", "tmpfs", str(mounted)], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return Outcome(skipped="no file system can be mounted here, not even in a namespace of its own.")
    runs = str(max(2, settings.kills // 6))
    command = [*private, sys.executable, "-c", program, str(mounted), str(directory), runs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return Outcome(violations=[f"the run on a full disk failed: {done.stderr[-300:]}"])
    facts = json.loads(done.stdout.splitlines()[-1])
    outcome = Outcome(violations=facts["violations"])
    outcome.counts.update(facts["counts"])
    return outcome


def _filled(mounted: str, directory: str, runs: str) -> None:
    """In a namespace of its own: mount, fill, publish; prints an outcome."""
    place, outcome = Path(mounted), Outcome()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", mounted], check=True)  # noqa: S607
    with WarmStart() as warm:
        for number in range(int(runs)):
            pages = number * 40 // int(runs)
            scene = make_scene(place, f"disk-{number}")
            scene.scratch = Path(directory)  # what looks from outside needs room
            ballast = place / "ballast"
            with ballast.open("wb") as file:
                free = os.statvfs(place).f_bavail - pages
                os.posix_fallocate(file.fileno(), 0, free * _PAGE)
            outcome.counts[f"runs with less than {20 if pages < 20 else 40} pages left"] += 1
            _ended(scene, warm, outcome, f"{pages} pages left")
            ballast.unlink()
            _recovers(scene, warm, outcome, f"after {pages} pages")
            shutil.rmtree(scene.data.parent)
    sys.stdout.write(json.dumps(outcome.facts()) + "\n")


def refuse_writing(settings: Settings, directory: Path) -> Outcome:
    """Directories and files that may not be written: refused before anything is spent."""
    outcome = Outcome()
    with WarmStart() as warm:
        for number, what in enumerate(("nothing", "output", "ledger directory", "ledger", "temporary", "data")):
            scene = make_scene(directory, f"scene-{number}")
            home = scene.data.parent
            forbidden = {
                "output": [scene.output],
                "ledger directory": [home],
                "ledger": [scene.ledger],
                "temporary": [scene.temporary],
                "data": [scene.data],
                "nothing": [],
            }[what]
            for path in forbidden:
                path.chmod(0o000 if what == "data" else 0o555 if path.is_dir() else 0o444)
            status = _ended(scene, warm, outcome, f"{what} cannot be written", ordinary=True)
            for path in forbidden:
                path.chmod(0o700)
            states = scene.books().states()
            if what == "nothing" and status:
                outcome.blame(what, [f"it ended with status {status}"])
            if what in ("output", "ledger", "ledger directory") and (status == 0 or states):
                outcome.blame(what, [f"it was not refused before anything was spent: status {status}, {states}"])
            if what == "data" and states != ["void"]:
                outcome.blame(what, [f"what could not be read was not given back: {states}"])
    return outcome


def set_clock_back(settings: Settings, directory: Path) -> Outcome:
    """Clocks that jump: order and sums do not depend on them, and the ledger says that a clock was set back."""
    outcome, moments = Outcome(), settings.moments("clock")
    scene = make_scene(directory, "clock")
    clocks = ["2001-01-01T00:00:00.000000+00:00", None, "2200-01-01T00:00:00.000000+00:00", None]
    moments.shuffle(clocks)
    with WarmStart() as warm:
        for clock in [None, *clocks, clocks[0]]:
            status, said = warm.run(scene.job(clock=clock))
            outcome.counts["published" if status == 0 else "failed"] += 1
            books, found = scene.after_a_kill()
            outcome.blame(f"clock at {clock}", found + scene.after_a_start(status, said))
        books = scene.books()
        outcome.counts["rows with an earlier time than one before"] = books.late
        if books.states() != ["published"] * 6 or not books.late:
            outcome.blame("clock", [f"six releases were expected: {books.states()}, {books.late} rows late"])
    from dptally.ledger import Ledger

    opened = Ledger(scene.ledger)
    if not opened.clock_set_back or opened.history()[-1].number != 6:
        outcome.blame("clock", ["the ledger does not say that a clock was set back"])
    opened.disconnect()
    return outcome
