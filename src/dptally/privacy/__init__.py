"""What is guaranteed, what a release spends, and how guarantees compose."""

from __future__ import annotations

from dptally.privacy.guarantee import Guarantee, Record
from dptally.verifiers.tables import Certificate

__all__ = ["Certificate", "Guarantee", "Record"]
