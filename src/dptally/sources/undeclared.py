"""Values without a declared type: the one text that each becomes.

Python objects, object columns of pandas and NumPy, JSON, and columns of SQLite that are declared without a type hold
values of any kind. A type taken from them would be decided by whoever has the odd one, so there is a fixed choice:
text. Every value is turned into text on its own, by the table below; what is not in it becomes null.

==================================  ==========================  =====================================
value                               label (of a key)            identity (of a unit)
==================================  ==========================  =====================================
text                                itself                      ``t`` and the text
whole numbers, decimals, JSON's     canonical decimal           ``n`` and the canonical decimal
numbers; floats with a whole value
of at most 64 digits
other floats                        shortest decimal that       ``n`` and the exact value of the
                                    reads back as the float     float, as a canonical decimal
truth values                        true, false                 ``b`` and the label
dates, times                        ISO 8601; with a zone: UTC  ``d`` and the label
bytes                               lower-case hexadecimal      ``x`` and the label
lists, tuples, mappings             canonical JSON              ``j`` and the label
==================================  ==========================  =====================================

Labels are for people: the number 100 and the text "100" have one label, and are one key. Identities decide who is one
unit. Two numbers have one identity exactly if they are equal as numbers, however they were written, and a number never
has the identity of a text: to split a unit would double its influence, to merge two would lose one of them.

A canonical decimal has no sign for zero, no zeros before or behind that say nothing, and is written out where that
takes at most 64 digits (``100``, ``0.25``), else with an exponent (``1e+400``). Numbers of more than 4,000 digits, or
with an exponent of more than 18, NaN and infinities are null, as is text that is not valid Unicode.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import operator
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dptally.errors import InvalidSource
from dptally.sources.engine import Session

_MOST_DIGITS = 4000  # below what Python turns into text without being asked to
_MOST_BITS = 13_287  # of a whole number with at most so many digits
_MOST_EXPONENT_DIGITS = 18
_WRITTEN_OUT = 64
_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?)0*([0-9]*))?")
_ZEROS = re.compile(r"(:[0-9]{2}(?:\.[0-9]*[1-9])?)\.?0+(?=[+-]|$)")


def canonical_decimal(literal: str) -> str | None:
    """Return the canonical decimal of a number that is written as one.

    >>> [canonical_decimal(text) for text in ("1E2", "100.00", "-0.0", "0.10", "1e400", "1e-70")]
    ['100', '100', '0', '0.1', '1e+400', '1e-70']
    """
    found = _DECIMAL.fullmatch(literal)
    if found is None:
        return None
    sign, whole, part, exponent_sign, exponent = found.groups(default="")
    if not whole and not part:
        return None
    digits = (whole + part).strip("0")
    if not digits:
        return "0"
    if len(digits) > _MOST_DIGITS or len(exponent) > _MOST_EXPONENT_DIGITS:
        return None
    trailing = len(whole + part) - len((whole + part).rstrip("0"))
    power = int(exponent_sign + (exponent or "0")) - len(part) + trailing
    return _written(sign == "-", digits, power)


def _written(negative: bool, digits: str, power: int) -> str:
    """The canonical decimal of digits * 10^power; the first and the last digit are not 0."""
    sign = "-" if negative else ""
    before = len(digits) + power  # digits before the point
    if power >= 0 and before <= _WRITTEN_OUT:
        return f"{sign}{digits}{'0' * power}"
    if power < 0 < before and len(digits) <= _WRITTEN_OUT:
        return f"{sign}{digits[:before]}.{digits[before:]}"
    if before <= 0 and 1 - power <= _WRITTEN_OUT:
        return f"{sign}0.{'0' * -before}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{before - 1:+d}"


def label(value: object) -> str | None:
    """Return the text of one value, as a key has it; None for what has none.

    >>> label(100.0), label(decimal.Decimal("100.00")), label("100"), label(0.1), label(True), label(object())
    ('100', '100', '100', '0.1', 'true', None)
    """
    found = _tagged(value, exact=False)
    return None if found is None else found[1:]


def identity(value: object) -> str | None:
    """Return the text of one value that tells units apart; None for what is none.

    >>> identity(100.0) == identity(100) != identity("100")
    True
    >>> identity(2**53 + 1) == identity(float(2**53 + 1))
    False
    """
    return _tagged(value, exact=True)


def _tagged(value: object, *, exact: bool) -> str | None:
    for kinds, text_of in _KINDS:
        if isinstance(value, kinds):
            return text_of(value, exact)
    return None


def _of_text(value: Any, exact: bool) -> str | None:
    text = str.__str__(value)
    return f"t{text}" if is_unicode(text) else None


def is_unicode(text: object) -> bool:
    """Whether something is text that UTF-8 can write, which half a pair of surrogates is not."""
    try:
        return isinstance(text, str) and text.encode() is not None
    except UnicodeEncodeError:
        return False


def _of_whole(value: Any, exact: bool) -> str | None:
    number = operator.index(value)
    return _number(str(number)) if number.bit_length() <= _MOST_BITS else None


def _of_float(value: Any, exact: bool) -> str | None:
    number = float(value)
    if not math.isfinite(number):
        return None
    if exact or (number.is_integer() and abs(number) < 10.0**_WRITTEN_OUT):
        return _number(format(decimal.Decimal(number), "f"))
    return _number(repr(number))


def _of_decimal(value: Any, exact: bool) -> str | None:
    number: decimal.Decimal = value
    if not number.is_finite():
        return None
    sign, digits, exponent = number.as_tuple()
    return _number(f"{'-' if sign else ''}{''.join(map(str, digits))}e{exponent}")


def _number(literal: str) -> str | None:
    found = canonical_decimal(literal)
    return None if found is None else f"n{found}"


def _of_moment(value: Any, exact: bool) -> str | None:
    if value != value:
        return None
    try:
        moment = value.replace(tzinfo=None) if value.utcoffset() is None else value.astimezone(datetime.UTC)
    except (OverflowError, ValueError, TypeError):  # at the ends of the calendar; or a zone of one's own fails
        return None
    return f"d{_short(moment.isoformat())}"


def _of_time(value: datetime.time, exact: bool) -> str | None:
    try:
        if value.utcoffset() is None:
            return f"d{_short(value.replace(tzinfo=None).isoformat())}"
        moment = datetime.datetime.combine(datetime.date(2000, 1, 1), value).astimezone(datetime.UTC)
    except (ValueError, TypeError):
        return None
    return f"d{_short(moment.timetz().isoformat())}"


def _short(moment: str) -> str:
    """A time without zeros at the end of its seconds: libraries differ in how many they write."""
    return _ZEROS.sub(r"\1", moment)


def _of_numpy_moment(value: Any, exact: bool) -> str | None:
    if np.isnat(value):
        return None
    precision = np.datetime_data(value.dtype)[0]
    known = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}.get(precision, precision)
    return f"d{_short(str(value.astype(f'datetime64[{known}]')))}"


def _of_nested(value: Any, exact: bool) -> str | None:
    try:
        written = _json(value, exact)
    except (RecursionError, TypeError):  # it holds itself, or is an array without a dimension
        written = None
    return None if written is None else f"j{written}"


def _json(value: Any, exact: bool) -> str | None:
    """Canonical JSON: names in order, no spaces, canonical numbers; None where something in it has no JSON."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            return None
        members = [(_json(name, exact), _json(value[name], exact)) for name in sorted(value)]
        whole = all(name is not None and member is not None for name, member in members)
        return "{" + ",".join(f"{name}:{member}" for name, member in members) + "}" if whole else None
    if isinstance(value, list | tuple | np.ndarray):
        items = [_json(item, exact) for item in value]
        return None if None in items else "[" + ",".join(map(str, items)) + "]"
    found = _tagged(value, exact=exact)
    if found is None or found[0] not in "tnb":
        return None
    return json.dumps(found[1:], ensure_ascii=False) if found[0] == "t" else found[1:]


class _Literal(str):
    """A number of JSON, as it is written."""

    __slots__ = ()


# The first that fits: a literal is a text, a truth value is a number, and a datetime is a date.
_KINDS: tuple[tuple[tuple[type, ...], Callable[[Any, bool], str | None]], ...] = (
    ((_Literal,), lambda value, _: _number(str.__str__(value))),
    ((str,), _of_text),
    ((bool, np.bool_), lambda value, _: "btrue" if value else "bfalse"),
    ((int, np.integer), _of_whole),
    ((float, np.float16, np.float32), _of_float),
    ((decimal.Decimal,), _of_decimal),
    ((datetime.datetime,), _of_moment),
    ((datetime.date,), lambda value, _: f"d{value.isoformat()}"),
    ((datetime.time,), _of_time),
    ((bytes, bytearray, memoryview), lambda value, _: f"x{bytes(value).hex()}"),
    ((np.datetime64,), _of_numpy_moment),
    ((uuid.UUID,), lambda value, _: f"t{value}"),
    ((list, tuple, dict, np.ndarray), _of_nested),
)


def texts(values: Sequence[Any], *, identities: bool = False) -> pa.Array:
    """Turn values of any kinds into a column of labels, or of identities."""
    kinds = set(map(type, values)) - {type(None)}
    found = None
    try:
        if kinds <= {str}:
            found = pa.array(values, pa.large_string())
        elif kinds <= {int}:
            found = pa.array(values, pa.int64()).cast(pa.large_string())
    except (pa.ArrowException, UnicodeError, OverflowError):
        found = None  # some of it is not Unicode, or beyond 64 bits
    if found is None:
        return pa.array(map(identity if identities else label, values), pa.large_string())
    if not identities:
        return found
    tag, nothing = (pa.scalar(text, pa.large_string()) for text in ("t" if kinds <= {str} else "n", ""))
    return pc.binary_join_element_wise(tag, found, nothing)


def read_json(text: str) -> Any:
    """Parse JSON with numbers as they are written; of members with one name the first counts."""
    return json.loads(
        text,
        parse_int=_Literal,
        parse_float=_Literal,
        parse_constant=lambda _: None,
        object_pairs_hook=lambda pairs: dict(reversed(pairs)),
    )


def json_field(line: str, name: str) -> str | None:
    """Return a member of a JSON object as canonical JSON, or None where there is none that can be written."""
    try:
        found = read_json(line)
    except ValueError:
        found = None
    except RecursionError:  # nested so deeply that nothing of it is a key
        return None
    if not isinstance(found, dict):
        raise InvalidSource("the source must hold one JSON object a line; at least one line is none.")
    try:
        return _json(found.get(name), exact=True)
    except RecursionError:
        return None


def _of_json(text: str, *, exact: bool) -> str | None:
    try:
        return _tagged(read_json(text), exact=exact)
    except (ValueError, RecursionError):
        return None


def _each(text_of: Callable[[Any], str | None]) -> Callable[[pa.Array], pa.Array]:
    """A function of a column that makes a text of every value; null stays null."""

    def texts_of(values: pa.Array) -> pa.Array:
        return pa.array([None if value is None else text_of(value) for value in values.to_pylist()], pa.large_string())

    return texts_of


_FUNCTIONS: dict[str, tuple[Callable[..., pa.Array], list[str]]] = {
    "dptally_json_field": (
        lambda lines, names: pa.array(map(json_field, lines.to_pylist(), names.to_pylist()), pa.large_string()),
        ["VARCHAR", "VARCHAR"],
    ),
    "dptally_json_text": (_each(lambda text: _of_json(text, exact=True)), ["VARCHAR"]),
    "dptally_float_label": (_each(lambda number: _tagged(number, exact=False)), ["DOUBLE"]),
    "dptally_float_identity": (_each(lambda number: _tagged(number, exact=True)), ["DOUBLE"]),
}


def define_functions(session: Session) -> None:
    """Make the functions that the expressions of this module call known to a session."""
    for name, (function, kinds) in _FUNCTIONS.items():
        session.define(name, function, kinds, "VARCHAR")


def json_expression(expression: str, *, identities: bool) -> str:
    """Return SQL for the label or the identity of a value that is written as JSON.

    Usual texts and numbers are turned by DuckDB; everything else by `read_json`, to the same result.
    """
    whole = f"regexp_full_match({expression}, '-?[1-9][0-9]{{0,30}}([.]0+)?')"
    point = f"regexp_full_match({expression}, '-?[0-9]{{1,30}}[.][0-9]{{0,29}}[1-9]')"
    pairs = rf"regexp_matches({expression}, '\\u[dD][89a-fA-F]')"  # of surrogates, which may have lost each other
    other = f"dptally_json_text({expression})"
    tags = dict.fromkeys("tnb", "")
    if identities:
        tags = {tag: f"'{tag}' || " for tag in tags}
    else:
        other = f"substr({other}, 2)"
    quoted = f"starts_with({expression}, '\"')"
    return (
        f"CASE WHEN {quoted} AND NOT contains({expression}, '\\') "
        f"THEN {tags['t']}substr({expression}, 2, length({expression}) - 2) "
        f"WHEN {quoted} AND NOT {pairs} THEN {tags['t']}json_extract_string({expression}, '$') "
        f"WHEN {whole} THEN {tags['n']}split_part({expression}, '.', 1) "
        f"WHEN {point} THEN {tags['n']}{expression} "
        f"WHEN {expression} IN ('true', 'false') THEN {tags['b']}{expression} "
        f"WHEN {expression} IN ('0', '0.0', '-0.0') THEN {tags['n']}'0' "
        f"ELSE {other} END"
    )


def float_expression(expression: str, *, identities: bool) -> str:
    """Return SQL for the label or the identity of a float."""
    whole = f"{expression} = trunc({expression}) AND abs({expression}) < 1e18"
    text = f"CAST(CAST({expression} AS BIGINT) AS VARCHAR)"
    if identities:
        return f"CASE WHEN {whole} THEN 'n' || {text} ELSE dptally_float_identity({expression}) END"
    return f"CASE WHEN {whole} THEN {text} ELSE substr(dptally_float_label({expression}), 2) END"
