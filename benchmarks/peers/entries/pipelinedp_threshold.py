"""PipelineDP at its best: a threshold on noisy counts, so that keys and counts share the budget."""

import pipeline_dp
import polars as pl


def by_rows(file, epsilon, delta):
    """Every row is a unit of its own: the number of the row serves as its identifier."""
    return count_units(enumerate(pl.read_parquet(file, columns=["key"])["key"]), 1, epsilon, delta)


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Units have several keys."""
    return count_units(pl.read_parquet(file, columns=["unit", "key"]).rows(), max_keys_per_unit, epsilon, delta)


def count_units(rows, max_keys_per_unit, epsilon, delta):
    """Both, once there are pairs of unit and key. Gaussian noise is the better one from three keys on."""
    gaussian = max_keys_per_unit >= 3
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN if gaussian else pipeline_dp.NoiseKind.LAPLACE,
        post_aggregation_thresholding=True,
        max_partitions_contributed=max_keys_per_unit,
        max_contributions_per_partition=1,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: 0,
    )
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    counts = engine.aggregate(list(rows), parameters, extractors)
    budget.compute_budgets()
    return {key: metrics.privacy_id_count for key, metrics in counts}
