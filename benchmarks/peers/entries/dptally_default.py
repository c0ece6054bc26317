"""dptally as it comes: one call."""

import dptally


def by_rows(file, epsilon, delta):
    """Every row is a unit of its own."""
    return dptally.publish(file, key="key", epsilon=epsilon, delta=delta).table()


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Units have several keys."""
    release = dptally.publish(
        file, key="key", unit="unit", max_keys_per_unit=max_keys_per_unit, epsilon=epsilon, delta=delta
    )
    return release.table()
