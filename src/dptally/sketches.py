"""Sketches of streams that can be published: the summaries of `dptally.summaries` with `publish`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from dptally.errors import InvalidParameter
from dptally.exact import as_epsilon, as_fraction
from dptally.laws.specs.misra_gries import SketchFacts, SketchSpec
from dptally.mechanisms.registry import draw
from dptally.publishing import publish_spec
from dptally.randomness import read_bits
from dptally.releases.table_release import RESERVED_COLUMNS, TableRelease
from dptally.sources.filters import Filter
from dptally.summaries.misra_gries import MisraGries
from dptally.summaries.sketch_files import read_sketch_file
from dptally.summaries.summed_sketches import SummedCounters
from dptally.summaries.user_misra_gries import UserMisraGries
from dptally.universes import read_universe

if TYPE_CHECKING:
    from dptally.laws.spec import Question, Spec
    from dptally.ledger.paying import AnyLedger, Paid
    from dptally.progress import Progress
    from dptally.randomness import BitSource
    from dptally.summaries.sketch_files import SketchContents


def publish_sketch(
    sketch: MisraGries | UserMisraGries | SummedCounters,
    epsilon: float | str | Fraction,
    delta: float | str | Fraction | None = None,
    *,
    universe: Any = None,
    name: str | None = None,
    unit: str | None = None,
    elements_per_unit: int = 1,
    shortfall: Literal["private"] | int | None = "private",
    minimise: Literal["threshold", "error"] = "threshold",
    ledger: AnyLedger | None = None,
    randomness: BitSource | None = None,
) -> TableRelease:
    """Release a sketch privately, by the mechanism that fits what it is; see `dptally.laws.specs.misra_gries`.

    Everything is certified before counters are read.

    Args:
        sketch: of any form.
        epsilon: positive; a float means its exact binary value, ``"0.1"`` means 1/10.
        delta: the probability with which the guarantee may fail; left out with a universe.
        universe: all keys there may be, as a name such as "ipv4" or an object of `dptally.universes`: then the
            release keeps delta = 0, and may hold keys that are not in the data; not for merged sketches and sketches
            of users.
        name: of the key column in the release; that of the column it was read from if it is left out, or "key".
        unit: what units are called, for sketches of users; left out, it is the name of their column, or "unit".
        elements_per_unit: how many elements of one unit the stream may hold, equal ones or not; not for merged
            sketches and sketches of users.
        shortfall: "private" spends a twentieth of epsilon on telling how far counters fall short of true counts; a
            number states it (public, and not checked); None leaves it open.
        minimise: "threshold" or "error", where there is a choice of noise.
        ledger: what the release spends from; as in `dptally.publish`. A sketch that is published twice pays twice.
        randomness: None for secret bits of the operating system; `SeededBits` makes the release repeatable and
            therefore not private.

    Raises:
        InvalidParameter: a request that cannot be met.
        PrivacyViolation: a table that does not pass the verifier; nothing has been drawn.
    """
    if name in RESERVED_COLUMNS:
        raise InvalidParameter(f"a key column may not be named {name!r}: the release has a column of that name.")
    key_name, unit_name, where = sketch.names
    column = name or (key_name if key_name and key_name not in RESERVED_COLUMNS else "key")
    by_unit = sketch.form == "user"
    if unit is not None and not by_unit:
        raise InvalidParameter("unit is for sketches of users; in this one every element is a unit of its own.")
    unit = (unit or unit_name or "unit") if by_unit else None
    facts = SketchFacts(sketch.form, sketch.capacity, sketch.max_keys_per_unit or 0, sketch.sketches)
    known = read_universe(universe) if isinstance(universe, str) else universe
    spec = SketchSpec(
        facts,
        as_epsilon(epsilon),
        None if delta is None else as_fraction("delta", delta),
        universe=known,
        elements_per_unit=elements_per_unit,
        shortfall=shortfall,
        minimise=minimise,
    )
    if known is not None:
        # Refuses keys of another type now: before anything is spent, and whether or not the sketch holds any.
        known.indices(pa.array([], sketch.key_type))
    released: TableRelease = publish_spec(
        spec,
        lambda paid: OpenedSketch(sketch, column, reduced=spec.reduced),
        unit=unit,
        bits=read_bits(randomness),
        ledger=ledger,
        progress=False,
        private=sketch.private,
        where=None if where is None else Filter(where, (), None),
    )
    return released


class OpenedSketch:
    """A sketch that answers the questions of a release."""

    def __init__(self, sketch: MisraGries | UserMisraGries | SummedCounters, column: str, *, reduced: bool) -> None:
        self.key = (column,)
        self._sketch, self._reduced = sketch, reduced
        self._contents: SketchContents | None = None

    def answer(self, spec: Spec, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        """Draw from the counters, or from what they fall short by."""
        if self._contents is None:
            found = self._sketch.reduced_contents() if self._reduced else self._sketch.contents()
            self._contents = replace(found, column=self.key[0])
        return draw(spec.mechanism, question, self._contents, paid.bits)

    def close(self) -> None:
        """A sketch belongs to who made it."""


class MisraGriesSketch(MisraGries):
    """The most frequent keys of a stream in bounded memory, to be merged, saved and published.

    Every element of the stream is a unit of its own, unless `publish` states how many one unit may hold. What it holds,
    and how far counters fall short of true counts: see `dptally.summaries.misra_gries`.

    Args:
        capacity: the number of counters.
        kind: what keys are: "string", "bytes", "integer" (64 bits) or "unsigned" (64 bits without a sign). None takes
            it from what the first batch declares, whatever is in it; see `update`. State it where it may depend on the
            data whether there is a batch at all.
        bits: where the secret key of the hash table comes from. It has no influence on what the sketch holds.
    """

    publish = publish_sketch


class UserMisraGriesSketch(UserMisraGries):
    """The keys that most users have, in bounded memory, to be merged, saved and published.

    What it holds, and how far counters fall short of true counts: see `dptally.summaries.user_misra_gries`.

    Args:
        capacity: the number of counters.
        max_keys_per_unit: the most keys one user counts for; None lets every key count.
        kind: what keys are, as for `MisraGriesSketch`.
        bits: where random choices and the secret key of the hash table come from.
    """

    publish = publish_sketch


class SummedSketches(SummedCounters):
    """Sketches of many streams, their sensitivity reduced, added up; made by `sum_sketches`."""

    publish = publish_sketch


AnySketch = MisraGriesSketch | UserMisraGriesSketch | SummedSketches


def sum_sketches(sketches: Sequence[AnySketch]) -> SummedSketches:
    """Reduce the sensitivity of sketches of separate streams, and add them up.

    Anyone who does this must be trusted with all sketches. It takes memory for all of their counters; what is published
    has noise that grows neither with the capacity nor with the number of sketches.

    Args:
        sketches: at least one, of one capacity and one kind of keys, not merged, each of other streams.

    Raises:
        InvalidParameter: they do not fit together, one is merged or of units, or one is given twice, as itself, as a
            copy, or as a part of a sum.
    """
    return SummedSketches.of(sketches)


def merge_sketches(sketches: Sequence[AnySketch]) -> AnySketch:
    """Merge sketches of one form into one of the same capacity; see `MisraGriesSketch.merge`.

    Raises:
        InvalidParameter: they do not fit together, or hold one stream twice.
    """
    first, *others = sketches
    if any(type(other) is not type(first) for other in others):
        raise InvalidParameter("sketches of elements, of users and added-up ones cannot be merged with each other.")
    merged: AnySketch = first.merge(*others)  # type: ignore[arg-type]  # all of one class
    return merged


def load_sketch(path: str | Path, *, bits: BitSource | None = None) -> AnySketch:
    """Read a sketch file of any form.

    Raises:
        InvalidSource: it is missing, not a sketch, damaged, incomplete or of a newer version.
    """
    state = read_sketch_file(Path(path))
    form = SummedSketches if state.sketches else UserMisraGriesSketch if state.by_unit else MisraGriesSketch
    return form.from_state(state, f"'{path}'", bits)
