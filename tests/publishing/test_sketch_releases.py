"""Sketches of every form, released: laws, bounds, files, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dptally
from dptally.errors import InvalidParameter, InvalidSource, PrivacyViolation
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.summed_noise import SummedNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits
from dptally.sketches import AnySketch, merge_sketches
from tests.abuse.forgeries import changed

CAPACITY = 50


def stream(seed: int, length: int = 20_000) -> list[str]:
    """Keys with a long tail."""
    drawn = np.random.default_rng(seed).zipf(1.3, length)
    return [f"k{number}" for number in np.minimum(drawn, 5000)]


def single(seed: int = 1) -> dptally.MisraGriesSketch:
    """A sketch of one stream."""
    sketch = dptally.MisraGriesSketch(CAPACITY)
    sketch.update(stream(seed))
    return sketch


def of_users(capacity: int = CAPACITY) -> dptally.UserMisraGriesSketch:
    """A sketch of users with three keys each."""
    sketch = dptally.UserMisraGriesSketch(capacity, 3)
    keys = stream(2)
    sketch.update([keys[at : at + 3] for at in range(0, len(keys), 3)])
    return sketch


def imported() -> dptally.MisraGriesSketch:
    """A sketch as another tool would keep it, without zero counters."""
    kept = {key: count for key, count in zip(*(part.tolist() for part in parts(single())), strict=True) if count}
    return dptally.MisraGriesSketch.from_counters(kept, CAPACITY, single().total)


def parts(sketch: dptally.MisraGriesSketch) -> tuple[np.ndarray, np.ndarray]:
    """Keys and counters."""
    keys, counts = sketch.counters()
    return keys.to_numpy(zero_copy_only=False), counts


FORMS = {
    "single": (single, SharedNoise),
    "standard": (imported, SharedNoise),
    "merged": (lambda: single(1).merge(single(2)), GaussianHistogram),
    "user": (of_users, GaussianHistogram),
    "summed": (lambda: dptally.sum_sketches([single(1), single(2)]), SummedNoise),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_released_with_its_own_law(form: str, tmp_path: Path) -> None:
    """The law fits the form; the release survives a file, verifies, answers questions, and holds real keys only."""
    make, law = FORMS[form]
    sketch = make()
    assert sketch.form == form
    release = sketch.publish(1, "1e-6", name="word", randomness=SeededBits(5))
    assert isinstance(release.law, law)
    assert release.guarantee.mechanism == "misra_gries"
    assert release.guarantee.epsilon == 1
    assert release.guarantee.spent_on_shortfall == Fraction(1, 20)
    assert release.certificate.total_delta <= Fraction("1e-6")
    assert len(release)
    release.save(tmp_path / "r.parquet")
    again = dptally.load(tmp_path / "r.parquet")
    assert again.verify() == release.certificate
    assert again.table().equals(release.table())
    assert again.shortfall == release.shortfall
    assert set(release.table()["word"]) <= set(sketch.items()["key"].to_pylist())
    assert release.top(3)["value"].is_sorted(descending=True)
    total = release.sum()
    assert total.lower <= total.upper


@pytest.mark.parametrize("form", ["single", "standard", "merged", "summed"])
def test_bounds_hold_for_all_keys_at_once(form: str) -> None:
    """Over 60 seeded releases the frequencies of the streams stay within the stated error, for all keys.

    Each release may miss with probability 5 %; more than 15 of 60 would happen with probability below 1e-6.
    """
    make, _ = FORMS[form]
    sketch = make()
    words = stream(1) + (stream(2) if form in ("merged", "summed") else [])
    truth: dict[str, int] = {}
    for word in words:
        truth[word] = truth.get(word, 0) + 1
    missed = 0
    for seed in range(60):
        release = sketch.publish(1, "1e-6", randomness=SeededBits(seed))
        error = release.sketch_error()
        assert error.sketch is not None
        values = dict(zip(*(release.table()[name].to_list() for name in ("key", "value")), strict=True))
        missed += any(
            not values[key] - error.over <= count <= values[key] + error.under + error.sketch
            if key in values
            else count > error.hidden + error.sketch
            for key, count in truth.items()
        )
    assert missed <= 15


def test_single_key_bounds_contain_the_frequency() -> None:
    """Lower and upper bounds of the table hold for nearly all released keys."""
    sketch, words = single(), stream(1)
    hits = total = 0
    for seed in range(40):
        table = sketch.publish(1, "1e-6", randomness=SeededBits(100 + seed)).table()
        for key, lower, upper in table.select("key", "lower", "upper").iter_rows():
            total += 1
            hits += lower <= words.count(key) <= upper
    assert hits / total > 0.9


def users_truth() -> Counter[str]:
    """How many users of `of_users` have each key."""
    keys = stream(2)
    return Counter(key for at in range(0, len(keys), 3) for key in set(keys[at : at + 3]))


@pytest.mark.parametrize("form", [*FORMS, "few counters", "universe"])
@pytest.mark.parametrize("where", [None, "value > 0"])
def test_bounds_of_sums_reckon_with_the_shortfall(form: str, where: str | None) -> None:
    """Frequencies of released keys sum to no more than the bound, for every law that sketches are released with.

    Without the shortfall, most would miss by thousands. A release may miss with probability 1e-4; none of ten does.
    """
    sketch: AnySketch
    options: dict[str, Any] = {"delta": "1e-6"}
    if form == "few counters":
        sketch, truth = dptally.UserMisraGriesSketch(2), Counter({"a": 6000, "b": 4000, "c": 1000})
        sketch.update([[key] for key in np.random.default_rng(1).permutation(sorted(truth.elements())).tolist()])
    elif form == "universe":
        sketch = dptally.MisraGriesSketch(CAPACITY)
        sketch.update(np.array([int(word[1:]) for word in stream(1)]))
        truth, options = Counter(int(word[1:]) for word in stream(1)), {"universe": "integers:0..9999"}
    else:
        sketch = FORMS[form][0]()
        words = stream(1) + (stream(2) if form in ("merged", "summed") else [])
        truth = users_truth() if form == "user" else Counter(words)
    for seed in range(10):
        release = sketch.publish(1, randomness=SeededBits(seed), **options)
        assert len(release) and release.shortfall is not None and release.shortfall.upper(Fraction(1, 2)) > 0
        assert isinstance(release.law, WeightedSample) == (form == "few counters")
        total = release.sum(where, confidence="0.9999")
        assert sum(truth[key] for key in release.table()["key"]) <= total.upper
        assert total.lower <= sum(truth[key] for key in release.table()["key"])
        missing = release.shortfall.upper(Fraction("0.00001"))  # once for all keys, not once for each
        alone = replace_shortfall(release).sum(where, confidence="0.9999")
        assert (total.counters, alone.counters) == (False, True)
        assert total.upper <= alone.upper + len(release) * (missing + 5)


def replace_shortfall(release: dptally.TableRelease) -> dptally.TableRelease:
    """The same with counters that are taken for frequencies."""
    return dptally.TableRelease(release._rows, release.guarantee, release.certificate, release.law)


def test_stated_and_unknown_shortfall_cost_nothing() -> None:
    """All of epsilon goes to the counters if the shortfall is public or left open."""
    stated = single().publish(1, "1e-6", shortfall=400, randomness=SeededBits(1))
    assert stated.guarantee.spent_on_shortfall == 0
    assert stated.law.epsilon == 1
    assert stated.sketch_error().sketch == 400
    unknown = single().publish(1, "1e-6", shortfall=None, randomness=SeededBits(1))
    assert unknown.sketch_error().sketch is None
    assert "not told" in str(unknown.sketch_error())


def test_few_counters_take_the_shared_budget() -> None:
    """For a handful of counters the optimal law with a shared budget beats Gaussian noise, and is chosen."""
    release = of_users(2).publish(1, "1e-6", randomness=SeededBits(1))
    assert isinstance(release.law, WeightedSample)
    assert release.certificate.copies == 2
    assert release.verify() == release.certificate


def test_group_privacy_is_stated() -> None:
    """Units with several elements are named in the guarantee, and epsilon is divided."""
    release = single().publish(1, "1e-6", elements_per_unit=4, randomness=SeededBits(1))
    assert release.guarantee.elements_per_unit == 4
    assert "up to 4 elements" in str(dptally.MisraGriesSketch(5).publish(1, "1e-6", elements_per_unit=4).guarantee)
    assert release.verify().copies == 4


def test_an_empty_sketch_gives_an_empty_release() -> None:
    """Nothing in, nothing out, and a guarantee all the same."""
    release = dptally.MisraGriesSketch(10).publish(1, "1e-6")
    assert len(release) == 0
    assert release.table().columns == ["key", "value", "estimate", "lower", "upper"]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("integer", [5, 5, 5] * 400), ("unsigned", [5, 2**64 - 1] * 400), ("bytes", [b"a", b"b"] * 400)],
)
def test_keys_keep_their_type(kind: Any, keys: list[object]) -> None:
    """Integers and bytes leave as they came."""
    sketch = dptally.MisraGriesSketch(4, kind=kind)
    sketch.update(keys)
    assert set(sketch.publish(1, "1e-6").table()["key"]) == set(keys)


def test_a_tampered_promise_is_found(tmp_path: Path) -> None:
    """A release that promises more than its law keeps does not verify."""
    release = single().publish(1, "1e-6", randomness=SeededBits(1))
    release = release.stating(replace(release.guarantee, epsilon=Fraction(1, 2)))
    with pytest.raises(PrivacyViolation, match="verification failed"):
        release.verify()


def test_summed_sketches_survive_a_file(tmp_path: Path) -> None:
    """Save and load give the same sums, and adding up is the same in one step or two."""
    sketches = [single(seed) for seed in (1, 2, 3)]
    summed = dptally.sum_sketches(sketches)
    summed.save(tmp_path / "s.sketch")
    again = dptally.load_sketch(tmp_path / "s.sketch")
    assert again.items().equals(summed.items())
    assert (again.form, again.total, len(again)) == ("summed", 60_000, len(summed))
    steps = dptally.sum_sketches([sketches[0]]).merge(dptally.sum_sketches(sketches[1:]))
    assert steps.items().equals(summed.items())
    damaged = bytearray((tmp_path / "s.sketch").read_bytes())
    damaged[80] ^= 1
    (tmp_path / "s.sketch").write_bytes(damaged)
    with pytest.raises(InvalidSource, match="damaged"):
        dptally.load_sketch(tmp_path / "s.sketch")


def test_bounds_of_summed_sketches_contain_the_truth() -> None:
    """The owner's bounds of a sum hold for certain."""
    words = stream(1) + stream(2)
    table = dptally.sum_sketches([single(1), single(2)]).items()
    for row in table.to_pylist():
        assert row["lower"] <= words.count(row["key"]) <= row["upper"]


def test_untrusted_aggregation() -> None:
    """Releases of separate streams add up, with bounds that hold for the sum, and the guarantee of one."""
    releases = [single(seed).publish(1, "1e-6") for seed in (1, 2)]
    combined = dptally.combine(releases, units="disjoint")
    assert (combined.epsilon, combined.delta) == (1, Fraction("1e-6"))
    assert dptally.combine(releases, units="shared").epsilon == 2
    words = stream(1) + stream(2)
    rows = combined.table()
    inside = [lower <= words.count(key) <= upper for key, lower, upper in rows.select("key", "lower", "upper").rows()]
    assert sum(inside) / len(inside) > 0.85
    assert combined.top(1)["key"].to_list() == ["k1"]
    assert combined.hidden() > 0


def test_what_is_promised_about_all_releases() -> None:
    """The sentence names what is added or removed, or that releases define it, and what the promise rests on."""
    by_row = dptally.publish({"a": 900}, key="k", epsilon=1, delta="1e-6")
    people = pl.DataFrame({"person": range(900), "k": ["a"] * 900})
    by_person = dptally.publish(people, key="k", unit="person", epsilon=2, delta="1e-6")
    disjoint = dptally.combine([by_row, by_person], units="disjoint")
    assert (disjoint.epsilon, disjoint.units) == (2, "disjoint")
    assert "one unit, as its release defines it" in disjoint.in_words()
    assert "every unit is in one stream only, as was stated" in disjoint.in_words()
    others = dptally.publish(people.head(400), key="k", unit="person", epsilon=2, delta="1e-6")
    shared = dptally.combine([by_person, others], units="shared").in_words()
    assert "epsilon = 4" in shared and "all rows of one 'person'" in shared and "in every stream" in shared
    assert dptally.combine([by_row], units="shared").in_words().startswith("(epsilon = 1, delta = 1e-06)-")
    sample = dptally.sanitize({"a": 900}, "ppswor:0.9", key="k", epsilon=1, delta="1e-6")
    assert "drawn as stated" in dptally.combine([by_row, sample], units="disjoint").in_words()


def test_releases_over_stated_keys() -> None:
    """Where every listed key has a value nothing is hidden; other keys would be, without bound, and are refused."""
    counts = {"a": 500, "b": 300}
    dense = [
        dptally.publish({**counts, "a": count}, epsilon=1, mechanism="dense", universe=list(keys))
        for keys, count in (("abc", 500), ("abc", 900), ("ab", 500))
    ]
    both = dptally.combine(dense[:2], units="disjoint")
    assert both.hidden() == 0 and both.table()["reported_by"].to_list() == [2, 2, 2]
    assert dptally.combine([dense[0], dptally.publish(counts, epsilon=1, delta="1e-6")], units="shared").hidden() > 0
    sparse = [
        dptally.publish({}, key="key", epsilon=1, mechanism="sparse", universe=name) for name in ("words:2", "words:3")
    ]
    for releases in (dense[1:], sparse, [dense[2], dptally.publish({"c": 900}, epsilon=1, delta="1e-6")]):
        with pytest.raises(InvalidParameter, match="says nothing about others"):
            dptally.combine(releases, units="disjoint")


BAD: dict[str, dict[str, Any]] = {
    "minimise must be": {"minimise": "time"},
    "shortfall must be": {"shortfall": -1},
    "elements_per_unit must be": {"elements_per_unit": 0},
    "may not be named 'value'": {"name": "value"},
    "unit is for sketches of users": {"unit": "person"},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_requests(message: str) -> None:
    """One sentence each, before counters are read."""
    with pytest.raises(InvalidParameter, match=message):
        single().publish(1, "1e-6", **BAD[message])


def test_bad_combinations() -> None:
    """What does not fit together is refused with a reason."""
    with pytest.raises(InvalidParameter, match="UserMisraGriesSketch"):
        single().merge(single(2)).publish(1, "1e-6", elements_per_unit=2)
    with pytest.raises(InvalidParameter, match="one capacity"):
        dptally.sum_sketches([single(), dptally.MisraGriesSketch(7)])
    with pytest.raises(InvalidParameter, match="merged sketch cannot be reduced"):
        dptally.sum_sketches([single().merge(single(2))])
    with pytest.raises(InvalidParameter, match="takes MisraGriesSketch"):
        dptally.sum_sketches([of_users()])
    mixed: list[AnySketch] = [single(), of_users()]
    with pytest.raises(InvalidParameter, match="cannot be merged with each other"):
        merge_sketches(mixed)
    with pytest.raises(InvalidParameter, match="not private"):
        dptally.combine([single().publish(1, "1e-6", randomness=SeededBits(1))], units="disjoint")
    with pytest.raises(InvalidParameter, match="'disjoint' or 'shared'"):
        dptally.combine([single().publish(1, "1e-6")], units="maybe")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="not made from a sketch"):
        dptally.publish({"a": 1000}, epsilon=1, delta="1e-6").sketch_error()


def test_seeded_choices_are_not_private() -> None:
    """A sketch of users whose keys were chosen by seeded bits cannot give a private release."""
    sketch = dptally.UserMisraGriesSketch(10, 1, bits=SeededBits(1))
    sketch.update(pa.table({"unit": [1, 1, 2], "key": ["a", "b", "a"]}))
    assert not sketch.publish(1, "1e-6").guarantee.private


# Pure differential privacy.


def of_numbers(capacity: int = 20) -> dptally.MisraGriesSketch:
    """A sketch of whole numbers, some frequent."""
    sketch = dptally.MisraGriesSketch(capacity)
    drawn = np.random.default_rng(3).zipf(1.5, 20_000)
    sketch.update(np.minimum(drawn, 1 << 40).astype(np.int64))
    return sketch


@pytest.mark.parametrize("summed", [False, True])
def test_pure_release_over_a_universe(summed: bool, tmp_path: Path) -> None:
    """With a universe delta is 0; frequent keys are released, the certificate holds, and the file is read again."""
    sketch = dptally.sum_sketches([of_numbers(), of_numbers()]) if summed else of_numbers()
    release = sketch.publish(1, universe="integers:0..1099511627776", name="number")
    assert release.guarantee.delta == 0
    assert {1, 2} <= set(release.table()["number"])
    release.save(tmp_path / "r.parquet")
    assert dptally.load(tmp_path / "r.parquet").verify() == release.certificate
    error = release.sketch_error()
    truth = 2 * 7700 if summed else 7700
    assert error.sketch is not None
    value = dict(release.table().select("number", "value").iter_rows())[1]
    assert value - error.over <= truth * 1.1
    assert value + error.under + error.sketch >= truth * 0.9


def test_pure_noise_is_certified_for_the_distance() -> None:
    """Noise for one step that is too steep for all counters together is refused."""
    from dptally.laws.top_k_noise import TopKNoise
    from dptally.verifiers.pure import certify_rounded_counters

    one_step = TopKNoise("0.5", size=1 << 32, keep=10).certify()
    certify_rounded_counters(one_step, distance=Fraction(3, 2), epsilon=Fraction(1))
    with pytest.raises(PrivacyViolation, match="rounded counters exceed"):
        certify_rounded_counters(one_step, distance=Fraction(2), epsilon=Fraction(1))


PURE_BAD: dict[str, dict[str, Any]] = {
    "leave delta out": {"delta": "1e-6"},
    "universe": {"universe": "nothing-known"},
}


@pytest.mark.parametrize("message", PURE_BAD)
def test_bad_pure_requests(message: str) -> None:
    """One sentence each."""
    with pytest.raises(InvalidParameter, match=message):
        of_numbers().publish(1, **{"universe": "uint64", **PURE_BAD[message]})


def test_pure_needs_separate_sketches() -> None:
    """Merged sketches and sketches of users have no small sensitivity; without delta and universe nothing is done."""
    for sketch in (single().merge(single(2)), of_users()):
        with pytest.raises(InvalidParameter, match="delta = 0 needs"):
            sketch.publish(1, universe="words:12")
    with pytest.raises(InvalidParameter, match="delta is missing"):
        single().publish(1)


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ("single", {"sketch_capacity": 51}),
        ("single", {"elements_per_unit": 2}),
        ("single", {"max_keys_per_unit": 3}),
        ("user", {"sketch_capacity": 51}),
        ("user", {"sketch_capacity": None, "max_keys_per_unit": 51}),
        ("merged", {"elements_per_unit": 2}),
        ("summed", {"sketch_capacity": None}),
    ],
)
def test_a_promise_beyond_what_was_judged_is_found(form: str, change: dict[str, Any]) -> None:
    """A release that claims more counters, keys or elements per unit than its law was verified for does not verify."""
    release = FORMS[form][0]().publish(1, "1e-6", randomness=SeededBits(1))
    release.verify()
    release = release.stating(changed(release.guarantee, **change))
    with pytest.raises(PrivacyViolation, match="verification failed"):
        release.verify()
