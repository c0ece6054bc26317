from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.heavy_hitters import publish_heavy_hitters
from tests.cli.conftest import PRIVACY, Run


def test_show_tells_guarantee_certificate_rows_and_distribution(release: Path, run: Run) -> None:
    """Show prints all that a release says about itself."""
    done = run("show", release)
    assert done.status == 0
    for part in ("3 released keys by fruit", "differential privacy", "Certificate:", "apple", "256 - 511"):
        assert part in done.out


def test_show_as_json(release: Path, run: Run) -> None:
    """The distribution adds up to the released keys, and n limits the rows."""
    facts = json.loads(run("show", release, "-n", 2, "--json").out)
    assert facts["keys_released"] == sum(part["keys"] for part in facts["distribution"]) == 3
    assert [row["fruit"] for row in facts["rows"]] == ["apple", "pear"]
    assert facts["certificate"]["worst_delta"].count("/") == 1


def test_show_of_keys_only_has_no_distribution(tmp_path: Path, events: Path, run: Run) -> None:
    """Without values there are keys to show and nothing to count by."""
    place = tmp_path / "keys.parquet"
    run("publish", events, "--key", "fruit", *PRIVACY, "--keys-only", "-o", place)
    done = run("show", place)
    assert "apple" in done.out
    assert "estimated frequency" not in done.out
    assert json.loads(run("show", place, "--json").out)["distribution"] == []


def test_show_of_an_empty_release(tmp_path: Path, run: Run) -> None:
    """A release without keys can be shown."""
    (tmp_path / "one.csv").write_text("k\na\n")
    run("publish", tmp_path / "one.csv", "--key", "k", *PRIVACY, "-o", tmp_path / "r.parquet")
    done = run("show", tmp_path / "r.parquet")
    assert done.status == 0
    assert "0 released keys" in done.out


@pytest.fixture
def trees(tmp_path: Path, events: Path, run: Run) -> dict[str, Path]:
    """Files that hold no table: a tree of counts, and a tree of prefixes."""
    ranges, prefixes = tmp_path / "ranges.parquet", tmp_path / "prefixes.parquet"
    interval = ("--value", "user", "--low", 0, "--high", 1500)
    assert run("quantile", events, *interval, *PRIVACY, "-o", ranges, "--quiet").status == 0
    fruit = {"apple": 50_000, "pear": 20_000, "plum": 5_000}
    publish_heavy_hitters(fruit, epsilon=1, delta="1e-6", levels=[1, 3, 5]).save(prefixes)
    return {"ranges": ranges, "prefixes": prefixes}


def test_show_of_a_tree_of_counts(trees: dict[str, Path], run: Run) -> None:
    """Guarantee, certificate and quartiles; in JSON as the command that made it says them."""
    done = run("show", trees["ranges"])
    assert done.status == 0
    for part in ("a tree of counts of 'user'", "differential privacy", "Certificate:", "estimate", "0.25"):
        assert part in done.out
    facts = json.loads(run("show", trees["ranges"], "--json").out)
    assert facts["quantiles"] == json.loads(run("quantile", "--from", trees["ranges"], "--json").out)["quantiles"]


def test_show_of_a_tree_of_prefixes(trees: dict[str, Path], run: Run) -> None:
    """Guarantee, certificate and the heaviest values and prefixes where the tree ends."""
    done = run("show", trees["prefixes"], "-n", 2)
    assert done.status == 0
    for part in ("in 3 levels", "differential privacy", "Certificate:", "apple", "pear", "... and 1 more"):
        assert part in done.out
    facts = json.loads(run("show", trees["prefixes"], "--json").out)
    assert [row["prefix"] for row in facts["rows"]][:2] == ["apple", "pear"]
    assert facts["nodes"] == len(dptally.load(trees["prefixes"], dptally.PrefixTree))


@pytest.mark.parametrize("command", [("top",), ("count", "apple"), ("sum",)])
def test_trees_say_what_they_answer(trees: dict[str, Path], run: Run, command: tuple[str, ...]) -> None:
    """One sentence says what the file is and what it can be asked; a tree of prefixes has a top."""
    name, *rest = command
    done = run(name, trees["ranges"], *rest)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert f"a tree of counts, which has no keys, has no answer to '{name}'; ask it for quantiles" in done.err
    done = run(name, trees["prefixes"], *rest)
    if name == "top":
        assert done.status == 0 and done.out.splitlines()[1].startswith("apple,")
        return
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert f"a tree of prefixes has no answer to '{name}'; it answers table, top and leaves" in done.err


def test_top_is_sorted_by_value(release: Path, run: Run) -> None:
    """Top prints the largest first, as CSV into a pipe and as a list in JSON."""
    rows = list(csv.DictReader(io.StringIO(run("top", release, "-n", 2).out)))
    assert [row["fruit"] for row in rows] == ["apple", "pear"]
    assert [row["fruit"] for row in json.loads(run("top", release, "-n", 2, "--json").out)] == ["apple", "pear"]


def test_count_has_the_estimate_between_its_bounds(tmp_path: Path, events: Path, run: Run) -> None:
    """The value of a sampled release is no frequency; the estimate is, and lies within the bounds."""
    place = tmp_path / "sampled.parquet"
    request = ("publish", events, "--key", "fruit", *PRIVACY, "--sampling", "ppswor:0.1", "--not-private-seed", 1)
    assert run(*request, "-o", place, "-q").status == 0
    rows = list(csv.DictReader(io.StringIO(run("count", place, "pear", "kiwi", "apple").out)))
    assert list(rows[0]) == ["fruit", "value", "estimate", "lower", "upper"]
    assert [row["fruit"] for row in rows] == ["pear", "kiwi", "apple"] and rows[1]["estimate"] == ""
    for row in (rows[0], rows[2]):
        assert int(row["lower"]) <= int(row["estimate"]) <= int(row["upper"])
    assert run("count", place, "pear", "--json").out.count('"estimate"') == 1


def test_count_of_several_key_columns(tmp_path: Path, run: Run) -> None:
    """A key has a value for each key column; another number of values is refused with the names of the columns."""
    place = tmp_path / "two.parquet"
    counts = {("apple", 7): 500, ("apple", 8): 400, ("pear", 7): 300}
    dptally.publish(counts, key=["fruit", "year"], epsilon=1, delta="1e-6").save(place)
    found = json.loads(run("count", place, "pear", 7, "apple", 8, "pear", 8, "--json").out)
    assert [(row["fruit"], row["year"]) for row in found] == [("pear", "7"), ("apple", "8"), ("pear", "8")]
    assert found[0]["estimate"] == pytest.approx(300, abs=40) and found[2]["value"] is None
    done = run("count", place, "apple")
    assert (done.status, done.out) == (2, "")
    assert (
        "a key of this release has 2 parts (fruit, year); give all parts of each key, key after key, got 1." in done.err
    )


def test_count_of_bytes(tmp_path: Path, run: Run) -> None:
    """Bytes are asked for and shown in hexadecimal, whatever its case."""
    place = tmp_path / "bytes.parquet"
    keys = pa.table({"key": pa.array([b"\xab\x01", b"\xff"], pa.large_binary()), "n": [500, 400]})
    dptally.publish(keys, key="key", count="n", epsilon=1, delta="1e-6").save(place)
    head, *lines = run("count", place, "AB01", "00").out.splitlines()
    assert head == "key,value,estimate,lower,upper"
    assert lines[0].startswith(("ab01,5", "ab01,4"))
    assert lines[1] == "00,,,,"


def test_sum_with_a_condition(release: Path, run: Run) -> None:
    """A sum counts the keys of the selection only, and its bounds hold the estimate."""
    found = json.loads(run("sum", release, "--where", "fruit LIKE 'p%'", "--json").out)
    assert (found["keys"], found["kind"], found["of"]) == (2, None, "count")
    assert found["lower"] <= found["estimate"] <= found["upper"]
    assert found["estimate"] == pytest.approx(699, abs=60)
    assert run("sum", release).out.startswith("Count: ")


def test_sum_says_what_it_is_a_sum_of(release: Path, run: Run) -> None:
    """Numbers are for released keys; JSON says for which questions bounds are; an extrapolation is asked for."""
    found = json.loads(run("sum", release, "--json").out)
    assert found["bounds"] == "for questions that look at keys alone"
    assert (found["complete"], found["counters"], found["extrapolation"]) == (False, False, None)
    said = run("sum", release).out
    assert said == f"Count: {found['text']}\n" and "Keys that were not released are not included" in said
    assert json.loads(run("sum", release, "--times", "1", "--json").out) == {**found, "times": "1"}
    wider = json.loads(run("sum", release, "--where", "value > 0", "--json").out)
    assert wider["bounds"] == "for questions that look at what was drawn"
    assert wider["upper"] > found["upper"]
    assert "The interval holds after selection by value" in run("sum", release, "--where", "value > 0").out
    beyond = json.loads(run("sum", release, "--kind", "mle", "--json").out)
    assert (
        beyond["extrapolation"] == pytest.approx(found["estimate"], abs=1) and beyond["estimate"] == found["estimate"]
    )
    assert "Extrapolated by reporting probabilities" in run("sum", release, "--kind", "lower").out


def test_sum_of_functions_and_with_factors(release: Path, run: Run) -> None:
    """Sums of named functions and with factors say what was added up."""
    assert run("sum", release, "--of", "keys").out.startswith(
        "Number of released keys: 3 exactly, over 3 released keys."
    )
    assert run("sum", release, "--of", "capped:5").out.startswith("Sum of capped:5: 15 exactly")
    times = "CASE WHEN fruit = 'pear' THEN -2 ELSE 0 END"
    assert run("sum", release, "--of", "keys", "--times", times).out.startswith(
        f"Number of released keys times {times}: -2"
    )
    found = json.loads(run("sum", release, "--of", "keys", "--times", times, "--json").out)
    assert (found["of"], found["times"], found["keys"], found["lower"]) == ("keys", times, 1, -2)


def test_sum_of_keys_without_values_has_no_upper_bound(tmp_path: Path, events: Path, run: Run) -> None:
    """Released keys can be counted without values; of their counts it is known that they are at least 1."""
    place = tmp_path / "keys.parquet"
    run("publish", events, "--key", "fruit", *PRIVACY, "--keys-only", "-o", place)
    found = json.loads(run("sum", place, "--of", "keys", "--json").out)
    assert (found["keys"], found["estimate"], found["upper"]) == (3, 3, 3)
    counted = json.loads(run("sum", place, "--json").out)
    assert (counted["estimate"], counted["lower"], counted["upper"]) == (None, 3, None)
    assert "at least 3, over 3 released keys; counts were not released." in run("sum", place).out


def test_top_says_which_intervals_it_has(release: Path, run: Run) -> None:
    """Standard output is CSV alone; beside it stands that intervals hold after sorting, and for whom."""
    done = run("top", release, "-n", 2, "--confidence", "99%")
    assert done.out.count("\n") == 3
    assert done.err.startswith(
        "99 % confidence intervals that hold after sorting by value: with 99 % confidence, those"
    )
    assert run("top", release, "-n", 2, "--json").err == ""


def test_verify_accepts_a_release(release: Path, run: Run) -> None:
    """An untouched release verifies."""
    assert "the certificate holds" in run("verify", release).out
    facts = json.loads(run("verify", release, "--json").out)
    assert facts["verified"] is True
    assert len(facts["certificate"]["table_sha256"]) == 64


def test_verify_refuses_a_stronger_claim(tmp_path: Path, release: Path, run: Run) -> None:
    """A release that states a smaller epsilon than its law has fails with status 1 and one sentence."""
    table = pq.read_table(release)
    facts = json.loads(table.schema.metadata[b"dptally"])
    facts["guarantee"]["epsilon"] = "1/2"
    forged = tmp_path / "forged.parquet"
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts).encode()}), forged)
    done = run("verify", forged)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("dptally: ")
    assert done.err.count("\n") == 1


def test_verify_refuses_another_hash(tmp_path: Path, release: Path, run: Run) -> None:
    """A certificate of another table fails."""
    table = pq.read_table(release)
    facts = json.loads(table.schema.metadata[b"dptally"])
    facts["certificate"]["table_sha256"] = "0" * 64
    forged = tmp_path / "forged.parquet"
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts).encode()}), forged)
    done = run("verify", forged)
    assert done.status == 1
    assert "certificate in the release is not the one" in done.err


@pytest.mark.parametrize("command", ["show", "top", "sum", "verify"])
def test_what_is_no_release_is_refused(tmp_path: Path, events: Path, run: Run, command: str) -> None:
    """A missing file and a foreign file each have their sentence, and status 1."""
    done = run(command, tmp_path / "absent.parquet")
    assert done.status == 1
    assert "is not a file" in done.err
    done = run(command, events)
    assert done.status == 1
    assert "is not a readable Parquet file" in done.err


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("top", "-n", "-1"), "-n must not be negative, got -1."),
        (("show", "-n", "-1"), "-n must not be negative, got -1."),
        (("top", "-n", "x"), "argument -n: must be a whole number, got 'x'"),
        (("top", "--confidence", "2"), "--confidence must be between 0 and 1, got 2."),
        (("sum", "--where", "nothing = 1"), "--where cannot be evaluated on the release"),
        (("sum", "--where", "'open"), "--where is not an expression"),
        (("sum", "--where", "value + 1"), "--where must be a condition"),
        (("sum", "--times", "fruit"), "--times must give a number for each key."),
        (("sum", "--of", "median"), "--of must be 'count', 'keys', 'log', 'power:P', 'capped:C' or a function"),
        (("sum", "--of", "power:3"), "the power in of must be from 0 to 2, got 3."),
        (("sum", "--kind", "best"), "argument --kind: invalid choice: 'best'"),
    ],
)
def test_bad_questions_have_status_2(release: Path, run: Run, request_: tuple[str, ...], message: str) -> None:
    """A question that makes no sense is refused with one sentence."""
    command, *options = request_
    done = run(command, release, *options)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"dptally: {message}")
    assert done.err.count("\n") == 1
