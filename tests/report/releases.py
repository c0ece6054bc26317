"""One small release of every kind, for tests of pages."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import dptally
from dptally.randomness import SeededBits

__all__ = ["HOSTILE", "KINDS", "MARKER", "make"]

MARKER = "marker-key-of-one-row"
HOSTILE = (
    "<script>alert(1)</script>",
    "</style></title></svg><img src=x onerror=alert(2)>",
    '" onmouseover="alert(3)" \'',
    "two\nlines\r\nand a tab\t",
    "right \u202eto left\u202c and \u2066isolated",
    "عربى",
    "long " * 400,
    "&lt;escaped&gt; &amp;",
    "{{7*7}} ${7*7} $title",
    "漢字かな交じり文の長いキー",
    "",
)


def zipf() -> dict[str, int]:
    """A few hundred words, and a key that one row has."""
    return {**{f"word{rank}": 3000 // rank for rank in range(1, 400)}, "apple": 700, MARKER: 1}


def table(**options: Any) -> Any:
    """A release of `zipf`."""
    return dptally.publish(zipf(), epsilon="1", delta="1e-6", **options)


def hostile() -> Any:
    """A release whose keys try to be more than text."""
    counts = {key: 500 + place for place, key in enumerate(HOSTILE)}
    return dptally.publish(counts, epsilon="1", delta="1e-6")


def binary() -> Any:
    """A release whose keys are bytes that are no text."""
    import pyarrow as pa

    keys = pa.array([b"\xff\xfe<b>"] * 300 + [b"\x00\x80"] * 400, type=pa.binary())
    return dptally.publish(pa.table({"digest": keys}), key="digest", epsilon="1", delta="1e-6")


def by_user() -> Any:
    """A release with units that have several keys, and two key columns with odd names."""
    import polars as pl

    users = [user for user in range(900) for _ in range(2)]
    frame = pl.DataFrame(
        {
            "user": users,
            'a "b" <i>': [("red", "green", "blue")[place % 3] for place in range(len(users))],
            "size": [place % 2 for place in range(len(users))],
        }
    )
    return dptally.publish(
        frame, key=['a "b" <i>', "size"], unit="user", max_keys_per_unit=2, epsilon="1", delta="1e-6"
    )


def sketch(**options: Any) -> Any:
    """A release of a sketch that is smaller than the number of keys."""
    made = dptally.MisraGriesSketch(200)
    made.update([key for key, count in zipf().items() for _ in range(count)])
    return made.publish(epsilon="1", delta="1e-6", **options)


def ranges(**options: Any) -> Any:
    """A tree of counts over whole numbers."""
    import polars as pl

    frame = pl.DataFrame({"delay": [(place * place) % 97 - 20 for place in range(4000)]})
    return dptally.publish_quantiles(
        frame, value="delay", low=-60, high=195, epsilon="1", **{"delta": "1e-6", **options}
    )


def dates() -> Any:
    """A tree of counts over dates."""
    import polars as pl

    start = datetime.date(2024, 1, 1)
    frame = pl.DataFrame({"day": [start + datetime.timedelta(days=(place * 7) % 250) for place in range(3000)]})
    return dptally.publish_quantiles(
        frame, value="day", low=start, high=datetime.date(2024, 12, 31), epsilon="1", delta="1e-6"
    )


def tree() -> Any:
    """A tree of prefixes."""
    from dptally.heavy_hitters import publish_heavy_hitters

    words = {"apple": 2000, "apply": 1500, "banana": 3000, "<b>bold": 2500, MARKER: 1}
    rows = [word for word, count in words.items() for _ in range(count)]
    import polars as pl

    return publish_heavy_hitters(
        pl.DataFrame({"word": rows}), key="word", epsilon="2", delta="1e-6", levels=[1, 3, 6, 9]
    )


def addresses(mechanism: str, **options: Any) -> Any:
    """A release over the universe of IPv4 addresses."""
    counts = {f"10.0.0.{place}": 400 - 10 * place for place in range(30)}
    return dptally.publish(counts, epsilon="1", mechanism=mechanism, universe="ipv4", **options)


KINDS: dict[str, Callable[[], Any]] = {
    "weighted_sample": table,
    "seeded": lambda: table(randomness=SeededBits(1)),
    "keys_only": lambda: table(values=False),
    "empty": lambda: dptally.publish({"a": 1}, epsilon="0.1", delta="1e-9"),
    "sampled": lambda: table(sampling=dptally.Ppswor("0.05")),
    "stability": lambda: table(mechanism="stability"),
    "gaussian": lambda: table(mechanism="gaussian"),
    "sample_and_threshold": lambda: table(mechanism="sample_and_threshold"),
    "by_user": by_user,
    "hostile": hostile,
    "binary": binary,
    "sketch": sketch,
    "sketch_open": lambda: sketch(shortfall=None),
    "sanitized": lambda: dptally.sanitize({"a": 900, "b": 800}, "ppswor:0.1", epsilon="1", delta="1e-6"),
    "dense": lambda: dptally.publish(
        {"red": 40, "blue": 500, "pink": 0}, epsilon="1", mechanism="dense", universe=["red", "blue", "pink", "grey"]
    ),
    "sparse": lambda: addresses("sparse", capacity=100),
    "compact": lambda: addresses("compact", capacity=64),
    "ranges": ranges,
    "ranges_dense": lambda: ranges(mechanism="dense", delta=None),
    "dates": dates,
    "tree": tree,
}


def make(kind: str) -> Any:
    """A release of this kind."""
    return KINDS[kind]()
