"""Heavy hitters of real data, beside the single round and the optimal histogram at the same budget."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from studies.heavy_hitters import compare, interaction_targets, shakespeare_words

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not there")


@pytest.mark.parametrize("read", [shakespeare_words, interaction_targets], ids=["shakespeare", "mathoverflow"])
def test_recall_and_precision(read: object) -> None:
    """Rounds find the top 100 nearly always; exact composition beats the others; the optimal histogram beats all."""
    table = compare(read(DATA), "1", "1e-6", runs=1)  # type: ignore[operator]
    rows = {row["way"].split(", ")[-1]: row for row in table.iter_rows(named=True)}
    assert rows["exact"]["recall 100"] >= 0.99 and rows["exact"]["precision 100"] >= 0.85
    order = ["basic", "optimal", "exact", "single round", "optimal histogram"]
    values = [rows[way]["values"] for way in order]
    assert values == sorted(values) and values[2] > 1.5 * values[1]
    recalls = [rows[way]["recall 1000"] for way in order]
    assert all(after >= before - 0.01 for before, after in pairwise(recalls))
