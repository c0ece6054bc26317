"""Uniform whole numbers below any limit, and random sequences without repetition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptally.randomness.bits import BitSource

_WORD = 64


def whole_numbers(numbers: Any, limit: int) -> NDArray[Any]:
    """An array for whole numbers below `limit`: uint64 if limit <= 2^64, Python's whole numbers otherwise."""
    return np.array(numbers, dtype=np.uint64 if limit <= 1 << _WORD else object)


def draw_integer(limit: int, bits: BitSource) -> int:
    """One uniform whole number from 0 to limit - 1, exactly: as many bits as needed, again if they reach the limit."""
    length = (limit - 1).bit_length()
    if not length:
        return 0
    words = -(-length // _WORD)
    while True:
        drawn = int.from_bytes(bits.words(words).astype("<u8").tobytes(), "little") >> (words * _WORD - length)
        if drawn < limit:
            return drawn


def draw_integers(limit: int, count: int, bits: BitSource) -> NDArray[Any]:
    """Independent uniform whole numbers from 0 to limit - 1, exactly, in the type of `whole_numbers`."""
    length = (limit - 1).bit_length()
    if length > _WORD:
        return np.array([draw_integer(limit, bits) for _ in range(count)] + [None], dtype=object)[:-1]
    if not length:
        return np.zeros(count, dtype=np.uint64)
    kept = bits.words(count) >> np.uint64(_WORD - length)
    if limit < 1 << length:
        kept = kept[kept < np.uint64(limit)]
        while len(kept) < count:
            more = bits.words(count - len(kept)) >> np.uint64(_WORD - length)
            kept = np.concatenate([kept, more[more < np.uint64(limit)]])
    return kept


def draw_distinct(limit: int, excluded: NDArray[Any], count: int, bits: BitSource) -> NDArray[Any]:
    """A uniformly random *sequence* of distinct whole numbers below `limit`, none of them excluded.

    Postcondition: every sequence of `count` distinct numbers from {0, ..., limit - 1} without those in `excluded` has
    the same probability. The order is part of the promise: [BV19, Alg. A.3] collects the numbers in a set, and a set
    that is read out in increasing order, beside order statistics, would give the largest noise to the smallest label;
    data sets then differ in outcomes that are impossible for one of them.

    Why it holds. Sparse case: independent uniform numbers, of which those that are excluded or came before are passed
    over; each next one is uniform on what is left. Dense case: all allowed numbers in the order of independent random
    words, drawn again until they differ; by symmetry every order is equally likely.

    `excluded` is distinct and increasing, in the type of `whole_numbers`; `count` is at most limit - len(excluded).
    """
    if limit <= 4 * (len(excluded) + count):
        allowed = np.setdiff1d(whole_numbers(range(limit), limit), excluded, assume_unique=True)
        order = bits.words(len(allowed))
        while len(np.unique(order)) < len(order):
            order = bits.words(len(allowed))
        return allowed[np.argsort(order)][:count]
    if limit > 1 << _WORD:
        return _distinct_large(limit, set(excluded.tolist()), count, bits)
    found = np.empty(0, dtype=np.uint64)
    while len(found) < count:
        found = np.concatenate([found, draw_integers(limit, count - len(found), bits)])
        ordered = np.sort(found)
        if (ordered[1:] == ordered[:-1]).any() or _among(ordered, excluded).any():
            numbers, first = np.unique(found, return_index=True)
            found = found[np.sort(first[~_among(numbers, excluded)])]
    return found


def _among(numbers: NDArray[Any], members: NDArray[Any]) -> NDArray[np.bool_]:
    """Which numbers are among the members; both increasing."""
    if not len(members):
        return np.zeros(len(numbers), dtype=bool)
    places = np.minimum(np.searchsorted(members, numbers), len(members) - 1)
    return np.asarray(members[places] == numbers)


def _distinct_large(limit: int, passed_over: set[int], count: int, bits: BitSource) -> NDArray[Any]:
    found: list[int] = []
    while len(found) < count:
        for number in draw_integers(limit, count - len(found), bits).tolist():
            if number not in passed_over:
                passed_over.add(number)
                found.append(number)
    return whole_numbers(found, limit)
