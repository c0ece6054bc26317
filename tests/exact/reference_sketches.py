"""Slow, obvious versions of the Misra-Gries sketches, as their paper prints them. Nothing here is imported from the
package.

A sketch is a dictionary of keys to counts. Dummy keys of Algorithm 1 are pairs (0, i), keys are pairs (1, key), so that
dummies are the smallest and never keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

Sketch = dict[Any, int]


def smallest(zeros: list[Any], _: Sketch) -> Any:
    """The key to evict in Algorithm 1."""
    return min(zeros)


def oldest(zeros: list[Any], counts: Sketch) -> Any:
    """A wrong choice: the key that came in first, which depends on the stream (dictionaries keep their order)."""
    return next(key for key in counts if key in zeros)


def newest(zeros: list[Any], counts: Sketch) -> Any:
    """A wrong choice: the key that came in last."""
    return next(key for key in reversed(counts) if key in zeros)


def misra_gries(
    capacity: int, stream: Iterable[Any], choose: Callable[[list[Any], Sketch], Any] = smallest
) -> tuple[Sketch, int]:
    """Algorithm 1: counters with dummies, and how often branch 2 was taken."""
    counts: Sketch = {(0, place): 0 for place in range(capacity)}
    decrements = 0
    for element in stream:
        key = (1, element)
        zeros = [stored for stored, count in counts.items() if count == 0]
        if key in counts:
            counts[key] += 1
        elif not zeros:
            decrements += 1
            for stored in counts:
                counts[stored] -= 1
        else:
            del counts[choose(zeros, counts)]
            counts[key] = 1
    return counts, decrements


def reduced(capacity: int, counts: Sketch) -> dict[Any, Fraction]:
    """Algorithm 3, with the offset as an exact fraction."""
    offset = Fraction(sum(counts.values()), capacity + 1)
    return {key: count - offset for key, count in counts.items() if count > offset}


def user_misra_gries(capacity: int, users: Iterable[Iterable[Any]]) -> Sketch:
    """Algorithm 4."""
    counts: Sketch = {}
    for user in users:
        for key in set(user):
            counts[key] = counts.get(key, 0) + 1
        if len(counts) > capacity:
            counts = {key: count - 1 for key, count in counts.items() if count > 1}
    return counts


def merge(capacity: int, sketches: Sequence[Sketch]) -> Sketch:
    """The merge of section 7, one sketch after another."""
    merged: Sketch = {}
    for sketch in sketches:
        for key, count in sketch.items():
            merged[key] = merged.get(key, 0) + count
        ordered = sorted(merged.values(), reverse=True)
        subtracted = ordered[capacity] if len(ordered) > capacity else 0
        merged = {key: count - subtracted for key, count in merged.items() if count > subtracted}
    return merged
