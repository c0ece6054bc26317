"""The one place random bits come from."""

from __future__ import annotations

from dptally.randomness.bits import BitSource, SeededBits, SystemBits, read_bits

__all__ = ["BitSource", "SeededBits", "SystemBits", "read_bits"]
