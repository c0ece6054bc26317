"""A universe of whole numbers, for tests."""

from __future__ import annotations

from collections.abc import Sequence


class IntegerRange:
    """The numbers from 0 to size - 1."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.name = f"range:{size}"

    def indices(self, keys: Sequence[object]) -> list[int | None]:
        """The number itself, None for everything else."""
        return [key if isinstance(key, int) and 0 <= key < self.size else None for key in keys]
