"""Faults of series: what counts over periods, noise of a retry, thresholds, states that were restored, the verifier."""

from __future__ import annotations

from tests.mutants.fault import Fault

__all__ = ["FAULTS"]

_SERIES, _EXACT = "tests/series/test_series.py", "tests/exact/test_series.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="series-unit-counted-twice-across-periods",
        breaks=("series: a unit counts for a key in one period of the series",),
        file="series/series.py",
        old="used=used_pairs(state),",
        new="used=(),",
        tests=(f"{_SERIES}::test_a_unit_counts_once_for_a_key_in_the_whole_series",),
    ),
    Fault(
        name="series-bound-of-keys-begins-anew",
        breaks=("series: a unit counts for at most l keys in all periods together",),
        file="series/bounding.py",
        old="coalesce(keys, 0) AS spent",
        new="0 AS spent",
        tests=(f"{_SERIES}::test_a_unit_counts_for_no_more_keys_than_it_may_over_all_periods",),
    ),
    Fault(
        name="series-noise-drawn-again-on-retry",
        breaks=("series: an interrupted period has the same noise again",),
        file="series/adding.py",
        old='text = b"noise %d " % period + self._up_to[period - 1]',
        new='import os; text = b"noise %d " % period + os.urandom(8)',
        tests=(f"{_SERIES}::test_a_retry_draws_what_was_drawn_before",),
    ),
    Fault(
        name="series-other-rows-meet-old-noise",
        breaks=("series: noise is a function of the bounded rows of the period",),
        file="series/adding.py",
        old='text = b"noise %d " % period + self._up_to[period - 1]',
        new='text = b"noise %d " % period',
        tests=(f"{_SERIES}::test_other_rows_have_other_noise",),
    ),
    Fault(
        name="series-noise-of-later-periods-met-again",
        breaks=("series: noise is a function of the bounded rows of all periods up to its own",),
        file="series/adding.py",
        old="hashlib.sha256(before + new).digest()",
        new="new",
        tests=(f"{_SERIES}::test_two_copies_share_no_noise_after_their_first_difference",),
    ),
    Fault(
        name="series-only-keys-with-rows-are-tested",
        breaks=("series: every key of the state is tested in every period",),
        file="series/adding.py",
        old="    passed[published] = False\n",
        new="    passed[published] = False\n    passed &= np.isin(np.arange(keys), used.keys)\n",
        tests=(f"{_SERIES}::test_hidden_keys_are_tested_in_every_period",),
    ),
    Fault(
        name="series-state-rolled-back",
        breaks=("series: a state that is older than what was handed out is refused",),
        file="series/state.py",
        old="if noted not in (head, before):",
        new="if not noted:",
        tests=(f"{_SERIES}::test_a_state_that_was_rolled_back_is_refused",),
    ),
    Fault(
        name="series-handed-out-before-it-is-noted",
        breaks=("series: the note is written before anything of a period is handed out",),
        file="series/released.py",
        old="                self._state.keep_note()\n",
        new="                pass\n",
        tests=(f"{_SERIES}::test_what_is_shown_after_an_interruption_is_noted_first",),
    ),
    Fault(
        name="series-head-without-a-secret",
        breaks=("series: the head in a release is keyed",),
        file="series/state.py",
        old='hmac.digest(self.seed(), b"head", "sha256")',
        new='b"head"',
        tests=(f"{_SERIES}::test_the_head_in_a_release_cannot_be_guessed",),
    ),
    Fault(
        name="series-threshold-of-one-period-not-checked",
        breaks=("series: a key of one unit alone passes no threshold but with probability q",),
        file="verifiers/series.py",
        old="            total += (margin / (ball(sigma) * (2 * squares).sqrt())).erfc() / 2\n",
        new="            total = (margin / (ball(sigma) * (2 * squares).sqrt())).erfc() / 2\n",
        tests=(f"{_EXACT}::test_a_threshold_of_a_year_that_is_slightly_too_low_is_found",),
    ),
    Fault(
        name="series-shift-of-one-column-for-all",
        breaks=("series: p ones in one key shift its numbers by the sum of p columns",),
        file="verifiers/series.py",
        old="(coefficients[period - per_key] if period >= per_key else 0)",
        new="(coefficients[period - 1] if period >= 1 else 0)",
        tests=(f"{_EXACT}::test_the_first_columns_are_the_worst",),
    ),
    Fault(
        name="series-keys-of-a-unit-forgotten-in-the-threshold",
        breaks=("series: both terms are paid for all l keys",),
        file="verifiers/series.py",
        old="lone = differing * (alone + periods * more)",
        new="lone = alone + periods * more",
        tests=(f"{_EXACT}::test_planned_series_pass_the_verifier",),
    ),
)
