"""All faults, and the statements of the papers that have none."""

from __future__ import annotations

from tests.mutants import (
    around,
    finite_computers,
    key_rounds,
    misra_gries,
    sample_and_threshold,
    series,
    statistics,
    weighted_sampling,
)
from tests.mutants.fault import Fault

__all__ = ["FAULTS", "WITHOUT_FAULT"]

FAULTS: tuple[Fault, ...] = (
    *weighted_sampling.FAULTS,
    *sample_and_threshold.FAULTS,
    *misra_gries.FAULTS,
    *finite_computers.FAULTS,
    *key_rounds.FAULTS,
    *statistics.FAULTS,
    *series.FAULTS,
    *around.FAULTS,
)

# Every row of docs/papers.md is either broken by a fault or stands here with the reason why there is none.
WITHOUT_FAULT: dict[str, str] = {
    **weighted_sampling.WITHOUT_FAULT,
    **sample_and_threshold.WITHOUT_FAULT,
    **misra_gries.WITHOUT_FAULT,
    **finite_computers.WITHOUT_FAULT,
}
