"""What a run pays from a ledger.

A task that says what all its rounds spend together (`spends`) is paid for once, before its first call leaves; a task
that does not pays for each round. A round that is asked again, because the server was killed or had to give up, is paid
for again: its devices toss new coins. Coins fall as soon as calls leave, so "drawn" is on disk before that.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dptally.ledger.paying import as_account
from dptally.observation_models import SampleAndThreshold
from dptally.privacy.accounting.spending import Part, Spending

if TYPE_CHECKING:
    from dptally.federated.protocol import Round
    from dptally.ledger import Account, Reservation
    from dptally.privacy.guarantee import Record

__all__ = ["Payments"]

_RATE_UNIT = 1 << 32


class Payments:
    """Pays for a run.

    Args:
        ledger: what was given as a ledger, or None.
        whole: what the task spends in all, if it says so.
        record: of what an earlier process has paid for the whole run, if it has.
    """

    def __init__(self, ledger: Any, whole: Spending | None, record: Record | None) -> None:
        self._account: Account | None = None if ledger is None else as_account(ledger)
        self._whole = whole
        self._run: Reservation | None = None
        self._round: Reservation | None = None
        if self._account is not None and record is not None:
            self._run = self._account.ledger.resume(record)

    @property
    def record(self) -> Record | None:
        """Of what was paid for the whole run."""
        return None if self._run is None else self._run.record

    def pay(self, asked: Round, *, again: bool) -> None:
        """Pay for a round, before it is asked.

        Args:
            asked: the round.
            again: whether it has been asked before.

        Raises:
            BudgetExceeded: if the budget does not allow it.
        """
        if self._account is None:
            return
        if self._whole is not None and self._run is None:
            self._run = self._account.reserve(self._whole, unit="device")
            self._run.drawn()
        if self._whole is None or again:
            rate = Fraction(asked.rate, _RATE_UNIT)
            law = SampleAndThreshold(asked.epsilon, asked.delta, rate=rate, threshold=asked.threshold)  # or it refuses
            # Without its profile: the threshold of a round may be higher than the one that devices in league leave.
            event = Spending("sample_and_threshold", law.epsilon, law.delta, (Part(law.epsilon, law.delta),))
            note = f"round {asked.number} of the task {asked.task}"[:100]
            self._round = self._account.reserve(event, unit="device", note=note)
            self._round.drawn()

    def round_closed(self) -> None:
        """Say that what a round released was handed to the task."""
        if self._round is not None:
            self._round.published()
            self._round = None

    def finished(self) -> None:
        """Say that the result was handed over."""
        if self._run is not None:
            self._run.published()
