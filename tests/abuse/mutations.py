"""Structured damage: bits, lengths, splices, and JSON with one or several fields made nasty."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["NASTY", "damaged", "nasty_json"]

NASTY: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**60,
    2**63,
    10**40,
    float("nan"),
    float("inf"),
    -0.5,
    1e308,
    "",
    "x",
    "0",
    "-1",
    "1/0",
    "1e999999999",
    "-1e999999999",
    "1e-999999999",
    "1/" + "9" * 4000,
    "9" * 5000,
    "nan",
    "inf",
    "1_0",
    "١",
    "\ud800",
    "\x00",
    "ppswor:size=5",
    "priority:1/9:1/2",
    "table:" + "0," * 2000 + "1",
    "strings:256:ab",
    [],
    [1],
    [[]] * 3,
    {},
    {"name": "WeightedSample"},
)


@st.composite
def damaged(draw: st.DrawFn, packed: bytes) -> bytes:
    """Bytes with a few bits turned, cut off, doubled, or replaced."""
    content = bytearray(packed)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        kind = draw(st.sampled_from(("flip", "cut", "splice", "fill", "length")))
        if kind == "flip" and content:
            content[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del content[place:]
        elif kind == "splice":
            other = draw(st.integers(0, len(content)))
            content[place:place] = content[min(place, other) : max(place, other)]
        elif kind == "fill":
            content[place : place + 8] = draw(st.sampled_from((b"\xff", b"\x00", b"\x7f"))) * 8
        else:
            content[place : place + 4] = draw(st.integers(0, 2**32 - 1)).to_bytes(4, "little")
    return bytes(content)


@st.composite
def nasty_json(draw: st.DrawFn, facts: dict[str, Any]) -> str:
    """The JSON of an object, with fields that are nasty, missing, unknown or there twice; or nested without end."""
    changed = copy.deepcopy(facts)
    for _ in range(draw(st.integers(1, 2))):
        holder, name = draw(st.sampled_from(_places(changed)))
        kind = draw(st.sampled_from(("replace", "replace", "replace", "delete", "add")))
        if kind == "replace":
            holder[name] = copy.deepcopy(draw(st.sampled_from(NASTY)))
        elif kind == "delete":
            del holder[name]
        elif isinstance(holder, dict):
            holder["unknown"] = copy.deepcopy(draw(st.sampled_from(NASTY)))
    text = json.dumps(changed)
    kind = draw(st.sampled_from(("plain",) * 8 + ("deep", "twice", "cut")))
    if kind == "deep":
        return text[:-1] + ', "deep": ' + "[" * 100_000 + "]" * 100_000 + "}"
    if kind == "twice":
        name = draw(st.sampled_from(sorted(facts)))
        return text[:-1] + f", {json.dumps(name)}: {json.dumps(draw(st.sampled_from(NASTY)))}}}"
    return text[: len(text) // 2] if kind == "cut" else text


def _places(facts: Any) -> list[tuple[Any, Any]]:
    """Every field of nested objects and lists, as its holder and name; never empty."""
    found: list[tuple[Any, Any]] = []
    parts = facts.items() if isinstance(facts, dict) else enumerate(facts)
    for name, part in list(parts):
        found.append((facts, name))
        if isinstance(part, dict | list):
            found += _places(part)
    return found or [({"nothing": 0}, "nothing")]
