from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import time
from datetime import UTC, date, datetime
from datetime import time as daytime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

import dptally
from dptally.laws.registry import MECHANISMS
from tests.cli.conftest import MARKER, PRIVACY, Run, on_terminal, start


def test_publish_writes_a_release_and_says_what_it_promises(tmp_path: Path, events: Path, run: Run) -> None:
    """With -o, standard output tells the number of keys, the guarantee, the certificate and what to do next."""
    place = tmp_path / "r.parquet"
    done = run("publish", events, "--key", "fruit", *PRIVACY, "-o", place)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"3 keys released to {place}.\n")
    assert "(epsilon = 1, delta = 1e-06)" in done.out
    assert "Certificate: 31 rows of table" in done.out
    assert f"dptally top {place}" in done.out
    assert dptally.load(place).table().get_column("fruit").to_list() == ["apple", "pear", "plum"]


def test_epsilon_is_read_as_text(tmp_path: Path, events: Path, run: Run) -> None:
    """--epsilon 0.1 means 1/10, not the nearest binary number."""
    done = run("publish", events, "--key", "fruit", "--epsilon", "0.1", "--delta", "1e-6", "--json")
    assert json.loads(done.out)["guarantee"]["epsilon"] == "1/10"


def test_without_output_the_table_is_csv_and_remarks_go_to_stderr(events: Path, run: Run) -> None:
    """Into a pipe the table is CSV and nothing else."""
    done = run("publish", events, "--key", "fruit", *PRIVACY)
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["fruit"] for row in rows] == ["apple", "pear", "plum"]
    assert done.err.startswith("3 keys released.\n")


@pytest.mark.parametrize("page", [("publish", "--help"), ("man",)])
def test_help_and_manual_name_every_mechanism(run: Run, page: tuple[str, ...]) -> None:
    """Somebody who reads the help finds each mechanism, and what --capacity means to it."""
    found = run(*page).out.replace("\\-", "-")
    assert all(name in found for name in MECHANISMS)
    assert "counters of misra_gries" in " ".join(found.split())


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("pear, or\nplum", "pear, or\nplum"),
        (b"\xff\x00a", "ff0061"),
        (-5, "-5"),
        (True, "true"),
        (date(2024, 1, 2), "2024-01-02"),
        (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05.000000"),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05.000000+0000"),
        (daytime(3, 4, 5), "03:04:05.000000000"),
        (Decimal("1.50"), "1.50"),
        (0.5, "0.5"),
    ],
    ids=str,
)
def test_keys_of_every_type_are_printed_as_csv(tmp_path: Path, run: Run, key: object, written: str) -> None:
    """What was paid for can be printed, whatever the type of the key column; bytes come in hexadecimal."""
    pl.DataFrame({"k": [key] * 500}).write_parquet(tmp_path / "keys.parquet")
    done = run("publish", tmp_path / "keys.parquet", "--key", "k", *PRIVACY, "--quiet")
    assert (done.status, done.err) == (0, "")
    assert [row["k"] for row in csv.DictReader(io.StringIO(done.out))] == [written]


def test_confidence_may_be_a_percentage(events: Path, run: Run) -> None:
    """99.9% and 0.999 are the same confidence; what is no number is refused, however large."""
    request = ("publish", events, "--key", "fruit", *PRIVACY, "--not-private-seed", 7, "--confidence")
    assert run(*request, "99.9%") == run(*request, "0.999")
    for wrong in ("much%", "1e999999999%", "100%", "%"):
        assert "confidence must be" in run(*request, wrong).err


def test_quiet_prints_only_the_table(events: Path, run: Run) -> None:
    """--quiet leaves standard error empty."""
    assert run("publish", events, "--key", "fruit", *PRIVACY, "--quiet").err == ""


def test_unit_and_bound_are_stated(events: Path, run: Run) -> None:
    """The unit and the bound on its keys are in the guarantee."""
    done = run("publish", events, "--key", "fruit", "--unit", "user", "--max-keys-per-unit", 3, *PRIVACY, "--json")
    promise = json.loads(done.out)["guarantee"]
    assert (promise["unit"], promise["max_keys_per_unit"], promise["delta"]) == ("user", 3, "1/1000000")
    assert promise["delta_float"] == pytest.approx(1e-6)


def test_several_keys_several_files_and_a_count_column(tmp_path: Path, run: Run) -> None:
    """Two key columns, two inputs and counts work from the command line."""
    for name, size in (("a", 300), ("b", 400)):
        (tmp_path / f"{name}.csv").write_text(f"city,item,times\nulm,x,{size}\nulm,y,1\n")
    done = run(
        "publish", tmp_path / "a.csv", tmp_path / "b.csv", "--key", "city", "--key", "item", "--count", "times",
        *PRIVACY, "--json",
    )  # fmt: skip
    rows = json.loads(done.out)["rows"]
    assert [(row["city"], row["item"]) for row in rows] == [("ulm", "x")]
    assert 650 < rows[0]["estimate"] < 750


def test_types_of_columns_are_stated(tmp_path: Path, run: Run) -> None:
    """--type says what a column of text holds; what it must look like is said where it does not."""
    (tmp_path / "a.csv").write_text("age,who\n" + "".join(f"{i % 2 + 7:03},{i}\n" for i in range(300)))
    asked = ("publish", tmp_path / "a.csv", "--key", "age", "--unit", "who", *PRIVACY)
    stated = json.loads(run(*asked, "--type", "age=int64", "--type", "who=decimal(9,2)", "--json").out)
    assert [row["age"] for row in stated["rows"]] == [7, 8]
    assert [row["age"] for row in json.loads(run(*asked, "--json").out)["rows"]] == ["007", "008"]
    for given, message in (
        (("age",), "--type must be COLUMN=TYPE, such as age=int64, got 'age'."),
        (("age=int64", "age=text"), "--type names column 'age' twice."),
        (("age=number",), "the type of column 'age' must be one of text, int64,"),
        (("size=int64",), "--type names 'size', which is neither a key nor the unit, nor in a filter."),
    ):
        done = run(*asked, *(word for one in given for word in ("--type", one)))
        assert done.status == 2 and message in done.err and not done.out


def test_standard_input(events: Path) -> None:
    """- reads standard input."""
    process = start(
        "publish", "-", "--format", "csv", "--key", "fruit", *PRIVACY, stdin=events.open("rb"), stdout=subprocess.PIPE
    )
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.decode().splitlines()[1].startswith("apple,")


def test_keys_only_has_no_values(events: Path, run: Run) -> None:
    """--keys-only releases keys, and null for every value."""
    rows = json.loads(run("publish", events, "--key", "fruit", *PRIVACY, "--keys-only", "--json").out)["rows"]
    assert rows[0] == {"fruit": "apple", "value": None, "estimate": None, "lower": 1, "upper": None}


def test_a_seeded_release_repeats_and_says_that_it_is_not_private(events: Path, run: Run) -> None:
    """--not-private-seed gives the same table twice, and a warning."""
    request = ("publish", events, "--key", "fruit", *PRIVACY, "--not-private-seed", 7)
    first, second = run(*request), run(*request)
    assert first == second
    assert "NOT PRIVATE" in first.err


def test_an_empty_release_says_why(tmp_path: Path, run: Run) -> None:
    """An empty release names the counts at which keys are reported and what would help."""
    few = tmp_path / "few.csv"
    few.write_text("key\na\nb\n")
    done = run("publish", few, "--key", "key", *PRIVACY, "-o", tmp_path / "r.parquet")
    assert done.out.startswith("0 keys released")
    assert "reported half the time at count 14" in done.out
    assert "larger epsilon" in done.out


def test_an_empty_release_is_csv_with_a_header(tmp_path: Path, run: Run) -> None:
    """Also without keys, the printed table has its header and a line end."""
    few = tmp_path / "few.csv"
    few.write_text("key\na\nb\n")
    assert run("publish", few, "--key", "key", *PRIVACY, "-q").out == "key,value,estimate,lower,upper\n"


def test_confidence_widens_the_printed_bounds(events: Path, run: Run) -> None:
    """A larger confidence gives wider bounds for the same draws."""
    request = ("publish", events, "--key", "fruit", *PRIVACY, "--not-private-seed", 7, "--json")
    narrow, wide = (json.loads(run(*request, "--confidence", level).out)["rows"][0] for level in ("0.5", "0.99"))
    assert wide["upper"] - wide["lower"] > narrow["upper"] - narrow["lower"]


REFUSED = {
    "epsilon must be a positive number, got 0.": ("--epsilon", "0", "--delta", "1e-6"),
    "epsilon must be a number, got 'nan'.": ("--epsilon", "nan", "--delta", "1e-6"),
    "epsilon must be a number, got 'inf'.": ("--epsilon", "inf", "--delta", "1e-6"),
    "delta must be at least 0 and below 1, got 1.": ("--epsilon", "1", "--delta", "1"),
    "delta must be positive for a mechanism that reports keys of the data, got 0": ("--epsilon", "1", "--delta", "0"),
    "must be at least 1, got 0.": (*PRIVACY, "--unit", "user", "--max-keys-per-unit", "0"),
    "every row is its own unit with one key.": (*PRIVACY, "--max-keys-per-unit", "2"),
    "argument --max-keys-per-unit: must be a whole number, got 'two'": (*PRIVACY, "--max-keys-per-unit", "two"),
    "argument --mechanism: invalid choice: 'laplace' (choose from": (
        *PRIVACY,
        "--mechanism",
        "laplace",
    ),
    "confidence must be between 0 and 1, got 1.": (*PRIVACY, "--confidence", "1"),
    "argument --nulls: invalid choice: 'maybe'": (*PRIVACY, "--nulls", "maybe"),
    "the following arguments are required: --epsilon": ("--delta", "1e-6"),
    "unrecognized arguments: --eps 1": (*PRIVACY, "--eps", "1"),
    "unrecognized arguments: --quite (did you mean '--quiet'?)": (*PRIVACY, "--quite"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_requests_have_one_sentence_and_status_2(events: Path, run: Run, message: str) -> None:
    """Each bad request is refused with its own sentence, and nothing is printed."""
    done = run("publish", events, "--key", "fruit", *REFUSED[message])
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("dptally: ") and message in done.err
    assert done.err.count("\n") == 1


def test_outputs_are_refused_before_anything_is_read(tmp_path: Path, run: Run) -> None:
    """An unusable target is refused although the input does not exist either."""
    taken = tmp_path / "taken.parquet"
    taken.write_bytes(b"mine")
    for target, message in (
        (taken, "overwrite to replace it"),
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "r.parquet", "is not a directory"),
        (tmp_path / "r.csv", "writes a Parquet file"),
        (Path("/proc/r.parquet"), "cannot be written"),  # nobody makes files there, whatever the permissions say
    ):
        done = run("publish", tmp_path / "absent.csv", "--key", "k", *PRIVACY, "-o", target)
        assert done.status == 2
        assert message in done.err
    assert taken.read_bytes() == b"mine"


def test_overwrite_replaces_a_release_but_never_an_input(tmp_path: Path, events: Path, release: Path, run: Run) -> None:
    """--overwrite allows an existing target, unless it is read from."""
    request = ("publish", events, "--key", "fruit", *PRIVACY, "--overwrite", "-o")
    assert run(*request, release).status == 0
    source = tmp_path / "source.parquet"
    pl.read_csv(events).write_parquet(source)
    done = run("publish", tmp_path / "s*.parquet", "--key", "fruit", *PRIVACY, "--overwrite", "-o", source)
    assert done.status == 2
    assert "is also an input" in done.err
    assert len(pl.read_parquet(source)) == 1200


def test_confidence_with_output_is_refused(tmp_path: Path, events: Path, run: Run) -> None:
    """A confidence that would have no effect is not silently ignored."""
    done = run("publish", events, "--key", "fruit", *PRIVACY, "-o", tmp_path / "r.parquet", "--confidence", "0.9")
    assert done.status == 2
    assert "--confidence is for a printed table" in done.err


def test_a_missing_file_has_status_1(tmp_path: Path, run: Run) -> None:
    """A file that is not there is a failure, named in the sentence."""
    done = run("publish", tmp_path / "absent.csv", "--key", "k", *PRIVACY)
    assert done.status == 1
    assert "absent.csv" in done.err


def test_corrupt_parquet_has_status_1(tmp_path: Path, run: Run) -> None:
    """A file that is Parquet by name only is a failure."""
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 but no more")
    done = run("publish", broken, "--key", "k", *PRIVACY)
    assert done.status == 1
    assert done.err.startswith("dptally: ")
    assert "unexpected" not in done.err


def test_a_missing_column_is_named(events: Path, run: Run) -> None:
    """A key column that is not there is refused by name."""
    done = run("publish", events, "--key", "vegetable", *PRIVACY)
    assert done.status in (1, 2)
    assert "vegetable" in done.err


def test_the_marker_appears_nowhere(tmp_path: Path, events: Path) -> None:
    """A key of one row is in no output, no message and no file, also when reading it fails half-way."""
    broken = tmp_path / "broken.jsonl"
    broken.write_text(f'{{"fruit": "{MARKER}"}}\n{{"fruit": {MARKER}\n')
    events_text = events.read_bytes()
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "TMPDIR": str(work)}
    for source, extra in ((events, ()), (events, ("-o", work / "r.parquet")), (events, ("--json",)), (broken, ())):
        process = start(
            "publish", source, "--key", "fruit", *PRIVACY, *extra,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=work,
        )  # fmt: skip
        out, err = process.communicate(timeout=60)
        assert process.returncode == (1 if source == broken else 0)
        assert MARKER.encode() not in out + err
    assert MARKER.encode() in events_text
    for place in work.rglob("*"):
        assert not place.is_file() or MARKER.encode() not in place.read_bytes()


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_stopped_process_leaves_no_file(tmp_path: Path, sent: signal.Signals, status: int) -> None:
    """Killed or interrupted while it reads, publish leaves nothing at the target and no hidden file beside it."""
    target = tmp_path / "out"
    target.mkdir()
    process = start(
        "publish", "-", "--format", "csv", "--key", "k", *PRIVACY, "-o", target / "r.parquet",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"k\n" + b"a\n" * 100_000)
    process.stdin.flush()
    time.sleep(1.5)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert b"Traceback" not in err
    assert list(target.iterdir()) == []


def test_a_request_to_end_leaves_no_private_file(tmp_path: Path) -> None:
    """Asked to end while it reads, publish removes its temporary files too."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = start(
        "publish", "-", "--format", "csv", "--key", "k", *PRIVACY,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"k\n" + b"a\n" * 100_000)
    process.stdin.flush()
    time.sleep(1.5)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == (b"", b"dptally: interrupted.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pause", "second"), [(0.0, signal.SIGINT), (0.01, signal.SIGINT), (0.03, signal.SIGINT), (0.01, signal.SIGTERM)]
)
def test_a_second_request_to_end_breaks_nothing_off(tmp_path: Path, pause: float, second: signal.Signals) -> None:
    """Asked to end twice while the engine is busy, publish ends as it does when asked once."""
    many, spill = tmp_path / "many.parquet", tmp_path / "spill"
    rows = pl.select(user=pl.int_range(4_000_000)).with_columns(key=(pl.col("user") * 7919 % 100_003).cast(str))
    rows.write_parquet(many)
    spill.mkdir()
    process = start(
        "publish", many, "--key", "key", "--unit", "user", *PRIVACY, "-o", tmp_path / "r.parquet",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(spill)},
    )  # fmt: skip
    while process.poll() is None and not list(spill.iterdir()):
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    time.sleep(pause)
    process.send_signal(second)
    assert process.communicate(timeout=60) == (b"", b"dptally: interrupted.\n")
    assert process.returncode == 130
    assert list(spill.iterdir()) == [] and not (tmp_path / "r.parquet").exists()


def test_a_key_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    """Markup and control characters in a key are shown as text, on one line."""
    hostile = tmp_path / "hostile.parquet"
    pl.DataFrame({"key": ["[red]x\n\x1b[31m"] * 100}).write_parquet(hostile)
    status, shown = on_terminal("publish", hostile, "--key", "key", *PRIVACY, "-o", tmp_path / "r.parquet")
    assert status == 0
    for command in ("show", "top"):
        status, shown = on_terminal(command, tmp_path / "r.parquet")
        assert status == 0
        assert rb"[red]x\n\x1b[31m" in shown
        assert b"\x1b[31m" not in shown


def test_a_terminal_shows_at_most_50_rows(tmp_path: Path) -> None:
    """On a terminal a long table is cut, and the rest is counted."""
    many = tmp_path / "many.parquet"
    pl.DataFrame({"key": [f"key{number:03}" for number in range(80)] * 60}).write_parquet(many)
    status, shown = on_terminal("publish", many, "--key", "key", *PRIVACY)
    assert status == 0
    assert b"key049" in shown
    assert b"key050" not in shown
    assert b"... and 30 more" in shown
