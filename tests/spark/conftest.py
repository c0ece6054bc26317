"""One Spark session on two threads for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dptally.errors import MissingDependency

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # starts faster, and nothing here runs long
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.maxResultSize": "1m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with small batches, several partitions, and room for a megabyte of results."""
    pytest.importorskip("pyspark", reason="needs pip install 'dptally[spark]'")
    from dptally.spark import local_session

    try:
        session = local_session(master="local[2]", memory="1g", settings=SETTINGS)
    except MissingDependency as missing:
        pytest.skip(str(missing))
    yield session
    session.stop()
