"""Text that is safe to show: one line, no control characters, nothing a terminal would obey, no passwords."""

from __future__ import annotations

import re


def printable(text: str, *, keep: str = "") -> str:
    r"""Write out whatever is not printable: line breaks, escape sequences, changes of writing direction.

    All that is shown of names and keys passes through here: on terminals, in reports, in charts. What to `keep` stays.

    >>> printable("two\nlines \x1b[31m")
    'two\\nlines \\x1b[31m'
    >>> printable("two\nlines \u202e", keep="\n")
    'two\nlines \\u202e'
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def quoted(text: str) -> str:
    r"""Text in quotes, as it was written, but for what is not printable.

    >>> print(quoted("day = '2026-11-15' AND \"a b\" > 1"))
    'day = '2026-11-15' AND "a b" > 1'
    """
    return repr(text).replace("\\'", "'")


def without_credentials(text: str) -> str:
    """Hide user and password of whatever in a text looks like a URL.

    >>> without_credentials("postgresql://me:secret@host/shop")
    'postgresql://***@host/shop'
    """
    return re.sub(r":/+\S*@", "://***@", text)


def key_label(part: object, *, longest: int | None = None) -> str:
    """One part of a key as a line of text, cut with an ellipsis after so many characters; None is ``(null)``.

    >>> key_label("abcdef", longest=4), key_label(None), key_label(7)
    ('abc…', '(null)', '7')
    """
    text = "(null)" if part is None else printable(part.hex() if isinstance(part, bytes) else str(part))
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"
