"""SmartNoise SQL as it comes: Laplace noise and a threshold on a pandas table."""

import pandas as pd
from snsql import Privacy, from_df


def by_rows(file, epsilon, delta):
    """Every row is a unit of its own."""
    metadata = {"": {"data": {"events": {"row_privacy": True, "key": {"type": "string"}}}}}
    privacy = Privacy(epsilon=epsilon, delta=delta)
    reader = from_df(pd.read_parquet(file, columns=["key"]), privacy=privacy, metadata=metadata)
    return dict(reader.execute("SELECT key, COUNT(*) AS value FROM data.events GROUP BY key")[1:])


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Units have several keys."""
    columns = {"unit": {"type": "int", "private_id": True}, "key": {"type": "string"}}
    metadata = {"": {"data": {"events": {"max_ids": max_keys_per_unit, **columns}}}}
    privacy = Privacy(epsilon=epsilon, delta=delta)
    reader = from_df(pd.read_parquet(file, columns=["unit", "key"]), privacy=privacy, metadata=metadata)
    return dict(reader.execute("SELECT key, COUNT(DISTINCT unit) AS value FROM data.events GROUP BY key")[1:])
