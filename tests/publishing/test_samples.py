"""Publishing with sampling, and making somebody else's sample private."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dptally
from dptally import Ppswor, Priority
from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits

COUNTS = {f"key {i}": 1 + i for i in range(300)}
PRIVACY: dict[str, Any] = {"epsilon": "1", "delta": "1e-4"}


@pytest.mark.parametrize("scheme", [Ppswor("0.05"), Priority("0.01"), Ppswor("0.2", "0.5")], ids=str)
@pytest.mark.parametrize("values", [True, False])
def test_sampled_release(tmp_path: Path, scheme: Any, values: bool) -> None:
    """A release with sampling has as many keys as expected, bounds that hold, and survives its file."""
    release = dptally.publish(COUNTS, sampling=scheme, values=values, randomness=SeededBits(1), **PRIVACY)
    chances = [float(release.law.reporting_probability(count)) for count in COUNTS.values()]
    assert abs(len(release) - sum(chances)) < 6 * sum(p * (1 - p) for p in chances) ** 0.5
    release.save(tmp_path / "r.parquet")
    again = dptally.load(tmp_path / "r.parquet")
    assert again.table().equals(release.table())
    assert again.law.scheme == scheme
    assert again.verify() == release.certificate
    if values:
        truth = np.array([COUNTS[key] for key in release.table()["key"]])
        held = (release.table()["lower"].to_numpy() <= truth) & (truth <= release.table()["upper"].to_numpy())
        assert held.mean() > 0.9


def test_certificates_do_not_depend_on_the_data() -> None:
    """Two data sets with different frequencies give the same certificate: it tells nothing about the rows used."""
    first = dptally.publish({"a": 10_000}, sampling=Ppswor("0.05"), **PRIVACY)
    second = dptally.publish({"a": 7, "b": 3}, sampling=Ppswor("0.05"), **PRIVACY)
    assert first.certificate == second.certificate


def test_size_is_paid_for_and_stated() -> None:
    """A wanted size takes a twentieth of epsilon, sets the rate near size / total, and says so."""
    release = dptally.publish(COUNTS, sampling=Ppswor(size=40), randomness=SeededBits(2), **PRIVACY)
    assert release.guarantee.spent_on_size == Fraction(1, 20)
    assert release.guarantee.epsilon == 1
    assert release.law.epsilon == Fraction(19, 20)
    assert isinstance(release.law.scheme, Ppswor)
    assert abs(release.law.scheme.rate / Fraction(40, sum(COUNTS.values())) - 1) < Fraction(1, 10)
    release.verify()
    seen = str(dptally.publish(COUNTS, sampling=Ppswor(size=40), **PRIVACY).guarantee)
    assert "0.05 was spent on the estimate that set the sampling rate" in seen


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sampling": Ppswor(size=10**6)}, "size must be below the number of occurrences"),
        ({"sampling": "ppswor:0.1"}, "sampling must be a scheme such as"),
    ],
)
def test_bad_sampling(wrong: dict[str, Any], message: str) -> None:
    """A size larger than the data, and text instead of a scheme, get one sentence."""
    with pytest.raises(InvalidParameter, match=message):
        dptally.publish(COUNTS, **wrong, **PRIVACY)


def test_size_needs_no_unit_and_two_readings() -> None:
    """A size with units, or with a source that can be read only once, is refused."""
    frame = pl.DataFrame({"u": [1, 2], "k": ["a", "b"]})
    with pytest.raises(InvalidParameter, match="a sample size is for data without a unit"):
        dptally.publish(frame, key="k", unit="u", sampling=Ppswor(size=1), **PRIVACY)
    with pytest.raises(InvalidParameter, match="can be read twice"):
        dptally.publish(iter(["a"] * 10), sampling=Ppswor(size=1), **PRIVACY)


def sample_of(counts: dict[str, int], rate: float) -> dict[str, int]:
    """A non-private ppswor sample."""
    rng = np.random.default_rng(5)
    return {key: count for key, count in counts.items() if rng.random() < -np.expm1(-rate * count)}


def test_sanitized_sample() -> None:
    """Sampling first and sanitizing then releases as many keys as the law of both steps says, over 40 seeds."""
    rng = np.random.default_rng(6)
    counts = np.array(list(COUNTS.values()))
    found = []
    for seed in range(40):
        taken = rng.random(len(counts)) < -np.expm1(-0.02 * counts)
        sample = {f"key {i}": int(counts[i]) for i in np.flatnonzero(taken)}
        release = dptally.sanitize(sample, "ppswor:0.02", randomness=SeededBits(seed), **PRIVACY)
        assert set(release.table()["key"]) <= set(sample)
        found.append(len(release))
    law = release.law
    chances = [float(law.reporting_probability(int(count))) for count in counts]
    spread = (sum(p * (1 - p) for p in chances) / len(found)) ** 0.5
    assert abs(np.mean(found) - sum(chances)) < 6 * spread


def test_sanitized_files(tmp_path: Path) -> None:
    """A sample in a file is read by its columns; the guarantee says what it rests on; the file verifies."""
    sample = sample_of(COUNTS, 0.05)
    pl.DataFrame({"k": list(sample), "n": list(sample.values())}).write_csv(tmp_path / "sample.csv")
    release = dptally.sanitize(tmp_path / "sample.csv", Ppswor("0.05"), key="k", count="n", **PRIVACY)
    assert "provided that the sample was drawn as stated" in str(release.guarantee)
    release.save(tmp_path / "r.parquet")
    dptally.load(tmp_path / "r.parquet").verify()


@pytest.mark.parametrize(
    ("sample", "scheme", "error", "message"),
    [
        ({"a": 0}, "ppswor:0.1", InvalidSource, "counts of at least 1"),
        ({"a": -1}, "ppswor:0.1", InvalidSource, "between 0 and 2\\^62"),
        ({"a": 2**63}, "ppswor:0.1", InvalidSource, "between 0 and 2\\^62"),
        ({"a": 2}, "table:0,0,1/2", InvalidSource, "a frequency that its scheme never takes"),
        ({"a": 2}, "bottom-k:5", InvalidParameter, "cannot be made private afterwards"),
        ({"a": 2}, "hash:0.5", InvalidParameter, "a public hash tells everyone"),
        ({"a": 2}, Ppswor(size=5), InvalidParameter, "at which rate the sample was drawn"),
        (["a"], "ppswor:0.1", InvalidParameter, "count must name the column"),
    ],
)
def test_bad_samples(sample: Any, scheme: Any, error: type[Exception], message: str) -> None:
    """Each bad sample or scheme gets one clear sentence."""
    with pytest.raises(error, match=message):
        dptally.sanitize(sample, scheme, **PRIVACY)


def test_repeated_keys_in_a_sample() -> None:
    """A key that comes twice has no whole count, and is refused without being named."""
    frame = pl.DataFrame({"k": ["secret", "secret", "b"], "n": [5, 6, 7]})
    with pytest.raises(InvalidSource, match="in the sample more than once") as caught:
        dptally.sanitize(frame, "ppswor:0.1", key="k", count="n", **PRIVACY)
    assert "secret" not in str(caught.value)
