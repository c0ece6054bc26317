"""Paying for a release: reserve, open the source, read, say that the draw begins, draw, say that it was published.

::

    with paying(ledger, spending, bits, unit=unit) as paid:
        with paid.opening():
            ...                              # columns and types that are declared; no row
        ...                                  # read data; `bits` may choose which keys of a unit are counted
        drawn = mechanism.draw(data, paid.bits)
        guarantee = replace(guarantee, record=paid.record)

**What is given back.** Whether a request fails once rows are read may depend on the rows, so a failure is an answer:
anyone who got the budget back could ask until the answers add up to a number. So what fails inside of `paid.opening()`,
where nothing but public declarations is looked at, is void; whatever fails anywhere else, for whatever reason, an
interruption among them, stays spent, and the history says "failed". A step that is not put into
`opening()` costs budget when it fails; nothing gives any back by mistake. The owner can void a failed entry by
hand (`Ledger.void`), with a reason.

**What counts as the draw.** Random words that decide which of a unit's keys are counted are taken from `bits`: nothing
that depends on them is seen by anyone before the draw. Everything that the guarantee of the release rests on, the
sampling of rows or keys while they are read among it, takes its words from `paid.bits`: its first word is handed out
only when "drawn" is on disk.

A release that was drawn from a seed is not private, and pays all the same.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dptally.errors import DptallyError, InvalidParameter
from dptally.ledger.history import unit_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dptally.ledger.ledger import Account, Ledger, Reservation
    from dptally.ledger.renewal import Interval
    from dptally.privacy.guarantee import Record
    from dptally.privacy.spending import Spending
    from dptally.randomness import BitSource

AnyLedger: TypeAlias = "Ledger | Account | str | Path"
"""What may be given as a ledger: one, an account of one, or the path of one."""

_SPENT = "_dptally_spent"


class PaidBits:
    """Random words that are handed out only when the ledger has "drawn" on disk."""

    def __init__(self, bits: BitSource, reservation: Reservation) -> None:
        self._bits = bits
        self._reservation = reservation
        self._lock = threading.Lock()

    @property
    def private(self) -> bool:
        """Whether the bits are secret and fresh."""
        return self._bits.private

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` independent uniform 64-bit words, never returned before."""
        with self._lock:
            self._reservation.drawn()
        return self._bits.words(count)


@dataclass(frozen=True)
class Paid:
    """What a release is drawn with: random bits, and the reservation that pays for it, or None without a ledger."""

    bits: BitSource
    reservation: Reservation | None = None

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """For what looks at public declarations alone, and at no row: if it fails, the budget is given back."""
        try:
            yield
        except BaseException:
            if self.reservation is not None and self.reservation.state == "reserved":
                # Where it cannot be written down it stays reserved, which counts as spent: the safe side.
                with contextlib.suppress(DptallyError):
                    self.reservation.void("failed before any row was read")
            raise

    def begin(self) -> None:
        """Have "drawn" on disk, for a draw whose words were made from a secret that nobody has seen."""
        if self.reservation is not None:
            self.reservation.drawn()

    @property
    def record(self) -> Record | None:
        """Where the ledger has the spending, for the guarantee of the release; None without a ledger."""
        return None if self.reservation is None else self.reservation.record


@contextlib.contextmanager
def paying(
    ledger: AnyLedger | None,
    spending: Spending,
    bits: BitSource,
    *,
    unit: str | None,
    interval: Interval | None = None,
) -> Iterator[Paid]:
    """Reserve before the block is entered; published when it ends, failed if it fails, void if `Paid.opening` does.

    An `interval` is which times are read, of which column, as the filter of rows enforces it.

    Raises:
        BudgetExceeded: if the budget does not allow it.
    """
    if ledger is None:
        yield Paid(bits)
        return
    seeded = None if bits.private else "drawn from a seed: not private"
    reservation = as_account(ledger).reserve(spending, unit=unit_name(unit), note=seeded, interval=interval)
    try:
        yield Paid(PaidBits(bits, reservation), reservation)
        reservation.published()
    except BaseException as error:
        if reservation.state != "void":
            with contextlib.suppress(DptallyError):  # it stays reserved or drawn, which count as well
                reservation.failed()
            said = (
                f"The budget stays spent, as entry {reservation.number} of the ledger: this failed after data was "
                "opened, and whether it does may depend on the data. To take it back by hand, say why: dptally ledger "
                f"void {shlex.quote(str(reservation.path))} {reservation.number} --reason TEXT."
            )
            error.add_note(said)
            setattr(error, _SPENT, said)
        raise


def spent_by(error: BaseException) -> str | None:
    """What to say about the budget after a failure, if it stays spent. No notes of engines, which may quote rows."""
    said = getattr(error, _SPENT, None)
    return said if isinstance(said, str) else None


def as_account(ledger: object) -> Account:
    """Whatever was given as a ledger, as an account of one."""
    from dptally.ledger.ledger import Account, Ledger

    if isinstance(ledger, str | Path):
        ledger = Ledger(ledger)
    if isinstance(ledger, Ledger):
        return ledger.account()
    if not isinstance(ledger, Account):
        raise InvalidParameter(
            f"ledger must be a dptally.Ledger, an account of one, or the path of one, got {type(ledger).__name__}."
        )
    return ledger
