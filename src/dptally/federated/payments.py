"""What a run pays from a ledger.

A task that says what all its rounds spend together (`spends`) is paid for once, before its first call leaves; a task
that does not pays for each round. Coins fall as soon as calls leave, so "drawn" is on disk before that.

A payment is good for the process that made it, which asks each round once. A server that goes on with the run of an
earlier process pays for the whole task again before it asks anything: what the earlier one has asked is known from a
state file only, and a file can be edited. A run whose rounds are all finished asks nothing, and pays nothing.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dptally.errors import InvalidParameter
from dptally.federated.protocol import RATE_UNIT, Round
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.specs.sample_and_threshold import SampleAndThreshold as SampleAndThresholdMechanism
from dptally.ledger import Account, Reservation
from dptally.ledger.paying import as_account
from dptally.privacy.guarantee import Record
from dptally.privacy.spending import Part, Spending


class Payments:
    """Pays for a run from a ledger, if any; `record` is of what an earlier process has paid for the whole of it."""

    def __init__(self, ledger: Any, whole: Spending | None, record: Record | None) -> None:
        self._account: Account | None = None if ledger is None else as_account(ledger)
        self._whole = whole
        self._runs: list[Reservation] = []
        self._asking = False
        self._round: Reservation | None = None
        if self._account is not None and record is not None:
            if whole is None:
                raise InvalidParameter("the state file names a payment for a task that pays by the round.")
            self._runs.append(self._account.ledger.resume(record, whole))

    @property
    def record(self) -> Record | None:
        """Of what was paid for the whole run, by the last process that asked."""
        return self._runs[-1].record if self._runs else None

    def pay(self, asked: Round) -> None:
        """Pay for a round, before it is asked."""
        if self._account is None:
            return
        if self._whole is None:
            rate = Fraction(asked.rate, RATE_UNIT)
            law = SampleAndThreshold(asked.epsilon, asked.delta, rate=rate, threshold=asked.threshold)  # or it refuses
            # Without its profile: the threshold of a round may be higher than the one that devices in league leave.
            event = Spending(SampleAndThresholdMechanism.name, law.epsilon, law.delta, (Part(law.epsilon, law.delta),))
            note = f"round {asked.number} of the task {asked.task}"[:100]
            self._round = self._account.reserve(event, unit="device", note=note)
            self._round.drawn()
        elif not self._asking:
            resumed = "the run goes on after a restart" if self._runs else None
            run = self._account.reserve(self._whole, unit="device", note=resumed)
            run.drawn()
            self._runs.append(run)
            self._asking = True

    def round_closed(self) -> None:
        """Say that what a round released was handed to the task."""
        if self._round is not None:
            self._round.published()
            self._round = None

    def finished(self) -> None:
        """Say that the result was handed over."""
        for run in self._runs:
            run.published()
