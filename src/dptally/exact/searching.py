"""Where something begins to hold, by halving."""

from __future__ import annotations

from collections.abc import Callable


def first_where(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest whole number from low to high for which something holds that then goes on holding; else `high`.

    >>> first_where(lambda number: number**2 >= 50, 0, 100)
    8
    """
    while low < high:  # invariant: it holds at `high`, or there is no smaller number; it does not hold below `low`
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def first_from(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The same by steps that double from `low` on: for what holds far from `high`.

    >>> first_from(lambda number: number**2 >= 50, 0, 1 << 60)
    8
    """
    step = max(low, 1)
    while step < high and not holds(step):
        low, step = step + 1, 2 * step
    return first_where(holds, low, min(step, high))


def first_near(holds: Callable[[int], bool], guess: int, low: int, high: int) -> int | None:
    """The same from a guess, by steps in both directions that double; None if it does not hold at `high` either."""
    guess, step = min(max(guess, low), high), 1
    if holds(guess):
        above = guess
        while above > low and holds(max(low, above - step)):
            above, step = max(low, above - step), 2 * step
        if above == low:
            return low
        below = max(low, above - step)
    else:
        below = guess
        while below < high and not holds(min(high, below + step)):
            below, step = min(high, below + step), 2 * step
        if below == high:
            return None
        above = min(high, below + step)
    return first_where(holds, below + 1, above)
