"""PipelineDP at its best: Gaussian noise, keys by a threshold on noisy counts, half of the budget for sums."""

import pipeline_dp
import polars as pl


def by_units(file, max_keys_per_unit, epsilon, delta):
    """A mean is a noisy sum over a noisy count: asked for by itself it would take a share of its own."""
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT, pipeline_dp.Metrics.SUM],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN if max_keys_per_unit > 1 else pipeline_dp.NoiseKind.LAPLACE,
        post_aggregation_thresholding=True,
        max_partitions_contributed=max_keys_per_unit,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=100,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    rows = pl.read_parquet(file, columns=["unit", "key", "x"]).rows()
    found = engine.aggregate(rows, parameters, extractors)
    budget.compute_budgets()
    return [(key, each.privacy_id_count, each.sum, each.sum / each.privacy_id_count) for key, each in found]
