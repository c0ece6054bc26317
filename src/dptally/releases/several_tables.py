"""What has to be known of several tables before they are added up or compared."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.privacy.stored_facts import facts_of

if TYPE_CHECKING:
    from dptally.releases.table_release import TableRelease

__all__ = ["are_same", "check_universes", "largest_hidden"]


def are_same(one: TableRelease, other: TableRelease) -> bool:
    """Whether two releases are one.

    Two releases that ledgers have are told apart by the identities that they were given. Otherwise they are taken for
    the same if guarantee, law and rows are the same, however they were stored. Tables without rows are often equal by
    chance: of them only the same object, or the same identity, is the same.
    """
    records = one.guarantee.record, other.guarantee.record
    if one is other:
        return True
    if records[0] is not None and records[1] is not None:
        return records[0].release_id == records[1].release_id
    return len(one) == len(other) > 0 and _content_hash(one) == _content_hash(other)


@lru_cache(maxsize=16)
def _content_hash(release: TableRelease) -> str:
    """SHA-256 of guarantee, law and rows: the same for a release that was saved again in another layout."""
    key = list(release.key)
    table = release.table().select([*key, "value"]).sort(key)
    guarantee = facts_of(replace(release.guarantee, record=None))
    digest = hashlib.sha256(repr((guarantee, release.law.facts(), table.schema)).encode())
    for row in table.iter_rows():
        digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def check_universes(releases: Sequence[TableRelease]) -> None:
    """Refuse keys that one release reports and another leaves out for certain: no bound of both would hold."""
    import polars as pl

    universes = {(release.law.universe, release.law.universe_size) for release in releases}
    listed = [len(release) for release in releases if release.law.complete]
    keys = pl.concat([release.table().select(release.key) for release in releases]).n_unique() if listed else 0
    if len(universes) > 1 or any(length < keys for length in listed):
        raise InvalidParameter(
            "a release over stated keys says nothing about others; all releases must be over the same ones."
        )


def largest_hidden(release: TableRelease, error: Fraction) -> int | None:
    """The largest frequency that stays hidden with more than this probability; None where any may."""
    shortfall = release.shortfall
    first = release.law.first_frequency(1 - (error if shortfall is None else error * Fraction(9, 10)))
    if first is None:
        return None
    return max(0, first - 1) + (0 if shortfall is None else shortfall.upper(error / 10))
