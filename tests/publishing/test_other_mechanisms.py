"""`publish` with mechanisms other than the optimal histogram: the same flow, the same release."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dptally
from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.randomness import SeededBits

ROWS = pl.DataFrame(
    {
        "user": [n // 3 for n in range(9000)],
        "word": [("common", "usual", "often")[n % 3] if n % 300 else f"rare{n}" for n in range(9000)],
    }
)
MECHANISMS = ("stability", "gaussian", "sample_and_threshold", "misra_gries")


@pytest.mark.parametrize("randomness", [None, SeededBits(1)], ids=["secret", "seeded"])
@pytest.mark.parametrize("unit", [None, "user"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_release(mechanism: str, unit: str | None, randomness: SeededBits | None, tmp_path: Path) -> None:
    """Frequent keys are released and rare ones are not; file, certificate, bounds and questions work."""
    options: dict[str, Any] = {} if unit is None else {"unit": unit, "max_keys_per_unit": 3}
    if mechanism == "misra_gries":
        options["capacity"] = 20
    release = dptally.publish(
        ROWS, key="word", epsilon=1, delta="1e-6", mechanism=mechanism, randomness=randomness, **options
    )
    assert release.guarantee.mechanism == mechanism
    assert release.guarantee.private == (randomness is None)
    table = release.table()
    assert set(table["word"]) == {"common", "usual", "often"}
    sure = release.table(confidence="0.9999999")
    for word, lower, upper in sure.select("word", "lower", "upper").iter_rows():
        assert lower <= (2970 if word == "common" else 3000) <= upper
    release.save(tmp_path / "r.parquet")
    again = dptally.load(tmp_path / "r.parquet")
    assert again.verify() == release.certificate
    assert again.table().equals(table)
    assert again.rank("common") in (1, 2, 3)
    assert again.quantile(0.5) > 0
    total = again.sum()
    assert total.lower <= total.estimate
    assert again.accuracy([100]).height == 1


def test_gaussian_noise_reports_more_for_many_keys_per_unit() -> None:
    """From three keys per unit on a key is reported half the time at a smaller frequency than by the optimal law."""
    one_half = Fraction(1, 2)
    half = {}
    for name in ("weighted_sample", "gaussian"):
        release = dptally.publish(
            ROWS, key="word", unit="user", max_keys_per_unit=10, epsilon=1, delta="1e-6", mechanism=name
        )
        half[name] = release.law.first_frequency(one_half)
    assert half["gaussian"] < half["weighted_sample"]


BAD: dict[str, dict[str, Any]] = {
    "sampling needs the mechanism 'weighted_sample', got 'misra": {
        "mechanism": "misra_gries",
        "sampling": dptally.Ppswor("0.1"),
    },
    "sampling needs the mechanism": {"mechanism": "stability", "sampling": dptally.Ppswor("0.1")},
    "releases values": {"mechanism": "gaussian", "values": False},
    "delta is missing": {"mechanism": "misra_gries", "delta": None},
    "capacity must be": {"mechanism": "misra_gries", "capacity": 0},
    "universe is for": {"mechanism": "misra_gries", "universe": "ipv4"},
    "mechanism must be one of": {"mechanism": "laplace"},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_requests(message: str) -> None:
    """One sentence each, before data is read."""
    with pytest.raises(InvalidParameter, match=message):
        dptally.publish("no such file.csv", key="word", **{"epsilon": 1, "delta": "1e-6", **BAD[message]})


def test_a_sketch_reads_raw_rows() -> None:
    """Aggregated counts are refused."""
    with pytest.raises(InvalidParameter, match="holds counts"):
        dptally.publish({"a": 100}, epsilon=1, delta="1e-6", mechanism="misra_gries")


@pytest.mark.parametrize("unit", [None, "user"])
def test_a_sketch_has_no_null_key(unit: str | None) -> None:
    """Null as a key is refused for sketches, with and without units."""
    with pytest.raises(InvalidParameter, match="nulls must be 'drop'"):
        dptally.publish(ROWS, key="word", unit=unit, epsilon=1, delta="1e-6", mechanism="misra_gries", nulls="keep")


def test_gaussian_noise_for_fewer_keys_than_promised_does_not_verify() -> None:
    """The judge's number of keys must be that of the promise."""
    release = dptally.publish(ROWS, key="word", unit="user", epsilon=1, delta="1e-6", mechanism="gaussian")
    release = release.stating(replace(release.guarantee, max_keys_per_unit=2))
    with pytest.raises(PrivacyViolation, match="states more than the law gives"):
        release.verify()
