"""The command ``quantile``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dptally
from tests.cli.conftest import PRIVACY, Run

INTERVAL = ("--value", "delay", "--low", -60, "--high", 1500)


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    """20,000 rows with delays 0 to 99, some missing or out of the interval, and a day each."""
    place = tmp_path / "flights.csv"
    rows = [f"{i},{i % 100},2013-01-{1 + i % 28:02d}" for i in range(20_000)]
    place.write_text(
        "\n".join(["flight,delay,day", *rows, "a,,", "b,nonsense,2013-13-13", "c,99999,2012-01-01"]) + "\n"
    )
    return place


def test_quantiles_are_printed_as_csv(run: Run, flights: Path) -> None:
    """Into a pipe, one line for each quantile; what is promised goes to standard error."""
    done = run("quantile", flights, *INTERVAL, *PRIVACY, "-q", "0.5", "-q", "0.9")
    assert done.status == 0
    head, *lines = done.out.splitlines()
    assert head == "q,estimate,lower,upper"
    for line, true in zip(lines, (49, 89), strict=True):
        _, estimate, lower, upper = (float(part) for part in line.split(","))
        assert lower <= estimate <= upper
        assert abs(estimate - true) < 15
    assert "(epsilon = 1, delta = 1e-06)-differential privacy" in done.err
    assert "levels together" in done.err


def test_a_file_and_json(run: Run, flights: Path, tmp_path: Path) -> None:
    """With -o the tree is written and can be read; JSON names the file, the promise and the quantiles."""
    place = tmp_path / "ranges.parquet"
    done = run(
        "quantile", flights, "--value", "day", "--low", "2013-01-01", "--high", "2013-01-31", "--epsilon", 1,
        "--mechanism", "dense", "-o", place, "--json",
    )  # fmt: skip
    facts = json.loads(done.out)
    assert (done.status, facts["output"], facts["guarantee"]["delta"]) == (0, str(place), "0")
    assert [found["q"] for found in facts["quantiles"]] == [0.25, 0.5, 0.75]
    assert all(found["lower"] <= found["estimate"] <= found["upper"] for found in facts["quantiles"])
    loaded = dptally.load_ranges(place)
    assert str(loaded.quantile("0.5").estimate) == facts["quantiles"][1]["estimate"]
    again = run("quantile", flights, *INTERVAL, *PRIVACY, "-o", place)
    assert again.status != 0 and "exists" in again.err


def test_a_saved_tree_is_asked_again(run: Run, flights: Path, tmp_path: Path) -> None:
    """The same file gives the same quantiles, and others, without data or parameters."""
    place = tmp_path / "ranges.parquet"
    first = run("quantile", flights, *INTERVAL, *PRIVACY, "-q", "0.9", "-o", place)
    assert f"Next: `dptally quantile --from {place} -q 0.9`." in first.err
    again = run("quantile", "--from", place, "-q", "0.9")
    assert (again.status, again.out) == (0, first.out) and "epsilon = 1" in again.err
    facts = json.loads(run("quantile", "--from", place, "--json").out)
    assert [found["q"] for found in facts["quantiles"]] == [0.25, 0.5, 0.75] and facts["output"] is None


def test_what_a_saved_tree_does_not_take(run: Run, flights: Path, tmp_path: Path) -> None:
    """Options of data are refused beside --from, and so is a file that is no such tree; without it they are needed."""
    done = run("quantile", flights, "--from", tmp_path / "r.parquet", "--epsilon", 1)
    assert done.status == 2
    assert done.err == "dptally: --from asks a saved tree and reads no data; leave out INPUT, --epsilon.\n"
    done = run("quantile", "--from", tmp_path / "r.parquet", "--table", "flights")
    assert (done.status, done.out) == (2, "") and "leave out --table." in done.err
    done = run("quantile", "--from", flights)
    assert done.status == 1 and "is not a readable Parquet file" in done.err
    done = run("quantile", flights, "--value", "delay", "--low", 0)
    assert done.status == 2
    assert done.err == (
        "dptally: the following arguments are required: --high, --epsilon; see dptally quantile --help.\n"
    )
    assert "required: INPUT, --value" in run("quantile").err


def test_times_and_seeds(run: Run, flights: Path) -> None:
    """Times are read in ISO form; a seed repeats itself and says that nothing is promised."""
    request = (
        "quantile", flights, "--value", "day", "--low", "2013-01-01T00:00", "--high", "2013-02-01T00:00", *PRIVACY,
        "--not-private-seed", 4,
    )  # fmt: skip
    first, second = run(*request), run(*request)
    assert first.status == 0 and first.out == second.out and "2013-01-" in first.out
    assert "NOT PRIVATE" in first.err
    assert run(*request, "--quiet").err == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--low", "soon"), "--low must be a number, a date or a time such as 2013-01-31T12:00, got 'soon'."),
        (("--low", "2000"), "low must be below high, got 2000 and 1500."),
        (("-q", "1.5"), "q must be from 0 to 1, got 1.5."),
        (("--value", "nothing"), "column 'nothing' is not named in"),
        (("--mechanism", "dense"), "delta must be 0 for the mechanism 'dense', got 1e-6."),
        (("--resolution", "many"), "must be a whole number, got 'many'"),
    ],
)
def test_mistakes_have_their_sentence(run: Run, flights: Path, wrong: tuple[str, str], message: str) -> None:
    """A bad request ends with one sentence and a status."""
    done = run("quantile", flights, *INTERVAL, *PRIVACY, *wrong)
    assert done.status != 0 and message in done.err and not done.out
