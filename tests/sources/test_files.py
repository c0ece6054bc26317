"""Files in, counts out."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources import open_rows
from tests.sources.counting import counts_of

CSV = b'user,query\nu1,007\nu2,"a, ""b"""\nu3,\nu4,""\n,007\nu5,"two\nlines"\n'
CSV_COUNTS = {"007": 2, 'a, "b"': 1, "": 1, "two\nlines": 1}
JSON = (
    b'{"user":"u1","query":"007"}\n{"user":"u2","query":1.50}\n{"user":3,"query":null}\n{"query":true}\n{"user":"u4"}\n'
)
JSON_COUNTS = {"007": 1, "1.5": 1, "true": 1}


def compressed(content: bytes, name: str, folder: Path) -> Path:
    """Write `content`, compressed as the name says."""
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(content))
    elif name.endswith(".zst"):
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.csv.zst", "A.CSV"])
def test_csv_is_text(name: str, tmp_path: Path) -> None:
    """Fields stay as written, an empty field is null unless it is quoted, and compression makes no difference."""
    assert counts_of(compressed(CSV, name, tmp_path), key="query") == CSV_COUNTS


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_tsv_is_separated_by_tabs(name: str, tmp_path: Path) -> None:
    """Tabs separate, commas do not."""
    assert counts_of(compressed(b"q\tx\na,b\t1\na,b\t2\n", name, tmp_path), key="q") == {"a,b": 2}


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a.jsonl.gz", "a.jsonl.zst"])
def test_json_lines_become_text(name: str, tmp_path: Path) -> None:
    """Numbers and booleans become their text, null and absent fields are dropped."""
    assert counts_of(compressed(JSON, name, tmp_path), key="query") == JSON_COUNTS


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_line_ends(end: bytes, tmp_path: Path) -> None:
    """Both usual line ends are read, with and without one at the end of the file and a byte order mark."""
    for tail in (b"", end):
        path = tmp_path / "a.csv"
        path.write_bytes(b"\xef\xbb\xbfq,x" + end + b"a,1" + end + b'b,"2"' + end + b"a,3" + tail)
        assert counts_of(path, key="q") == {"a": 2, "b": 1}


def test_mixed_line_ends_are_an_error_not_a_loss(tmp_path: Path) -> None:
    """Rows whose line end differs from the header's are never skipped in silence."""
    for content in (b"q,x\na,1\r\nb,2\n", b"q,x\r\na,1\nb,2\r\n"):
        path = tmp_path / "a.csv"
        path.write_bytes(content)
        with pytest.raises(InvalidSource):
            counts_of(path, key="q")


def test_a_line_break_in_a_column_name_is_refused(tmp_path: Path) -> None:
    """DuckDB would take that line break for the line end of the file and lose the rows."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'"q\r\nr",x\na,1\n')
    with pytest.raises(InvalidSource, match="is not a header"):
        open_rows(path, key="x", unit=None)


def test_columns_of_several_parquet_files_are_told_apart_by_case(tmp_path: Path) -> None:
    """Also where the files have them in another order, or one has other columns, some of them nested."""
    inside = [{"k": "inner", "m": {"k": "inmost"}}] * 3
    tables = [
        pa.table({"k": ["a"] * 3, "K": ["A"] * 3}),
        pa.table({"K": ["A"] * 3, "k": ["a"] * 3}),
        pa.table({"s": inside, "l": [inside] * 3, "k": ["a"] * 3, "n": [1] * 3, "K": ["A"] * 3}),
    ]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    files = [str(tmp_path / f"{number}.parquet") for number in range(3)]
    assert counts_of(files, key="k") == {"a": 9}
    assert counts_of(files, key="K") == {"A": 9}
    with pytest.raises(InvalidParameter, match=r"column 'm' is not in '.*2\.parquet'; it has: s, l, k, n, K\."):
        counts_of(files[2], key="m")


def test_parquet_keeps_types_and_columns_that_differ_in_case(tmp_path: Path) -> None:
    """Integer keys stay integers, and 'a' is not 'A'."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"A": ["x", "x"], "a": pa.array([2**63, 7], pa.uint64())}), path)
    assert counts_of(path, key="a") == {2**63: 1, 7: 1}
    assert counts_of(str(path), key="A") == {"x": 2}
    assert counts_of(path, key=["A", "a"]) == {("x", 2**63): 1, ("x", 7): 1}


def test_many_files(tmp_path: Path) -> None:
    """Globs and lists are added up, each file once, and CSV columns are found by name."""
    (tmp_path / "1.csv").write_text("q,x\na,1\n")
    (tmp_path / "2.csv").write_text("x,q\n1,a\n1,b\n")
    glob = str(tmp_path / "*.csv")
    assert counts_of(glob, key="q") == {"a": 2, "b": 1}
    assert counts_of([glob, str(tmp_path / "1.csv")], key="q") == {"a": 2, "b": 1}
    assert counts_of([tmp_path / "1.csv", tmp_path / "2.csv"], key="q") == {"a": 2, "b": 1}


def test_one_file_under_two_names_is_refused(tmp_path: Path) -> None:
    """By another path, a link or two globs: its rows would count twice, and so would a unit."""
    folder = tmp_path / "d"
    folder.mkdir()
    for make, ending in (
        (lambda path: pq.write_table(pa.table({"q": ["a"]}), path), "parquet"),
        (lambda path: path.write_text("q\na\n"), "csv"),
    ):
        path = folder / f"a.{ending}"
        make(path)
        (folder / f"soft.{ending}").symlink_to(path)
        (tmp_path / f"hard.{ending}").hardlink_to(path)
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(folder)
        for other in (
            folder / ".." / "d" / path.name, folder / f"soft.{ending}", tmp_path / f"hard.{ending}",
            tmp_path / "link" / path.name, tmp_path / "link" / f"a*.{ending}", tmp_path / f"*.{ending}",
        ):  # fmt: skip
            for names in ([str(path), str(other)], [str(other), str(path)], [str(folder / f"a*.{ending}"), str(other)]):
                with pytest.raises(InvalidSource, match="are one file, which must not count twice"):
                    open_rows(names, key="q", unit=None)
        with pytest.raises(InvalidSource, match="are one file"):
            open_rows(str(folder / f"*.{ending}"), key="q", unit=None)
        assert counts_of([str(path), str(path), str(folder / f"a*.{ending}")], key="q") == {"a": 1}
    dataset = pyarrow.dataset.dataset([str(folder / "a.parquet"), str(tmp_path / "hard.parquet")])
    for source in (dataset, pyarrow.dataset.dataset([pyarrow.dataset.dataset(str(path)) for path in dataset.files])):
        with pytest.raises(InvalidSource, match="are one file"):
            open_rows(source, key="q", unit=None)


def test_names_with_signs(tmp_path: Path) -> None:
    """Quotes in a file name are part of the name; signs of a glob are refused, or DuckDB would read other files."""
    path = tmp_path / "it's 1; --.csv"
    path.write_text("q\na\n")
    assert counts_of(path, key="q") == {"a": 1}
    (tmp_path / "it's [1].csv").write_text("q\na\n")
    with pytest.raises(InvalidSource, match="in its name, which DuckDB takes for a glob"):
        open_rows(tmp_path / "it's [1].csv", key="q", unit=None)


def test_names_of_columns_with_signs(tmp_path: Path) -> None:
    """Quotes in column names are part of the name."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({'the "key"; --': ["a"]}), path)
    assert counts_of(path, key='the "key"; --') == {"a": 1}
    (tmp_path / "a.jsonl").write_text('{"it\'s \\"it\\"": 1}\n')
    assert counts_of(tmp_path / "a.jsonl", key='it\'s "it"') == {"1": 1}


@pytest.mark.parametrize(("name", "content"), [("a.csv", b"q,x\n"), ("a.csv", b"q,x"), ("a.tsv", b"q\tx\n")])
def test_a_header_without_rows_has_no_keys(name: str, content: bytes, tmp_path: Path) -> None:
    """A file with columns and no rows is fine."""
    (tmp_path / name).write_bytes(content)
    assert counts_of(tmp_path / name, key="q") == {}
    assert counts_of(tmp_path / name, key="q", unit="x") == {}


def test_an_empty_parquet_has_no_keys(tmp_path: Path) -> None:
    """A schema without rows is fine."""
    pq.write_table(pa.table({"q": pa.array([], pa.string())}), tmp_path / "a.parquet")
    assert counts_of(tmp_path / "a.parquet", key="q") == {}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.csv", "there is no file 'missing.csv'"),
        ("missing*.csv", "no file matches 'missing"),
        ("empty.csv", "'empty.csv' is empty"),
        ("empty.csv.gz", "'empty.csv.gz' is empty"),
        ("damaged.parquet", "'damaged.parquet' is not a readable Parquet file"),
        ("damaged.csv.gz", "'damaged.csv.gz' cannot be read or decompressed"),
        (".", "is a directory"),
        ("pipe.csv", "is not a regular file"),
        ("list.json", "must hold one JSON object a line"),
        (["good.csv", "missing.csv"], "item 2 of the list is not a file"),
        ([Path("differ1.parquet"), Path("differ2.parquet")], "column 'q' has the type"),
    ],
)
def test_bad_files(source: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way a file can be bad has its own sentence, before rows are read."""
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").touch()
    Path("empty.csv.gz").write_bytes(gzip.compress(b""))
    Path("damaged.parquet").write_bytes(b"PAR1nothingPAR1")
    Path("damaged.csv.gz").write_bytes(b"plain text")
    Path("list.json").write_text('[{"q": 1}]\n')
    os.mkfifo("pipe.csv")
    Path("good.csv").write_text("q\na\n")
    pq.write_table(pa.table({"q": [1]}), "differ1.parquet")
    pq.write_table(pa.table({"q": ["a"]}), "differ2.parquet")
    with pytest.raises(InvalidSource, match=message):
        open_rows(source, key="q", unit=None)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"key": "x"}, "column 'x' is not named in the first line of"),
        ({"key": "q", "unit": "x"}, "column 'x' is not named in the first line of"),
        ({"key": "q", "count": "x"}, "column 'x' is not named in the first line of"),
        ({"key": ["q", "q"]}, "column 'q' is named twice in key."),
        ({"key": []}, "key must name at least one column."),
        ({"key": None}, "key must name the key column of a table."),
        ({"key": "q", "unit": "q"}, "column 'q' cannot be a key and the unit at once."),
        ({"key": "q", "unit": "u", "count": "n"}, "unit and count cannot be given together"),
        ({"key": "q", "nulls": "x"}, "nulls must be 'drop' or 'keep', got 'x'."),
        ({"key": "q", "format": "x"}, "format must be one of csv, tsv, jsonl, parquet, got 'x'."),
    ],
)
def test_bad_requests(request_: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A request that cannot be met is refused when the source is opened."""
    (tmp_path / "a.csv").write_text("q,u,n\n")
    with pytest.raises(InvalidParameter) as error:
        open_rows(tmp_path / "a.csv", **{"unit": None, **request_})
    assert message in str(error.value)


def test_names_that_may_be_data_are_not_shown(tmp_path: Path) -> None:
    """The first line of a CSV without a header is a row. A likely name is shown."""
    path = tmp_path / "a.csv"
    path.write_text("secret,1\nother,2\n")
    hidden = "the names there are not shown, as they may be data."
    for wanted, shown in (("user", hidden), ("secrets", "did you mean 'secret'?")):
        with pytest.raises(InvalidParameter, match="is not named in") as error:
            open_rows(path, key=wanted, unit=None)
        assert str(error.value).endswith(shown) and ("secret'" in str(error.value)) == (wanted == "secrets")


def test_format(tmp_path: Path) -> None:
    """A name that does not tell its format needs `format`, and formats are not mixed."""
    (tmp_path / "a.txt").write_text("q\na\n")
    (tmp_path / "b.csv").write_text("q\na\n")
    (tmp_path / "c.tsv").write_text("q\na\n")
    with pytest.raises(InvalidParameter, match="does not show its format"):
        open_rows(tmp_path / "a.txt", key="q", unit=None)
    assert counts_of(tmp_path / "a.txt", key="q", format="csv") == {"a": 1}
    with pytest.raises(InvalidParameter, match="all files must have one format, got csv and tsv"):
        open_rows([tmp_path / "b.csv", tmp_path / "c.tsv"], key="q", unit=None)


@pytest.mark.parametrize(("content", "format_name"), [(CSV, "csv"), (JSON, "jsonl")])
def test_standard_input(content: bytes, format_name: str, tmp_path: Path) -> None:
    """A pipe and a redirected file are read to the end, once."""
    program = (
        "from tests.sources.counting import counts_of;"
        f"print(counts_of('-', key='query', format={format_name!r}, max_keys_per_unit=2))"
    )
    expected = CSV_COUNTS if format_name == "csv" else JSON_COUNTS
    root = Path(__file__).parents[2]
    piped = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, cwd=root, check=True)
    assert eval(piped.stdout) == expected  # noqa: S307 - our own output
    (tmp_path / "in").write_bytes(content)
    with (tmp_path / "in").open("rb") as stream:
        redirected = subprocess.run(
            [sys.executable, "-c", program], stdin=stream, capture_output=True, cwd=root, check=True
        )
    assert eval(redirected.stdout) == expected  # noqa: S307


def test_standard_input_beyond_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input larger than what is looked at first arrives whole."""
    content = b"q,u\n" + b"a,1\nb,2\n" * 400_000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert counts_of("-", key="q") == {"a": 400_000, "b": 400_000}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InvalidSource, match="standard input is empty"):
        open_rows("-", key="q", unit=None)


def test_counts_in_text(tmp_path: Path) -> None:
    """Counts of a CSV file are digits, added up per key; zero adds nothing."""
    (tmp_path / "a.csv").write_text("q,n\na,1\nb,0\na,0041\n")
    assert counts_of(tmp_path / "a.csv", key="q", count="n") == {"a": 42}


@pytest.mark.parametrize(
    "bad", ["-1", "1.5", "1e3", "", "x", " 1", "99999999999999999999999999999999999999999999999999"]
)
def test_bad_counts_in_text(bad: str, tmp_path: Path) -> None:
    """What is not digits is refused, not rounded."""
    (tmp_path / "a.csv").write_text(f"q,n\na,1\na,{bad}\n")
    with pytest.raises(InvalidSource, match="column 'n' must hold non-negative integers"):
        counts_of(tmp_path / "a.csv", key="q", count="n")
