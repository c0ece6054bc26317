"""What `publish` takes, for type checkers: they know from `mechanism` what kind of release comes back.

A test compares these options with the signature of `publish` itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict

if TYPE_CHECKING:
    from dptally.laws.sampling_schemes import Scheme
    from dptally.ledger.paying import AnyLedger
    from dptally.progress import Progress
    from dptally.randomness import BitSource


class PublishOptions(TypedDict, total=False):
    """Everything but the source and the mechanism; see `dptally.publish`."""

    key: str | Sequence[str] | None
    unit: str | None
    max_keys_per_unit: int | None
    epsilon: Required[float | str | Fraction]
    delta: float | str | Fraction | None
    universe: Any
    capacity: int | None
    bound: int | None
    strict_time: bool
    beyond_capacity: Literal["subsample", "refuse"] | None
    sampling: Scheme | None
    values: bool
    ledger: AnyLedger | None
    count: str | None
    nulls: Literal["drop", "keep"]
    format: str | None
    memory_limit: str | None
    randomness: BitSource | None
    progress: bool | Progress | None
    table: str | None
    query: str | None
    engine: str
    types: Mapping[str, str] | None
    sums: Mapping[str, Any] | None
    means: Mapping[str, Any] | None
    totals: bool
    max_rows_per_unit_and_key: int | None
    combine_rows: Literal["add", "average"] | None
    shares: Mapping[str, float | str | Fraction] | None
    where: str | None
    since: object
    until: object
    time_column: str | None
