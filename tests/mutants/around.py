"""Faults around the mechanisms: contributions, randomness, composition, ledger, releases, verifiers."""

from __future__ import annotations

from tests.mutants.fault import Fault

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="contributions-one-key-too-many",
        breaks=("contribution bound: a unit with more keys keeps at most max_keys_per_unit",),
        file="contributions.py",
        old="choose_smallest_tags(starts, tags, max_keys_per_unit, keep)",
        new="choose_smallest_tags(starts, tags, max_keys_per_unit + 1, keep)",
        tests=("tests/unit/test_contributions.py",),
    ),
    Fault(
        name="randomness-words-again-after-fork",
        breaks=("randomness: a forked process draws words of its own",),
        file="randomness/bits.py",
        old="        self._lock = threading.Lock()\n        self._stream = None\n\n    def __repr__",
        new="        self._lock = threading.Lock()\n\n    def __repr__",
        tests=("tests/unit/test_randomness.py",),
    ),
)
