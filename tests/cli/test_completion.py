"""Completion in real shells."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dptally.cli.commands import COMMANDS, build_parser
from dptally.cli.parser import inner_commands, leaf_commands
from tests.cli.conftest import Run


@pytest.fixture
def script(tmp_path: Path, run: Run) -> Path:
    """The script for bash, in a directory with two files."""
    place = tmp_path / "completion.bash"
    place.write_text(run("completion", "bash").out)
    (tmp_path / "events.csv").touch()
    (tmp_path / "other.csv").touch()
    return place


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    listed = " ".join(shlex.quote(word) for word in ("dptally", *words))
    program = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({listed}); COMP_CWORD={len(words)}; _shtab_dptally; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=script.parent,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.split("\n") if line]


def test_bash_knows_the_function(script: Path) -> None:
    """Sourcing the script registers it for dptally."""
    program = f"source {shlex.quote(str(script))} && complete -p dptally"
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, timeout=30, check=True)  # noqa: S607
    assert done.stdout.startswith("complete ") and done.stdout.endswith("-F _shtab_dptally dptally\n")


def test_bash_completes_commands(script: Path) -> None:
    """Commands, inner commands, and those that begin with what is there."""
    assert completed(script, "") == list(inner_commands(build_parser())) == list(COMMANDS)
    assert completed(script, "pu") == ["publish"]
    assert completed(script, "sketch", "") == ["build", "merge", "show", "publish"]
    assert completed(script, "completion", "") == ["bash", "zsh", "tcsh", "fish", "powershell"]


def test_bash_completes_all_options_of_all_commands(script: Path) -> None:
    """After a dash every option of the command is offered, and no other."""
    for path, command in list(leaf_commands(build_parser()))[::3]:
        wanted = {name for action in command._actions for name in action.option_strings}
        assert set(completed(script, *path.split(), "-")) == wanted
    assert sorted(completed(script, "plan", "--ex")) == ["--example", "--explain"]


def test_bash_completes_values(script: Path) -> None:
    """Choices after their option, files where files go, nothing where only the user knows."""
    assert completed(script, "publish", "--nulls", "") == ["drop", "keep"]
    assert completed(script, "publish", "--mechanism", "s") == ["stability", "sample_and_threshold", "sparse"]
    assert completed(script, "publish", "ev") == ["events.csv"]
    assert completed(script, "publish", "events.csv", "-o", "o") == ["other.csv"]
    assert completed(script, "publish", "--epsilon", "") == []
    assert completed(script, "sketch", "publish", "--minimise", "") == ["threshold", "error"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish", "powershell"])
def test_scripts_are_sound(shell: str, tmp_path: Path, run: Run) -> None:
    """Each shell finds no mistake in its script, where it is installed; JSON holds the same."""
    script = run("completion", shell).out
    assert json.loads(run("completion", shell, "--json").out) == {"shell": shell, "script": script}
    for name in ("publish", "heavy-hitters", "build", "max-keys-per-unit"):
        assert name in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    place = tmp_path / f"script.{shell}"
    place.write_text(script)
    done = subprocess.run([shell, "-n", str(place)], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell_is_refused(run: Run) -> None:
    """One sentence, status 2."""
    done = run("completion", "csh")
    assert done.status == 2 and "invalid choice: 'csh'" in done.err
