"""Audits: do mechanisms keep what they guarantee, checked without trusting the proofs?

Three kinds, each with its limits (see `docs/audits.md`):

- `audit_exactly`: laws of random settings are written out and compared in exact numbers, by code of its own;
- `audit_black_box`: many releases of neighbouring data sets, through files, bound epsilon from below;
- `audit_side_channels`: order, files, errors and time.

The first two are also run on controls, releases that were made for more than is claimed, which they must find. Faults
in mechanisms are injected by the tests alone.
"""

from __future__ import annotations

from dptally.audit.black_box import BlackBoxFinding, audit_black_box, audit_controls
from dptally.audit.exact_grid import ExactAudit, audit_exactly
from dptally.audit.side_channels import SideChannel, audit_side_channels

__all__ = [
    "BlackBoxFinding",
    "ExactAudit",
    "SideChannel",
    "audit_black_box",
    "audit_controls",
    "audit_exactly",
    "audit_side_channels",
]
