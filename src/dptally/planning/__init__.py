"""What to expect from a release, before any data is read. Exact, from the laws alone; `dptally.plan` asks.

- `dptally.planning.mechanisms`: which mechanisms apply, and their laws;
- `dptally.planning.populations`: what is supposed about the data;
- `dptally.planning.forecasts`: what each mechanism leads to;
- `dptally.planning.requirements`: the inverse question;
- `dptally.planning.page`: the plan as a page.
"""

from dptally.planning.forecasts import Forecast
from dptally.planning.mechanisms import planned_laws
from dptally.planning.plans import Plan, PlanLine
from dptally.planning.populations import Population
from dptally.planning.requirements import Need

__all__ = ["Forecast", "Need", "Plan", "PlanLine", "Population", "planned_laws"]
