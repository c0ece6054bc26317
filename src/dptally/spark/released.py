"""A release that stays on the cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.dataframe import DataFrame

from dptally.mechanisms.base import in_order_of_keys
from dptally.releases.release_file import metadata
from dptally.releases.table_release import TableRelease
from dptally.spark.jobs import run

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.laws.base import Law
    from dptally.privacy.guarantee import Guarantee
    from dptally.verifiers.tables import Certificate

__all__ = ["SparkRelease"]


class SparkRelease(DataFrame):
    """Released rows as a Spark DataFrame (key columns and "value", sorted by key), with what is promised about them.

    The rows are fixed: they were drawn once and are kept by Spark (see `dptally.spark.publishing`). What is made from
    this DataFrame by Spark's own methods is a DataFrame like any other.

    Attributes:
        guarantee: what is promised.
        certificate: the verifier's finding on the table the values were drawn from.
        law: the law of the values.
    """

    def __init__(self, frame: Any, guarantee: Guarantee, certificate: Certificate, law: Law) -> None:
        super().__init__(frame._jdf, frame.sparkSession)
        self.guarantee = guarantee
        self.certificate = certificate
        self.law = law

    def __repr__(self) -> str:
        promise = (
            "NOT PRIVATE (seeded)"
            if not self.guarantee.private
            else f"epsilon={float(self.guarantee.epsilon):.6g}, delta={float(self.guarantee.delta):.6g}"
        )
        return f"<SparkRelease by {', '.join(self.columns[:-1])}: {promise}>"

    def to_release(self) -> TableRelease:
        """Bring the rows to the driver, as the `TableRelease` that `publish` returns by default.

        Raises:
            InvalidParameter: they do not fit.
        """
        rows = run(self, self.toArrow, stage="collecting the release", progress=None)
        return TableRelease(release_rows(rows, tuple(self.columns[:-1])), self.guarantee, self.certificate, self.law)

    def save(self, directory: str) -> None:
        """Write the rows as Parquet files, and what is promised as ``_dptally.json`` beside them.

        Args:
            directory: a new directory on any file system that Spark can write to.

        Raises:
            InvalidSource: it exists, or cannot be written.
        """
        empty = self.limit(0).toArrow()
        described = TableRelease(
            release_rows(empty, tuple(self.columns[:-1])), self.guarantee, self.certificate, self.law
        )
        facts = json.dumps(metadata(described), indent=2)
        run(self, lambda: self.write.parquet(directory), stage="writing the release", progress=None)
        run(self, lambda: self._write_text(f"{directory}/_dptally.json", facts), stage="writing", progress=None)

    def _write_text(self, place: str, text: str) -> None:
        jvm: Any = self.sparkSession._jvm
        path = jvm.org.apache.hadoop.fs.Path(place)
        stream = path.getFileSystem(self.sparkSession._jsc.hadoopConfiguration()).create(path, False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()


def release_rows(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Rows as other engines give them: the key columns by name, text and bytes of any length, in order of keys."""
    import pyarrow as pa

    named = rows.rename_columns([*key, "value"])
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    schema = pa.schema([pa.field(field.name, wide.get(field.type, field.type)) for field in named.schema])
    return in_order_of_keys(named.cast(schema).combine_chunks(), key)
