"""No warning of ours, or of NumPy on our behalf, reaches a user."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import dptally
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits

OVERFLOW = "import numpy\nnumpy.exp(numpy.array([1000.0]))"
OLD_WAYS = "import warnings\nwarnings.warn('old ways', DeprecationWarning)"


@pytest.mark.parametrize("module", ["dptally", "dptally.estimates.subset_sums"])
@pytest.mark.parametrize("code", [OVERFLOW, OLD_WAYS])
def test_a_warning_in_a_module_of_ours_fails_the_tests(module: str, code: str) -> None:
    """The configuration of the tests turns warnings of every module of the package into errors."""
    with pytest.raises(Warning):
        exec(code, {"__name__": module})  # noqa: S102


def test_numbers_that_overflow_fail_the_tests_anywhere() -> None:
    """NumPy's warnings of arithmetic are errors, whoever calls it."""
    with pytest.raises(RuntimeWarning, match="overflow encountered in exp"):
        np.exp(np.array([1000.0]))


@pytest.mark.parametrize("epsilon", ["0.01", "1", "10", "20", "32"])
@pytest.mark.parametrize("delta", ["1e-12", "0.01"])
def test_sums_at_all_epsilons(epsilon: str, delta: str) -> None:
    """Sums, the largest keys and plots of numbers come without a warning, from one released key to a thousand."""
    law = WeightedSample(epsilon, delta)
    counts = {f"key {place}": law.width + place for place in range(1000)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for some in (dict(list(counts.items())[:1]), counts):
            release = dptally.publish(some, epsilon=epsilon, delta=delta, randomness=SeededBits(1))
            found = release.sum()
            assert found.keys == len(release) == len(some)
            assert found.lower <= sum(some.values()) <= found.upper and found.lower <= found.estimate <= found.upper
            assert len(release.top(3)) == min(3, len(some))


def test_the_command_line_is_quiet(tmp_path: Path) -> None:
    """As users run it, nothing but what is meant for them is on standard error at a large epsilon."""
    data, place = tmp_path / "events.csv", tmp_path / "release.parquet"
    data.write_text("word\n" + "apple\n" * 300 + "pear\n" * 90)
    asked = ["publish", str(data), "--key", "word", "--epsilon", "20", "--delta", "1e-6", "-o", str(place), "-q"]
    for arguments in (asked, ["sum", str(place)], ["report", str(place), "-o", str(tmp_path / "report.html")]):
        done = subprocess.run(
            [sys.executable, "-m", "dptally", *arguments], capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), arguments
