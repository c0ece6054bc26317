"""Slow sketches."""

from fractions import Fraction


def misra_gries(stream, capacity):
    counters = {("dummy", i): 0 for i in range(capacity)}
    order = lambda key: (1, key[1]) if isinstance(key, tuple) else (0, key)
    for x in stream:
        if x in counters:
            counters[x] += 1
        elif all(counters.values()):
            for key in counters:
                counters[key] -= 1
        else:
            del counters[min((key for key, c in counters.items() if c == 0), key=order)]
            counters[x] = 1
    return {key: c for key, c in counters.items() if not isinstance(key, tuple)}


def reduce_sensitivity(sketch, capacity):
    gamma = Fraction(sum(sketch.values()), capacity + 1)
    return {key: c - gamma for key, c in sketch.items() if c > gamma}
