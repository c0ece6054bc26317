"""The exact audit: many random settings of every mechanism, and of laws that were made for more than is claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from dptally.audit.controls import DELTA_TIMES_4, EPSILON_TIMES_2
from dptally.audit.exact_keys import (
    audit_binomial_rows,
    audit_merged_sketch,
    audit_rows,
    audit_sampled,
    audit_unit_rows,
)
from dptally.audit.exact_pure import audit_compact, audit_dense, audit_sparse, audit_strict_sparse, audit_total
from dptally.audit.exact_rounds import audit_ranges, audit_rounds
from dptally.audit.exact_sketches import audit_pure_sketch, audit_shared_noise, audit_summed_sketches
from dptally.audit.findings import ExactFinding
from dptally.audit.random_settings import RandomSettings
from dptally.audit.subjects import OTHERS, Subject, asked_for, mechanisms

__all__ = ["ExactAudit", "audit_exactly", "subjects"]

_PER_CONTROL = 6  # settings with each control, for each mechanism
_CHUNK = 16
_DELTA, _EPSILON, _BOTH = (DELTA_TIMES_4,), (EPSILON_TIMES_2,), (DELTA_TIMES_4, EPSILON_TIMES_2)

_KINDS: dict[str, tuple[Callable[[Subject, RandomSettings, int, str], ExactFinding], tuple[str, ...]]] = {
    "rows": (audit_rows, _BOTH),
    "sampled rows": (audit_sampled, _BOTH),
    "rows of a unit": (audit_unit_rows, _BOTH),
    "binomial rows": (audit_binomial_rows, _BOTH),
    "shared noise": (audit_shared_noise, _DELTA),
    "counters": (audit_merged_sketch, _BOTH),
    "summed counters": (audit_summed_sketches, _EPSILON),
    "pure counters": (audit_pure_sketch, _EPSILON),
    "bounded noise": (audit_dense, _EPSILON),
    "noise of a universe": (audit_sparse, _EPSILON),
    "noise in strict time": (audit_strict_sparse, _EPSILON),
    "elements of a field": (audit_compact, _EPSILON),
}


def subjects() -> tuple[Subject, ...]:
    """Every exact audit there is, in the order of reports."""
    known = mechanisms()
    found = []
    for mechanism in known:
        for exact in mechanism.audits.exact:
            kind, found_by_kind = _KINDS[exact.kind]
            controls = found_by_kind if exact.controls is None else exact.controls
            found.append(
                Subject(exact.title or mechanism.name, mechanism, (mechanism.name,), kind, exact.weight, controls)
            )
    ranges, rounds, total = OTHERS
    with_total = (total, *(each.name for each in known if each.sampled or each.bounded_memory))
    return (
        *found,
        Subject("heavy hitters", known[0], (rounds,), audit_rounds, 1, _DELTA),
        Subject("ranges", known[0], (ranges,), audit_ranges, 2, _BOTH),
        Subject("private total", known[0], with_total, audit_total, 1, _EPSILON),
    )


@dataclass
class ExactAudit:
    """What the exact audit found.

    Attributes:
        seed: of the grid; with it everything is repeated.
        settings: how many settings each mechanism had.
        comparisons: how many pairs of laws were compared, both ways.
        violations: of mechanisms as they are. There must be none.
        controls: for each mechanism and control, in how many of how many settings it was found.
    """

    seed: int
    settings: Counter[str] = field(default_factory=Counter)
    comparisons: int = 0
    violations: list[ExactFinding] = field(default_factory=list)
    controls: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    @property
    def missed(self) -> list[tuple[str, str]]:
        """Controls that were found in no setting."""
        return [pair for pair, (found, _) in self.controls.items() if not found]

    @property
    def passed(self) -> bool:
        """Whether nothing exceeds its claim, and every control was found to exceed its."""
        return not self.violations and not self.missed

    def describe(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "seed": self.seed,
            "settings": dict(self.settings),
            "all_settings": sum(self.settings.values()),
            "comparisons": self.comparisons,
            "violations": [finding.describe() for finding in self.violations],
            "controls": [
                {"mechanism": name, "control": control, "found": found, "of": tried}
                for (name, control), (found, tried) in self.controls.items()
            ],
            "passed": self.passed,
        }


def audit_exactly(
    mechanism: str = "all",
    *,
    settings: int = 1000,
    seed: int = 8,
    controls: bool = True,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> ExactAudit:
    """Compare laws with their claims, in exact numbers, for random settings; then the same for controls.

    Args:
        mechanism: a mechanism's name, or "all".
        settings: how many settings, shared among what is audited.
        seed: of the grid: the same seed gives the same settings.
        controls: whether to compare laws made for more than is claimed, too: six settings for each of them.
        processes: how many processes do the work.
        progress: called with how many settings are done, and of how many.
    """
    chosen = [subject for subject in subjects() if {*subject.asked} & {*asked_for(mechanism)}]
    order = [subject.name for subject in chosen for _ in range(subject.weight)]
    work = [(name, place, "") for place, name in enumerate(islice(cycle(_interleaved(order)), settings))]
    if controls:
        tries = [(subject.name, control) for subject in chosen for control in subject.controls]
        work += [(name, place, control) for name, control in tries for place in range(_PER_CONTROL)]
    result = ExactAudit(seed)
    for done, finding in enumerate(_findings(work, seed, processes), 1):
        (name, _, control) = work[done - 1]
        if control:
            found, tried = result.controls.get((name, control), (0, 0))
            result.controls[name, control] = found + finding.violated, tried + 1
        else:
            result.settings[name] += 1
            result.comparisons += finding.comparisons
            if finding.violated:
                result.violations.append(finding)
        if progress is not None:
            progress(done, len(work))
    return result


def _interleaved(names: list[str]) -> list[str]:
    """The same names, with equal ones far from each other, so that few settings cover all."""
    seen: Counter[str] = Counter()
    numbered = []
    for place, name in enumerate(names):
        numbered.append((seen[name], place, name))
        seen[name] += 1
    return [name for _, _, name in sorted(numbered)]


def _findings(work: list[tuple[str, int, str]], seed: int, processes: int) -> Iterable[ExactFinding]:
    if processes == 1:
        return (_audit_one((seed, *one)) for one in work)
    return _in_processes([(seed, *one) for one in work], processes)


def _in_processes(work: list[tuple[int, str, int, str]], processes: int) -> Iterator[ExactFinding]:
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_audit_one, work, chunksize=_CHUNK)


def _audit_one(work: tuple[int, str, int, str]) -> ExactFinding:
    seed, name, place, control = work
    subject = next(subject for subject in subjects() if subject.name == name)
    return subject.audit(RandomSettings(seed, place), place, control)
