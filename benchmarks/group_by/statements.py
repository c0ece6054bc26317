"""Who is compared on which data: SELECT key, COUNT(DISTINCT unit), SUM(x), AVG(x) GROUP BY key with private keys."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from catalogue import OWN, Entry
from cells import Cell

__all__ = ["COST", "ENTRIES", "choose_cells"]

FOLDER = Path(__file__).parent / "entries"
COST = "zipf-1e7"
DELTA, EPSILONS = "1e-6", ("1", "3")
DATA_SETS = {"zipf-3e5": (10,), "countries": (1,), "products": (10, 30)}
"""Numbers of keys per unit that entries are given, chosen without the data: round numbers of tutorials."""

ENTRIES = (
    Entry("dptally_automatic", "dptally, measured", OWN, "No number of keys per unit is given.", default=True),
    Entry("dptally_stated", "dptally, stated", OWN, "The number of keys per unit that all others are given."),
    Entry(
        "dptally_values",
        "dptally, values",
        OWN,
        'The same with `shares={"selection": "0.15"}` instead of 0.75, the default of then: fewer keys and less noise.',
    ),
    Entry(
        "opendp_laplace",
        "OpenDP",
        "opendp",
        "Polars API as it comes: Laplace noise, a threshold on noisy counts; for one key per unit.",
        default=True,
    ),
    Entry(
        "opendp_gaussian",
        "OpenDP, Gaussian",
        "opendp",
        "Zero-concentrated privacy; half of delta for the conversion, half for the threshold.",
        least_keys=3,
    ),
    Entry(
        "pipelinedp_default",
        "PipelineDP, default",
        "pipelinedp",
        "`COUNT`, `SUM` and `MEAN` as they come: truncated geometric choice of keys, Laplace noise, a third of "
        "epsilon each for keys, counts and centred sums.",
        default=True,
    ),
    Entry(
        "pipelinedp_threshold",
        "PipelineDP, threshold",
        "pipelinedp",
        "`PRIVACY_ID_COUNT` and `SUM` with `post_aggregation_thresholding=True`, half of the budget each; Gaussian "
        "noise for several keys per unit.",
    ),
    Entry(
        "tumult_default",
        "Tumult",
        "tumult",
        "Spark, local: `get_groups` with a third of epsilon and all of delta, counts and sums with a third each.",
        default=True,
    ),
)
COST_ENTRIES = (
    Entry("plain_two_sums", "plain Polars, not private", OWN, "", private=False),
    Entry("plain_clipped_sums", "plain Polars, clipped, not private", OWN, "", private=False),
    Entry("dptally_two_sums", "dptally, two sums", OWN, ""),
)


def choose_cells(patterns: list[str]) -> list[Cell]:
    """Cells whose name matches one of the patterns, such as ``products/l10/*``; all without any."""
    cells = [
        Cell(data_set, keys, epsilon, DELTA, Entry(**{**vars(entry), "folder": FOLDER}))
        for data_set, bounds in {**DATA_SETS, COST: (10,)}.items()
        for keys in bounds
        for epsilon in (EPSILONS if data_set != COST else EPSILONS[:1])
        for entry in (ENTRIES if data_set != COST else COST_ENTRIES)
        if keys >= entry.least_keys and (keys == 1 or entry.name != "opendp_laplace")
    ]
    return [cell for cell in cells if not patterns or any(fnmatch(cell.name, pattern) for pattern in patterns)]
