"""What a release on Spark writes into a ledger, whether it works or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dptally
from dptally.errors import BudgetExceeded, InvalidParameter, InvalidSource
from tests.spark.data import PRIVACY

REQUESTS: list[dict[str, Any]] = [
    {},
    {"collect": False},
    {"mechanism": "sample_and_threshold"},
    {"mechanism": "misra_gries", "capacity": 20},
]


@pytest.fixture
def ledger(tmp_path: Path) -> dptally.Ledger:
    """A budget for one release."""
    return dptally.Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What ledgers write, in its order."""
    seen: list[str] = []
    write = dptally.Ledger._append

    def note(self: dptally.Ledger, state: str, *arguments: Any, **columns: Any) -> Any:
        seen.append(state)
        return write(self, state, *arguments, **columns)

    monkeypatch.setattr(dptally.Ledger, "_append", note)
    return seen


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_a_release_is_reserved_drawn_and_published(
    spark: Any, ledger: dptally.Ledger, states: list[str], request_: dict[str, Any]
) -> None:
    """In this order, and the release names the entry; the next one is refused before Spark runs."""
    frame = spark.range(500).selectExpr("id % 2 as k")
    release = dptally.publish(frame, key="k", ledger=ledger, **PRIVACY, **request_)
    assert states == ["reserved", "drawn", "published"]
    assert ledger.find(release.guarantee).state == "published"
    assert ledger.remaining()[0] == 0
    with pytest.raises(BudgetExceeded):
        dptally.publish(frame, key="k", ledger=ledger, **PRIVACY, **request_)


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_a_job_that_fails_stays_spent(
    spark: Any, ledger: dptally.Ledger, states: list[str], request_: dict[str, Any]
) -> None:
    """Whether a job fails may depend on the rows: what was reserved is not given back."""
    broken = spark.sql("select if(id = 999, raise_error('no'), 'a') as k from range(1000)")
    with pytest.raises(dptally.DptallyError):
        dptally.publish(broken, key="k", ledger=ledger, **PRIVACY, **request_)
    assert states[0] == "reserved" and states[-1] == "failed"
    assert ledger.remaining()[0] == 0


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_columns_that_are_not_there_cost_nothing(
    spark: Any, ledger: dptally.Ledger, states: list[str], request_: dict[str, Any]
) -> None:
    """Columns of a DataFrame are declared: a mistake in their names is found before a row is read."""
    with pytest.raises(InvalidParameter, match="is not in the source"):
        dptally.publish(spark.range(5), key="k", ledger=ledger, **PRIVACY, **request_)
    assert states == ["reserved", "void"]
    assert ledger.remaining() == (ledger.epsilon, ledger.delta)


def test_a_checkpoint_that_fails_may_have_been_seen(
    spark: Any, ledger: dptally.Ledger, states: list[str], tmp_path: Path
) -> None:
    """Rows in a checkpoint directory can be read by others while the job still runs: it counts as spent."""
    broken = spark.sql("select cast(x'ff' as string) as k from range(1000)")
    context = spark.sparkContext
    context.setCheckpointDir(str(tmp_path / "checkpoints"))
    try:
        with pytest.raises(InvalidSource, match="not valid UTF-8"):
            dptally.publish(broken, key="k", ledger=ledger, collect=False, **PRIVACY)
    finally:
        getattr(context._jsc.sc(), "checkpointDir_$eq")(context._jvm.scala.Option.apply(None))
    assert not context._jsc.sc().getCheckpointDir().isDefined()
    assert states == ["reserved", "drawn", "failed"]
    assert ledger.remaining()[0] == 0
