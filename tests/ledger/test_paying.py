"""Everything that releases something pays first: before data is read, and before the first secret word of the draw."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dptally
from dptally import BudgetExceeded, Ledger
from dptally.errors import DptallyError, InvalidParameter, InvalidSource
from dptally.heavy_hitters import publish_heavy_hitters
from dptally.ledger.paying import paying, spent_by
from dptally.privacy.spending import Spending
from dptally.randomness import SeededBits, SystemBits

DATA = {"common": 1000, "rare": 1}
FRUIT = {"apple": 900, "pear": 800}
PRIVACY: dict[str, Any] = {"epsilon": "1/4", "delta": "1e-7"}
RANGE: dict[str, Any] = {"low": 0, "high": 99}


def _sketch(kind: str) -> Callable[..., Any]:
    def publish(data: Any, **options: Any) -> Any:
        sketch = dptally.MisraGriesSketch(8) if kind == "single" else dptally.UserMisraGriesSketch(8, 2)
        if isinstance(sketch, dptally.MisraGriesSketch):
            sketch.update(list(data))
        else:
            sketch.update(data)
        delta = None if "universe" in options else options.pop("delta")
        return sketch.publish(options.pop("epsilon"), delta, **options)

    return publish


def _summed(data: Any, **options: Any) -> Any:
    sketch = dptally.MisraGriesSketch(8)
    sketch.update(list(data))
    return dptally.sum_sketches([sketch]).publish(options.pop("epsilon"), options.pop("delta"), **options)


# name -> what releases, its source, its options
RELEASES: dict[str, tuple[Callable[..., Any], Any, dict[str, Any]]] = {
    "weighted_sample": (dptally.publish, DATA, PRIVACY),
    "keys_only": (dptally.publish, DATA, {**PRIVACY, "values": False}),
    "sampled": (dptally.publish, DATA, {**PRIVACY, "sampling": dptally.Ppswor("0.5")}),
    "stability": (dptally.publish, DATA, {**PRIVACY, "mechanism": "stability"}),
    "gaussian": (dptally.publish, DATA, {**PRIVACY, "mechanism": "gaussian"}),
    "sample_and_threshold": (dptally.publish, DATA, {**PRIVACY, "mechanism": "sample_and_threshold"}),
    "misra_gries": (dptally.publish, ["a"] * 500, {**PRIVACY, "mechanism": "misra_gries"}),
    "dense": (dptally.publish, DATA, {"epsilon": "1/4", "mechanism": "dense", "universe": ["common", "rare"]}),
    "sparse": (dptally.publish, DATA, {"epsilon": "1/4", "mechanism": "sparse", "universe": "words:6"}),
    "strict_sparse": (
        dptally.publish,
        DATA,
        {
            "epsilon": "1/4",
            "mechanism": "sparse",
            "universe": "words:2",
            "strict_time": True,
            "capacity": 1,
            "bound": 9,
        },
    ),
    "compact": (
        dptally.publish,
        DATA,
        {"epsilon": "1/4", "mechanism": "compact", "universe": "words:6", "capacity": 4},
    ),
    "sanitize": (lambda data, **options: dptally.sanitize(data, "ppswor:0.5", **options), DATA, PRIVACY),
    "tree": (publish_heavy_hitters, FRUIT, {**PRIVACY, "levels": [5]}),
    "quantiles": (dptally.publish_quantiles, range(100), {**PRIVACY, **RANGE}),
    "quantiles_dense": (dptally.publish_quantiles, range(100), {"epsilon": "1/4", **RANGE, "mechanism": "dense"}),
    "search": (lambda data, **options: dptally.find_quantile(data, "1/2", **options), range(100), {**PRIVACY, **RANGE}),
    "sketch": (_sketch("single"), ["a"] * 500, PRIVACY),
    "pure_sketch": (_sketch("single"), ["a"] * 500, {"epsilon": "1/4", "universe": "words:6"}),
    "user_sketch": (_sketch("user"), [["a", "b"]] * 300, PRIVACY),
    "summed_sketch": (_summed, ["a"] * 500, PRIVACY),
}
SOURCES = [name for name in RELEASES if "sketch" not in name]


class Watched:
    """Secret bits that look into the ledger before each of their words."""

    def __init__(self, ledger: Ledger) -> None:
        self._bits, self._ledger = SystemBits(), ledger
        self.seen: list[str] = []

    @property
    def private(self) -> bool:
        """As the bits inside."""
        return True

    def words(self, count: int) -> NDArray[np.uint64]:
        """Words, and a note of the state at that time."""
        self.seen.append(Ledger(self._ledger.path).history()[-1].state)
        return self._bits.words(count)


@pytest.fixture(autouse=True)
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources of bits that watch are taken for secret ones, so that releases go the way that private ones go."""
    monkeypatch.setattr("dptally.randomness.bits._ForeignBits", lambda source: source)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A budget for four of the releases above."""
    return Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")


@pytest.mark.parametrize("name", RELEASES)
def test_every_release_pays_before_it_draws(name: str, ledger: Ledger) -> None:
    """When the first word of a draw is handed out "drawn" is on disk; in the end "published" is, in the release too."""
    release, data, options = RELEASES[name]
    bits = Watched(ledger)
    made = release(data, **options, ledger=ledger, randomness=bits)
    seeds = bits.seen[:1] == ["reserved"] and name == "misra_gries"  # a sketch hashes its keys by secret seeds
    assert set(bits.seen[1:] if seeds else bits.seen) == {"drawn"}
    (entry,) = ledger.history()
    assert entry.state == "published"
    assert entry.spending.epsilon == Fraction(1, 4) == made.guarantee.epsilon
    assert ledger.find(made.guarantee) == entry
    # The parts say no less than the whole: their epsilons add up to it, or there are several keys to share it.
    assert sum(part.epsilon * part.copies for part in entry.spending.parts) >= Fraction(1, 4)


@pytest.mark.parametrize("name", SOURCES)
def test_an_exhausted_budget_is_refused_before_data_is_read(name: str, ledger: Ledger) -> None:
    """A source that must not be touched is not touched, and no random word is read."""
    release, _, options = RELEASES[name]
    count = {"count": "n"} if name == "sanitize" else {}
    ledger.reserve(Spending("stability", Fraction(9, 10), Fraction(0)))

    class Untouchable:
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("the source was read")

        def __getattr__(self, attribute: str) -> Any:
            raise AssertionError(f"the source was asked for {attribute}")

    class NoBits:
        private = True

        def words(self, count: int) -> NDArray[np.uint64]:
            raise AssertionError("random words were read")

    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.1, delta 1e-06 remain"):
        release(Untouchable(), **count, **options, ledger=ledger, randomness=NoBits())
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_cannot_be_read_costs_nothing(name: str, ledger: Ledger, tmp_path: Path) -> None:
    """Failing before a row is read gives the budget back, and the history says so in a fixed sentence."""
    release, _, options = RELEASES[name]
    column = {"value": "x"} if name in ("quantiles", "quantiles_dense", "search") else {"key": "x"}
    count = {"count": "n"} if name == "sanitize" else {}
    if name == "dense":
        options = {**options, "universe": ["a"]}
    with pytest.raises((InvalidSource, InvalidParameter)):
        release(tmp_path / "missing.csv", **column, **count, **options, ledger=ledger)
    # Trees of counts open what declares its types before they reserve anything.
    said = [] if "value" in column else [("void", "failed before any row was read")]
    assert [(entry.state, entry.note) for entry in ledger.history()] == said
    assert ledger.remaining() == (1, Fraction(1, 10**6))


def test_failing_after_the_draw_began_is_spent(ledger: Ledger) -> None:
    """Once a word of the draw was read nothing is given back."""

    class Failing(Watched):
        def words(self, count: int) -> NDArray[np.uint64]:
            super().words(count)
            raise OSError("no more bits")

    with pytest.raises(OSError, match="no more bits"):
        dptally.publish(DATA, **PRIVACY, ledger=ledger, randomness=Failing(ledger))
    assert [entry.state for entry in ledger.history()] == ["failed"]
    assert ledger.remaining()[0] == Fraction(3, 4)


def test_choosing_keys_of_units_is_not_the_draw(ledger: Ledger, tmp_path: Path) -> None:
    """Words that choose which keys of a unit count come before "drawn"."""
    place = tmp_path / "events.csv"
    place.write_text("user,fruit\n" + "".join(f"{n % 300},{'apple' if n % 2 else 'pear'}\n" for n in range(900)))
    bits = Watched(ledger)
    dptally.publish(place, key="fruit", unit="user", max_keys_per_unit=1, **PRIVACY, ledger=ledger, randomness=bits)
    assert bits.seen[0] == "reserved" and bits.seen[-1] == "drawn"
    assert bits.seen == sorted(bits.seen, reverse=True)


def test_sampling_while_reading_is_the_draw(ledger: Ledger, tmp_path: Path) -> None:
    """Coins that sample rows are part of the guarantee: "drawn" comes before them."""
    place = tmp_path / "events.csv"
    place.write_text("fruit\n" + "apple\n" * 5000)
    for options in ({"mechanism": "sample_and_threshold"}, {"sampling": dptally.Ppswor("0.01")}):
        bits = Watched(ledger)
        dptally.publish(place, key="fruit", **PRIVACY, **options, ledger=ledger, randomness=bits)
        assert set(bits.seen) == {"drawn"}


def test_a_release_that_draws_nothing_is_paid_for(ledger: Ledger) -> None:
    """A release that took no random word tells something all the same."""
    with paying(ledger, Spending("dense", Fraction(1, 2), Fraction(0)), SystemBits(), unit=None):
        assert ledger.history()[0].state == "reserved"
    assert ledger.history()[0].state == "published"


def test_a_seeded_release_pays_in_full(ledger: Ledger) -> None:
    """It is not private, so it could not cost less; the history says what it was."""
    dptally.publish(DATA, **PRIVACY, ledger=ledger, randomness=SeededBits(1))
    (entry,) = ledger.history()
    assert entry.note == "drawn from a seed: not private" and ledger.remaining()[0] == Fraction(3, 4)


def test_size_pays_for_its_estimate_in_the_same_entry(ledger: Ledger) -> None:
    """A wanted sample size spends a twentieth on the total: one entry, two parts."""
    dptally.publish(DATA, **PRIVACY, sampling=dptally.Ppswor(size=5), ledger=ledger)
    (entry,) = ledger.history()
    assert [part.epsilon for part in entry.spending.parts] == [Fraction(19, 80), Fraction(1, 80)]


def test_files_keep_the_record(ledger: Ledger, tmp_path: Path) -> None:
    """Every kind of release file brings the record back."""
    readers: dict[str, Callable[[Path], Any]] = {
        "weighted_sample": dptally.load,
        "compact": dptally.load,
        "tree": dptally.load,
        "quantiles": dptally.load_ranges,
    }
    for name, read in readers.items():
        release, data, options = RELEASES[name]
        made = release(data, **options, ledger=ledger)
        made.save(tmp_path / name)
        assert read(tmp_path / name).guarantee == made.guarantee
        assert made.describe().get("record", made.describe().get("guarantee", {}).get("record"))


def test_promises_about_different_units_do_not_add_up(ledger: Ledger, tmp_path: Path) -> None:
    """A ledger takes releases about one unit; names of columns that mean the same are given one name."""
    place = tmp_path / "events.csv"
    place.write_text("user,fruit\n" + "".join(f"{n},apple\n" for n in range(300)))
    dptally.publish(place, key="fruit", unit="user", **PRIVACY, ledger=ledger)
    assert ledger.history()[0].unit == "user"
    with pytest.raises(InvalidParameter, match="protect 'user', and this one protects 'each row': guarantees for"):
        dptally.publish(place, key="fruit", **PRIVACY, ledger=ledger)
    assert len(ledger.history()) == 1
    dptally.publish(DATA, **PRIVACY, ledger=ledger.account(unit="user"))
    assert ledger.history()[1].unit == "user"


def test_a_column_cannot_be_named_like_rows(ledger: Ledger, tmp_path: Path) -> None:
    """Rows that are units of their own, and units of a column "each row", are different; and no name makes them one."""
    place = tmp_path / "events.csv"
    place.write_text("each row,column each row,fruit\n" + "".join(f"{n},{n},apple\n" for n in range(300)))
    dptally.publish(place, key="fruit", **PRIVACY, ledger=ledger)
    for column in ("each row", "column each row"):
        with pytest.raises(InvalidParameter, match="different privacy units cannot be composed"):
            dptally.publish(place, key="fruit", unit=column, **PRIVACY, ledger=ledger)
    with pytest.raises(InvalidParameter, match="unit may not be 'each row'"):
        ledger.account(unit="each row")
    other = Ledger(tmp_path / "other.db", epsilon=1, delta="1e-6")
    dptally.publish(place, key="fruit", unit="each row", **PRIVACY, ledger=other)
    with pytest.raises(InvalidParameter, match="different privacy units cannot be composed"):
        dptally.publish(place, key="fruit", unit="column each row", **PRIVACY, ledger=other)
    dptally.publish(place, key="fruit", unit="each row", **PRIVACY, ledger=other)


def test_paths_and_accounts_are_ledgers(ledger: Ledger) -> None:
    """A path and an account do as well; anything else does not."""
    dptally.publish(DATA, **PRIVACY, ledger=ledger.path)
    dptally.publish(DATA, **PRIVACY, ledger=str(ledger.path))
    dptally.publish(DATA, **PRIVACY, ledger=ledger.account(source="shop", who="ada"))
    assert [entry.source for entry in ledger.history()] == [None, None, "shop"]
    with pytest.raises(
        InvalidParameter, match=r"ledger must be a dptally\.Ledger, an account of one, or the path of one"
    ):
        dptally.publish(DATA, **PRIVACY, ledger=7)  # type: ignore[call-overload]
    with pytest.raises(InvalidParameter, match="does not exist"):
        dptally.publish(DATA, **PRIVACY, ledger="nowhere.db")


def test_a_void_that_cannot_be_written_hides_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """If giving back fails, the first error is the one that is seen, and the budget stays spent; which is said."""

    def fail(*_: object, **__: Any) -> None:
        raise DptallyError("the disk is full")

    half = Spending("dense", Fraction(1, 2), Fraction(0))
    for opening in (True, False):
        with pytest.raises(RuntimeError, match="first") as caught, monkeypatch.context() as patched:  # noqa: SIM117
            with paying(ledger, half, SystemBits(), unit=None) as paid:
                patched.setattr(ledger, "_move", fail)
                with paid.opening() if opening else contextlib.nullcontext():
                    raise RuntimeError("first")
        assert "The budget stays spent" in str(spent_by(caught.value))
    assert [entry.state for entry in Ledger(ledger.path).history()] == ["reserved", "reserved"]


def test_a_drawn_that_cannot_be_written_stops_the_draw(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without "drawn" on disk no word is handed out."""

    def fail(*_: object, **__: Any) -> None:
        raise DptallyError("the disk is full")

    monkeypatch.setattr(ledger, "_move", fail)
    bits = Watched(ledger)
    with pytest.raises(DptallyError, match="disk is full"):
        dptally.publish(DATA, **PRIVACY, ledger=ledger, randomness=bits)
    assert bits.seen == [] and Ledger(ledger.path).history()[0].state == "reserved"
