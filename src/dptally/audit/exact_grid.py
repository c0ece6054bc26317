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
    audit_gaussian,
    audit_merged_sketch,
    audit_sample_and_threshold,
    audit_sampled,
    audit_stability,
    audit_weighted_sample,
)
from dptally.audit.exact_pure import audit_compact, audit_dense, audit_sparse, audit_strict_sparse, audit_total
from dptally.audit.exact_rounds import audit_ranges, audit_rounds
from dptally.audit.exact_sketches import audit_pure_sketch, audit_shared_noise, audit_summed_sketches
from dptally.audit.findings import ExactFinding
from dptally.audit.random_settings import Chooser
from dptally.errors import InvalidParameter

__all__ = ["SUBJECTS", "ExactAudit", "Subject", "audit_exactly"]

_PER_CONTROL = 6  # settings with each control, for each mechanism
_CHUNK = 16


@dataclass(frozen=True)
class Subject:
    """A mechanism as the exact audit sees it.

    Attributes:
        name: in reports.
        mechanisms: the names under which it is asked for: those of `dptally.publish`, and others.
        weight: how many of the settings it gets, in proportion.
        audit: one setting, of a place in the grid; as a control, or as it is.
        controls: those that must be found to exceed the claim.
    """

    name: str
    mechanisms: tuple[str, ...]
    weight: int
    audit: Callable[[Chooser, int, str], ExactFinding]
    controls: tuple[str, ...]


_BOTH = (DELTA_TIMES_4, EPSILON_TIMES_2)

SUBJECTS = (
    Subject("weighted_sample", ("weighted_sample",), 5, audit_weighted_sample, _BOTH),
    Subject("sampled", ("weighted_sample",), 3, audit_sampled, _BOTH),
    Subject("stability", ("stability",), 3, audit_stability, _BOTH),
    Subject("gaussian", ("gaussian",), 3, audit_gaussian, _BOTH),
    Subject("sample_and_threshold", ("sample_and_threshold",), 2, audit_sample_and_threshold, _BOTH),
    Subject("one stream", ("misra_gries",), 2, audit_shared_noise, (DELTA_TIMES_4,)),
    Subject("merged", ("misra_gries",), 1, audit_merged_sketch, _BOTH),
    Subject("summed", ("misra_gries",), 1, audit_summed_sketches, (EPSILON_TIMES_2,)),
    Subject("pure sketch", ("misra_gries",), 1, audit_pure_sketch, (EPSILON_TIMES_2,)),
    Subject("dense", ("dense",), 2, audit_dense, (EPSILON_TIMES_2,)),
    Subject("sparse", ("sparse",), 2, audit_sparse, (EPSILON_TIMES_2,)),
    Subject("sparse, strict time", ("sparse",), 1, audit_strict_sparse, (EPSILON_TIMES_2,)),
    Subject("compact", ("compact",), 1, audit_compact, (EPSILON_TIMES_2,)),
    Subject("heavy hitters", ("heavy_hitters",), 1, audit_rounds, (DELTA_TIMES_4,)),
    Subject("ranges", ("ranges",), 2, audit_ranges, _BOTH),
    Subject("private total", ("total", "misra_gries", "weighted_sample"), 1, audit_total, (EPSILON_TIMES_2,)),
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
    subjects = chosen_subjects(mechanism)
    order = [subject.name for subject in subjects for _ in range(subject.weight)]
    work = [(name, place, "") for place, name in enumerate(islice(cycle(_interleaved(order)), settings))]
    if controls:
        tries = [(subject.name, control) for subject in subjects for control in subject.controls]
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


def chosen_subjects(mechanism: str) -> tuple[Subject, ...]:
    """What is audited under a name."""
    if mechanism == "all":
        return SUBJECTS
    found = tuple(subject for subject in SUBJECTS if mechanism in subject.mechanisms)
    if not found:
        names = sorted({name for subject in SUBJECTS for name in subject.mechanisms})
        raise InvalidParameter(f"mechanism must be 'all' or one of {', '.join(names)}, got {mechanism[:40]!r}.")
    return found


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
    subject = next(subject for subject in SUBJECTS if subject.name == name)
    return subject.audit(Chooser(seed, place), place, control)
