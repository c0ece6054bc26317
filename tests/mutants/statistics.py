"""Faults of sums, means and totals: what a unit adds, what is clipped, what is paid for, and intervals."""

from __future__ import annotations

from tests.mutants.fault import Fault

__all__ = ["FAULTS"]

_VERIFIER, _LAW, _VALUES = "verifiers/joint_noise.py", "laws/statistics_law.py", "summaries/pair_values.py"
_PAIRS = "summaries/unit_pairs.py"
_ENUMERATED = "tests/exact/test_joint_noise.py::test_no_enumerated_divergence_exceeds_the_bound"
_DISTANCE = "tests/exact/test_joint_noise.py::test_the_distance_is_exact"
_NEIGHBOURS = "tests/summaries/test_pair_values.py::test_one_unit_more_moves_no_more_than_its_limits"
_SUMS = "tests/summaries/test_pair_values.py::test_sums_are_those_of_dictionaries"
_COVERED = "tests/estimates/test_statistics.py::test_intervals_of_keys_hold"

FAULTS: tuple[Fault, ...] = (
    # ---- what a unit adds ----
    Fault(
        name="statistics-values-not-clipped",
        breaks=("statistics: a unit adds at most 2^30 steps to the sum of a column",),
        file=_VALUES,
        old="CAST(least(greatest({inside}, -{FINE}), {FINE}) AS INTEGER)",
        new="CAST(least(greatest(4 * ({inside}), -{2 * FINE - 1}), {2 * FINE - 1}) AS INTEGER)",
        tests=(_SUMS, "tests/summaries/test_pair_values.py::test_sums_do_not_overflow"),
    ),
    Fault(
        name="statistics-range-ignored",
        breaks=("statistics: values are clipped into the stated range",),
        file=_VALUES,
        old='inside = f"least(greatest({value}, {low}), {high}) - {centre}"',
        new='inside = f"{value} - {centre}"',
        tests=(_SUMS,),
    ),
    Fault(
        name="statistics-rows-not-bounded",
        breaks=("statistics: a unit adds at most as many rows to a key as is stated",),
        file=_VALUES,
        old="np.minimum(values[0][chosen], part.limit)",
        new="np.minimum(values[0][chosen], 10 * part.limit)",
        tests=(_NEIGHBOURS, _SUMS),
    ),
    Fault(
        name="statistics-other-not-capped",
        breaks=("statistics: a unit adds at most its cap to what was not found",),
        file=_PAIRS,
        old='others += int(np.minimum(sizes - theirs, limit.get("other", 0)).sum())',
        new="others += int((sizes - theirs).sum())",
        tests=(_NEIGHBOURS, _SUMS),
    ),
    Fault(
        name="statistics-all-found-keys-of-a-unit",
        breaks=("statistics: a unit adds to at most l found keys",),
        file=_PAIRS,
        old="                chosen = chosen[_kept(theirs, kept, bits)]\n",
        new="                pass\n",
        tests=(_NEIGHBOURS,),
    ),
    Fault(
        name="statistics-nulls-and-values-at-once",
        breaks=("statistics: for one key a unit adds to values or to nulls, never to both",),
        file=_VALUES,
        old='return nulls if part.kind == "nulls" else clipped',
        new='return np.ones_like(nulls) if part.kind == "nulls" else clipped',
        tests=(_NEIGHBOURS, _SUMS),
    ),
    Fault(
        name="statistics-not-a-number-counts",
        breaks=("statistics: NaN is no value",),
        file="sources/columns.py",
        old="IS NOT NULL AND NOT isnan({number})",
        new="IS NOT NULL",
        tests=(_SUMS,),
    ),
    Fault(
        name="statistics-equal-rows-of-a-unit-counted-once",
        breaks=("statistics: equal rows of a unit count one by one",),
        file="sources/selection.py",
        old="return self.unit is not None and not self.every_row",
        new="return self.unit is not None",
        tests=("tests/publishing/test_statistics.py::test_every_source_gives_the_same_release",),
    ),
    # ---- what is paid for ----
    Fault(
        name="statistics-verifier-sensitivity-halved",
        breaks=("statistics: what a unit moves is the limit over the grain, rounded up",),
        file=_VERIFIER,
        old="return -(-self.limit // self.grain)",
        new="return max(1, -(-self.limit // self.grain) // 2)",
        tests=(_DISTANCE, _ENUMERATED),
    ),
    Fault(
        name="statistics-verifier-grain-rounded-down",
        breaks=("statistics: what a unit moves is the limit over the grain, rounded up",),
        file=_VERIFIER,
        old="return -(-self.limit // self.grain)",
        new="return max(1, self.limit // self.grain)",
        tests=(_DISTANCE,),
    ),
    Fault(
        name="statistics-verifier-other-unpaid",
        breaks=("statistics: units and other are part of the distance",),
        file=_VERIFIER,
        old="(part.square for part in parts if part.kind in _OF_ALL)",
        new='(part.square for part in parts if part.kind == "all_units")',
        tests=(_DISTANCE, _ENUMERATED),
    ),
    Fault(
        name="statistics-verifier-nulls-unpaid",
        breaks=("statistics: nulls with less noise than values cost their own",),
        file=_VERIFIER,
        old="key += max(part.square, nulls.get(place, Fraction(0)))",
        new="key += part.square",
        tests=(_DISTANCE, _ENUMERATED),
    ),
    Fault(
        name="statistics-verifier-one-key-of-a-unit",
        breaks=("statistics: all found keys of a unit are part of the distance",),
        file=_VERIFIER,
        old="return stage.differing * key + sum(",
        new="return key + sum(",
        tests=(_DISTANCE, _ENUMERATED),
    ),
    Fault(
        name="statistics-verifier-limit-of-values-believed",
        breaks=("statistics: what a unit adds to a sum does not come from the file",),
        file=_VERIFIER,
        old='limit = 1 if part.kind in _ONES else LARGEST_VALUE if part.kind == "values" else part.limit',
        new="limit = part.limit",
        tests=("tests/exact/test_joint_noise.py::test_forged_parts_are_refused",),
    ),
    Fault(
        name="statistics-verifier-table-of-one-part-only",
        breaks=("statistics: the distance of every table from Gaussian noise is paid for",),
        file="verifiers/gaussian.py",
        old="less = sum((noise.numbers * each[1] for noise, each in zip(noises, distances, strict=True)), Fraction(0))",
        new="less = Fraction(0)",
        tests=("tests/exact/test_key_rounds_numbers.py",),
    ),
    # ---- what is drawn and said ----
    Fault(
        name="statistics-one-draw-for-all-keys",
        breaks=("statistics: noise is drawn for every key on its own",),
        file=_LAW,
        old="drawn[part.name] = part.quotients(sums[part.name]) + noise",
        new="drawn[part.name] = part.quotients(sums[part.name]) + noise[:1]",
        tests=(_COVERED,),
    ),
    Fault(
        name="statistics-intervals-of-means-too-narrow",
        breaks=("statistics: the interval of a mean holds for the ratio",),
        file="estimates/statistics.py",
        old="constant = (deviation + error) ** 2",
        new="constant = (deviation / 2 + error) ** 2",
        tests=(_COVERED,),
    ),
)
