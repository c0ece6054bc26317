"""What several releases spend together: events as data, and the judges that add them up.

- `spending`: what a release spends, so that a stranger can account for it without its mechanism;
- `profiles`: the exact privacy profiles of laws;
- `totals`: basic, optimal and tight composition of a list of events;
- `numerical`: the same by the library dp-accounting, in floating point, as a second opinion.
"""

from __future__ import annotations

from dptally.privacy.accounting.spending import Part, Spending
from dptally.privacy.accounting.totals import METHODS, Total, basic_total, optimal_total, short_above, tight_total

__all__ = ["METHODS", "Part", "Spending", "Total", "basic_total", "optimal_total", "short_above", "tight_total"]
