"""The exact audit of rounds of keys: what is seen of each key of a unit in all rounds, written out."""

from __future__ import annotations

from typing import Any

from dptally.audit.examination import Examination
from dptally.audit.random_settings import RandomSettings

_WHOLE = 1 << 128


def audit_key_rounds(check: Examination, choose: RandomSettings) -> None:
    """A unit with as many keys as a given bound, the other units of which have one key each.

    All weights are 1 then, so what is seen of a key (in which round it was found, if in any, and its noisy count) has
    its own law for each number of units, independent of other keys: a unit changes as many such laws as it has keys.
    """
    epsilon, delta = choose.spread(0.5, 4), choose.spread(1e-4, 0.05)
    keys, values = choose.one_of((1, 1, 2, 3, 5)), choose.coin()
    check.claim(epsilon, delta, {"keys": keys, "values": values})
    law = check.law(epsilon, delta, max_keys_per_unit=keys, values=values, unit="unit")
    last = max(each.certain for each in law.rounds)
    counts = sorted({1, 2, 3, *choose.some(2, last, 6), *(law.rounds[-1].certain - near for near in range(1, 7))})
    rows = {count: _seen(law, count) for near in counts for count in (near, near - 1) if count >= 0}
    for count, row in rows.items():
        check.require(sum(row.values()) == _WHOLE ** (4 if values else 3), f"row {count} is not a law")
    for count in (near for near in counts if near >= 1):
        for first, second, order in ((count, count - 1, ""), (count - 1, count, ", the other way")):
            pair = (rows[first], rows[second])
            check.several([(*pair, keys)], f"{keys} keys of {count} and {count - 1} units{order}")
            if keys > 1 and count > 1:
                new = (rows[1], rows[0]) if first > second else (rows[0], rows[1])
                check.several([(*pair, keys - 1), (*new, 1)], f"{keys} keys, one of which nobody else has{order}")


def _seen(law: Any, count: int) -> dict[Any, int]:
    """Masses of (round, value), or None for a key that is never found, in units of 2^-384 or 2^-512."""
    found: dict[Any, int] = {}
    hidden = 1
    for number, each in enumerate(law.rounds):
        chance = int(each.chance(count) * _WHOLE)
        mass = hidden * chance * _WHOLE ** (len(law.rounds) - 1 - number)
        hidden *= _WHOLE - chance
        if law.counts is None:
            found[number] = mass
            continue
        before = 0
        for drop, here in enumerate(law.counts.cumulative):
            value = max(1, count + law.counts.reach - drop)
            found[number, value] = found.get((number, value), 0) + mass * (here - before)
            before = here
    found[None] = hidden * (1 if law.counts is None else _WHOLE)
    return {outcome: mass for outcome, mass in found.items() if mass}
