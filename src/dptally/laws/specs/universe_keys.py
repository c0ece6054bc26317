"""What mechanisms over a universe of numbered keys have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.laws.spec import Spec
from dptally.universes import Bijection, Universe, read_universe

if TYPE_CHECKING:
    import pyarrow as pa

USUAL_CAPACITY = 10_000
LARGEST_BOUND = 1 << 62


def numbered(mechanism: str, universe: object) -> Universe:
    """A universe, or the ready-made one of that name."""
    if universe is None:
        raise InvalidParameter(
            f"mechanism {mechanism!r} needs a universe: all keys there may be, such as 'ipv4', 'uint64' or 'words:12'."
        )
    return read_universe(universe)


class OverUniverse(Spec):
    """A spec whose keys are those of `_universe`."""

    _universe: Universe

    def assumed_keys(self, key: Sequence[str] | None) -> pa.Schema | None:
        """Types of keys that have no declared one; ready-made universes read text by rules of their own."""
        import pyarrow as pa

        if not isinstance(self._universe, Bijection):
            return None
        return pa.schema([(name, self._universe.type) for name in key or ["key"]])

    def check_keys(self, schema: pa.Schema) -> None:
        """Refuse key columns that cannot hold keys of the universe, by what is declared about them."""
        if len(schema) != 1:
            raise InvalidParameter(
                f"the mechanism {self.name!r} takes one key column, got {len(schema)}: a universe numbers single keys."
            )
        self._universe.indices(schema.empty_table().column(0))
