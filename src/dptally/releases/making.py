"""Releases from what was drawn, by their kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dptally.laws.registry import law_from_facts

if TYPE_CHECKING:
    from dptally.laws.spec import Question, Spec
    from dptally.privacy.guarantee import Guarantee

__all__ = ["make_release"]


def make_release(
    spec: Spec, asked: Question, outputs: Sequence[Any], guarantee: Guarantee, key: tuple[str, ...]
) -> Any:
    """The release of all outputs.

    Args:
        spec: what was released.
        asked: the last question, whose law and certificate are those of the release.
        outputs: one of each stage. Public.
        guarantee: signed.
        key: names of the key columns.
    """
    return _MAKERS[spec.kind](spec, asked, outputs, guarantee, key)


def _table(spec: Spec, asked: Question, outputs: Sequence[Any], guarantee: Guarantee, key: tuple[str, ...]) -> Any:
    from dptally.releases.table_release import TableRelease

    del key  # the rows have them
    # A law that samples remembers rows it has drawn from, which are true counts: a fresh one goes out.
    law = asked.law if asked.law.scheme is None else law_from_facts(asked.law.facts())
    found = spec.result(outputs)
    return TableRelease(found["rows"], guarantee, asked.certificate, law, found.get("shortfall"))


def _compact(spec: Spec, asked: Question, outputs: Sequence[Any], guarantee: Guarantee, key: tuple[str, ...]) -> Any:
    from dptally.releases.compact_release import CompactRelease

    del key
    found = spec.result(outputs)
    return CompactRelease(
        found["coefficients"], asked.law, found["universe"], guarantee, found["beyond_capacity"], asked.certificate
    )


def _ranges(spec: Spec, asked: Question, outputs: Sequence[Any], guarantee: Guarantee, key: tuple[str, ...]) -> Any:
    from dptally.releases.range_release import RangeRelease

    found = spec.result(outputs)
    return RangeRelease(found["grid"], key[0], found["values"], guarantee, asked.certificate, asked.law)


def _prefixes(spec: Spec, asked: Question, outputs: Sequence[Any], guarantee: Guarantee, key: tuple[str, ...]) -> Any:
    from dptally.releases.prefix_tree import PrefixTree

    del asked, key
    found = spec.result(outputs)
    return PrefixTree(found["plan"], found["nodes"], guarantee)


def _searched(spec: Any, asked: Question, outputs: Sequence[Any], guarantee: Guarantee, key: tuple[str, ...]) -> Any:
    del asked, key
    return spec.answer(outputs, guarantee)


_MAKERS = {
    "table": _table,
    "polynomial": _compact,
    "ranges": _ranges,
    "prefixes": _prefixes,
    "quantile": _searched,
}
