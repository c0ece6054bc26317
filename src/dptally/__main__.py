"""``python -m dptally`` is the command line."""

from __future__ import annotations

import sys

from dptally.cli import main

if __name__ == "__main__":
    sys.exit(main())
