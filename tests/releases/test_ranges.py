"""Releases of ranges and quantiles: questions, files, checks, and every refusal."""

from __future__ import annotations

import datetime
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import InvalidParameter, InvalidSource, PrivacyViolation, UnreadableRelease
from dptally.laws.quantile_search import QuantileAnswer, QuantileRounds, Round, answer
from dptally.randomness import SeededBits
from dptally.releases.range_release import RangeRelease
from dptally.universes.grids import make_grid

MECHANISMS = ["sample_and_threshold", "weighted_sample", "dense"]


def privacy(mechanism: str) -> dict[str, Any]:
    """Parameters under which 20,000 units are plenty."""
    return {"mechanism": mechanism, "epsilon": 2, "delta": None if mechanism == "dense" else "1e-5"}


@pytest.fixture(scope="module", params=MECHANISMS)
def release(request: pytest.FixtureRequest) -> RangeRelease:
    """20,000 whole numbers, i * i / 400,000 for i below 20,000: more of them are small."""
    values = np.array([i * i // 400_000 for i in range(20_000)])  # an array declares that they are whole
    return dptally.publish_quantiles(
        values, low=0, high=999, resolution=256, randomness=SeededBits(7), **privacy(request.param)
    )


def true_share(value: int) -> float:
    """Share of the values of `release` up to this one."""
    return math.ceil(math.sqrt((value + 1) * 400_000)) / 20_000


def test_questions_are_answered_within_their_bounds(release: RangeRelease) -> None:
    """Ranges, shares and quantiles of a seeded release contain the truth, and estimates lie within bounds."""
    assert release.verify() == release.certificate
    total = release.total(confidence=0.999)
    assert total.lower <= 20_000 <= total.upper
    for value in (3, 100, 400, 998):
        share = release.cdf(value, confidence=0.999)
        assert share.lower <= true_share(value) <= share.upper
        assert share.lower <= share.estimate <= share.upper
    for low, high in ((0, 99), (100, 499), (7, 7), (250, 999)):
        found = release.range(low, high, confidence=0.999)
        truth = 20_000 * (true_share(high) - (true_share(low - 1) if low else 0))
        assert found.lower <= truth + 1e-6 and truth - 1e-6 <= found.upper
        assert found.lower <= found.estimate <= found.upper
    for q in ("0.05", "0.5", "0.9", "1"):
        quantile = release.quantile(q, confidence=0.999)
        true = next(value for value in range(1000) if true_share(value) >= Fraction(q))
        assert isinstance(quantile.lower, int) and isinstance(quantile.upper, int)
        assert quantile.lower <= true <= quantile.upper
        assert quantile.estimate is not None and quantile.lower <= quantile.estimate <= quantile.upper


def test_shares_grow_and_quantiles_turn_them_round(release: RangeRelease) -> None:
    """Estimated shares never fall, quantiles neither, and the share at a quantile is what was asked, up to one bin."""
    shares = [release.cdf(value).estimate for value in range(-5, 1010, 9)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    found = [release.quantile(q).estimate for q in np.linspace(0.02, 0.98, 25)]
    assert found == sorted(found)  # type: ignore[type-var]
    table = release.table()
    assert table.get_column("share")[-1] == pytest.approx(1)
    largest = float(table.get_column("estimate").max()) / release.total().estimate  # type: ignore[arg-type]
    for q in np.linspace(0.05, 0.95, 10):
        place = release.quantile(q).estimate
        assert abs(release.cdf(place).estimate - q) <= largest + 0.02


def test_parts_of_a_range_add_up(release: RangeRelease) -> None:
    """Estimates of neighbouring ranges add up to that of both where bounds leave them alone."""
    units = release._units
    assert units(10.5) - units(3.25) == pytest.approx((units(10.5) - units(7.0)) + (units(7.0) - units(3.25)))


def test_a_file_gives_the_same_answers(release: RangeRelease, tmp_path: Path) -> None:
    """Saved and loaded, a release answers alike, verifies, and tells the same about itself."""
    place = tmp_path / "ranges.parquet"
    release.save(place)
    loaded = dptally.load_ranges(place)
    assert loaded.describe() == release.describe()
    assert loaded.verify() == release.certificate
    assert (loaded.quantile(0.3), loaded.range(5, 60), loaded.cdf(70)) == (
        release.quantile(0.3),
        release.range(5, 60),
        release.cdf(70),
    )
    assert pl.read_parquet(place).columns == ["level", "node", "start", "end", "value", "estimate"]
    with pytest.raises(InvalidParameter, match="exists; use overwrite"):
        release.save(place)
    again = dptally.load(place)
    assert isinstance(again, RangeRelease) and again.describe() == release.describe()
    assert "NOT PRIVATE" in repr(loaded) and not loaded.guarantee.private


def test_damaged_files_are_refused(release: RangeRelease, tmp_path: Path) -> None:
    """Missing, foreign, newer and damaged files each have their sentence."""
    place = tmp_path / "ranges.parquet"
    with pytest.raises(UnreadableRelease, match="is not a file"):
        dptally.load_ranges(place)
    place.write_bytes(b"nothing")
    with pytest.raises(UnreadableRelease, match="not a readable Parquet file"):
        dptally.load_ranges(place)
    pl.DataFrame({"a": [1]}).write_parquet(place)
    with pytest.raises(UnreadableRelease, match="not a dptally release"):
        dptally.load_ranges(place)
    release.save(place, overwrite=True)
    table = pq.read_table(place)
    facts = json.loads(table.schema.metadata[b"dptally"])
    for change, message in (
        ({"format_version": 9}, "has format version 9"),
        ({"grid": {}}, "damaged metadata or rows"),
        ({"law": {"name": "Stability", "epsilon": "1", "delta": "1/9", "values": True}}, "damaged metadata or rows"),
        ({"guarantee": {**facts["guarantee"], "private": "yes"}}, "damaged metadata or rows"),
    ):
        packed = json.dumps({**facts, **change}).encode()
        pq.write_table(table.replace_schema_metadata({b"dptally": packed}), place)
        with pytest.raises(UnreadableRelease, match=message):
            dptally.load_ranges(place)
    twice = table.take([0, *range(table.num_rows)])
    pq.write_table(twice, place)
    with pytest.raises(UnreadableRelease, match="damaged metadata or rows"):
        dptally.load_ranges(place)


def test_a_promise_that_the_law_does_not_keep_is_found(release: RangeRelease, tmp_path: Path) -> None:
    """A file that claims a smaller epsilon does not verify."""
    place = tmp_path / "ranges.parquet"
    release.save(place)
    table = pq.read_table(place)
    facts = json.loads(table.schema.metadata[b"dptally"])
    facts["guarantee"]["epsilon"] = "1"
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts).encode()}), place)
    with pytest.raises(PrivacyViolation):
        dptally.load_ranges(place).verify()


def test_a_unit_counts_once() -> None:
    """Units with many rows count in one bin each, one of theirs; rows without a unit or a value do not count."""
    users = pl.DataFrame({"user": [1] * 500 + [2, 3, 4, None], "x": [*([0.9] * 500), 0.1, 0.1, math.nan, 0.1]})
    found = dptally.publish_quantiles(
        users, value="x", unit="user", low=0.0, high=1.0, resolution=4, epsilon=30, mechanism="dense"
    )
    assert round(found.total().estimate) == 3
    assert round(found.range(0.0, 0.25).estimate) == 2
    assert found.guarantee.unit == "user"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nothing_gives_an_empty_release(mechanism: str, tmp_path: Path) -> None:
    """A file without rows is released like any other: no quantile is known, and bounds are the whole interval."""
    place = tmp_path / "empty.csv"
    place.write_text("x\n")
    found = dptally.publish_quantiles(place, value="x", low=0, high=63, randomness=SeededBits(1), **privacy(mechanism))
    assert found.total().lower == 0
    quantile = found.quantile(0.5)
    assert (quantile.lower, quantile.upper) == (0, 63)
    if mechanism != "dense":
        assert len(found) == 0 and quantile.estimate is None and found.cdf(20).upper == 1


def test_dates_are_answered_as_dates() -> None:
    """Quantiles of dates are dates, and of timestamps timestamps."""
    first = datetime.date(2013, 1, 1)
    days = [first + datetime.timedelta(days=i % 365) for i in range(36_500)]
    found = dptally.publish_quantiles(
        days, low=first, high=datetime.date(2013, 12, 31), epsilon=5, mechanism="dense", randomness=SeededBits(1)
    )
    median = found.quantile(0.5)
    assert isinstance(median.estimate, datetime.date)
    assert median.lower <= datetime.date(2013, 7, 2) <= median.upper  # type: ignore[operator]
    january = found.range(first, datetime.date(2013, 1, 31))
    assert january.lower <= 3100 <= january.upper
    times = [datetime.datetime(2013, 1, 1, hour) for hour in range(24)] * 100
    released = dptally.publish_quantiles(
        times, low=datetime.datetime(2013, 1, 1), high=datetime.datetime(2013, 1, 2), epsilon=5, mechanism="dense"
    )
    assert isinstance(released.quantile(0.5).estimate, datetime.datetime)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"low": 9, "high": 3}, "low must be below high, got 9 and 3."),
        ({"epsilon": 0}, "epsilon must be a positive number, got 0"),
        ({"delta": None}, "delta must be given for the mechanism 'sample_and_threshold'."),
        ({"delta": 0}, "delta must be positive for the mechanism 'sample_and_threshold'; 'dense' needs none."),
        ({"mechanism": "dense"}, "delta must be 0 for the mechanism 'dense', got 1e-6."),
        ({"mechanism": "laplace"}, "mechanism must be one of 'weighted_sample', 'sample_and_threshold', 'dense', got"),
        ({"mechanism": "weighted_sample", "rate": "0.1"}, "rate is for the mechanism 'sample_and_threshold'"),
        ({"value": 3}, "value must be a column name, got int."),
        ({"resolution": 0}, "resolution must be at least 2, got 0."),
    ],
)
def test_bad_requests_are_refused_before_reading(wrong: dict[str, Any], message: str) -> None:
    """Each mistake has its sentence, and the source is not touched."""

    class Untouchable:
        def __iter__(self) -> Any:
            raise AssertionError("the data was read")

    request = {"low": 0, "high": 99, "epsilon": 1, "delta": "1e-6", **wrong}
    for ask in (dptally.publish_quantiles, lambda source, **rest: dptally.find_quantile(source, 0.5, **rest)):
        with pytest.raises(InvalidParameter, match=message.replace("(", "\\(")):
            ask(Untouchable(), **request)


def test_bad_sources_and_questions_are_refused(release: RangeRelease) -> None:
    """A column of another kind, a share beyond 1, a confidence of 1, ends in disorder, values of another kind."""
    with pytest.raises(InvalidSource, match="column 'x' must hold numbers for this interval"):
        dptally.publish_quantiles(pl.DataFrame({"x": [True]}), value="x", low=0, high=9, epsilon=1, mechanism="dense")
    with pytest.raises(InvalidParameter, match="q must be from 0 to 1, got 2"):
        release.quantile(2)
    with pytest.raises(InvalidParameter, match="confidence must be between 0 and 1, got 1"):
        release.cdf(3, confidence=1)
    with pytest.raises(InvalidParameter, match="low must not be above high"):
        release.range(7, 3)
    with pytest.raises(InvalidParameter, match="low must be a whole number like the ends of the interval, got a date"):
        release.range(datetime.date(2013, 1, 1), 3)
    with pytest.raises(InvalidParameter, match="value must be a number, got nan"):
        release.cdf(math.nan)


# ---- the search in rounds ----


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("q", ["0.1", "0.5", "0.97"])
def test_a_search_finds_the_quantile(mechanism: str, q: str) -> None:
    """The quantile of 100,000 values is within the bounds of a seeded search, and the estimate as well."""
    values = dict.fromkeys(range(1000), 100)
    found = dptally.find_quantile(
        values, q, low=0, high=999, confidence=0.999, randomness=SeededBits(2), **privacy(mechanism)
    )
    true = math.ceil(Fraction(q) * 1000) - 1
    assert found.lower <= true <= found.upper  # type: ignore[operator]
    assert found.lower <= found.estimate <= found.upper  # type: ignore[operator]
    assert found.certificate.copies == 10 and not found.guarantee.private
    assert found.upper - found.lower < 300  # type: ignore[operator]


def test_rounds_travel_as_plain_data() -> None:
    """Questions and the state survive JSON, and a search goes on after a restart as if nothing had happened."""
    search = QuantileRounds(make_grid(0, 255), "0.3", epsilon=2, delta="1e-5")
    values, bits, step = np.arange(256).repeat(200), SeededBits(3), search.start()
    while isinstance(step, Round):
        sent = Round.from_dict(json.loads(json.dumps(step.to_dict())))
        assert sent == step and step.rate == search.law.rate
        votes = np.array([answer(int(value), sent) for value in range(256)]).repeat(200)
        assert np.array_equal(votes == 0, values < step.split)
        reported = search.law.draw(np.bincount(votes, minlength=2), bits)
        search = QuantileRounds.from_dict(json.loads(json.dumps(search.to_dict())))
        step = search.receive((int(reported[0]), int(reported[1])))
    assert isinstance(step, QuantileAnswer)
    assert step.lower <= 76 <= step.upper  # type: ignore[operator]
    with pytest.raises(InvalidParameter, match="the search has ended: no question is open"):
        search.receive((0, 0))


def test_an_answer_leaves_out_what_has_no_value() -> None:
    """Null, NaN and dropped values give no answer; clamped ones do."""
    step = QuantileRounds(make_grid(0.0, 1.0, branching=2), "0.5", epsilon=2, mechanism="dense").start()
    assert isinstance(step, Round) and step.rate is None and step.threshold == 0.5
    assert [answer(value, step) for value in (None, math.nan, -9.0, 0.49, 0.5, 9)] == [None, None, 0, 0, 1, 1]
    search = QuantileRounds(make_grid(0, 9, outside="drop"), "0.5", epsilon=2, mechanism="dense")
    dropping = search.start()
    assert isinstance(dropping, Round) and answer(10, dropping) is None


def test_counts_the_law_never_reports_are_refused() -> None:
    """Counts between 0 and the threshold, negative or broken ones are errors; so is a foreign message."""
    search = QuantileRounds(make_grid(0, 255), "0.3", epsilon=2, delta="1e-5")
    for counts in ((1, 500), (500, -3)):
        with pytest.raises(InvalidParameter, match="counts must be 0 or at least"):
            search.receive(counts)
    with pytest.raises(InvalidParameter, match="counts must be whole numbers, got float"):
        search.receive((5.5, 3))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="not a round of a quantile search"):
        Round.from_dict({"number": 1})
    with pytest.raises(InvalidParameter, match="not the state of a quantile search"):
        QuantileRounds.from_dict({"q": "1"})
