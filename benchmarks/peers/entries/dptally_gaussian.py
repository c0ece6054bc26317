"""dptally with Gaussian noise, which its documentation advises from three keys per unit on."""

import dptally


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Units have several keys."""
    release = dptally.publish(
        file,
        key="key",
        unit="unit",
        max_keys_per_unit=max_keys_per_unit,
        epsilon=epsilon,
        delta=delta,
        mechanism="gaussian",
    )
    return release.table()
