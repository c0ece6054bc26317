"""dptally for the cost of two sums: SELECT key, COUNT(DISTINCT unit), SUM(x), SUM(y) GROUP BY key."""

import dptally


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Keys per unit are measured within the budget."""
    ranges = {"x": (0, 100), "y": (0, 100)}
    release = dptally.publish(file, key="key", unit="unit", epsilon=epsilon, delta=delta, sums=ranges)
    return release.table().select("key", "estimate", "sum_x", "sum_y").rows()
