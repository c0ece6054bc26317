"""What holds when things go wrong: processes killed, disks full, clocks set back, many writers; counted, in a report.

    python -m studies.reliability                         # everything; about ten minutes
    python -m studies.reliability --parts kills --kills 50
    python -m studies.reliability --report docs/reliability.md

Each part (`studies.reliability.parts`) does something unkind to real processes that publish with a ledger,
and looks at what is left on disk with plain SQLite, SHA-256 and Parquet (`outside`), not with the code under test.
`tests/faults` runs the same parts with smaller numbers.
"""

from __future__ import annotations

from studies.reliability.outcomes import Outcome, Part, Settings

__all__ = ["Outcome", "Part", "Settings"]
