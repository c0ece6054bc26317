"""The black-box audit: no bound above what is claimed, and one above it for each planted bug.

Seeds are fixed, so that a test always passes or always fails. Under a fresh seed a bound is above the truth with
probability 1e-6 at most, for each audit.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from dptally.audit import black_box
from dptally.audit.black_box import BLACK_BOXES, BlackBoxFinding, audit_black_box, audit_planted
from dptally.errors import InvalidParameter
from dptally.randomness import SeededBits

BOXES = {box.name: box for box in BLACK_BOXES}
RUNS = {"misra_gries": 30, "compact": 1400, "ranges": 1020, "heavy hitters": 2000, "order of rows": 200}
PLANTED = [
    ("weighted_sample", "delta x 4", 20_000),
    ("weighted_sample", "float table", 60_000),
    ("stability", "threshold off by one", 20_000),
    ("stability", "noise halved", 10_000),
    ("gaussian", "threshold off by one", 20_000),
    ("sample_and_threshold", "threshold off by one", 20_000),
    ("dense", "noise halved", 10_000),
    ("sparse", "noise halved", 4_000),
    ("order of rows", "insertion order kept", 500),
]


def run(name: str, bug: str, runs: int, epsilon: str, delta: str) -> BlackBoxFinding:
    """One audit, seeded."""
    asked = Fraction(epsilon), Fraction(delta)
    return black_box._audit(BOXES[name], *asked, runs, SeededBits(len(name) + 17), bug, 1e-6)


@pytest.mark.parametrize("name", BOXES)
def test_bounds_of_mechanisms_are_not_above_their_claims(name: str) -> None:
    """Each mechanism is run through files, and what is found is at most what it claims."""
    found = run(name, "", RUNS.get(name, 10_000), "1", "0.01")
    assert not found.violated and found.bound.runs[0] > 0


@pytest.mark.parametrize(
    ("name", "bug", "runs"),
    PLANTED,
    ids=[f"{name}-{bug}" for name, bug, _ in PLANTED],
)
def test_planted_bugs_are_found(name: str, bug: str, runs: int) -> None:
    """With the bug, the bound is above the claim; the same seed without it is not."""
    epsilon, delta = BOXES[name].bugs[bug]
    found = run(name, bug, runs, epsilon, delta)
    assert found.violated, found


def test_every_kind_of_bug_is_among_those_that_are_found() -> None:
    """Each of the five bugs is planted in some mechanism here."""
    from dptally.audit.planted import BUGS

    assert {bug for _, bug, _ in PLANTED} == set(BUGS)


def test_bounds_come_close_to_what_is_claimed() -> None:
    """An audit that finds nothing would pass everything: the bound of dense noise is above 0.85 of its epsilon of 1."""
    assert 0.85 < run("dense", "", 20_000, "1", "0").bound.epsilon <= 1


def test_all_is_reported_and_unknown_names_are_refused() -> None:
    """Findings describe themselves; a name that is none is refused with the list of names."""
    (found,) = audit_black_box("dense", epsilon="1/2", runs=1000, seed=1)
    facts = found.describe()
    assert facts["epsilon"] == "1/2" and facts["delta"] == "0" and facts["violated"] is False
    again = audit_black_box("dense", epsilon="1/2", runs=1000, seed=1)[0]
    assert again == found
    with pytest.raises(InvalidParameter, match="mechanism must be 'all' or one of compact"):
        audit_black_box("nonsense")
    assert audit_planted("compact") == []


@pytest.mark.slow
def test_all_planted_bugs_are_found_under_fresh_bits() -> None:
    """Every bug of every mechanism, with secret bits: bounds are above claims; and none is without bugs."""
    assert all(found.violated for found in audit_planted())
    assert not any(found.violated for found in audit_black_box())
