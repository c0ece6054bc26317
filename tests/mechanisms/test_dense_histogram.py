"""The dense histogram: a value for every public key, nothing about keys outside, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.randomness import SeededBits, SystemBits
from dptally.sources import open_rows
from dptally.summaries import count_keys
from tests.mechanisms import DenseHistogram

LETTERS = pa.table({"letter": ["c", "a", "b"]})


class Frequencies:
    """Counted keys given in advance, one batch for each table."""

    unit: str | None = None
    scheme: Any = None

    def __init__(self, *tables: pa.Table, max_keys_per_unit: int = 1) -> None:
        self.tables = tables
        self.key = tuple(tables[0].column_names[:-1])
        self.max_keys_per_unit = max_keys_per_unit

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Keys and counts."""
        for table in self.tables:
            batch = table.combine_chunks().to_batches()[0]
            yield batch.select(list(self.key)), batch.column(batch.num_columns - 1).to_numpy()


def letters(counts: dict[str, int], **more: Any) -> Frequencies:
    """Counts of letters."""
    return Frequencies(pa.table({"letter": list(counts), "n": list(counts.values())}), **more)


def test_every_key_of_the_set_has_a_value_and_no_other_key_has_one() -> None:
    """Rows are the set, sorted, with counts near the truth: 0 for absent keys; keys outside leave no trace."""
    mechanism = DenseHistogram(5, LETTERS)
    drawn = mechanism.draw(letters({"b": 1000, "z": 10**9, "a": 50}), SeededBits(1))
    assert drawn.rows.column_names == ["letter", "value"]
    assert drawn.rows.column("letter").to_pylist() == ["a", "b", "c"]
    assert np.abs(drawn.rows.column("value").to_numpy() - [50, 1000, 0]).max() <= mechanism.law.error_quantile("1e-9")
    without = mechanism.draw(letters({"a": 50, "b": 1000}), SeededBits(1))
    assert without.rows == drawn.rows


def test_values_are_the_draws_of_the_law_in_the_order_of_keys() -> None:
    """Neither the order of the set, nor that of the batches, nor how keys are spread over batches shows."""
    law = DyadicGeometric(1, 2**40)
    expected = law.draw(np.array([7, 0, 9]), SeededBits(4)).tolist()
    parts = [pa.table({"letter": ["c"], "n": [9]}), pa.table({"letter": ["a"], "n": [7]})]
    for keys in (LETTERS, LETTERS.take([1, 2, 0])):
        for tables in (parts, parts[::-1], [pa.concat_tables(parts)]):
            drawn = DenseHistogram(1, keys).draw(Frequencies(*tables), SeededBits(4))
            assert drawn.rows.column("value").to_pylist() == expected


def test_guarantee_and_certificate() -> None:
    """Delta is 0, the whole epsilon is promised for the unit, and one key's law keeps a share of it."""
    mechanism = DenseHistogram("1", LETTERS, max_keys_per_unit=4, bound=100)
    drawn = mechanism.draw(letters({"a": 1}, max_keys_per_unit=3), SystemBits())
    assert (drawn.guarantee.epsilon, drawn.guarantee.delta) == (1, 0)
    assert (drawn.guarantee.max_keys_per_unit, drawn.guarantee.private) == (4, True)
    assert drawn.certificate.judge == "pure"
    assert drawn.certificate.epsilon == mechanism.law.epsilon == Fraction(1, 4)
    assert (drawn.certificate.copies, drawn.certificate.total_epsilon, drawn.certificate.total_delta) == (4, 1, 0)
    assert mechanism.law.bound == 100
    assert repr(mechanism.spec) == "<Spec of 'dense': epsilon=1, delta=0>"
    assert not mechanism.draw(letters({"a": 1}), SeededBits(1)).guarantee.private


def test_counts_above_the_bound_are_clamped_in_silence() -> None:
    """A count above the bound is drawn as if it were the bound."""
    mechanism = DenseHistogram(1, LETTERS, bound=10)
    drawn = [mechanism.draw(letters({"a": count}), SeededBits(1)).rows for count in (10, 11, 2**62)]
    assert drawn[0] == drawn[1] == drawn[2]


def test_the_number_of_random_words_does_not_depend_on_data() -> None:
    """Two words for each key of the set, with no data, with all keys, and with keys outside."""
    for counts in ({"z": 1}, {"a": 1, "b": 2, "c": 3}, {str(number): 1 for number in range(50)}):
        bits = SeededBits(1)
        read: list[int] = []
        words = bits.words
        bits.words = lambda count, words=words, read=read: read.append(count) or words(count)  # type: ignore[method-assign]
        DenseHistogram(1, LETTERS).draw(letters(counts), bits)
        assert sum(read) == 6


def test_several_columns_nulls_and_types_that_differ_in_storage_only() -> None:
    """Keys of two columns are matched as pairs; null is a key; widths of integers and kinds of text do not matter."""
    keys = pa.table({"place": pa.array(["x", "y", None, "x"]), "code": pa.array([1, 1, 2, 2], type=pa.int16())})
    found = pa.table(
        {
            "place": pa.array(["y", None, "x", "x", "y", "w"], type=pa.large_string()).dictionary_encode(),
            "code": pa.array([1, 2, 1, 3, 2, 1], type=pa.int64()),
            "n": pa.array([100, 200, 300, 999, 999, 999]),
        }
    )
    rows = DenseHistogram(8, keys).draw(Frequencies(found), SeededBits(2)).rows
    assert rows.schema.types == [pa.string(), pa.int16(), pa.int64()]
    values = {(row["place"], row["code"]): row["value"] for row in rows.to_pylist()}
    assert list(values) == [("x", 1), ("x", 2), ("y", 1), (None, 2)]
    truth = {("x", 1): 300, ("x", 2): 0, ("y", 1): 100, (None, 2): 200}
    assert all(abs(values[key] - count) <= 5 for key, count in truth.items())


def test_the_index_finds_random_keys() -> None:
    """Against a dictionary: 2,000 keys of three columns looked up in a set of 500, in many small batches."""
    generator = np.random.default_rng(3)
    pool = sorted({tuple(row) for row in generator.integers(0, 14, (2500, 3)).tolist()})
    generator.shuffle(pool)
    names = ("one", "two", "three")
    public, private = pool[:500], pool[200:]
    keys = pa.table({name: [key[place] for key in public] for place, name in enumerate(names)})
    counts = {key: 1000 + 10 * place for place, key in enumerate(private)}
    tables = [
        pa.table(
            {
                **{name: [key[place] for key in private[at : at + 37]] for place, name in enumerate(names)},
                "n": [counts[key] for key in private[at : at + 37]],
            }
        )
        for at in range(0, len(private), 37)
    ]
    rows = DenseHistogram(8, keys).draw(Frequencies(*tables), SeededBits(2)).rows.to_pylist()
    assert [tuple(row[name] for name in names) for row in rows] == sorted(public)
    for row in rows:
        assert abs(row["value"] - counts.get(tuple(row[name] for name in names), 0)) <= 5


def test_from_a_source() -> None:
    """Counted rows of a table go through, with units that have several keys."""
    rows = open_rows(
        pa.table({"letter": ["a", "b", "a", "q", "a"] * 40, "who": [number // 2 for number in range(200)]}),
        key="letter",
        unit="who",
    )
    mechanism = DenseHistogram(20, LETTERS, max_keys_per_unit=2)
    with count_keys(rows, max_keys_per_unit=2, bits=SeededBits(1)) as frequencies:
        drawn = mechanism.draw(frequencies, SeededBits(1))
    assert np.abs(drawn.rows.column("value").to_numpy() - [100, 40, 0]).max() <= 3
    assert drawn.guarantee.unit == "who"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DenseHistogram(0, LETTERS), "epsilon must be a positive number, got 0"),
        (lambda: DenseHistogram(1, LETTERS, bound=0), "bound must be at least 1, got 0"),
        (lambda: DenseHistogram(1, LETTERS, max_keys_per_unit=0), "max_keys_per_unit must be at least 1, got 0"),
        (lambda: DenseHistogram(1, LETTERS.slice(0, 0)), "at least one column and at least one row"),
        (lambda: DenseHistogram(1, pa.table({"letter": ["a", "a"]})), "keys must be distinct"),
        (lambda: DenseHistogram(1, pa.table({"value": ["a"]})), "must not have a column named 'value'"),
        (
            lambda: DenseHistogram(1, LETTERS).draw(letters({"a": 1}, max_keys_per_unit=2), SeededBits(1)),
            "protects units with at most 1 keys, but contributions were bounded at 2",
        ),
        (
            lambda: DenseHistogram(1, pa.table({"other": ["a"]})).draw(letters({"a": 1}), SeededBits(1)),
            "keys must have the columns 'letter', in this order, got 'other'",
        ),
        (
            lambda: DenseHistogram(1, pa.table({"letter": [1]})).draw(letters({"a": 1}), SeededBits(1)),
            "key column 'letter' has type large_string in the data, but type int64 in the set of keys",
        ),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    """Each is refused in one sentence."""
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_a_sample_is_refused() -> None:
    """Keys that somebody sampled are not all keys."""
    sample = letters({"a": 1})
    sample.scheme = object()
    with pytest.raises(InvalidParameter, match="needs all keys, but these are a sample"):
        DenseHistogram(1, LETTERS).draw(sample, SeededBits(1))
