"""Faults in sample-and-threshold, [BC22]."""

from __future__ import annotations

from tests.mutants.fault import Fault

__all__ = ["FAULTS", "WITHOUT_FAULT"]

_LAW = "tests/exact/test_sample_and_threshold.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="sampling-verifier-ratio-of-masses-wrong",
        breaks=("BC22 Lemma 1",),
        file="verifiers/sampling.py",
        old="factor, divisor = s * k, (k - m + 1) << _RATE_BITS",
        new="factor, divisor = s * (k - 1), (k - m + 1) << _RATE_BITS",
        tests=(f"{_LAW}::test_judge_against_enumeration",),
    ),
    Fault(
        name="sampling-verifier-subtracts-too-much",
        breaks=("BC22 Theorem 2",),
        file="verifiers/sampling.py",
        old="found = _up(p * up.mass[1]) - (growth - one) * up.over[0] // one",
        new="found = _up(p * up.mass[1]) - growth * up.over[0] // one",
        tests=(f"{_LAW}::test_judge_against_enumeration",),
    ),
    Fault(
        name="sampling-verifier-looks-one-way",
        breaks=("BC22 Theorem 2",),
        file="verifiers/sampling.py",
        old='"down" not in orders or down_drop >= down_whole',
        new="True",
        tests=(f"{_LAW}::test_the_other_order",),
    ),
    Fault(
        name="sampling-verifier-stops-at-the-first-row",
        breaks=("BC22 Theorem 2",),
        file="verifiers/sampling.py",
        old="up_done = up_rest <= negligible",
        new="up_done = True",
        tests=(f"{_LAW}::test_judge_over_all_frequencies",),
    ),
    Fault(
        name="sampling-verifier-accepts-any-delta",
        breaks=("BC22 Theorem 2",),
        file="verifiers/sampling.py",
        old="    if worst_delta > delta:\n",
        new="    if worst_delta > 1:\n",
        tests=(f"{_LAW}::test_the_judge_refuses",),
    ),
    Fault(
        name="sampling-reports-from-one-below-the-threshold",
        breaks=("BC22 Theorem 2",),
        file="laws/sample_and_threshold.py",
        old="return np.where(sampled >= self.threshold, sampled, 0)",
        new="return np.where(sampled >= self.threshold - 1, sampled, 0)",
        tests=(f"{_LAW}::test_draws_follow_the_rows",),
    ),
    Fault(
        name="sampling-keeps-too-many-units",
        breaks=("BC22 Theorem 2",),
        file="laws/sample_and_threshold.py",
        old="rate = int(self.rate * RATE_UNIT)\n        # How many bits",
        new="rate = int(self.rate * RATE_UNIT * Fraction(11, 10))\n        # How many bits",
        tests=(f"{_LAW}::test_draws_follow_the_rows",),
    ),
    Fault(
        name="rows-kept-at-another-rate-while-reading",
        breaks=("BC22 Theorem 2",),
        file="summaries/row_sample.py",
        old="np.uint32(rate * (1 << RATE_BITS))",
        new="np.uint32(rate * (1 << RATE_BITS) * 11 / 10)",
        tests=(f"{_LAW}::test_rows_sampled_while_reading",),
    ),
    Fault(
        name="coins-of-even-rates-wrong",
        breaks=("BC22 Theorem 2",),
        file="randomness/thinning.py",
        old="            open_trials = open_trials - zeros\n",
        new="            open_trials = zeros\n",
        tests=(f"{_LAW}::test_coins_enumerated",),
    ),
    Fault(
        name="printed-constant-of-lemma-3",
        breaks=("BC22 Lemma 3",),
        file="studies/baselines/sample_and_threshold.py",
        old="return math.log(1 / alpha) - 1 / (1 + alpha)",
        new="return math.log(1 / alpha) - 1 / (2 + alpha)",
        tests=(f"{_LAW}::test_thresholds_printed_and_exact",),
    ),
    Fault(
        name="devices-take-part-at-the-rate-of-all-when-few-are-asked",
        breaks=("BC22 Lemma 4",),
        file="federated/client.py",
        old="draw_integers(call.coin_of, len(asked), self._bits)",
        new="draw_integers(1 << 32, len(asked), self._bits)",
        tests=("tests/federated/test_client.py::test_contacting_fewer_gives_a_release_of_the_same_law",),
    ),
    Fault(
        name="too-few-devices-asked",
        breaks=("BC22 Lemma 4",),
        file="federated/server.py",
        old="units = math.ceil(exact * (1 + Fraction(wide, root)) * RATE_UNIT)",
        new="units = math.ceil(exact * RATE_UNIT)",
        tests=("tests/federated/test_client.py::test_enough_to_contact",),
    ),
    Fault(
        name="chance-to-be-reported-one-off",
        breaks=("BC22 Lemma 5",),
        file="laws/sample_and_threshold.py",
        old="return Fraction(sum(masses[self.threshold :]), whole)",
        new="return Fraction(sum(masses[self.threshold + 1 :]), whole)",
        tests=(f"{_LAW}::test_rows_and_reporting",),
    ),
    Fault(
        name="frequency-of-a-value-not-scaled-by-the-rate",
        breaks=("BC22 Lemma 6",),
        file="laws/sample_and_threshold.py",
        old="return math.floor(value / self.rate)",
        new="return math.floor(value / self.rate * Fraction(3, 2))",
        tests=(f"{_LAW}::test_lemma_6",),
    ),
    Fault(
        name="one-round-forgotten",
        breaks=("BC22 Lemma 7",),
        file="verifiers/rounds.py",
        old="for _ in range(rounds - 1):",
        new="for _ in range(rounds - 2):",
        tests=("tests/exact/test_heavy_hitters.py::test_two_rounds_against_enumeration",),
    ),
    Fault(
        name="rounds-accept-any-delta",
        breaks=("BC22 Lemma 7",),
        file="verifiers/rounds.py",
        old="    if total > delta:\n",
        new="    if total > 1:\n",
        tests=("tests/exact/test_heavy_hitters.py::test_composed_judge_refuses_the_next_rate",),
    ),
    Fault(
        name="prefixes-reported-from-one-below-the-threshold",
        breaks=("BC22 Lemma 7",),
        file="laws/prefix_rounds.py",
        old="if count >= self.plan.law.threshold:",
        new="if count >= self.plan.law.threshold - 1:",
        tests=("tests/publishing/test_heavy_hitters.py::test_counts_below_the_threshold_are_dropped",),
    ),
    Fault(
        name="votes-kept-at-another-rate",
        breaks=("BC22 Lemma 7",),
        file="mechanisms/prefixes.py",
        old="int(asked.rate * (1 << RATE_BITS)), bits)",
        new="int(asked.rate * (1 << RATE_BITS)) * 5 // 4, bits)",
        tests=("tests/publishing/test_heavy_hitters.py::test_votes_are_kept_at_the_rate",),
    ),
    Fault(
        name="search-made-for-one-round",
        breaks=("BC22 Lemma 8",),
        file="laws/quantile_search.py",
        old="made = make_tree_law(epsilon, delta, levels=self.rounds, mechanism=mechanism, rate=rate)",
        new="made = make_tree_law(epsilon, delta, levels=1, mechanism=mechanism, rate=rate)",
        tests=("tests/exact/test_range_law.py::test_searches_share_their_budget_between_rounds",),
    ),
    Fault(
        name="search-goes-the-other-way",
        breaks=("BC22 Lemma 8",),
        file="laws/quantile_search.py",
        old="        if upper < float(self.q):\n            self._left = split",
        new="        if upper < float(self.q):\n            self._right = split",
        tests=("tests/releases/test_ranges.py::test_a_search_finds_the_quantile",),
    ),
    Fault(
        name="tree-made-for-one-level",
        breaks=("BC22 Lemma 9",),
        file="laws/range_trees.py",
        old="one_law(Request(exact, whole or None, max_keys_per_unit=levels))",
        new="one_law(Request(exact, whole or None, max_keys_per_unit=1))",
        tests=("tests/exact/test_range_law.py::test_whole_trees_of_neighbours_are_private",),
    ),
    Fault(
        name="tree-verified-for-one-level",
        breaks=("BC22 Lemma 9",),
        file="laws/specs/copies.py",
        old="found = certify_copies(law.certify(), copies=keys, epsilon=epsilon, delta=delta)",
        new="found = certify_copies(law.certify(), copies=1, epsilon=epsilon, delta=delta)",
        tests=("tests/exact/test_range_law.py::test_a_budget_for_one_level_does_not_pass_for_two",),
    ),
    Fault(
        name="one-coin-for-all-levels",
        breaks=("BC22 Lemma 9",),
        file="mechanisms/ranges.py",
        old="        released.append(question.law.draw_nodes(counts, bits))\n",
        new=(
            "        counts = counts if released else question.law.draw_nodes(counts, bits)\n"
            "        released.append(counts)\n"
        ),
        tests=("tests/exact/test_range_law.py::test_every_level_has_coins_of_its_own",),
    ),
    Fault(
        name="hidden-nodes-taken-for-empty",
        breaks=("BC22 Lemma 9",),
        file="laws/node_sums.py",
        old="upper_of_binomial(sums + hidden * (self._threshold - 1), self._rate, error)",
        new="upper_of_binomial(sums, self._rate, error)",
        tests=("tests/exact/test_range_law.py::test_sums_of_nodes_are_covered_exactly",),
    ),
)

WITHOUT_FAULT: dict[str, str] = {
    "BC22 Figure 1": "a picture of errors of laws that have faults of their own",
    "BC22 Figure 2": "a picture of errors of laws that have faults of their own",
}
