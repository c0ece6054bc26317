"""The exact audit: many random settings of every mechanism, and of laws that were made for more than is claimed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from typing import Any

from dptally.audit.exact_key_rounds import audit_key_rounds
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
from dptally.audit.examination import ExactFinding, Examination
from dptally.audit.random_settings import RandomSettings
from dptally.audit.subjects import DELTA_TIMES_4, EPSILON_TIMES_2, OTHERS, asked_for, mechanisms
from dptally.laws.spec import Mechanism

_PER_CONTROL = 6  # settings with each control, for each mechanism
_CHUNK = 16
_DELTA, _EPSILON, _BOTH = (DELTA_TIMES_4,), (EPSILON_TIMES_2,), (DELTA_TIMES_4, EPSILON_TIMES_2)

_Kind = Callable[[Examination, RandomSettings], None]
_KINDS: dict[str, tuple[_Kind, tuple[str, ...]]] = {
    "rows": (audit_rows, _BOTH),
    "sampled rows": (audit_sampled, _BOTH),
    "rows of a unit": (audit_unit_rows, _BOTH),
    "binomial rows": (audit_binomial_rows, _BOTH),
    "rounds of keys": (audit_key_rounds, _BOTH),
    "shared noise": (audit_shared_noise, _DELTA),
    "counters": (audit_merged_sketch, _BOTH),
    "summed counters": (audit_summed_sketches, _EPSILON),
    "pure counters": (audit_pure_sketch, _EPSILON),
    "bounded noise": (audit_dense, _EPSILON),
    "noise of a universe": (audit_sparse, _EPSILON),
    "noise in strict time": (audit_strict_sparse, _EPSILON),
    "elements of a field": (audit_compact, _EPSILON),
}


@dataclass(frozen=True)
class Subject:
    """One exact audit: of a mechanism, or of what is made of several, and then `mechanism` is any.

    It is `asked` for by some names, `kind` compares one setting with its claim, `weight` is its share of the settings,
    and `controls` are those that must be found to exceed the claim.
    """

    name: str
    mechanism: type[Mechanism]
    asked: tuple[str, ...]
    kind: _Kind
    weight: int
    controls: tuple[str, ...]

    def audit(self, seed: int, place: int, control: str) -> ExactFinding:
        """One setting, of a place in the grid of this seed; as a control, or as it is."""
        check = Examination(self.name, self.mechanism, seed, place, control)
        self.kind(check, check.choose)
        return check.finding()


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
    """What the exact audit found."""

    seed: int  # of the grid; with it everything is repeated
    settings: Counter[str] = field(default_factory=Counter)  # how many settings each mechanism had
    comparisons: int = 0  # how many pairs of laws were compared, both ways
    violations: list[ExactFinding] = field(default_factory=list)  # of mechanisms as they are. There must be none
    # for each mechanism and control, in how many of how many settings it was found
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


def _findings(work: list[tuple[str, int, str]], seed: int, processes: int) -> Iterator[ExactFinding]:
    audit_one = partial(_audit_one, seed)
    if processes == 1:
        yield from map(audit_one, work)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(audit_one, work, chunksize=_CHUNK)


def _audit_one(seed: int, work: tuple[str, int, str]) -> ExactFinding:
    name, place, control = work
    subject = next(subject for subject in subjects() if subject.name == name)
    return subject.audit(seed, place, control)
