"""The exact audit passes for the mechanisms, and finds every control and every injected fault."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dptally.audit.exact_grid import audit_exactly, subjects
from dptally.audit.examination import Examination
from dptally.errors import InvalidParameter
from dptally.laws.specs.dense import Dense
from tests.audit.injected_faults import examined_with

SEED = 11
SUBJECTS = subjects()


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_no_setting_exceeds_its_claim(subject: object) -> None:
    """Some settings of each mechanism are compared, and none exceeds what it claims."""
    for place in range(3):
        finding = subject.audit(SEED, place, "")  # type: ignore[attr-defined]
        assert not finding.violated, finding.violations
        assert finding.comparisons > 0 and finding.control == ""


CONTROLS = [(subject, control) for subject in SUBJECTS for control in subject.controls]
_THRESHOLD, _NOISE, _FLOAT = "threshold off by one", "noise halved", "float table"
# Rounding to floats breaks only laws that use all of their epsilon or delta.
INJECTED = [
    ("weighted_sample", _NOISE),
    ("weighted_sample", _FLOAT),
    ("stability", _THRESHOLD),
    ("stability", _NOISE),
    ("gaussian", _THRESHOLD),
    ("gaussian", _NOISE),
    ("sample_and_threshold", _THRESHOLD),
    ("one stream", _THRESHOLD),
    ("one stream", _NOISE),
    ("merged", _NOISE),
    ("summed", _NOISE),
    ("pure sketch", _NOISE),
    ("dense", _NOISE),
    ("dense", _FLOAT),
    ("sparse", _NOISE),
    ("sparse", _FLOAT),
    ("heavy hitters", _THRESHOLD),
    ("ranges", _NOISE),
]


@pytest.mark.parametrize(("subject", "control"), CONTROLS, ids=[f"{subject.name}-{what}" for subject, what in CONTROLS])
def test_every_control_is_found(subject: object, control: str) -> None:
    """One of at most eight settings shows that the law was made for more than is claimed."""
    found = (subject.audit(SEED, place, control) for place in range(8))  # type: ignore[attr-defined]
    assert any(finding.violated for finding in found)


@pytest.mark.parametrize(("name", "fault"), INJECTED, ids=[f"{name}-{fault}" for name, fault in INJECTED])
def test_every_injected_fault_is_found(name: str, fault: str) -> None:
    """One of at most eight settings shows the fault."""
    subject = next(subject for subject in SUBJECTS if subject.name == name)
    with examined_with(fault):
        assert any(subject.audit(SEED, place, "").violated for place in range(8))


def test_grid_covers_all_and_repeats() -> None:
    """A small grid has every mechanism; the same seed gives the same grid, and another seed another."""
    names = {subject.name for subject in SUBJECTS if subject.name != "heavy hitters"}
    cheap = audit_exactly("dense", settings=5, seed=2, controls=False)
    again = audit_exactly("dense", settings=5, seed=2, controls=False)
    assert cheap.describe() == again.describe() and cheap.settings == {"dense": 5} and cheap.passed
    assert names <= {subject.name for subject in SUBJECTS}
    steps: list[tuple[int, int]] = []
    found = audit_exactly("sparse", settings=4, seed=2, progress=lambda *step: steps.append(step))
    assert found.controls["sparse", "epsilon x 2"] == (6, 6) and steps[-1][0] == steps[-1][1] == len(steps)


def test_processes_find_the_same() -> None:
    """Work that is shared by two processes gives the same result."""
    alone = audit_exactly("total", settings=6, seed=4, controls=False)
    shared = audit_exactly("total", settings=6, seed=4, controls=False, processes=2)
    assert alone.describe() == shared.describe()


def test_unknown_mechanisms_are_refused() -> None:
    """The message lists the names."""
    with pytest.raises(InvalidParameter, match="mechanism must be 'all' or one of compact"):
        audit_exactly("nonsense")


def test_an_excess_of_any_size_is_a_violation() -> None:
    """A law that exceeds its delta by one part in 2^128 is reported, one that meets it is not."""
    whole = 1 << 128
    for more in (0, 1):
        check = Examination("test", Dense, SEED, 0, "")
        check.claim(Fraction(1), Fraction(1, 2), {})
        check.neighbours({"seen": whole // 2 + more, None: whole // 2 - more}, {None: whole}, "a pair")
        assert check.finding().violated is bool(more)


@pytest.mark.slow
def test_ten_thousand_settings() -> None:
    """10,000 settings of all mechanisms: no violation, and every control is found."""
    found = audit_exactly(settings=10_000, processes=2)
    assert found.passed, (found.missed, [finding.describe() for finding in found.violations])
