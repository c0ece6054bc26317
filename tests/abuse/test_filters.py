"""Filters that reach for more than one row: each is refused with one sentence, before anything is read or spent."""

from __future__ import annotations

from pathlib import Path

import pytest

from dptally.cli import main

ATTACKS = (
    # other tables, files, the machine
    "k IN (SELECT k FROM t)", "(SELECT 1) = 1", "EXISTS (SELECT 1)", "k = ANY (SELECT 'a')", "k = ANY(['a'])",
    "x > ALL (SELECT 1)", "k IN (SELECT content FROM read_text('/etc/passwd'))", "k = read_text('/etc/passwd')",
    "k IN (TABLE t)", "k IN (VALUES ('a'))", "k IN (FROM t)", "read_csv('/etc/passwd') IS NULL", "getenv('HOME') = k",
    "k = getvariable('a')", "current_setting('home_directory') = k", "k = current_database()", "glob('/*') IS NULL",
    "k = version()", "write_log(k) IS NULL", "query('SELECT 1') = 1", "pg_sleep(1) IS NULL", "sleep_ms(9) IS NULL",
    "install_extension('httpfs')", "load_extension('httpfs')", "error(k)", "k = error('x')",
    "json_execute_serialized_sql(k)",
    # other rows
    "sum(x) > 1", "count(*) > 1", "count(x) > 3", "max(x) = x", "x = min(x)", "avg(x) < x", "median(x) = x",
    "row_number() OVER () = 1", "lag(x) OVER () = x", "x > sum(x) OVER (PARTITION BY k)",
    "rank() OVER (ORDER BY x) = 1", "sum(x) FILTER (WHERE x > 1) > 1", "unnest([x]) = 1",
    "list_aggregate([x], 'sum') = 1", "string_agg(k) = 'a'", "approx_quantile(x, 0.5) > 1", "first(x) = x",
    "count(DISTINCT k) > 1", "nextval('s') = 1", "GROUPING(k) = 1",
    # clocks and coins
    "random() < x", "now() > k", "uuid() = k", "gen_random_uuid() = k", "setseed(0.5)", "current_timestamp > k",
    "current_date > k", "today() > k", "txid_current() = x", "get_current_time() > k", "age(k) IS NULL",
    "rowid = 1 OR random() < 2",
    # statements, comments, parameters
    "x = 1; PRAGMA version", "x = 1;", "; DROP TABLE t", "x = 1 -- yes", "x = 1 /* yes */", "x = $1", "x = ?",
    "x = $name", "x = 1 UNION SELECT 2", "x = 1) OR (1 = 1", "x = 1 FROM t", "x FROM read_csv('a')", "x AS y", "x, k",
    "*", "COLUMNS('k')", "DISTINCT x", "x = 1 LIMIT 1", "x = 1 WHERE TRUE", "x = 1 GROUP BY k", "x ORDER BY x",
    "x = DEFAULT", "SET x = 1",
    # growth, patterns and types from the data
    "repeat(k, 1000000000) = k", "lpad(k, 1000000000, 'x') = k", "replace(k, 'a', k) = k", "range(x) IS NULL",
    "regexp_matches(k, k)", "k ~ k", "k LIKE 'a' ESCAPE k", "date_part(k, k) = 1", "regexp_replace(k, '(.*)', k) = k",
    "list_transform([x], y -> y + 1) IS NULL", "(y -> y)", "[x for x in [1, 2]] IS NULL", "{'a': x} IS NULL",
    "x[1] = 1", "k::INTEGER[] IS NULL", "k::JSON IS NULL", "k::enum('a') = 'a'", "k::main.other = 1",
    "CAST(k AS STRUCT(a INT)) IS NULL", "x IN (k, k)", "CASE WHEN x THEN k END = 1", "main.lower(k) = 'a'", "t.x = 1",
    "main.t.x = 1", "lower(k ORDER BY k) = 'a'", "k COLLATE nocase = 'a'", "k AT TIME ZONE k IS NULL", "x'ab' = k",
    "e'a' = k", "U&'a' = k", "lower(a := k) = 'a'", "hash(k) > 1", "md5(k) = 'a'", "INTERVAL 1 DAY IS NULL",
    "struct_pack(a := x) IS NULL", "try(x) = 1", "k SIMILAR TO k",
    # letters
    "\u0000", "x = '\u0000'", "ſelect x", "(ＳＥＬＥＣＴ 1) = 1", "x \u202e= 1", "k = 'a\\'' OR '1' = '1'", "'", '"',
    "x = 'a", "\\", "x = 1\u037e DROP", "x = 1 \ud800", "",
    # size
    "(" * 500 + "x" + ")" * 500, "x = 1" + " OR x = 1" * 5000, "NOT " * 390 + "x", "k = '" + "a" * 30_000 + "'",
    "lower(" * 130 + "k" + ")" * 130, "-" * 300 + "x",
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(ATTACKS)))
def test_each_is_refused_in_one_sentence(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit status 2, one sentence, no row in it, and no budget spent."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("k,x\nsecret-value,1\n", encoding="utf-8")
    asked = ["publish", "rows.csv", "--key", "k", "--epsilon", "1", "--delta", "1e-6", "--where", ATTACKS[number]]
    assert main([*asked, "-o", "out.parquet"]) == 2
    told = capsys.readouterr()
    assert (told.out, Path("out.parquet").exists()) == ("", False)
    said = told.err.strip()
    assert len(said.splitlines()) == 1, said
    assert said.endswith(".") or "did you mean" in said, said
    assert "secret-value" not in said
    assert len(said) < 1200
