"""Files read by Spark: the rules of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits
from dptally.spark import open_files
from tests.spark.data import PRIVACY, visits

TRICKY = 'k,n\n007,500\n,600\n"",700\n"a\nb",800\n"say ""x""",900\n'


def test_text_files_agree_with_one_machine(spark: Any, tmp_path: Path) -> None:
    """Leading zeros, empty and missing fields, line breaks and quotes within fields are read alike."""
    for number in range(10):
        (tmp_path / f"{number}.csv").write_text(TRICKY)
    source = str(tmp_path / "*.csv")
    frame = open_files(source, key="k", count="n", session=spark)
    request = {"key": "k", "count": "n", "nulls": "keep", **PRIVACY}
    ours = dptally.publish(frame, randomness=SeededBits(1), **request)
    theirs = dptally.publish(source, randomness=SeededBits(1), **request)
    assert set(ours.table().get_column("k")) == {"007", None, "", "a\nb", 'say "x"'}
    assert ours.table().equals(theirs.table())


def test_every_format_agrees_with_one_machine(spark: Any, tmp_path: Path) -> None:
    """Compressed CSV and Parquet with units, several keys and a blank in the name give the release of one machine."""
    table = visits(5000)
    pq.write_table(table, tmp_path / "a b.parquet")
    with pyarrow.CompressedOutputStream(tmp_path / "t.csv.gz", "gzip") as file:
        pyarrow.csv.write_csv(table, file)
    request: dict[str, Any] = {
        "key": ["word", "number"],
        "unit": "user",
        "max_keys_per_unit": 2,
        "mechanism": "stability",
    }
    for name in ("a b.parquet", "t.csv.gz"):
        source = str(tmp_path / name)
        frame = open_files(source, key=["word", "number"], unit="user", session=spark)
        ours = dptally.publish(frame, randomness=SeededBits(1), **request, **PRIVACY)
        theirs = dptally.publish(source, randomness=SeededBits(1), **request, **PRIVACY)
        assert len(ours) > 3
        assert ours.table().equals(theirs.table())


def test_units_and_types_agree_with_one_machine(spark: Any, tmp_path: Path) -> None:
    """JSON numbers that are equal are one unit, text is another, and stated types are those of the columns."""
    lines = [f'{{"k": {i % 3}.0, "u": {unit}}}' for i in range(900) for unit in (i, f"{i}.0", f"{i}e0", f'"{i}"')]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    source, request = str(tmp_path / "a.jsonl"), {"key": "k", "unit": "u", "max_keys_per_unit": 1, **PRIVACY}
    for types in (None, {"k": "int64"}, {"k": "decimal(5,1)", "u": "float64"}):
        ours = dptally.publish(source, engine="spark", types=types, randomness=SeededBits(1), **request)
        theirs = dptally.publish(source, types=types, randomness=SeededBits(1), **request)
        assert len(ours) == 3 and ours.table().schema == theirs.table().schema
        units = 300 if types and "u" in types else 600
        assert all(abs(value - units) < 60 for value in ours.table()["estimate"])
    with pytest.raises(InvalidParameter, match="Spark has no type for column 'k'"):
        open_files(source, key="k", types={"k": "time"}, session=spark)
    frame = open_files(source, key="k", session=spark)
    with pytest.raises(InvalidParameter, match="a Spark DataFrame declares all"):
        dptally.publish(frame, key="k", types={"k": "int64"}, **PRIVACY)
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")
    with pytest.raises(InvalidSource, match="are one file"):
        open_files(str(tmp_path / "*.jsonl"), key="k", session=spark)


def test_bad_files(spark: Any, tmp_path: Path) -> None:
    """Missing files and columns, standard input, and rows with too few fields are answered as on one machine."""
    with pytest.raises(InvalidSource, match="there is no file"):
        open_files(str(tmp_path / "none.csv"), key="k", session=spark)
    with pytest.raises(InvalidParameter, match="Spark cannot read standard input"):
        open_files("-", key="k", session=spark)
    bad = tmp_path / "bad.csv"
    bad.write_text("k,u\nsecret,1\nsecret\n")
    with pytest.raises(InvalidParameter, match="column 'x' is not named in"):
        open_files(str(bad), key="x", session=spark)
    frame = open_files(str(bad), key="k", unit="u", session=spark)
    with pytest.raises(InvalidSource) as caught:
        dptally.publish(frame, key="k", unit="u", **PRIVACY)
    assert "secret" not in str(caught.value)
    assert "line 3" in str(caught.value)
