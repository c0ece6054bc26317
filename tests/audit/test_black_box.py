"""The black-box audit: no bound above what is claimed, and one above it for controls and injected faults.

Seeds are fixed, so that a test always passes or always fails. Under a fresh seed a bound is above the truth with
probability 1e-6 at most, for each audit.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from dptally.audit import black_box
from dptally.audit.black_box import BlackBoxFinding, audit_black_box, audit_controls, black_boxes
from dptally.audit.subjects import DELTA_TIMES_4, EPSILON_TIMES_2
from dptally.errors import InvalidParameter
from dptally.randomness import SeededBits
from tests.audit.injected_faults import FAULTS, released_with

BOXES = {box.name: box for box in black_boxes()}
RUNS = {"misra_gries": 30, "compact": 1400, "ranges": 1020, "heavy hitters": 2000, "order of rows": 200}
CONTROLS = [
    ("weighted_sample", DELTA_TIMES_4, 20_000),
    ("stability", EPSILON_TIMES_2, 10_000),
    ("dense", EPSILON_TIMES_2, 10_000),
]
INJECTED = [
    ("weighted_sample", "float table", 60_000, "1e-5"),
    ("stability", "threshold off by one", 20_000, "0.0135"),
    ("stability", "noise halved", 10_000, "0.01"),
    ("gaussian", "threshold off by one", 20_000, "0.01"),
    ("sample_and_threshold", "threshold off by one", 20_000, "0.01"),
    ("dense", "noise halved", 10_000, "0"),
    ("sparse", "noise halved", 4_000, "0"),
    ("order of rows", "insertion order kept", 500, "1e-6"),
]


def run(name: str, runs: int, epsilon: str, delta: str, control: str = "") -> BlackBoxFinding:
    """One audit, seeded."""
    asked = Fraction(epsilon), Fraction(delta)
    return black_box._audit(BOXES[name], *asked, runs, SeededBits(len(name) + 17), control, 1e-6)


@pytest.mark.parametrize("name", BOXES)
def test_bounds_of_mechanisms_are_not_above_their_claims(name: str) -> None:
    """Each mechanism is run through files, and what is found is at most what it claims."""
    found = run(name, RUNS.get(name, 10_000), "1", "0.01")
    assert not found.violated and found.bound.runs[0] > 0


@pytest.mark.parametrize(
    ("name", "fault", "runs", "delta"),
    INJECTED,
    ids=[f"{name}-{fault}" for name, fault, *_ in INJECTED],
)
def test_injected_faults_are_found(name: str, fault: str, runs: int, delta: str) -> None:
    """With the fault, the bound is above the claim; without it, above, it is not."""
    with released_with(BOXES[name].mechanism.name, fault):
        found = run(name, runs, "1", delta)
    assert found.violated, found


@pytest.mark.parametrize(("name", "control", "runs"), CONTROLS, ids=[f"{name}-{what}" for name, what, _ in CONTROLS])
def test_controls_are_found(name: str, control: str, runs: int) -> None:
    """Releases that were made for more than is claimed have a bound above the claim."""
    found = run(name, runs, *BOXES[name].controls[control], control)
    assert found.violated and found.control == control, found


def test_every_kind_of_fault_is_among_those_that_are_found() -> None:
    """Each kind is injected into some mechanism here."""
    assert {fault for _, fault, *_ in INJECTED} == set(FAULTS)


def test_bounds_come_close_to_what_is_claimed() -> None:
    """An audit that finds nothing would pass everything: the bound of dense noise is above 0.85 of its epsilon of 1."""
    assert 0.85 < run("dense", 20_000, "1", "0").bound.epsilon <= 1


def test_all_is_reported_and_unknown_names_are_refused() -> None:
    """Findings describe themselves; a name that is none is refused with the list of names."""
    (found,) = audit_black_box("dense", epsilon="1/2", runs=1000, seed=1)
    facts = found.describe()
    assert facts["epsilon"] == "1/2" and facts["delta"] == "0" and facts["violated"] is False
    again = audit_black_box("dense", epsilon="1/2", runs=1000, seed=1)[0]
    assert again == found
    with pytest.raises(InvalidParameter, match="mechanism must be 'all' or one of compact"):
        audit_black_box("nonsense")
    assert audit_controls("compact") == []


@pytest.mark.slow
def test_all_controls_are_found_under_fresh_bits() -> None:
    """Every control of every mechanism, with secret bits: bounds are above claims; and none of the mechanisms is."""
    assert all(found.violated for found in audit_controls())
    assert not any(found.violated for found in audit_black_box())
