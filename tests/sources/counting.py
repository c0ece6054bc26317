"""What the tests of sources share: counting to a plain dictionary."""

from __future__ import annotations

from typing import Any

from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries import count_keys


def counts_of(source: Any, *, max_keys_per_unit: int = 1, seed: int = 1, **request: Any) -> dict[Any, int]:
    """Open, count and collect; single keys are bare values, several are tuples. Fails if a key comes twice."""
    request = {"key": None, "unit": None, **request}
    found: dict[Any, int] = {}
    rows = open_rows(source, **request)
    with count_keys(rows, max_keys_per_unit=max_keys_per_unit, bits=SeededBits(seed)) as frequencies:
        for keys, counts in frequencies.batches():
            assert keys.schema.names == list(frequencies.key)
            columns = [column.to_pylist() for column in keys.columns]
            for key, count in zip(zip(*columns, strict=True), counts.tolist(), strict=True):
                key = key[0] if len(key) == 1 else key
                assert key not in found, "a key came twice"
                assert count >= 1
                found[key] = count
    return found
