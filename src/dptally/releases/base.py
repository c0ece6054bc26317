"""What every release is, whatever its kind: a guarantee, how it was verified, a file, a page, and questions.

Everything in `dptally.releases` is public: a release holds nothing that is not in its file.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from dptally.errors import InvalidParameter
from dptally.releases.release_file import metadata, write_release

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dptally.estimates.subset_sums import Sum
    from dptally.privacy.guarantee import Guarantee, Record
    from dptally.report.contents import Asked, Report
    from dptally.report.drawing import Chart
    from dptally.verifiers.compact import CompactCertificate
    from dptally.verifiers.tables import Certificate


class Count(NamedTuple):
    """A key's released value, and a confidence interval of its true count."""

    value: int
    lower: int
    upper: int


@dataclass(frozen=True)
class Summary:
    """What a release shows of itself at a glance."""

    title: str  # what it is
    # a few of its answers as a table to print; None where it has none without a question
    rows: pl.DataFrame | None = None
    words: int = 1  # how many of the first columns are words; the others are numbers
    notes: tuple[str, ...] = ()  # sentences to go below it
    bars: tuple[tuple[str, int], ...] = ()  # how many released keys have an estimated count in each of some ranges
    answers: dict[str, Any] = field(default_factory=dict)  # the same and more for JSON, by name: tables or plain data


class Release:
    """What was published, to be shown to anyone. Made by `dptally.publish` and its like, or read by `dptally.load`.

    There are kinds: a table of keys (`TableRelease`), a compact release that answers any key of a universe
    (`CompactRelease`), a tree of counts for ranges and quantiles (`RangeRelease`), and a tree of prefixes
    (`PrefixTree`). Each answers some of the questions below and refuses the others with a sentence that says what it
    answers. A release does not change: an attribute that was set stays what it is.

    Attributes:
        kind: of release, as its file names it.
        noun: what such a release is, in words.
        answers: what it can be asked, in words.
        key: names of the columns of keys, prefixes or values.
        guarantee: what is guaranteed, to be printed as a sentence.
        law: the output distribution of the values.
        certificate: what the verifier found of the table that the values were sampled from.
    """

    kind: ClassVar[str]
    noun: ClassVar[str] = "a release"
    answers: ClassVar[str]
    key: tuple[str, ...]
    guarantee: Guarantee
    law: Any
    certificate: Certificate | CompactCertificate

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self) or hasattr(type(self), name):
            raise AttributeError(f"a release does not change, and its {name} cannot be set again.")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        guarantee = self.guarantee
        stated = f"epsilon={float(guarantee.epsilon):.6g}, delta={float(guarantee.delta):.6g}"
        return f"<{type(self).__name__} of {self._held()}: {stated if guarantee.private else 'NOT PRIVATE (seeded)'}>"

    def _held(self) -> str:
        """What it holds, in a few words for `repr`: nothing that is not public."""
        raise NotImplementedError

    # ---- questions; a kind that answers one overrides it ----

    def table(self, *args: Any, **kwargs: Any) -> pl.DataFrame:
        """All that was released, as a Polars data frame."""
        raise self._refusal("table")

    def to_arrow(self, *args: Any, **kwargs: Any) -> pa.Table:
        """The table as a PyArrow table."""
        return self.table(*args, **kwargs).to_arrow()

    def to_pandas(self, *args: Any, **kwargs: Any) -> pd.DataFrame:
        """The table as a pandas data frame."""
        return self.to_arrow(*args, **kwargs).to_pandas()

    def top(self, n: int = 10, *, confidence: object = 0.95) -> pl.DataFrame:
        """The n keys with the largest values, with confidence intervals that hold after this selection."""
        raise self._refusal("top")

    def count(self, key: Any, confidence: object = 0.95) -> Count | None:
        """The value of one key with a confidence interval; None for a key that was not released."""
        raise self._refusal("count")

    def totals(self, *, confidence: object = 0.95) -> pl.DataFrame:
        """How many there are in all, released or not."""
        raise self._refusal("totals")

    def by(self, *columns: str, confidence: object = 0.95) -> pl.DataFrame:
        """Counts of groups of released keys."""
        raise self._refusal("by")

    def compare(self, other: Release, *, n: int | None = None, confidence: object = 0.95) -> pl.DataFrame:
        """How much more or less each key has in another release, with confidence intervals; tables of keys only.

        Every key that either release reports: `estimate_before` (of this release), `estimate_after` (of the other),
        `difference` and `ratio` with `_lower` and `_upper`, and `status`: "both", "appeared" (only in the other) or
        "gone". **Not released is not zero**: of such a key the interval says what is known, from what a release hides
        at most. A bound is null where there is none: a ratio to what may be 0, or a release of sampled keys.

        Args:
            other: another release over the same key columns, about the same privacy unit.
            n: None for all keys, in their order, with an interval for each key on its own; or how many keys to show, of
                those whose count changed most at least, with intervals that hold for all keys at once, and so after
                this selection.
            confidence: of the intervals; see `dptally.releases.comparison` for why they hold.

        Raises:
            InvalidParameter: if the releases cannot be compared.
        """
        from dptally.releases.comparison import compare

        return compare(self, other, n=n, confidence=confidence)

    def sum(self, *args: Any, **kwargs: Any) -> Sum:
        """Sum of counts over selected keys, with a confidence interval."""
        raise self._refusal("sum")

    def rank(self, key: Any) -> int | None:
        """The place of a released key by value, 1 for the largest; None for a key that was not released."""
        raise self._refusal("rank")

    def quantile(self, *args: Any, **kwargs: Any) -> Any:
        """The value that a share q does not exceed."""
        raise self._refusal("quantile")

    def accuracy(self, *args: Any, **kwargs: Any) -> pl.DataFrame:
        """How the estimate for one key errs, for given true counts."""
        raise self._refusal("accuracy")

    def look_up(self, parts: list[str], *, confidence: object = 0.95) -> pl.DataFrame:
        """The values of keys that are written as text, one part for each key column, key after key."""
        raise self._refusal("count")

    def plot(self, n: int = 20, *, confidence: object = 0.95) -> Chart:
        """A picture of what was released: a notebook shows it, and its `save` writes it (.svg, .html, or .png).

        At most n keys, where keys are listed, with intervals of this confidence.
        """
        from dptally.report.plots import contents_chart

        return contents_chart(self, n=n, confidence=confidence)

    def _refusal(self, question: str) -> InvalidParameter:
        return InvalidParameter(f"{self.noun} has no answer to {question!r}; {self.answers}.")

    def for_people(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of `table` or `top` with the columns that are worth printing, those of the key first."""
        return rows

    def top_in_words(self, *, confidence: object = 0.95) -> str:
        """Which kind of confidence intervals `top` gives, in words for those who read them."""
        raise self._refusal("top")

    def summary(self, n: int = 10, *, confidence: object = 0.95) -> Summary:
        """What `dptally show` shows: at most n rows."""
        raise NotImplementedError

    # ---- trust ----

    def verify(self) -> Certificate | CompactCertificate:
        """Rebuild the mechanism from the facts in the release, derive the guarantee from it, and compare.

        Raises:
            PrivacyViolation: if the guarantee states more than was derived, or the certificate is another one.
        """
        raise NotImplementedError

    def signed(self, record: Record | None) -> Self:
        """The same release, its guarantee naming the ledger's record; None for no ledger."""
        return self if record is None else self.stating(replace(self.guarantee, record=record))

    def stating(self, guarantee: Guarantee) -> Self:
        """The same release with another guarantee, for who made it; `verify` says whether it holds."""
        made = copy.copy(self)
        vars(made)["guarantee"] = guarantee
        return made

    # ---- file and page ----

    def facts(self) -> dict[str, Any]:
        """What the metadata of a file says beside guarantee and certificate: the mechanism, and what the kind adds."""
        raise NotImplementedError

    def stored_rows(self) -> pa.Table:
        """The columns of a file."""
        raise NotImplementedError

    @classmethod
    def from_facts(cls, table: pa.Table, facts: dict[str, Any]) -> Self:
        """The release back from the columns and the metadata of a file.

        Raises:
            UnreadableRelease: for what a reader can do something about; the words that go after the name of the file.
            ValueError: or another error of `dptally.privacy.stored_facts.DAMAGE`, for data that is no such release.
        """
        raise NotImplementedError

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write one Parquet file that other tools can open; complete or not there at all; over another if asked."""
        write_release(self, Path(path), overwrite=overwrite)

    def describe(self) -> dict[str, Any]:
        """What is guaranteed and how it was verified, as plain data for JSON."""
        return {**metadata(self), "guarantee_text": str(self.guarantee)}

    def contents(self, asked: Asked) -> Report:
        """What a page says about the release."""
        raise NotImplementedError

    def report(self, path: str | Path, *, overwrite: bool = False, **options: Any) -> None:
        """Write an HTML page about this release, to show to anyone; options as for `dptally.report.write`."""
        from dptally.report import write

        write(self, path, overwrite=overwrite, **options)
