"""Mechanisms from outside of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.laws.base import Law
from dptally.laws.finite import FiniteLaw
from dptally.laws.registry import add_mechanism
from dptally.laws.spec import Mechanism
from dptally.mechanisms.registry import add_draw

if TYPE_CHECKING:
    from dptally.mechanisms.base import Draw


def register(mechanism: type[Mechanism], *, law: type[Law], draw: Draw) -> None:
    """Add a mechanism under its name: publish, plan, explain, save, load, verify, ledgers, reports and audits take it.

    Our verifiers check the rows of its law, if that is a `dptally.laws.finite.FiniteLaw` which leaves `rows`, `certify`
    and `draw` as they are. A law of another kind brings a verifier of its own, and every release of it says which
    package certified it. No name can be replaced.

    An installed package names a function that calls this in its entry points, group ``dptally.mechanisms``; it is
    called when a name is asked for that the package does not have.

    Args:
        mechanism: the public half, see `dptally.laws.spec.Mechanism`.
        law: what release files name, see `dptally.laws.base.Law`.
        draw: the private half: ``draw(question, summary, bits)``; `dptally.mechanisms.independent_keys.draw` serves
            mechanisms that draw for each key by itself.

    Raises:
        InvalidParameter: a name is taken, or something is not what it must be.
    """
    if not (isinstance(mechanism, type) and issubclass(mechanism, Mechanism)):
        raise InvalidParameter("mechanism must be a subclass of dptally.laws.spec.Mechanism.")
    if not (isinstance(law, type) and issubclass(law, Law)):
        raise InvalidParameter("law must be a subclass of dptally.laws.base.Law.")
    if not callable(draw):
        raise InvalidParameter("draw must be a function of a question, a summary and bits.")
    add_mechanism(mechanism, law)
    add_draw(mechanism.name, draw)
    # Our verifier speaks for a law only if what it looks at is what is certified and drawn from.
    ours = issubclass(law, FiniteLaw) and all(
        getattr(law, name) is getattr(FiniteLaw, name) for name in ("certify", "draw", "rows")
    )
    law.certified_by = None if ours else law.__module__.partition(".")[0]
