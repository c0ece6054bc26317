"""dptally with the number of keys per unit that all entries are given: one call."""

import dptally


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Sum and mean of a column with one range come from one noisy sum."""
    release = dptally.publish(
        file,
        key="key",
        unit="unit",
        max_keys_per_unit=max_keys_per_unit,
        epsilon=epsilon,
        delta=delta,
        sums={"x": (0, 100)},
        means={"x": (0, 100)},
        combine_rows="add",
    )
    return release.table().select("key", "estimate", "sum_x", "mean_x").rows()
