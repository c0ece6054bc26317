"""Faults in sample-and-threshold, [BC22]."""

from __future__ import annotations

from tests.mutants.fault import Fault

__all__ = ["FAULTS", "WITHOUT_FAULT"]

FAULTS: tuple[Fault, ...] = ()

WITHOUT_FAULT: dict[str, str] = {}
