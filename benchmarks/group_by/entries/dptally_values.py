"""dptally with keys per unit measured, and a fifth of the usual budget for finding keys."""

import dptally


def by_units(file, max_keys_per_unit, epsilon, delta):
    """What selection does not take is for counts and sums."""
    release = dptally.publish(
        file,
        key="key",
        unit="unit",
        epsilon=epsilon,
        delta=delta,
        sums={"x": (0, 100)},
        means={"x": (0, 100)},
        combine_rows="add",
        shares={"selection": "0.15", "counts": "0.5"},
    )
    return release.table().select("key", "estimate", "sum_x", "mean_x").rows()
