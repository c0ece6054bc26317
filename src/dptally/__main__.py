"""``python -m dptally``, and the command ``dptally``, are the command line."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["start"]


def start() -> int:
    """Run the command line as the process that it is.

    Returns:
        int: the exit status.
    """
    # Until the command line hears signals itself, they end the process at once: nothing has been begun, and an
    # exception in the middle of an import helps nobody.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_closed_descriptors()
    from dptally.cli import main

    return main()


def _open_closed_descriptors() -> None:
    """Take the numbers of closed standard streams: a ledger that got one would be written to by whoever prints."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


if __name__ == "__main__":
    sys.exit(start())
