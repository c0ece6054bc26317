"""The command line with delta = 0: real files from publish to answers, and one sentence for each bad request."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

PURE = ("--epsilon", "1", "--not-private-seed", "5", "--quiet")
SPARSE = ("--mechanism", "sparse", "--universe", "words:8")


def publish(run: Run, events: Path, output: Path, *options: object) -> Path:
    """Publish the fruit of `events`."""
    done = run("publish", events, "--key", "fruit", *PURE, *options, "-o", output)
    assert (done.status, done.err) == (0, "")
    return output


@pytest.fixture
def compact(tmp_path: Path, events: Path, run: Run) -> Path:
    """A compact release."""
    return publish(run, events, tmp_path / "c", "--mechanism", "compact", "--universe", "words:8", "--capacity", 5000)


def test_sparse_from_file_to_answers(tmp_path: Path, events: Path, run: Run) -> None:
    """The common fruit are on top; show, count, sum and verify answer."""
    place = publish(run, events, tmp_path / "s.parquet", *SPARSE, "--capacity", 30)
    rows = list(csv.DictReader(io.StringIO(run("top", place, "-n", 3).out)))
    assert [row["fruit"] for row in rows] == ["apple", "pear", "plum"]
    assert "released keys by fruit" in run("show", place).out
    assert "the certificate holds" in run("verify", place).out
    found = json.loads(run("count", place, "apple", "zzz", "--json").out)
    assert found[0]["lower"] <= 500 <= found[0]["upper"]
    assert found[1] == {"fruit": "zzz", "value": None, "estimate": None, "lower": None, "upper": None}
    assert abs(json.loads(run("sum", place, "--json").out)["estimate"] - 1199) < 40


def test_strict_time(tmp_path: Path, events: Path, run: Run) -> None:
    """The reference in strict time makes a release like any other."""
    place = publish(run, events, tmp_path / "s.parquet", *SPARSE, "--capacity", 10, "--strict-time")
    facts = json.loads(run("show", place, "--json").out)
    assert facts["guarantee"]["mechanism"] == "strict_sparse" and facts["law"]["mixing"] == 20
    assert run("verify", place).status == 0


def test_dense_over_a_file_of_keys(tmp_path: Path, events: Path, run: Run) -> None:
    """Each listed key has a value, whatever the form of the list; 0 has a bar of its own."""
    (tmp_path / "keys.csv").write_text("fruit\napple\nkiwi\n")
    (tmp_path / "keys.txt").write_text("apple\nkiwi\n")
    for keys in ("keys.csv", "keys.txt"):
        place = tmp_path / f"{keys}.parquet"
        publish(run, events, place, "--mechanism", "dense", "--universe", tmp_path / keys)
        assert [row["fruit"] for row in json.loads(run("show", place, "--json").out)["rows"]] == ["apple", "kiwi"]
        assert "Released keys by estimated frequency" in run("show", place).out
        assert run("plot", place, "-o", tmp_path / f"{keys}.svg").status == 0


def test_compact_from_file_to_answers(compact: Path, run: Run) -> None:
    """Any word is answered; show and verify tell guarantee and certificate."""
    rows = list(csv.DictReader(io.StringIO(run("count", compact, "apple", "kiwi").out)))
    assert [row["key"] for row in rows] == ["apple", "kiwi"]
    assert int(rows[0]["lower"]) <= 500 <= int(rows[0]["upper"]) and int(rows[1]["value"]) < 30
    shown = run("show", compact)
    assert "keys of words:8" in shown.out and "NOT PRIVATE" in shown.out and "Certificate:" in shown.out
    facts = json.loads(run("show", compact, "--json").out)
    assert (facts["capacity"], facts["guarantee"]["epsilon"], facts["universe"]) == (5000, "1", "words:8")
    assert "the certificate holds" in run("verify", compact).out
    assert json.loads(run("verify", compact, "--json").out)["certificate"]["changes"] == 2


def test_compact_says_what_it_wrote(tmp_path: Path, events: Path, run: Run) -> None:
    """Publish prints the guarantee with what was declared, and how to go on; as JSON too."""
    options = ("--key", "fruit", "--epsilon", "1", "--mechanism", "compact", "--universe", "words:8")
    done = run("publish", events, *options, "-o", tmp_path / "a")
    assert done.status == 0 and "dptally count" in done.out
    assert "more than 10,000 occurrences, the counts are those of a random choice" in done.out.replace("\n", " ")
    declared = run("publish", events, *options, "--beyond-capacity", "refuse", "-o", tmp_path / "d")
    assert "at most 10,000 distinct keys" in declared.out.replace("\n", " ")
    facts = json.loads(run("publish", events, *options, "-o", tmp_path / "b", "--json").out)
    assert facts["output"].endswith("b") and facts["guarantee"]["delta"] == "0"


@pytest.mark.parametrize("command", ["top", "sum"])
def test_a_compact_release_lists_nothing(compact: Path, run: Run, command: str) -> None:
    """Commands that need a table say so in one sentence."""
    done = run(command, compact)
    assert done.status == 2 and "a compact release, which lists no keys" in done.err


def test_a_key_outside_the_universe(compact: Path, run: Run) -> None:
    """It is refused by its place."""
    done = run("count", compact, "apple", "Apple!")
    assert (done.status, done.out) == (2, "")
    assert done.err == "dptally: key 2 of 2 is not in the universe 'words:8'.\n"


def test_a_damaged_compact_file(compact: Path, tmp_path: Path, run: Run) -> None:
    """A changed byte is found."""
    content = bytearray(compact.read_bytes())
    content[-60] ^= 1
    (tmp_path / "bad").write_bytes(content)
    done = run("show", tmp_path / "bad")
    assert done.status == 1 and "is not a readable Parquet file" in done.err


def test_numbers_in_csv_files(tmp_path: Path, run: Run) -> None:
    """Text of a CSV file is read as the numbers and dates it writes, and keys on the command line too."""
    data = tmp_path / "n.csv"
    data.write_text("n,day\n" + "7,2024-01-31\n" * 300 + "07,2024-13-31\n")
    for column, universe, key in (("n", "uint64", "7"), ("day", "date", "2024-01-31")):
        for mechanism in ("sparse", "compact"):
            place = tmp_path / f"{column}-{mechanism}"
            options = ("--key", column, "--mechanism", mechanism, "--universe", universe, "--capacity", 400, *PURE)
            assert run("publish", data, *options, "-o", place).status == 0
            found = json.loads(run("count", place, key, "--json").out)
            assert found[0]["lower"] <= 300 <= found[0]["upper"]


def test_an_empty_sparse_release_says_why(tmp_path: Path, events: Path, run: Run) -> None:
    """Ties with the largest noisy count that is left out are left out too; the summary says what would help."""
    done = run(
        "publish", events, "--key", "fruit", "--epsilon", "0.001", *SPARSE, "--capacity", 1, "--bound", 1,
        "--not-private-seed", "3", "-o", tmp_path / "e.parquet",
    )  # fmt: skip
    assert done.status == 0 and "0 keys released" in done.out and "No key stood out" in done.out
    assert run("show", tmp_path / "e.parquet").status == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mechanism", "sparse"), "mechanism 'sparse' needs a universe"),
        (("--mechanism", "sparse", "--universe", "ipv5"), "there is no universe 'ipv5'"),
        ((*SPARSE, "--delta", "1e-6"), "mechanism 'sparse' keeps delta = 0; leave --delta out, got 1e-06."),
        ((*SPARSE, "--capacity", "0"), "capacity must be at least 1, got 0."),
        ((*SPARSE, "--keys-only"), "mechanism 'sparse' always releases values"),
        (("--mechanism", "compact", "--universe", "words:8"), "give the file to write with -o"),
        ((), "delta is missing: mechanism 'weighted_sample' needs one"),
        (("--delta", "1e-6", "--universe", "ipv4"), "universe is for the mechanisms 'dense', 'sparse' and 'compact'"),
    ],
)
def test_bad_requests_get_one_sentence(events: Path, run: Run, options: tuple[str, ...], message: str) -> None:
    """Status 2, nothing on standard output."""
    done = run("publish", events, "--key", "fruit", "--epsilon", "1", *options)
    assert (done.status, done.out) == (2, "")
    assert message in done.err and done.err.count("\n") == 1


def test_plan_over_a_universe(run: Run) -> None:
    """The plan compares mechanisms, shows the lower bound and recommends one in a sentence."""
    done = run("plan", "--epsilon", 1, "--universe", "ipv4", "--capacity", 1000)
    assert done.status == 0 and "take 'sparse' to find frequent keys" in done.out and "least possible" in done.out
    facts = json.loads(run("plan", "--epsilon", 1, "--universe", "ipv4", "--capacity", 1000, "--json").out)
    sparse, compact = facts["lines"]
    assert (sparse["half"], sparse["likely"], sparse["key_error"], sparse["simultaneous_error"]) == (23, 26, 3, 35)
    assert 3 < sparse["least_possible_error"] < 4 and (compact["likely"], compact["key_error"]) == (0, 6)


@pytest.mark.parametrize(
    ("options", "recommended"),
    [
        (("--universe", "date"), "dense"),
        (("--universe", "uint64"), "sparse"),
        (("--universe", "uint64", "--asked-for", "frequent", "--delta", "0"), "sparse"),
        (("--universe", "uint64", "--asked-for", "any"), "compact"),
        (("--universe", "uint64", "--delta", "1e-6"), "stability"),
        (("--universe", "integers:0..9999999", "--delta", "1e-15"), "sparse"),
    ],
)
def test_plan_recommends(run: Run, options: tuple[str, ...], recommended: str) -> None:
    """A listable universe is listed; a delta pays for keys of the data if it is large enough."""
    assert json.loads(run("plan", "--epsilon", 1, *options, "--json").out)["recommended"] == recommended


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "delta is missing; a plan for delta = 0 needs a universe"),
        (("--delta", "1e-6", "--asked-for", "any"), "is for plans with a universe"),
        (("--universe", "ipv5"), "there is no universe 'ipv5'"),
        (("--universe", "ipv4", "--capacity", "0"), "capacity must be at least 1, got 0"),
    ],
)
def test_bad_plans(run: Run, options: tuple[str, ...], message: str) -> None:
    """One sentence each."""
    done = run("plan", "--epsilon", 1, *options)
    assert done.status == 2 and message in done.err
