"""The history of a ledger: rows that are only ever appended, each bound to all before it by a hash.

The hash of a row covers the previous row's hash and the canonical bytes of the row: its columns as a JSON array in
ASCII without spaces. The first row, the header, follows 32 zero bytes. So anyone who knows the hash of a row knows that
no row up to it was edited, removed, added or moved since.

The header holds a secret key of 256 random bits, and the hashes of all later rows are HMAC-SHA-256 under it. The hash
of a spending is in its release, which is public: without the key it is a random-looking number, so that nobody can
guess a history (how many attempts failed, say) and test the guess. With the key, which is part of the hashed header,
it binds as SHA-256 does: two histories with the same hash would be a collision. Ledgers of format 1 had no key and
used SHA-256; a row "upgraded" gives them one, for the rows after it.

What a chain cannot show: that rows are missing at its end, or that all of it was written again. See
`dptally.ledger.storage` for what is done about the first, and keep a hash elsewhere against both.

Rows are ordered by their numbers, never by time. `time` is what the clock said, in UTC; `latest` the latest time of
this and all earlier rows, so a clock that was set back shows as `time` before `latest`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, fields
from typing import Any

from dptally.errors import UnreadableLedger

FORMAT_VERSION = 2
RENEWING = 3  # the format of ledgers that renew, which earlier versions would not know how to spend from
READABLE = (1, 2, 3)
START = "0" * 64
UNHURRIED = frozenset({"published", "failed", "void"})
"""States that need not be on disk at once: if they are lost with the power, more counts as spent, not less."""

EACH_ROW = "each row"
"""The unit where every row, or every occurrence of a key, is a unit of its own."""
_COLUMN = "column "


@dataclass(frozen=True)
class Row:
    """One row: what `Entry` has, as it was written, and what the chain needs."""

    sequence: int  # its number, from 0
    time: str  # what the clock said, in UTC
    latest: str  # the latest time so far
    # "created" for the header; "reserved", "drawn", "published", "failed" or "void" for a spending, of which all but
    # "void" count; "closed", "upgraded" (from format 1) or "note restored" for the ledger itself
    state: str
    entry: int  # which spending it is about, from 1; 0 for the ledger itself
    who: str | None = None
    source: str | None = None
    unit: str | None = None
    partitioning: str | None = None
    part: str | None = None
    # the event, as JSON; for the header, the budget; for rows about the ledger, facts about it
    spending: str | None = None
    release_id: str | None = None
    note: str | None = None

    def facts(self) -> Any:
        """The event or the budget, read from its JSON."""
        try:
            return json.loads(self.spending or "")
        except (ValueError, RecursionError):
            raise UnreadableLedger(f"row {self.sequence} of the ledger is damaged.") from None


COLUMNS = tuple(field.name for field in fields(Row))


def row_hash(previous: str, row: Row, key: bytes | None) -> str:
    """The hash that binds a row to the one before it; without a key for headers, and for rows of format 1."""
    columns = json.dumps([getattr(row, name) for name in COLUMNS], ensure_ascii=True, separators=(",", ":"))
    message = bytes.fromhex(previous) + columns.encode("ascii")
    return (hashlib.sha256(message) if key is None else hmac.new(key, message, hashlib.sha256)).hexdigest()


def unit_name(column: str | None) -> str:
    """What a ledger calls a unit: `EACH_ROW`, or the column's name, written so that no column can be taken for rows.

    >>> unit_name(None), unit_name("user"), unit_name("each row"), unit_name("column each row")
    ('each row', 'user', 'column each row', 'column column each row')
    """
    if column is None:
        return EACH_ROW
    return _COLUMN + column if column == EACH_ROW or column.startswith(_COLUMN) else column
