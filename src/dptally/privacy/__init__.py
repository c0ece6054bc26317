"""What is promised, how promises add up, and the judge of tables."""

from __future__ import annotations

from dptally.privacy.certifier import Certificate
from dptally.privacy.guarantee import Guarantee, Record

__all__ = ["Certificate", "Guarantee", "Record"]
