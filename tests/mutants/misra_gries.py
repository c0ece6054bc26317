"""Faults in private Misra-Gries sketches, [LT25].

The sketches themselves are compiled, and a fault here is a change of Python text: what is broken of them is what is
read from them and handed on.
"""

from __future__ import annotations

from tests.mutants.fault import Fault

__all__ = ["FAULTS", "WITHOUT_FAULT"]

_LAWS = "tests/exact/test_sketch_laws.py"
_NOISE = "tests/exact/test_sketch_noise.py"
_LEMMAS = "tests/exact/test_sketch_lemmas.py"
_SKETCHES = "tests/summaries/test_sketches.py"
_RELEASES = "tests/publishing/test_sketch_releases.py"

FAULTS: tuple[Fault, ...] = (
    # ---- sketches ----
    Fault(
        name="sketch-zero-counters-are-not-handed-over",
        breaks=("LT25 Algorithm 1", "LT25 Lemma 8"),
        file="summaries/counter_sketch.py",
        old="return SketchContents(keys, counts, self.decrements, 1)",
        new="return SketchContents(keys.filter(pa.array(counts > 0)), counts[counts > 0], self.decrements, 1)",
        tests=(f"{_LAWS}::test_a_mechanism_is_handed_algorithm_1_with_its_zero_counters",),
    ),
    Fault(
        name="sketch-falls-short-by-one-more-than-told",
        breaks=("LT25 Fact 7", "LT25 Lemma 29"),
        file="summaries/counter_sketch.py",
        old="        return self.decrements\n",
        new="        return max(0, self.decrements - 1)\n",
        tests=(f"{_SKETCHES}::test_bounds_contain_the_truth",),
    ),
    Fault(
        name="sketch-of-units-falls-short-by-one-more",
        breaks=("LT25 Lemma 26",),
        file="summaries/counter_sketch.py",
        old="        return self.decrements\n",
        new="        return max(0, self.decrements - 1)\n",
        tests=(f"{_SKETCHES}::test_user_bounds_contain_the_truth",),
    ),
    Fault(
        name="sketch-merge-forgets-the-last-one",
        breaks=("LT25 Lemma 17", "LT25 Corollary 28"),
        file="summaries/counter_sketch.py",
        old="            for sketch in sketches:\n                if sketch._native is not None:",
        new="            for sketch in sketches[:-1] or sketches:\n                if sketch._native is not None:",
        tests=(f"{_SKETCHES}::test_merging_leaves_the_sketches_alone",),
    ),
    Fault(
        name="sketch-of-units-splits-a-unit",
        breaks=("LT25 Algorithm 4", "LT25 Lemma 27"),
        file="summaries/user_misra_gries.py",
        old="            ends.append(len(keys))\n",
        new="            ends += range(ends[-1] + 1, len(keys) + 1) if len(keys) > ends[-1] else [ends[-1]]\n",
        tests=(f"{_SKETCHES}::test_user_bounds_contain_the_truth",),
    ),
    Fault(
        name="sketch-of-units-like-one-of-elements",
        breaks=("LT25 Lemma 25",),
        file="summaries/user_misra_gries.py",
        old="            ends.append(len(keys))\n",
        new="            ends += range(ends[-1] + 1, len(keys) + 1) if len(keys) > ends[-1] else [ends[-1]]\n",
        tests=(f"{_LAWS}::test_an_ordinary_sketch_of_units_may_differ_by_all_their_keys",),
    ),
    Fault(
        name="sketch-reduced-by-a-share-rounded-down",
        breaks=("LT25 Algorithm 3",),
        file="summaries/misra_gries.py",
        old="scaled = counts * np.int64(self.capacity + 1) - counts.sum()",
        new="scaled = (counts - counts.sum() // (self.capacity + 1)) * np.int64(self.capacity + 1)",
        tests=(f"{_LAWS}::test_the_distance_that_noise_is_made_for_is_the_largest_there_is",),
    ),
    Fault(
        name="sketch-summed-falls-short-by-less",
        breaks=("LT25 Lemma 15",),
        file="summaries/summed_sketches.py",
        old="most = -(-(self._scaled + self.total) // (self.capacity + 1))",
        new="most = self._scaled // (self.capacity + 1)",
        tests=(f"{_RELEASES}::test_bounds_of_summed_sketches_contain_the_truth",),
    ),
    Fault(
        name="sketch-distance-of-reduced-counters-is-one",
        breaks=("LT25 Lemma 16", "LT25 Definition 6"),
        file="laws/summed_noise.py",
        old="return elements * Fraction(max(1, 2 * capacity - 1), capacity + 1)",
        new="return elements * Fraction(1)",
        tests=(f"{_LAWS}::test_the_distance_that_noise_is_made_for_is_the_largest_there_is",),
    ),
    Fault(
        name="sketch-distance-of-summed-counters-is-one",
        breaks=("LT25 Lemma 16",),
        file="laws/summed_noise.py",
        old="return reduced_distance(self.capacity, self.elements)",
        new="return self.elements * Fraction(1)",
        tests=(f"{_LAWS}::test_the_distance_that_noise_is_made_for_is_the_largest_there_is",),
    ),
    # ---- own noise, and noise for all ----
    Fault(
        name="sketch-noise-shrinks-too-fast",
        breaks=("LT25 Definition 5",),
        file="laws/tables/two_sided_geometric.py",
        old="masses.append(-(-masses[-1] * one // top))",
        new="masses.append(-(-masses[-1] * one // (2 * top)))",
        tests=("tests/exact/test_stability.py::test_the_noise_is_two_sided_geometric",),
    ),
    Fault(
        name="sketch-no-shared-noise",
        breaks=("LT25 Algorithm 2",),
        file="laws/shared_noise.py",
        old="return self._certified.draw_above(counters + shared, self.threshold, bits)",
        new="return self._certified.draw_above(counters + 0 * shared, self.threshold, bits)",
        tests=(f"{_LAWS}::test_a_release_is_drawn_as_algorithm_2_says",),
    ),
    Fault(
        name="sketch-threshold-not-kept-when-drawing",
        breaks=("LT25 Algorithm 2",),
        file="laws/shared_noise.py",
        old="return self._certified.draw_above(counters + shared, self.threshold, bits)",
        new="return self._certified.draw_above(counters + shared, max(1, self.threshold - 1), bits)",
        tests=(f"{_LAWS}::test_a_release_is_drawn_as_algorithm_2_says",),
    ),
    Fault(
        name="sketch-verifier-forgets-the-end-of-the-noise",
        breaks=("LT25 Lemma 9", "LT25 Corollary 10"),
        file="verifiers/sketches.py",
        old="one_element = reported + _step_loss(masses, share)",
        new="one_element = reported",
        tests=(
            f"{_NOISE}::test_no_pair_of_neighbouring_streams_exceeds_what_the_judge_states",
            f"{_NOISE}::test_wrong_tables_are_refused",
        ),
    ),
    Fault(
        name="sketch-verifier-takes-a-counter-of-one-for-zero",
        breaks=("LT25 Lemma 11",),
        file="verifiers/sketches.py",
        old="_power(at_most(threshold - 2 - shared), ones)",
        new="_power(at_most(threshold - 1 - shared), ones)",
        tests=(f"{_NOISE}::test_the_reported_probability_is_that_of_two_paired_keys",),
    ),
    Fault(
        name="sketch-threshold-one-too-low",
        breaks=("LT25 Lemma 12", "LT25 Definition 4"),
        file="laws/shared_noise.py",
        old="lambda least: not leaks(least), 1,",
        new="lambda least: not leaks(least + 1), 1,",
        tests=(f"{_NOISE}::test_thresholds_are_the_known_ones_and_the_smallest",),
    ),
    Fault(
        name="sketch-verifier-counts-a-group-as-one",
        breaks=("LT25 Lemma 19", "BV19 Lemma 2.3"),
        file="verifiers/sketches.py",
        old="        power = -(-power * top // one)\n        total += power",
        new="        power = -(-power * top // one)\n        total += 0",
        tests=(f"{_LAWS}::test_streams_that_differ_by_a_units_elements_keep_the_guarantee",),
    ),
    Fault(
        name="sketch-verifier-gives-a-group-all-of-epsilon-each",
        breaks=("LT25 Lemma 20", "LT25 Corollary 21"),
        file="verifiers/sketches.py",
        old="    share = epsilon / elements\n",
        new="    share = epsilon\n",
        tests=(f"{_LAWS}::test_streams_that_differ_by_a_units_elements_keep_the_guarantee",),
    ),
    Fault(
        name="sketch-elements-of-a-unit-ignored-over-a-universe",
        breaks=("LT25 Lemma 22",),
        file="laws/specs/misra_gries.py",
        old="distance = reduced_distance(sketch.capacity, elements)",
        new="distance = reduced_distance(sketch.capacity, 1)",
        tests=(f"{_LAWS}::test_noisy_counters_over_a_universe_are_pure_for_a_units_elements",),
    ),
    Fault(
        name="sketch-counters-over-a-universe-rounded-down",
        breaks=("LT25 Lemma 22",),
        file="mechanisms/sketches.py",
        old="rounded = (scaled + draw_integers(parts, len(scaled), bits).astype(np.int64)) // parts",
        new="rounded = (scaled + 0 * draw_integers(parts, len(scaled), bits).astype(np.int64)) // parts",
        tests=(f"{_LAWS}::test_noisy_counters_over_a_universe_are_pure_for_a_units_elements",),
    ),
    Fault(
        name="sketch-summed-counters-rounded-down",
        breaks=("LT25 Algorithm 3",),
        file="laws/summed_noise.py",
        old="rounded = (scaled * grid + draw_integers(parts, len(scaled), bits).astype(np.int64)) // parts",
        new="rounded = (scaled * grid + 0 * draw_integers(parts, len(scaled), bits).astype(np.int64)) // parts",
        tests=("tests/statistical/test_sketch_draws.py::test_fractions_are_rounded_without_bias",),
    ),
    # ---- merged sketches, and sketches of units ----
    Fault(
        name="sketch-gaussian-noise-for-one-counter",
        breaks=("LT25 Corollary 18", "LT25 Theorem 30"),
        file="laws/specs/misra_gries.py",
        old="gaussian = GaussianHistogram(epsilon, delta, capacity)",
        new="gaussian = GaussianHistogram(epsilon, delta, 1)",
        tests=(f"{_LAWS}::test_noise_of_merged_sketches_is_made_for_all_counters",),
    ),
    Fault(
        name="sketch-shared-budget-for-one-counter",
        breaks=("LT25 Lemma 27", "LT25 Corollary 28"),
        file="laws/specs/misra_gries.py",
        old="shared = WeightedSample(*share_between_keys(epsilon, delta, capacity))",
        new="shared = WeightedSample(epsilon, delta)",
        tests=(f"{_LAWS}::test_noise_of_merged_sketches_is_made_for_all_counters",),
    ),
    Fault(
        name="gaussian-verifier-looks-at-one-end-only",
        breaks=("LT25 Theorem 23",),
        file="verifiers/gaussian.py",
        old="        if last.upper() > best.upper():\n",
        new="        if False:\n",
        tests=("tests/exact/test_gaussian_histogram.py::test_intervals_lose_nothing",),
    ),
    # ---- errors ----
    Fault(
        name="sketch-error-of-one-counter-for-all",
        breaks=("LT25 Lemma 13", "LT25 Theorem 14", "LT25 Theorem 30"),
        file="estimates/sketch_error.py",
        old="law.counter_error(beta, counters)",
        new="law.counter_error(beta, 1)",
        tests=(f"{_LAWS}::test_the_stated_error_is_exceeded_as_seldom_as_stated",),
    ),
    Fault(
        name="sketch-shortfall-told-with-half-the-noise",
        breaks=("LT25 Theorem 14",),
        file="laws/shortfall.py",
        old="return math.ceil(1 / (low - 1))",
        new="return math.ceil(1 / (2 * (low - 1)))",
        tests=(f"{_LAWS}::test_what_is_told_of_the_shortfall_is_private",),
    ),
)

WITHOUT_FAULT: dict[str, str] = {
    "LT25 Theorem 1": "stated again as Theorem 14",
    "LT25 Theorem 2": "stated again as Lemmas 25 to 27",
    "LT25 Definition 3": "a definition",
    "LT25 Lemma 24": "printed parameters that are not used; the test compares them with those that are",
}
