"""The commands of ``series``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dptally
from dptally.cli import main


def rows(path: Path, start: int) -> str:
    """Rows of a day as CSV."""
    lines = [f"q{n % 4},{start + n}" for n in range(2000)]
    path.write_text("\n".join(["query,user_id", *lines]))
    return str(path)


def test_a_series_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Create, add two days, show, plot, report, seal."""
    place, today = str(tmp_path / "year.series"), tmp_path / "today.parquet"
    bounds = ["--max-keys-per-unit", "2", "--periods", "30", "--epsilon", "4", "--delta", "1e-4"]
    assert main(["series", "create", place, "--key", "query", "--unit", "user_id", *bounds, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["horizon"] == 30
    assert made["periods"] == []
    first, second = rows(tmp_path / "1.csv", 0), rows(tmp_path / "2.csv", 1000)
    assert main(["series", "add", place, first, "--period", "2026-11-15", "--json"]) == 0
    added = json.loads(capsys.readouterr().out)
    assert {"query", "total", "lower", "upper", "increment"} <= set(added["rows"][0])
    assert main(["series", "add", place, second, "--period", "2026-11-16", "-o", str(today)]) == 0
    assert "Period 2026-11-16, 2 of 30: 4 keys" in capsys.readouterr().out
    release = dptally.load(today, dptally.SeriesRelease)
    assert release.verify().copies == 2
    assert main(["verify", str(today)]) == 0
    assert main(["top", str(today)]) == 0
    assert main(["show", str(today)]) == 0
    capsys.readouterr()
    assert main(["series", "show", place, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["periods"] == ["2026-11-15", "2026-11-16"]
    assert len(shown["top"]) == 4
    assert main(["series", "show", place, "-o", str(tmp_path / "again.parquet")]) == 0
    assert dptally.load(tmp_path / "again.parquet").table().equals(release.table())
    assert main(["series", "plot", place, "-o", str(tmp_path / "year.svg")]) == 0
    assert main(["series", "report", place, "-o", str(tmp_path / "year.html")]) == 0
    # The style of a page lays out the section with this id, of which there is none here.
    assert 'id="keys"' not in (tmp_path / "year.html").read_text(encoding="utf-8")
    assert main(["series", "seal", place]) == 0
    assert main(["series", "add", place, second, "--period", "2026-11-17"]) == 2


def test_an_add_that_is_refused_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same period twice, and a state that is none."""
    place = str(tmp_path / "s")
    needed = ["--key", "query", "--unit", "user_id", "--periods", "3", "--epsilon", "2", "--delta", "1e-3"]
    assert main(["series", "create", place, *needed]) == 0
    file = rows(tmp_path / "1.csv", 0)
    assert main(["series", "add", place, file, "--period", "1", "-q"]) == 0
    capsys.readouterr()
    assert main(["series", "add", place, file, "--period", "1"]) == 2
    assert capsys.readouterr().err.startswith("dptally: period 1 was added already")
    assert main(["series", "add", file, file, "--period", "1"]) == 2
    assert capsys.readouterr().err.startswith("dptally: ")


@pytest.mark.parametrize("command", ["create", "add", "show", "plot", "report", "seal"])
def test_every_command_explains_itself(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without doing anything."""
    place = str(tmp_path / "s")
    more = {
        "create": ["--key", "q", "--unit", "u", "--periods", "3", "--epsilon", "2", "--delta", "1e-3"],
        "add": ["rows.csv", "--period", "1"],
        "plot": ["-o", "x.svg"],
        "report": ["-o", "x.html"],
    }.get(command, [])
    assert main(["series", command, place, *more, "--explain"]) == 0
    assert f"dptally series {command} would do this" in capsys.readouterr().out
    assert not Path(place).exists()
