"""Errors of sparse pure releases as the paper states them, beside the exact ones of `TopKNoise`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dptally.exact import as_epsilon
from dptally.laws.base import as_chance

__all__ = ["PrintedErrors", "printed_errors"]


@dataclass(frozen=True)
class PrintedErrors:
    """Errors of PureSparseHistogram with geometric noise as [BV19, Thm. 6.11] states them, for replacing one row.

    Attributes:
        key_error: of one key, with probability 1 - beta, if its count is above `from_count`.
        from_count: see there.
        simultaneous_error: of all keys at once.
    """

    key_error: int
    from_count: int
    simultaneous_error: int


def printed_errors(epsilon: object, size: int, beta: object) -> PrintedErrors:
    """The bounds of [BV19, Thm. 6.11] for a universe of this size, with beta_0 = beta.

    >>> printed_errors(1, 2**64, "0.05")
    PrintedErrors(key_error=20, from_count=440, simultaneous_error=434)
    """
    scale = 9 / (2 * float(as_epsilon(epsilon)))
    rest = -math.log(float(as_chance("beta", beta)))
    return PrintedErrors(
        math.ceil(scale * (math.log(4) + rest)),
        2 * math.ceil(scale * (math.log(4) + math.log(size) + rest)),
        2 * math.ceil(scale * (math.log(2) + math.log(size) + rest)),
    )
