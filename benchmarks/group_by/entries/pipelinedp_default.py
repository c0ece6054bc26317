"""PipelineDP as it comes: a third of epsilon each to choose keys, for counts and for sums from the middle."""

import pipeline_dp
import polars as pl


def by_units(file, max_keys_per_unit, epsilon, delta):
    """All metrics in one aggregation: with one row of a unit and key, rows are units."""
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM, pipeline_dp.Metrics.MEAN],
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
    found = engine.aggregate(pl.read_parquet(file, columns=["unit", "key", "x"]).rows(), parameters, extractors)
    budget.compute_budgets()
    return [(key, metrics.count, metrics.sum, metrics.mean) for key, metrics in found]
