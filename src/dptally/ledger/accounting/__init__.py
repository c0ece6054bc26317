"""What several releases spend together, by rules that are all proved.

- `profiles`: the loss of single draws, from the exact privacy profiles of laws;
- `totals`: basic, optimal and tight composition of a list of events;
- `numerical`: the same by the library dp-accounting, in floating point, as a second opinion.
"""

from __future__ import annotations

from dptally.ledger.accounting.totals import METHODS, Total, basic_total, optimal_total, short_above, tight_total

__all__ = ["METHODS", "Total", "basic_total", "optimal_total", "short_above", "tight_total"]
