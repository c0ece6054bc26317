"""Releases from what was drawn, by their kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dptally.laws.registry import law_from_facts
from dptally.laws.spec import Question
from dptally.privacy.guarantee import Guarantee


def make_release(spec: Any, asked: Question, outputs: Sequence[Any], guarantee: Guarantee, key: tuple[str, ...]) -> Any:
    """The release of all outputs, one of each stage, with the law and the certificate of the last question."""
    if spec.kind == "quantile":
        return spec.answer(outputs, guarantee)
    found = spec.result(outputs)
    if spec.kind == "polynomial":
        from dptally.releases.compact_release import CompactRelease

        drawn = found["coefficients"], asked.law, found["universe"]
        return CompactRelease(*drawn, guarantee, found["beyond_capacity"], asked.certificate)
    if spec.kind == "ranges":
        from dptally.releases.range_release import RangeRelease

        return RangeRelease(found["grid"], key[0], found["values"], guarantee, asked.certificate, asked.law)
    if spec.kind == "prefixes":
        from dptally.releases.prefix_tree import PrefixTree

        return PrefixTree(found["plan"], found["nodes"], guarantee)
    from dptally.releases.table_release import TableRelease

    # A law that samples remembers rows it has drawn from, which are true counts: a fresh one goes out.
    law = asked.law if asked.law.scheme is None else law_from_facts(asked.law.facts())
    law, certificate = found.get("law", law), found.get("certificate", asked.certificate)
    return TableRelease(found["rows"], guarantee, certificate, law, found.get("shortfall"), found.get("numbers"))
