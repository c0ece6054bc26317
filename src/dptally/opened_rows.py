"""Rows of one machine, opened: the summary that a question needs, and the answer that is drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter
from dptally.laws.sampling_schemes import Ppswor
from dptally.mechanisms.registry import draw
from dptally.paid_sources import open_paid
from dptally.releases.table_release import RESERVED_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.laws.sampling_schemes import Scheme
    from dptally.laws.spec import Question, Spec
    from dptally.ledger.paying import Paid
    from dptally.progress import Progress
    from dptally.randomness import BitSource
    from dptally.sources import Rows

__all__ = ["OpenedRows", "open_for", "refuse_reserved"]

_SPARSE = Fraction(1, 100)  # rates up to it sample rows while reading


class OpenedRows:
    """Private data of one release. What is read is summarised for each question, or kept where rounds ask again.

    Args:
        rows: opened, their columns checked.
        memory_limit: for the counting engine.
        sampled_by: the scheme of a sample that was taken before, where the rows are one.
    """

    def __init__(self, rows: Rows, *, memory_limit: str | None = None, sampled_by: Scheme | None = None) -> None:
        self.rows, self._memory_limit, self._sampled_by = rows, memory_limit, sampled_by
        self._held: Any = None  # bins, strings or the contents of a sketch: what later rounds see again

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return self.rows.key

    def answer(self, spec: Spec, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        """Summarise for a question, and draw.

        Args:
            spec: of the release.
            question: what is asked.
            bits: choose which keys of a unit count.
            paid: everything that is drawn is drawn with its bits.
            report: told how far it is.
        """
        summarise: Callable[..., AbstractContextManager[Any]] = getattr(self, f"_{question.summary}")
        with summarise(question, bits, paid, report) as summary:
            return draw(spec.mechanism, question, summary, paid.bits)

    def _keys(self, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        """Count all keys, or sample rows while reading where the law allows it and few keys will be left.

        The law of what is released is the same either way. A seeded draw always counts: which row comes first is the
        engine's choice, and a seed must repeat itself. So does a source that counts by itself.
        """
        from dptally.summaries.frequencies import count_keys
        from dptally.summaries.row_sample import sample_rows
        from dptally.summaries.weighted_sample import sample_keys

        rows, law = self.rows, question.law
        scheme, rate = getattr(law, "scheme", None), getattr(law, "rate", None)
        by_row = bits.private and rows.unit is None and rows.count is None and not rows.counted_at_source
        sparse = isinstance(scheme, Ppswor) and scheme.power == 1 and scheme.rate <= _SPARSE
        if sparse and by_row and rows.repeatable:
            assert isinstance(scheme, Ppswor)  # noqa: S101 - for the type checker
            return sample_keys(rows, scheme, bits=paid.bits, memory_limit=self._memory_limit, progress=report)
        if rate is not None and by_row:
            return sample_rows(rows, rate, bits=paid.bits, memory_limit=self._memory_limit, progress=report)
        return count_keys(
            rows,
            max_keys_per_unit=question.max_keys_per_unit,
            bits=bits,
            memory_limit=self._memory_limit,
            progress=report,
            sampled_by=self._sampled_by,
        )

    def _total(self, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        from dptally.summaries.frequencies import count_occurrences

        return nullcontext(count_occurrences(self.rows, memory_limit=self._memory_limit))

    def _sketch(self, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        """Read the rows into a sketch, in bounded memory."""
        if self._held is None:
            from dptally.summaries.misra_gries import MisraGries
            from dptally.summaries.user_misra_gries import UserMisraGries

            facts = question.parameters["sketch"]
            sketch: MisraGries | UserMisraGries
            if self.rows.unit is None:
                sketch = MisraGries(facts.capacity, bits=bits)
            else:
                sketch = UserMisraGries(facts.capacity, facts.max_keys_per_unit, bits=bits)
            sketch.update_rows(self.rows, memory_limit=self._memory_limit, progress=report)
            self._held = replace(sketch.contents(), column=self.rows.key[0])
        return nullcontext(self._held)

    _shortfall = _sketch

    def _bins(self, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        if self._held is None:
            from dptally.summaries.binned_values import count_bins

            self._held = count_bins(
                self.rows, question.parameters["grid"], bits=bits, memory_limit=self._memory_limit, progress=report
            )
        return nullcontext(self._held)

    def _pairs(self, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        """The keys of every unit, read once; each stage is asked of them."""
        if self._held is None:
            from dptally.summaries.unit_pairs import UnitPairs

            every_row = question.parameters["every_row"]
            how: dict[str, Any] = {"memory_limit": self._memory_limit, "progress": report}
            self._held = UnitPairs(self.rows, bits=bits, every_row=every_row, **how)
        return self._held.summarise(question, bits)

    _unit_sizes = _unit_weights = _found_counts = _found_statistics = _pairs

    def close(self) -> None:
        """Remove what was kept for later rounds."""
        if hasattr(self._held, "close"):
            self._held.close()

    def _strings(self, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        if self._held is None:
            from dptally.summaries.frequencies import count_keys
            from dptally.summaries.strings import strings_of

            with count_keys(
                self.rows, max_keys_per_unit=1, bits=bits, memory_limit=self._memory_limit, progress=report
            ) as counted:
                self._held = strings_of(counted, question.parameters["round"].domain)
        return nullcontext(self._held)


def open_for(
    spec: Spec,
    paid: Paid,
    source: Any,
    *,
    key: str | Sequence[str] | None,
    memory_limit: str | None = None,
    sampled_by: Scheme | None = None,
    check: Callable[[pa.Schema], None] | None = None,
    **place: Any,
) -> OpenedRows:
    """Open the source and check its columns; nothing of its rows is counted yet.

    Args:
        spec: what will be released.
        paid: gives the budget back if opening fails at what is declared.
        source: as in `publish`.
        key: names of the key columns.
        memory_limit: for the counting engine.
        sampled_by: as in `OpenedRows`.
        check: refuses key columns by their declared types, beside the spec.
        place: the rest of what `dptally.sources.open_rows` takes.
    """

    def checked(rows: Rows) -> None:
        # Imported here, where an interruption still gives the budget back.
        from dptally.sources.engine import check_memory_limit
        from dptally.summaries.frequencies import check_repeated

        check_memory_limit(memory_limit)
        refuse_reserved(rows.key)
        spec.check_count(rows.count)
        if spec.readings > 1:
            check_repeated(rows)
        if spec.summary == "sketch":
            from dptally.summaries.sketch_keys import kind_of

            kind_of(rows.key_schema.types[0])
        spec.check_keys(rows.key_schema)
        if check is not None:
            check(rows.key_schema)

    names = None if key is None else [key] if isinstance(key, str) else list(key)
    rows = open_paid(paid, source, check=checked, key=key, assumed=spec.assumed_keys(names), **place)
    return OpenedRows(rows, memory_limit=memory_limit, sampled_by=sampled_by)


def refuse_reserved(key: Sequence[str]) -> None:
    """Refuse names of key columns that a release has for its own."""
    clash = [name for name in key if name in RESERVED_COLUMNS]
    if clash:
        raise InvalidParameter(f"a key column may not be named {clash[0]!r}: the release has a column of that name.")
