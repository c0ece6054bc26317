"""What a fault is, and what a paper's module has to account for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Fault"]


@dataclass(frozen=True)
class Fault:
    """One change of the source that breaks something, and the tests that must notice it.

    Attributes:
        name: unique, in words with hyphens: `"mixing-left-out"`.
        breaks: the statements of `docs/papers.md` that no longer hold, as `"BV19 Algorithm 6.9"`; for faults of
            `around.py` what is broken, in words.
        file: the source file, under `src/dptally`.
        old: text that occurs exactly once in that file. A fault that no longer applies fails the run.
        new: what stands there instead.
        tests: test files or node ids as pytest takes them, few and fast; one of them has to fail by an assertion.
    """

    name: str
    breaks: tuple[str, ...]
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
