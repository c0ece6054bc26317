"""A universe of whole numbers that may exceed 64 bits, for tests."""

from __future__ import annotations

import pyarrow as pa

from dptally.universes import Bijection


class IntegerRange(Bijection):
    """The numbers from 0 to size - 1."""

    def __init__(self, size: int) -> None:
        super().__init__(
            size,
            index=lambda key: key if isinstance(key, int) else None,
            key=lambda index: index,
            name=f"range:{size}",
            type=pa.uint64(),
        )
