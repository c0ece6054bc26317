"""What was released of one period of a series: running totals and increments of published keys."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dptally.errors import PrivacyViolation
from dptally.estimates.frequencies import as_confidence
from dptally.estimates.series import half_width
from dptally.exact.integer_columns import integer_column, integers
from dptally.exact.parameters import as_count
from dptally.labels import printable
from dptally.laws.series import LARGEST_HORIZON, SeriesLaw
from dptally.privacy.stored_facts import read_certificate, read_guarantee
from dptally.releases.base import Count, Release, Summary
from dptally.verifiers.guarantees import verify_series
from dptally.verifiers.tables import Certificate

if TYPE_CHECKING:
    import polars as pl

    from dptally.privacy.guarantee import Guarantee
    from dptally.report.contents import Asked, Report

SERIES_COLUMNS = ("total", "lower", "upper", "increment", "increment_lower", "increment_upper")
_VALUES = ("total", "increment")
_NAME = re.compile(r"[0-9W-]{1,20}")
_HEX = re.compile("[0-9a-f]*")


@dataclass(frozen=True)
class Place:
    """Which period of which series, and a keyed hash of the series' state after it."""

    series: str  # 128 random bits as hexadecimal text
    period: str  # its name
    number: int  # from 1 on
    head: str  # HMAC-SHA256 under a secret of the state: without the secret it is like random bits, whatever the rows


class SeriesRelease(Release):
    """Keys that a series has published up to a period, with running totals. Made by `dptally.Series.add`.

    Its guarantee is that of the whole series: all of its periods together, whatever was and will be released of them.
    """

    kind = "series"
    noun = "a period of a series"
    answers = "it answers table, top and count"
    law: SeriesLaw
    certificate: Certificate

    def __init__(
        self, rows: pa.Table, guarantee: Guarantee, certificate: Certificate, law: SeriesLaw, place: Place
    ) -> None:
        self._rows = rows
        self.key = tuple(name for name in rows.column_names if name not in _VALUES)
        self.guarantee = guarantee
        self.certificate = certificate
        self.law = law
        self.place = place

    def __len__(self) -> int:
        """How many keys are published."""
        return int(self._rows.num_rows)

    def _held(self) -> str:
        return f"{len(self)} keys by {', '.join(map(printable, self.key))} up to {self.place.period}"

    # ---- questions ----

    def to_arrow(self, *, confidence: object = 0.95, keys: int = 1) -> pa.Table:
        """The table as a PyArrow table; see `table`."""
        number = self.place.number
        found = self._rows.select(list(self.key))
        for name, first in (("total", 1), ("increment", number)):
            half = half_width(self.law, first, number, confidence, keys=keys)
            value = integers(self._rows.column(name))
            # Counts are not negative, and an estimate is in its interval, also where noise made it negative.
            bounds = [value, np.minimum(np.maximum(value - half, 0), value), np.maximum(value + half, 0)]
            prefix = "" if name == "total" else "increment_"
            for column, numbers in zip((name, f"{prefix}lower", f"{prefix}upper"), bounds, strict=True):
                found = found.append_column(column, integer_column(numbers))
        return found

    def table(self, *, confidence: object = 0.95) -> pl.DataFrame:
        """The published keys, sorted by key.

        Returns:
            polars.DataFrame: key column(s); `total`, how many units count for the key up to this period, with noise,
            `lower` and `upper`; `increment`, how many in this period, `increment_lower` and `increment_upper`. Each
            interval is for a key that is asked for beforehand; see `dptally.estimates.series`.
        """
        import polars as pl

        return pl.DataFrame(pl.from_arrow(self.to_arrow(confidence=confidence)))

    def top(self, n: int = 10, *, confidence: object = 0.95) -> pl.DataFrame:
        """The n keys with the largest totals, with intervals that hold for all published keys at once."""
        import polars as pl

        rows = pl.DataFrame(pl.from_arrow(self.to_arrow(confidence=confidence, keys=len(self))))
        shown = as_count("n", n, largest=1 << 40)
        return rows.sort("total", descending=True, maintain_order=True).head(shown)

    def top_in_words(self, *, confidence: object = 0.95) -> str:
        """Which kind of confidence intervals `top` gives."""
        return f"{float(as_confidence(confidence)):.0%} confidence intervals for all published keys together"

    def count(self, key: Any, confidence: object = 0.95) -> Count | None:
        """The running total of one key with an interval; None for a key that is not published."""
        import polars as pl

        parts = key if isinstance(key, tuple) else (key,)
        wanted = [pl.col(name).eq_missing(pl.lit(part)) for name, part in zip(self.key, parts, strict=True)]
        found = self.table(confidence=confidence).filter(pl.all_horizontal(wanted))
        return Count(*found.select("total", "lower", "upper").row(0)) if len(found) else None

    def look_up(self, parts: list[str], *, confidence: object = 0.95) -> pl.DataFrame:
        """The rows of keys that are written as text, one part for each key column, key after key."""
        import polars as pl

        width = len(self.key)
        asked = [tuple(parts[at : at + width]) for at in range(0, len(parts), width)]
        written = pl.concat_list([pl.col(name).cast(pl.String) for name in self.key])
        return self.table(confidence=confidence).filter(written.is_in([list(each) for each in asked]))

    def summary(self, n: int = 10, *, confidence: object = 0.95) -> Summary:
        """Its largest totals."""
        rows = self.top(n, confidence=confidence)
        title = f"{len(self):,} keys by {', '.join(map(printable, self.key))}, running totals up to {self.place.period}"
        note = f"Intervals: {self.top_in_words(confidence=confidence)}."
        return Summary(title=title, rows=rows, words=len(self.key), notes=(note,), answers={"top": rows})

    # ---- trust ----

    def verify(self) -> Certificate:
        """Rebuild the noise from the stated numbers, certify the whole series again, and compare.

        Raises:
            PrivacyViolation: if the guarantee states more than was derived, or the certificate is another one.
        """
        found = verify_series(self.guarantee, SeriesLaw.from_facts(self.law.facts()), self.place.period)
        if found != self.certificate:
            raise PrivacyViolation("the certificate in the release is not the one of the series its numbers give.")
        if self.place.number > self.law.periods:
            raise PrivacyViolation("the release is of a period beyond the horizon of its series.")
        return found

    # ---- file and page ----

    def facts(self) -> dict[str, Any]:
        """The law of the whole series, and which period of it this is."""
        return {"law": self.law.facts(), "place": asdict(self.place)}

    def stored_rows(self) -> pa.Table:
        """Key columns, `total` and `increment`."""
        return self._rows

    @classmethod
    def from_facts(cls, table: pa.Table, facts: dict[str, Any]) -> Self:
        """The release back from the columns and the metadata of a file."""
        law, told = SeriesLaw.from_facts(facts["law"]), facts["place"]
        place = Place(told["series"], told["period"], told["number"], told["head"])
        as_count("number", place.number, largest=LARGEST_HORIZON)
        if not (_NAME.fullmatch(place.period) and _HEX.fullmatch(place.series) and _HEX.fullmatch(place.head)):
            raise ValueError("not a period of a series")
        rows = table.replace_schema_metadata(None)
        for name in _VALUES:
            if rows.schema.field(name).type != pa.int64() or rows.column(name).null_count:
                raise ValueError("not a whole number")
        key = [name for name in rows.column_names if name not in _VALUES]
        if not key or rows.select(key).group_by(key, use_threads=False).aggregate([]).num_rows < rows.num_rows:
            raise ValueError("a key is there twice")
        if rows.num_rows and (pc.max(pc.abs_checked(rows.column("total"))).as_py() >= 1 << 62):
            raise ValueError("a total is out of range")
        guarantee = read_guarantee(facts["guarantee"])
        return cls(rows, guarantee, read_certificate(facts["certificate"], Certificate), law, place)

    def contents(self, asked: Asked) -> Report:
        """What a page says about the release."""
        from dptally.report.of_series import report_of_series

        return report_of_series(self, asked)
