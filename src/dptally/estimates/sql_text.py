"""SQL texts given to `Release.sum`: expressions over the columns of a release, and nothing else.

Filters of rows (`dptally.sources.filters`) begin with the same look at their text.

Polars' own SQL reads files in subqueries (``x IN (SELECT ... FROM read_csv('...'))`` opens the file to learn its
columns), takes time that grows with the square of a text's length, and panics on some types. So a text is looked at
before Polars gets it: no statements within, only functions that are listed here, no comments, and a bounded number of
parts. What is left is arithmetic, comparisons, CASE, and functions of one row; a list after IN may be long. Regular
expressions take linear time (Rust's engine) and bounded memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import polars as pl

FUNCTIONS = frozenset(
    "abs acos asin atan atan2 avg bit_length cast cbrt ceil ceiling char_length character_length coalesce concat "  # noqa: SIM905
    "concat_ws cos count date_part day degrees div ends_with exp extract floor greatest if ifnull initcap left least "
    "length ln log log10 log1p log2 lower ltrim max median min mod month nullif octet_length pi position pow power "
    "radians regexp_like reverse right round rtrim sign sin split_part sqrt starts_with strpos substr substring sum "
    "tan trim try_cast upper year".split()
)
"""Functions a text may call. None of them makes a text longer than its arguments together."""

_BEFORE_BRACKETS = frozenset("and or not in when then else case like ilike rlike regexp between is by".split())  # noqa: SIM905
_NEVER = frozenset(
    "all any array columns distinct exists from group having interval into join lateral limit order over pivot qualify "  # noqa: SIM905
    "select some table union unnest values window with".split()
)
_ENDS = ("word", "name", "text", "number")  # after which FROM is the one of EXTRACT, SUBSTRING or TRIM
_MOST_PARTS = 400
_LONGEST = 1 << 20
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>"(?:[^"]|"")*"|`[^`]*`)
    |(?P<word>[^\W\d]\w*)
    |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<comma>,)
    |(?P<sign>::|\|\||<=>|<=|>=|<>|!=|==|!~~\*|!~\*|!~~|!~|~~\*|~~|~\*|\^@|//|[-+*/%=<>~^().])
    """,
    re.VERBOSE,
)


def read_expression(name: str, text: str) -> pl.Expr:
    """Read SQL text as a Polars expression that can look at the columns of one table and nothing else.

    >>> str(read_expression("where", "word = 'select'"))
    '[(col("word")) == ("select")]'
    """
    import polars as pl

    check_sql(name, text)
    try:
        return pl.sql_expr(text)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InvalidParameter(f"{name} cannot be evaluated on the release: {str(error).splitlines()[0]}") from None


def check_sql(
    name: str, text: str, *, functions: frozenset[str] = FUNCTIONS, over: str = "the columns of the release"
) -> None:
    """Refuse a text that holds a statement, a function that is not listed, a comment, or too many parts.

    >>> check_sql("where", "query LIKE 'a%' AND length(query) > 2")
    >>> check_sql("where", "value IN (SELECT x FROM read_csv('/etc/passwd'))")
    Traceback (most recent call last):
    dptally.errors.InvalidParameter: where must not hold SELECT: it is an expression over the columns of the release.
    """
    if len(text) > _LONGEST:
        raise InvalidParameter(f"{name} must have at most {_LONGEST} characters.")
    place, parts, before = 0, 0, ("", "")
    # Invariant: text[:place] consists of known tokens, of which `before` is the last that is no space.
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None or _joined(text, found):
            raise InvalidParameter(f"{name} is not an expression: character {place + 1} cannot be read.")
        place, kind, token = found.end(), str(found.lastgroup), found.group()
        if kind == "space":
            continue
        _check_token(name, kind, token.casefold(), before, functions, over)
        before = kind, token.casefold()
        parts += kind not in ("text", "number", "comma")
        if parts > _MOST_PARTS:
            raise InvalidParameter(
                f"{name} must have at most {_MOST_PARTS} names and operators; write long lists as IN ('a', 'b')."
            )


def _joined(text: str, found: re.Match[str]) -> bool:
    """Whether other readers of SQL may see an escape or a comment here: E'..', a backslash before a quote, --."""
    token, after = found.group(), text[found.end() : found.end() + 1]
    if found.lastgroup == "space":
        return False
    if found.lastgroup in ("text", "name"):
        return "\\'" in token or '\\"' in token or "\\`" in token or "\0" in token or after in tuple("'\"`")
    if token + after in ("--", "/*"):
        return True
    return found.lastgroup in ("word", "number") and after in tuple("'\"`")


def _check_token(
    name: str, kind: str, token: str, before: tuple[str, str], functions: frozenset[str], over: str
) -> None:
    """Refuse a word that begins a statement, and a call of anything that is not listed."""
    previous_kind, previous = before
    opens = kind == "sign" and token == "("  # noqa: S105 - a token of SQL
    if kind == "word" and token in _NEVER and not (token in ("from", "distinct") and previous_kind in _ENDS):
        raise InvalidParameter(f"{name} must not hold {token.upper()}: it is an expression over {over}.")
    if opens:
        known = previous in functions or previous in _BEFORE_BRACKETS
        if previous_kind == "name" or (previous_kind == "word" and not known):
            listed = ", ".join(sorted(functions))
            raise InvalidParameter(f"{name} must not call {previous[:40]}: the functions are {listed}.")
