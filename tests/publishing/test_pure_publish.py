"""publish with delta = 0: dense, sparse and compact releases from request to answer, and what is refused."""

from __future__ import annotations

import copy
import datetime
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from studies.sparse_printed import printed_errors

import dptally
from dptally import CompactRelease, InvalidParameter, InvalidSource, PrivacyViolation, TableRelease, UnreadableRelease
from dptally.estimates.subset_sums import estimate_sum
from dptally.laws.registry import law_from_facts
from dptally.laws.top_k_noise import TopKNoise, least_possible_error
from dptally.randomness import SeededBits
from dptally.randomness.integers import whole_numbers
from dptally.universes import IntegerRange, read_universe
from tests.mechanisms import SparseHistogram
from tests.publishing.test_publishing import Untouchable

DATA = {"1.2.3.4": 500, "1.2.3.5": 300, "9.9.9.9": 3, "no address": 70}
IPV4: dict[str, Any] = {"universe": "ipv4", "epsilon": 1}


def published(source: Any = DATA, seed: int = 1, **options: Any) -> Any:
    """A seeded release."""
    return dptally.publish(source, **{"randomness": SeededBits(seed), **options})


def again(release: Any, tmp_path: Path) -> Any:
    """The release through its file."""
    release.save(tmp_path / "release")
    return dptally.load(tmp_path / "release")


# ---- sparse ----


@pytest.mark.parametrize("options", [{"capacity": 50}, {"capacity": 20, "strict_time": True}], ids=["exact", "strict"])
def test_a_sparse_release_from_request_to_answer(tmp_path: Path, options: dict[str, Any]) -> None:
    """Heavy keys come out near their counts, with bounds; the file says the same and its certificate holds."""
    made = published(mechanism="sparse", **IPV4, **options)
    found = again(made, tmp_path)
    assert isinstance(found, TableRelease) and found.table().equals(made.table())
    assert found.verify() == made.certificate and found.certificate.judge == "pure"
    assert found.guarantee.delta == 0 and len(found) <= options["capacity"]
    top = found.top(2)
    assert top["key"].to_list() == ["1.2.3.4", "1.2.3.5"]
    for (value, estimate, lower, upper), count in zip(
        top.select(pl.exclude("key")).iter_rows(), (500, 300), strict=True
    ):
        assert value == estimate and lower <= count <= upper and upper - lower < 20
    total = found.sum("key LIKE '1.2.3.%'")
    assert total.lower <= 800 <= total.upper and abs(total.estimate - 800) < 30
    assert found.rank("1.2.3.4") == 1 and found.quantile(1) == top["estimate"][0]


def test_keys_nobody_has_count_for_nothing(tmp_path: Path) -> None:
    """Below the significant value a key may be one that nobody has: estimate and lower bound are 0."""
    found = again(published(mechanism="sparse", capacity=50, **IPV4), tmp_path)
    others = found.table().filter(pl.col("value") < found.law.real_from)
    assert len(others) == len(found) - 2 > 0
    assert others["estimate"].max() == others["lower"].max() == 0 and others["upper"].min() > 0
    assert found.sum("key NOT LIKE '1.2.3.%'").estimate == 0


def test_lower_bounds_of_sums_hold() -> None:
    """Of 60 releases at most 14 miss (false alarm below 1e-6 at 95 %); bounds that forget the noise miss more."""
    mechanism = SparseHistogram(1, universe=read_universe("uint64"), keep=5)
    counts, bits = np.arange(60, 65), SeededBits(2)
    misses = forgetful = 0
    for _ in range(60):
        _, values = mechanism.draw_bins(whole_numbers(range(5), 1 << 64), counts, bits)
        misses += estimate_sum(mechanism.law, values).lower > counts.sum()
        forgetful += values[values >= mechanism.law.real_from].sum() > counts.sum()
    assert misses <= 14 < forgetful


def test_the_judge_and_the_law_agree_with_the_file(tmp_path: Path) -> None:
    """A law is made from its facts again, in strict time too."""
    for mixing in (None, 20):
        law = TopKNoise("1/3", size=2**200, keep=7, bound=90, universe="own", mixing=mixing)
        read = law_from_facts(json.loads(json.dumps(law.facts())))
        assert isinstance(read, TopKNoise) and read.facts() == law.facts() and read.certify() == law.certify()


def test_more_than_the_law_allows_is_found(tmp_path: Path) -> None:
    """A file with more keys than its law keeps does not pass."""
    made = published(mechanism="sparse", capacity=50, **IPV4)
    made.save(tmp_path / "release")
    table = pq.read_table(tmp_path / "release")
    facts = json.loads(table.schema.metadata[b"dptally"])
    facts["law"]["keep"] = 3
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts)}), tmp_path / "other")
    with pytest.raises(UnreadableRelease, match="damaged metadata"):
        dptally.load(tmp_path / "other")
    forged = copy.copy(made)
    vars(forged)["law"] = law_from_facts(facts["law"])
    with pytest.raises(PrivacyViolation, match="there are more keys than are kept"):
        forged.verify()


def test_what_depends_on_all_keys_is_said_to() -> None:
    """There is no row for one key of a sparse release, and one sentence says what there is."""
    release = published(mechanism="sparse", capacity=5, **IPV4)
    with pytest.raises(InvalidParameter, match=r"depends on all other keys; law\.key_error"):
        release.accuracy([1, 2])
    with pytest.raises(InvalidParameter, match=r"depends on all other keys; law\.key_error"):
        release.law.row(3)
    assert (
        release.law.reporting_probability(100)
        > Fraction(99, 100)
        > Fraction(1, 2)
        > release.law.reporting_probability(1)
    )
    assert release.law.first_frequency(Fraction(1)) is None


def test_universes_of_other_types() -> None:
    """Numbers, dates, and a universe smaller than the capacity."""
    days = {datetime.date(2024, 1, day): 100 * day for day in range(1, 4)}
    release = published(days, mechanism="sparse", universe="date", capacity=10, epsilon=1)
    assert release.top(1)["key"].to_list() == [datetime.date(2024, 1, 3)]
    small = published({1: 90}, mechanism="sparse", universe=IntegerRange(1, 2), epsilon=1)
    assert small.top(1)["key"].to_list() == [1] and len(small) <= 2


def test_a_bound_below_a_count_clamps() -> None:
    """Counts above the bound count as the bound, in every mechanism."""
    for mechanism, universe in (("dense", list(DATA)), ("sparse", "ipv4")):
        release = published(mechanism=mechanism, universe=universe, epsilon=4, bound=200)
        assert 190 < release.table()["value"].max() <= 200 and release.table()["upper"].max() <= 200
    compact = published(mechanism="compact", bound=200, **IPV4)
    assert 180 < compact.count("1.2.3.4").value <= 200


def test_units_share_epsilon_between_their_keys() -> None:
    """With two keys per unit each key's law keeps half, and the certificate covers both."""
    frame = pl.DataFrame({"user": [user for user in range(400) for _ in range(2)], "n": [7, 8] * 400})
    options: dict[str, Any] = {
        "key": "n",
        "unit": "user",
        "max_keys_per_unit": 2,
        "epsilon": 1,
        "universe": "integers:0..99",
    }
    for mechanism in ("dense", "sparse"):
        release = published(frame, mechanism=mechanism, **options)
        assert release.law.epsilon == Fraction(1, 2) and release.verify().copies == 2
        assert release.top(2)["n"].sort().to_list() == [7, 8]
    compact = published(frame, mechanism="compact", **options)
    assert abs(compact.count(7).value - 400) < 80 and compact.verify().changes == 4  # in, and others out


# ---- dense ----


@pytest.mark.parametrize(
    "universe",
    [
        ["1.2.3.4", "9.9.9.9", "8.8.8.8", "8.8.8.8"],
        pl.Series(["1.2.3.4", "9.9.9.9", "8.8.8.8"]),
        pa.array(["1.2.3.4", "9.9.9.9", "8.8.8.8"]),
        pa.table({"key": ["1.2.3.4", "9.9.9.9", "8.8.8.8"], "more": [1, 2, 3]}),
        pl.DataFrame({"key": ["1.2.3.4", "9.9.9.9", "8.8.8.8"]}),
        {"1.2.3.4": 0, "9.9.9.9": 5, "8.8.8.8": 1},
    ],
    ids=["list", "series", "array", "table", "frame", "mapping"],
)
def test_dense_takes_keys_in_any_form(universe: Any, tmp_path: Path) -> None:
    """Every listed key has a value, also the one nobody has, and no other key has one."""
    made = published(key="key", mechanism="dense", universe=universe, epsilon=2)
    found = again(made, tmp_path)
    assert found.table()["key"].to_list() == ["1.2.3.4", "8.8.8.8", "9.9.9.9"]
    assert found.verify() == made.certificate
    assert np.abs(found.table()["value"].to_numpy() - np.array([500, 0, 3])).max() < 12


def test_dense_over_files_and_named_universes(tmp_path: Path) -> None:
    """A CSV file with the key columns, a text file with a key a line, and a name of a small universe."""
    (tmp_path / "keys.csv").write_text("street,city\na,x\nb,y\n")
    (tmp_path / "keys.txt").write_text("a\nb\n\nc\n")
    frame = pl.DataFrame({"city": ["x"] * 50, "street": ["a"] * 50})
    two = published(frame, key=["city", "street"], mechanism="dense", universe=tmp_path / "keys.csv", epsilon=1)
    assert two.key == ("city", "street") and two.table()["street"].to_list() == ["a", "b"]
    one = published(frame, key="street", mechanism="dense", universe=str(tmp_path / "keys.txt"), epsilon=1)
    assert one.table()["street"].to_list() == ["a", "b", "c"]
    named = published({3: 70}, mechanism="dense", universe="integers:0..9", epsilon=1)
    assert len(named) == 10 and named.top(1)["key"].to_list() == [3]


# ---- compact ----


def test_a_compact_release_from_request_to_answer(tmp_path: Path) -> None:
    """Any key is answered, the file says the same, and its certificate holds."""
    made = published(mechanism="compact", capacity=10, beyond_capacity="refuse", **IPV4)
    found = again(made, tmp_path)
    assert isinstance(found, CompactRelease)
    assert found.counts(["1.2.3.4", "8.8.8.8"]).equals(made.counts(["1.2.3.4", "8.8.8.8"]))
    assert abs(found.count("1.2.3.4").value - 500) < 20 and found.count("8.8.8.8").value < 20
    assert found.verify() == made.certificate and found.guarantee == made.guarantee
    assert found.guarantee.most_distinct_keys == 10
    assert found.describe()["certificate"]["changes"] == 1


def test_compact_subsamples_unless_told_to_refuse(tmp_path: Path) -> None:
    """Data beyond the capacity gives a release like any other, whose guarantee is about all data sets.

    Whether there are more distinct keys than the capacity must not decide between a release and an error.
    """
    data = {f"10.0.0.{n}": 40 for n in range(50)}
    for held in (data, dict(list(data.items())[:5])):
        made = published(held, mechanism="compact", capacity=6, universe="ipv4", epsilon=4)
        assert made.beyond_capacity == "subsample" and made.guarantee.most_distinct_keys is None
        assert made.guarantee.delta == 0 and made.verify().changes == 2 and len(made.coefficients) == 7
        assert again(made, tmp_path).beyond_capacity == "subsample"
        (tmp_path / "release").unlink(missing_ok=True)
    ample = published({"1.2.3.4": 500}, mechanism="compact", capacity=1000, universe="ipv4", epsilon=4)
    assert abs(ample.count("1.2.3.4").value - 500) < 30


def test_compact_refusals(tmp_path: Path) -> None:
    """More keys than declared, a key outside, and a tampered or cut file get one sentence each."""
    with pytest.raises(InvalidSource, match="more distinct keys than the capacity of 2 declared for it"):
        published(mechanism="compact", capacity=2, beyond_capacity="refuse", **IPV4)
    made = published(mechanism="compact", capacity=10, **IPV4)
    for keys in (["1.2.3.4", "300.1.1.1"], ["1.2.3.4", 7]):
        with pytest.raises(InvalidParameter, match="key 2 of 2 is not in the universe 'ipv4'"):
            made.counts(keys)
    made.save(tmp_path / "release")
    content = bytearray((tmp_path / "release").read_bytes())
    (tmp_path / "cut").write_bytes(content[:20])
    content[-50] ^= 1
    (tmp_path / "tampered").write_bytes(content)
    with pytest.raises(UnreadableRelease, match="is not a readable Parquet file"):
        dptally.load(tmp_path / "tampered")
    with pytest.raises(UnreadableRelease, match="cut is "):
        dptally.load(tmp_path / "cut")


# ---- refusals ----


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mechanism": "sparse"}, "mechanism 'sparse' needs a universe: all keys there may be"),
        ({"mechanism": "compact"}, "mechanism 'compact' needs a universe: all keys there may be"),
        ({"mechanism": "dense"}, "mechanism 'dense' needs a universe: the keys to release"),
        ({"mechanism": "sparse", "universe": "ipv5"}, "there is no universe 'ipv5'"),
        ({"mechanism": "dense", "universe": "no-such-file.csv"}, "there is no universe 'no-such-file.csv'"),
        ({"mechanism": "sparse", "universe": 7}, "universe must be a name or a universe, got int"),
        (
            {"mechanism": "dense", "universe": "ipv4"},
            "takes at most 2\\^22 keys, and the universe 'ipv4' has 4,294,967,296",
        ),
        ({"mechanism": "dense", "universe": []}, "universe must have at least one key"),
        ({"mechanism": "dense", "universe": "date", "key": ["a", "b"]}, "single keys, but there are 2 key columns"),
        ({"mechanism": "sparse", "universe": "ipv4", "delta": 1e-6}, "keeps delta = 0; leave delta out, got 1e-06"),
        ({"mechanism": "sparse", "universe": "ipv4", "values": False}, "'sparse' always releases values"),
        (
            {"mechanism": "sparse", "universe": "ipv4", "sampling": dptally.Ppswor("0.1")},
            "sampling needs the mechanism",
        ),
        ({"mechanism": "sparse", "universe": "ipv4", "capacity": 0}, "capacity must be at least 1, got 0"),
        ({"mechanism": "sparse", "universe": "ipv4", "bound": 0}, "bound must be at least 1, got 0"),
        ({"mechanism": "sparse", "universe": "ipv4", "epsilon": "1e-12"}, "epsilon must be at least 2\\^-32"),
        ({"mechanism": "dense", "universe": ["a"], "epsilon": "1e-12"}, "epsilon is too small"),
        (
            {"mechanism": "dense", "universe": ["a"], "capacity": 5},
            "capacity is for the mechanisms 'misra_gries', 'sparse' and 'compact', got 'dense'",
        ),
        (
            {"mechanism": "sparse", "universe": "ipv4", "strict_time": True, "capacity": 301},
            "at most 300 in strict time",
        ),
        ({"mechanism": "sparse", "universe": "ipv4", "strict_time": True, "bound": 5000}, "bound must be at most 4096"),
        (
            {"mechanism": "compact", "universe": "ipv4", "strict_time": True},
            "is for the mechanisms 'dense' and 'sparse', got 'compact'",
        ),
        ({"mechanism": "sparse", "universe": "ipv4", "max_keys_per_unit": 2}, "max_keys_per_unit needs a unit"),
        ({"mechanism": "sparse", "universe": "ipv4", "ledger": object()}, "ledger must be a dptally.Ledger"),
        ({"delta": 1e-6, "universe": "ipv4"}, "universe is for the mechanisms 'dense', 'sparse' and 'compact'"),
        (
            {"delta": 1e-6, "strict_time": True},
            "strict_time is for the mechanisms 'dense' and 'sparse', got 'weighted_sample'",
        ),
        ({"delta": 1e-6, "capacity": 5}, "capacity is for the mechanisms 'misra_gries', 'sparse' and 'compact', got"),
        ({"delta": 1e-6, "mechanism": "misra_gries", "bound": 5}, "bound is for the mechanisms 'dense', 'sparse' and"),
        ({}, "delta is missing: mechanism 'weighted_sample' needs one"),
        ({"mechanism": "stability"}, "delta is missing: mechanism 'stability' needs one"),
    ],
)
def test_bad_requests_are_refused_before_data_is_read(wrong: dict[str, Any], message: str) -> None:
    """Each gets its own sentence and the source stays untouched."""
    with pytest.raises(InvalidParameter, match=message):
        dptally.publish(Untouchable(), **{"epsilon": 1, **wrong})


def test_columns_that_cannot_hold_keys_of_the_universe() -> None:
    """A type is public, so that it does not fit is said; several key columns too."""
    numbers = pl.DataFrame({"n": [1] * 5})
    for mechanism in ("sparse", "compact"):
        with pytest.raises(InvalidSource, match="keys of the universe 'ipv4' are text, but the key column holds int64"):
            published(numbers, key="n", mechanism=mechanism, **IPV4)
    with pytest.raises(InvalidParameter, match="takes one key column, got 2"):
        published({("a", "b"): 5}, key=["x", "y"], mechanism="sparse", **IPV4)
    with pytest.raises(InvalidParameter, match="in the set of keys"):
        published(numbers, key="n", mechanism="dense", universe=["a"], epsilon=1)


def test_no_data_at_all() -> None:
    """Nothing inside the universe gives a release like any other."""
    for mechanism, universe in (("dense", ["a"]), ("sparse", "ipv4"), ("compact", "ipv4")):
        release = published({"nobody": 5}, mechanism=mechanism, universe=universe, epsilon=1)
        assert release.verify().epsilon == 1


def test_the_table_of_errors_in_the_documentation() -> None:
    """Every stated error in docs/mechanisms/pure.md is what the law, the paper's bound and its lower bound give."""
    page = (Path(__file__).parents[2] / "docs" / "mechanisms" / "pure.md").read_text()
    rows = [[part.strip() for part in line.split("|")[1:-1]] for line in page.splitlines() if "| 2^" in line]
    assert len(rows) == 9
    for number, universe, all_printed, all_exact, _, least, one_printed, one_exact, _, _ in rows:
        keep, size = int(number.replace(",", "")), 2 ** int(universe.removeprefix("2^"))
        law, printed = TopKNoise(1, size=size, keep=keep), printed_errors(1, size, "0.05")
        start = law.reported_from("0.025")
        assert (int(all_printed), int(all_exact)) == (printed.simultaneous_error, law.simultaneous_error("0.05"))
        assert one_printed == f"{printed.key_error}, {printed.from_count}"
        assert one_exact == f"{law.key_error('0.05', start)}, {start}"
        assert least == f"{least_possible_error(1, size, keep, '0.05'):.1f}"


def test_a_universe_file_is_named(tmp_path: Path) -> None:
    """What is wrong with the file of keys is not blamed on the source; a file that is not there is said to be none."""
    (tmp_path / "dest.csv").write_text("other\na\n")
    request: dict[str, Any] = {"key": "k", "epsilon": 1, "mechanism": "dense"}
    with pytest.raises(InvalidParameter, match=r"column 'k' is not named in the first line of '.*dest\.csv'"):
        dptally.publish(Untouchable(), universe=tmp_path / "dest.csv", **request)
    with pytest.raises(InvalidParameter, match=r"column 'k' is not in the universe; it has: other"):
        dptally.publish(Untouchable(), universe=pl.DataFrame({"other": ["a"]}), **request)
    with pytest.raises(InvalidParameter, match=r"no universe 'nofile\.csv', and there is no such file; the names are"):
        dptally.publish(Untouchable(), universe="nofile.csv", **request)
