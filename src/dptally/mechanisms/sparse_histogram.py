"""Pure differential privacy over a universe of keys far too large to go through."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_epsilon
from dptally.laws.top_k_noise import TopKNoise
from dptally.mechanisms.base import Counted, Drawn
from dptally.privacy.composition import LARGEST_UNIT
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Part, Spending
from dptally.randomness.geometric import LARGEST
from dptally.randomness.integers import draw_distinct, whole_numbers
from dptally.randomness.order_statistics import top_order_statistics
from dptally.verifiers.pure import certify_pure_copies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.laws.clamped_geometric import ClampedGeometric
    from dptally.randomness import BitSource
    from dptally.universes import Universe
    from dptally.verifiers.tables import Certificate

__all__ = ["NumberedMechanism", "SparseHistogram", "draw_release"]


class NumberedMechanism(Protocol):
    """A pure mechanism that draws from counts of numbered keys."""

    @property
    def name(self) -> str:
        """As it is asked for."""

    epsilon: Fraction
    universe: Universe
    max_keys_per_unit: int
    law: TopKNoise
    certificate: Certificate

    def draw_bins(
        self, numbers: NDArray[Any], counts: NDArray[np.int64], bits: BitSource
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """From numbers of keys, increasing, and their counts to those that are released, increasing."""


class SparseHistogram:
    """Add noise to the count of every key of a universe, and release the heaviest.

    The law. Every key x of the universe X, whether anybody has it or not, gets a noisy count clamp(c_x + Z_x) in 0 ..
    bound, the Z_x independent and two-sided geometric (`ClampedGeometric`). Released are the keys whose noisy count is
    above the (keep + 1)-th largest one (above 0 if there are not so many keys), with it: at most `keep`. Ties with the
    (keep + 1)-th largest are left out, all of them, whoever has them. This is KeepHeavy [BV19, Alg. 6.1] with a public
    cap in place of the number of rows, which is private when rows may be added or removed.

    Keys that nobody has may be released. It cannot be otherwise with delta = 0: a key that appears only if somebody has
    it gives that somebody away. `law.significant_value` says from which value on a released key is real, all of them at
    once, with a stated probability; cutting there is free.

    Guarantee:
        epsilon-differential privacy (delta = 0) for adding or removing one unit that raises the counts of at most
        `max_keys_per_unit` = l keys by one each. Each noisy count changes its probabilities by a factor of at most
        e^(epsilon / l), at most l of them are touched, and they are independent: the whole noisy histogram is epsilon-
        differentially private. What is released is a function of it alone. Nothing else is used: the cap, the bound and
        the universe are public, and rows outside the universe are left out without a word, since a refusal would tell
        that they exist. For l keys nothing better than epsilon / l is possible with independent noise of this kind: the
        outcome that all l counts end up at `bound` attains the product of the factors.

        The noisy histogram is never made. Let A be the keys that somebody has. The noisy counts of all other keys are
        independent and alike, so their keep + 1 largest are order statistics of |X| - |A| draws, and the keys that have
        them are, independently of the values, a uniformly random *sequence* of distinct keys outside A (KH' [BV19,
        Alg. 6.4, Prop. 6.5]). The keep + 1 largest of all noisy counts are among those of A and these. So the released
        table has exactly the law above, whatever the size of X; |X| >= keep + 1 is not needed, for the order statistics
        are then simply all there are. Labels are drawn only for those keys that are released.

    Error:
        See `TopKNoise`, the law: `key_error`, `reported_from` and `simultaneous_error`, all for at most `keep`
        distinct keys in the data; [BV19, Thm. 6.11] is beside them as `printed_errors`, and [BV19, Thm. 7.2], which
        says that no release of at most `keep` keys does better than about half of that, as `least_possible_error`.

    Cost:
        Time and memory linear in the number of distinct keys and `keep` (and the time to sort), and in log |X|. The
        time depends on the number of distinct keys and on the noise; `strict_sparse` has a version of fixed time.

    References:
        [BV19, section 6].

    Args:
        epsilon: for the unit.
        universe: all keys there may be.
        keep: how many keys are released at most. Public: choose it without looking.
        max_keys_per_unit: bound on what one unit touches.
        bound: largest value released. Public.
    """

    name = "sparse"

    def __init__(
        self,
        epsilon: object,
        *,
        universe: Universe,
        keep: int,
        max_keys_per_unit: int = 1,
        bound: int = LARGEST,
    ) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.universe = universe
        self.max_keys_per_unit = as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT)
        key_epsilon = self.epsilon / self.max_keys_per_unit
        self.law = TopKNoise(key_epsilon, size=universe.size, keep=keep, bound=bound, universe=universe.name)
        self.keep = self.law.keep
        self._noise = cast("ClampedGeometric", self.law.noise)  # what is judged is what is drawn from
        self.certificate: Certificate = certify_pure_copies(
            self.law.certify(), copies=self.max_keys_per_unit, epsilon=self.epsilon
        )

    def __repr__(self) -> str:
        return f"SparseHistogram(epsilon={self.epsilon}, universe={self.universe.name!r}, keep={self.keep})"

    # ---- drawing ----

    @property
    def spends(self) -> Spending:
        """What a draw spends."""
        return Spending(self.name, self.epsilon, Fraction(0), (Part(self.epsilon, Fraction(0)),))

    def draw(self, frequencies: Counted, bits: BitSource) -> Drawn:
        """Draw once; see `draw_release`."""
        return draw_release(self, frequencies, bits)

    def draw_bins(
        self, numbers: NDArray[Any], counts: NDArray[np.int64], bits: BitSource
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Draw from counts of numbered keys.

        Postcondition: for uniform words the result follows the law of the class exactly.

        Args:
            numbers: of the keys somebody has; distinct, increasing, in the type of `whole_numbers`.
            counts: from 0 to 2^62.
            bits: the source of randomness.

        Returns:
            Numbers of the released keys, increasing, and their noisy counts.
        """
        noisy = self._noise.draw(counts, bits)
        others = top_order_statistics(self._noise, self.universe.size - len(numbers), self.keep + 1, bits)
        together = np.concatenate([noisy, others])
        cut = 0
        if len(together) > self.keep:
            place = len(together) - self.keep - 1
            cut = int(np.partition(together, place)[place])
        released = noisy > cut
        others = others[others > cut]
        labels = draw_distinct(self.universe.size, numbers, len(others), bits)
        kept = np.concatenate([numbers[released], labels])
        order = np.argsort(kept, kind="stable")
        return kept[order], np.concatenate([noisy[released], others])[order]


def draw_release(mechanism: NumberedMechanism, frequencies: Counted, bits: BitSource) -> Drawn:
    """Number the keys, draw once, and name what is released.

    Rows leave in the order of their keys. All keys are written from their numbers, so that those somebody has look like
    those nobody has. Keys outside the universe are left out.

    Raises:
        InvalidParameter: if the frequencies are not what the mechanism protects.
        InvalidSource: if the type of the key column cannot hold keys of the universe.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if frequencies.max_keys_per_unit > mechanism.max_keys_per_unit:
        raise InvalidParameter(
            f"the mechanism protects units with at most {mechanism.max_keys_per_unit} keys, "
            f"but contributions were bounded at {frequencies.max_keys_per_unit}."
        )
    if frequencies.scheme is not None:
        raise InvalidParameter(f"the mechanism {mechanism.name!r} does not take sampled keys.")
    if len(frequencies.key) != 1:
        raise InvalidParameter(
            f"the mechanism {mechanism.name!r} takes one key column, got {len(frequencies.key)}: a universe numbers "
            "single keys."
        )
    universe, column = mechanism.universe, frequencies.key[0]
    numbers, values = mechanism.draw_bins(*_number_keys(universe, frequencies), bits)
    rows = pa.table({column: universe.keys(numbers), "value": pa.array(values, type=pa.int64())})
    rows = rows.take(pc.sort_indices(rows, sort_keys=[(column, "ascending")])).combine_chunks()
    guarantee = Guarantee(
        epsilon=mechanism.epsilon,
        delta=Fraction(0),
        unit=frequencies.unit,
        max_keys_per_unit=mechanism.max_keys_per_unit,
        mechanism=mechanism.name,
        private=bits.private,
    )
    return Drawn(rows, guarantee, mechanism.certificate, mechanism.law)


def _number_keys(universe: Universe, frequencies: Counted) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Numbers of the keys inside the universe, increasing, and their counts."""
    numbers = [whole_numbers([], universe.size)]
    counts = [np.empty(0, dtype=np.int64)]
    for keys, found in frequencies.batches():
        there, inside = universe.indices(keys.column(0))
        numbers.append(there[inside])
        counts.append(found[inside])
    together = np.concatenate(numbers)
    order = np.argsort(together, kind="stable")
    return together[order], np.concatenate(counts)[order]
