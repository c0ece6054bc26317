"""Faults of releases in rounds: weights, what is kept and dropped, sizes, draws, and the verifier of all stages."""

from __future__ import annotations

from tests.mutants.fault import Fault

__all__ = ["FAULTS"]

_VERIFIER, _LAWS, _PAIRS = "verifiers/key_rounds.py", "laws/round_stages.py", "summaries/unit_pairs.py"
_EXACT, _NUMBERS = "tests/exact/test_key_rounds.py", "tests/exact/test_key_rounds_numbers.py"
_SETS = "tests/summaries/test_unit_pairs.py::test_all_stages_are_those_of_sets"
_ENUMERATED = f"{_EXACT}::test_no_enumerated_divergence_exceeds_the_bound[0]"
_WEIGHT = "math.isqrt(square // max(keys, self.low))"

FAULTS: tuple[Fault, ...] = (
    # ---- what a unit adds ----
    Fault(
        name="rounds-weight-off-by-one",
        breaks=("rounds: a unit of k keys adds isqrt(m m hi // max(k, lo)) to each",),
        file="laws/tables/reporting_curve.py",
        old=_WEIGHT,
        new="math.isqrt(square // max(keys, self.low)) + 1",
        tests=(_SETS,),
    ),
    Fault(
        name="rounds-lower-cap-ignored",
        breaks=("rounds: units with fewer than lo keys weigh no more than one with lo keys",),
        file="laws/tables/reporting_curve.py",
        old=_WEIGHT,
        new="math.isqrt(square // keys)",
        tests=(_SETS,),
    ),
    Fault(
        name="rounds-kept-keys-not-limited",
        breaks=("rounds: a unit keeps at most hi keys",),
        file=_PAIRS,
        old="                sizes, keys = _keep(sizes, keys, limit, bits)\n",
        new="                weights = np.append(weights, [weights[-1]] * (int(sizes.max()) - len(weights) + 1))\n",
        tests=("tests/summaries/test_unit_pairs.py::test_a_unit_keeps_no_more_than_it_may",),
    ),
    Fault(
        name="rounds-found-keys-counted-again",
        breaks=("rounds: keys that were found are dropped before the next round",),
        file=_PAIRS,
        old="kept = ~self._found[keys]",
        new="kept = np.ones(len(keys), dtype=bool)",
        tests=(_SETS,),
    ),
    Fault(
        name="rounds-a-unit-begins-again-with-each-batch",
        breaks=("rounds: a unit that goes on in the next batch is one unit",),
        file=_PAIRS,
        old="begins = changes(units, self._unit)",
        new="begins = changes(units, None)",
        tests=("tests/summaries/test_unit_pairs.py::test_units_that_go_on_in_the_next_batch",),
    ),
    Fault(
        name="rounds-collisions-not-noticed",
        breaks=("rounds: units whose hashes are equal stay apart",),
        file=_PAIRS,
        old='                raise HashCollision("two units have the same hash.")\n',
        new="                pass\n",
        tests=("tests/summaries/test_unit_pairs.py::test_units_of_one_hash_are_noticed_and_survived",),
    ),
    Fault(
        name="rounds-found-keys-without-count-left-out",
        breaks=("rounds: every found key has a count, zero included",),
        file=_PAIRS,
        old="KeySums(self, counted, kept=kept, among=self._found)",
        new="KeySums(self, counted, kept=kept)",
        tests=("tests/summaries/test_unit_pairs.py::test_found_keys_that_nobody_kept_are_counted_as_zero",),
    ),
    Fault(
        name="rounds-pairs-left-on-disk",
        breaks=("rounds: the keys of units on disk are removed when reading them fails",),
        file=_PAIRS,
        old="            self.close()\n            raise\n",
        new="            raise\n",
        tests=("tests/summaries/test_unit_pairs.py::test_reading_that_fails_leaves_nothing_behind",),
    ),
    # ---- what is drawn ----
    Fault(
        name="rounds-delta-doubled-in-the-draw",
        breaks=("rounds: a key is reported with the probability of the table",),
        file=_LAWS,
        old="high, low = self._high[place], self._low[place]",
        new="high, low = 2 * self._high[place], self._low[place]",
        tests=("tests/laws/test_key_rounds.py::test_draws_at_the_edges_of_entries",),
    ),
    Fault(
        name="rounds-delta-doubled-in-one-round",
        breaks=("rounds: the law of a round stays below its declared function",),
        file=_LAWS,
        old="self.weights, self.table = weights, bytes(table)",
        new=(
            "doubled = [min(2 * chance, _WHOLE // 2) if 2 * chance < _WHOLE else chance for chance in "
            "read_entries(bytes(table))]\n"
            '        self.weights, self.table = weights, b"".join(each.to_bytes(16, "little") for each in doubled)'
        ),
        tests=("tests/laws/test_key_rounds.py::test_the_law_of_a_release_is_certified",),
    ),
    Fault(
        name="rounds-sizes-without-noise",
        breaks=("rounds: sizes of units are released with noise",),
        file=_LAWS,
        old="for count in self.noise.draw(as_frequencies(counts) + _ZERO, bits)]",
        new="for count in as_frequencies(counts) + _ZERO]",
        tests=("tests/statistical/test_key_rounds.py::test_noise_on_sizes_is_geometric",),
    ),
    Fault(
        name="rounds-sizes-that-nobody-paid-for",
        breaks=("rounds: sizes that a release states have a stage that paid for them",),
        file="laws/key_rounds.py",
        old="if len(self.sizes) not in (0, paid) or len(set(map(len, self.sizes))) > 1:",
        new="if len(self.sizes) > max(paid, _MOST_STAGES):",
        tests=("tests/laws/test_key_rounds.py::test_forged_facts_are_refused",),
    ),
    Fault(
        name="rounds-law-not-verified-before-its-draw",
        breaks=("rounds: a law that is chosen later is verified before anything is drawn from it",),
        file="laws/specs/rounds.py",
        old="if question.summary not in _LAST:",
        new="if question.summary in _LAST:",
        tests=("tests/publishing/test_rounds.py::test_a_law_that_the_verifier_refuses_is_not_drawn_from",),
    ),
    # ---- the verifier ----
    Fault(
        name="rounds-verifier-sizes-unpaid",
        breaks=("rounds: the noise on sizes is part of the certificate",),
        file=_VERIFIER,
        old="rows += check_stage(stage, declared[place], after, scale=scale, epsilon=epsilon)",
        new=(
            "rows += 1 if isinstance(stage, SizeStage) else "
            "check_stage(stage, declared[place], after, scale=scale, epsilon=epsilon)"
        ),
        tests=(f"{_EXACT}::test_noise_on_sizes_is_paid_for",),
    ),
    Fault(
        name="rounds-verifier-at-one-point-only",
        breaks=("rounds: a law stays below its declared function at every likelihood ratio",),
        file=_VERIFIER,
        old="        if bound > allowed:\n",
        new="        if bound > allowed and place * COARSE == scale.below:\n",
        tests=(f"{_EXACT}::test_a_law_outside_of_its_declared_function_is_refused",),
    ),
    Fault(
        name="rounds-verifier-rounds-down",
        breaks=("rounds: numbers of the certificate are rounded up",),
        file=_VERIFIER,
        old="np.where(scaled > 0, np.nextafter(scaled, 2.0), 0.0)",
        new="np.where(scaled > 0, np.nextafter(scaled, 0.0), 0.0)",
        tests=(f"{_NUMBERS}::test_numbers_are_rounded_up",),
    ),
    Fault(
        name="rounds-verifier-moves-mass-to-the-right",
        breaks=("rounds: mass is moved to smaller likelihood ratios only",),
        file=_VERIFIER,
        old="right = min(mass, beyond * scale.density // powers[place + reach])",
        new="right = min(mass, beyond * scale.density // powers[place + reach] + (mass >> 9))",
        tests=(f"{_NUMBERS}::test_mass_is_moved_to_the_left_and_not_far",),
    ),
    Fault(
        name="rounds-verifier-adding-only",
        breaks=("rounds: both orders of the neighbours are bounded",),
        file=_VERIFIER,
        old="pairs |= {(more, less), (less, more)}",
        new="pairs |= {(more, less)}",
        tests=(f"{_EXACT}::test_the_worse_order_is_the_one_that_is_bounded",),
    ),
    Fault(
        name="rounds-verifier-removing-only",
        breaks=("rounds: both orders of the neighbours are bounded",),
        file=_VERIFIER,
        old="pairs |= {(more, less), (less, more)}",
        new="pairs |= {(less, more)}",
        tests=(f"{_EXACT}::test_the_worse_order_is_the_one_that_is_bounded",),
    ),
    Fault(
        name="rounds-verifier-keys-of-one-unit-left-out",
        breaks=("rounds: keys that only one unit has are part of the certificate",),
        file=_VERIFIER,
        old="for total in (0, *range(least, most)):",
        new="for total in range(least, most):",
        tests=(f"{_EXACT}::test_the_first_key_of_a_unit_counts", _ENUMERATED),
    ),
    Fault(
        name="rounds-verifier-lower-cap-ignored",
        breaks=("rounds: every weight that a unit may have is bounded",),
        file=_VERIFIER,
        old="weight = math.isqrt(multiple * multiple * high // max(keys, low))",
        new="weight = math.isqrt(multiple * multiple * high // high)",
        tests=(f"{_EXACT}::test_more_keys_and_larger_weights_cost_more", _ENUMERATED),
    ),
    Fault(
        name="rounds-verifier-one-key-for-a-unit",
        breaks=("rounds: all keys of a unit are bounded together",),
        file=_VERIFIER,
        old="found = _raised(start, sorted(distinct), keys, scale)",
        new="found = _raised(start, sorted(distinct), 1, scale)",
        tests=(_ENUMERATED,),
    ),
    Fault(
        name="rounds-verifier-impossible-outcomes-forgotten",
        breaks=("rounds: an outcome that the other neighbour never has counts in full",),
        file=_VERIFIER,
        old="        return mass / _TABLE, 0.0, 0.0, 0\n",
        new="        return 0.0, 0.0, 0.0, 0\n",
        tests=(f"{_NUMBERS}::test_mass_is_moved_to_the_left_and_not_far", _ENUMERATED),
    ),
    Fault(
        name="rounds-verifier-later-stages-forgotten",
        breaks=("rounds: a stage is compared with the function that was declared after it",),
        file=_VERIFIER,
        old="start = _at_the_end(scale, epsilon) if after is None else _at_all_points(after, scale)",
        new="start = _at_the_end(scale, epsilon)",
        tests=(f"{_EXACT}::test_later_laws_are_not_taken_from_what_was_chosen",),
    ),
    Fault(
        name="rounds-verifier-any-function",
        breaks=("rounds: declared functions are convex and do not increase",),
        file=_VERIFIER,
        old="if not convex or min(drops) < 0 or declared[0] > UNIT or declared[-1] < 0:",
        new="if declared[0] > UNIT or declared[-1] < 0:",
        tests=(f"{_NUMBERS}::test_functions_are_checked_in_integers",),
    ),
    Fault(
        name="rounds-verifier-delta-not-compared",
        breaks=("rounds: the first function at 1 is at most delta",),
        file=_VERIFIER,
        old="    if worst > delta:\n",
        new="    if worst > 2 * delta:\n",
        tests=(f"{_EXACT}::test_a_law_outside_of_its_declared_function_is_refused",),
    ),
    # ---- what a ledger is told ----
    Fault(
        name="rounds-profile-one-point-too-far",
        breaks=("rounds: the profile in a ledger is above the declared function",),
        file="verifiers/declared_profile.py",
        old="here, after = self.function[place], self.function[place + 1]",
        new="here = after = self.function[place + 1]",
        tests=("tests/exact/test_declared_profile.py::test_profiles_lie_close_above_the_declared_function",),
    ),
    Fault(
        name="rounds-any-profile-in-a-ledger",
        breaks=("rounds: the profile in a ledger is the one that the release declares",),
        file="ledger/ledger.py",
        old='            raise PrivacyViolation("the ledger has another privacy profile than the release declares.")\n',
        new="            pass\n",
        tests=("tests/exact/test_declared_profile.py::test_a_ledger_with_another_profile_did_not_pay_for_the_release",),
    ),
)
