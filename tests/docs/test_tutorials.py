"""Tutorials run as they stand, and show what they print."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page_programs import gist, run

DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS.parents[1] / "shared" / "data"
PAGES = [DOCS / "start.md", *sorted(page for page in (DOCS / "tutorials").glob("*.md") if page.name != "index.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tutorials_show_what_they_print(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks run in order in an empty directory, without other data, and print the words that the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPTALLY_DATA", str(tmp_path))
    outputs = 0
    for code, shown, printed in run(page):
        if shown is not None:
            outputs += 1
            assert gist(printed) == gist(shown), code
    assert outputs > 0


def test_products_of_a_real_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tutorial on products runs on the real data too, where it is there."""
    if not (DATA / "online_retail_2010_2011.parquet").exists():
        pytest.skip("the Online Retail data is not in ../shared/data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPTALLY_DATA", str(DATA))
    assert any("85123A" in printed for _, _, printed in run(DOCS / "tutorials" / "products.md"))


def test_tutorials_end_with_what_to_read_next() -> None:
    """The last section of each tutorial leads on."""
    for page in PAGES:
        assert page.read_text(encoding="utf-8").split("\n## ")[-1].startswith("What to read next"), page.name


def test_the_comparison_notices_words_and_counts_numbers() -> None:
    """Another word, or another number of numbers, is a difference; another number, another width of a table, is not."""
    shown = "3 keys of │ a1 ┆ 7 │ and ───"
    assert gist(shown) == gist("41 keys of │ b22 ┆ 123 │ and ──────")
    assert gist(shown) != gist("3 rows of │ a1 ┆ 7 │ and ───")
    assert gist(shown) != gist("3 keys of │ a1 │ and ───")
