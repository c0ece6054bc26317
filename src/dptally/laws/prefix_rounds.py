"""The rounds: what is asked, who answers what, and what is kept of the answers.

The same objects run a central draw and a federation. A server holds `TrieRounds` and sends `Round.to_dict()`; a device
reads it with `Round.from_dict`, asks `answer(value, round)` which node it would vote for, and votes if `Round.coin`
says so. The server adds up votes and hands them to `receive`, which keeps nothing below the threshold.

Coins must be fresh in every round. If the same units answered in all rounds, the counts of a node and of its children
would be counts of one sample: when all values but one go on in the same way, the two counts are equal exactly if that
one was left out, so it would be betrayed with the probability of the rate, whatever the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dptally.errors import InvalidParameter
from dptally.exact import as_count
from dptally.laws.base import LARGEST_FREQUENCY
from dptally.laws.prefix_plans import Node, TriePlan
from dptally.laws.sample_and_threshold import as_rate
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.stored_facts import DAMAGE
from dptally.randomness import BitSource
from dptally.universes.prefixes import LARGEST_LENGTH, OPEN, ROOT, Domain
from dptally.verifiers.rounds import LARGEST_ROUNDS

__all__ = ["Round", "TrieRounds", "answer"]

_RATE_BITS = 32


@dataclass(frozen=True)
class Round:
    """One question, public as a whole."""

    level: int  # 1 for the first
    previous: int  # how many symbols the nodes have that were reported before; 0 in the first round
    length: int  # how many symbols the nodes have that are asked for
    prefixes: tuple[str, ...]  # the open nodes that may be extended, in order
    rate: Fraction  # with which each unit keeps its vote
    domain: Domain  # which strings values are

    @cached_property
    def _asked(self) -> frozenset[str]:
        return frozenset(self.prefixes)

    def answer(self, value: object) -> str | None:
        """The node a unit with this value votes for, or None if it has no part in this round. Before the coin."""
        text = self.domain.text(value)
        if self.domain.node_of_text(text, self.previous) not in self._asked and not (self.previous == 0 and not text):
            return None
        return self.domain.node_of_text(text, self.length)

    def coin(self, bits: BitSource) -> bool:
        """Whether a unit's vote is kept: True with probability `rate` exactly. Once for each unit and round."""
        return int(bits.words(1)[0]) >> (64 - _RATE_BITS) < self.rate * (1 << _RATE_BITS)

    def asks_for(self, node: object) -> bool:
        """Whether a node is a possible answer; a server refuses the others."""
        if not self.domain.is_node(node, self.previous, self.length):
            return False
        return self.domain.above(str(node), self.previous) in self._asked

    def to_dict(self) -> dict[str, Any]:
        """As plain data for a message."""
        return {
            "level": self.level,
            "previous": self.previous,
            "length": self.length,
            "prefixes": list(self.prefixes),
            "rate": str(self.rate),
            "domain": self.domain.to_dict(),
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Round:
        """From plain data.

        Raises InvalidParameter for data that is no round.
        """
        try:
            domain = Domain.from_dict(facts["domain"])
            made = cls(
                level=as_count("level", facts["level"], largest=LARGEST_ROUNDS),
                previous=as_count("previous", facts["previous"], smallest=0, largest=LARGEST_LENGTH),
                length=as_count("length", facts["length"], largest=LARGEST_LENGTH),
                prefixes=tuple(facts["prefixes"]),
                rate=as_rate(str(facts["rate"])),
                domain=domain,
            )
            valid = made.previous < made.length and all(
                domain.is_node(node, made.previous, made.previous) and node[-1] == OPEN for node in made.prefixes
            )
        except DAMAGE:
            valid = False
        if not valid:
            raise InvalidParameter("the data is not a round of heavy hitters, or is damaged.")
        return made


def answer(value: object, asked: Round) -> str | None:
    """The node a unit with this value votes for, or None to abstain; see `Round.answer`.

    >>> first = Round(1, 0, 2, ("*",), Fraction(1, 4), Domain("characters"))
    >>> answer("tomorrow", first), answer("to", first), answer("t", first)
    ('to*', 'to$', 't$')
    >>> second = Round(2, 2, 4, ("to*",), Fraction(1, 4), Domain("characters"))
    >>> answer("tomorrow", second), answer("to", second), answer("yes", second)
    ('tomo*', None, None)
    """
    return asked.answer(value)


class TrieRounds:
    """The state of a run between rounds: everything in it has been released, so that it may be stored and sent.

    Guarantee:
        (epsilon, delta)-differential privacy of everything this object ever shows, for adding or removing one unit
        with one value, provided that in each round every unit's vote is kept by an independent coin of the stated
        rate, that votes are counted once, and that counts below the threshold go nowhere else. A round whose answers
        were lost before `receive` may be asked again, with fresh coins; one that was received may not.

    `unit` is the column whose values are protected; `private` is False when coins come from a seed.

    >>> from dptally.laws.prefix_plans import plan_trie
    >>> rounds = TrieRounds(plan_trie(1, "1e-6", levels=[1, 3]))
    >>> first = rounds.start()
    >>> second = rounds.receive({"t*": 50, "a*": 3, "I$": 20})
    >>> second.prefixes
    ('t*',)
    >>> rounds.receive({"the$": 30, "tho*": 2}) is None
    True
    """

    def __init__(self, plan: TriePlan, *, unit: str | None = None, private: bool = True) -> None:
        self.plan = plan
        self.unit = unit
        self.private = private
        self._nodes: list[Node] = []
        self._received = 0

    @property
    def round(self) -> Round | None:
        """What is to be asked now; None when nothing is left to ask."""
        if self._received == self.plan.rounds:
            return None
        prefixes = tuple(node.name for node in self._nodes if node.level == self._received and node.name[-1] == OPEN)
        if self._received and not prefixes:
            return None
        lengths = self.plan.asked
        return Round(
            level=self._received + 1,
            previous=lengths[self._received - 1] if self._received else 0,
            length=lengths[self._received],
            prefixes=prefixes if self._received else (ROOT,),
            rate=self.plan.law.rate,
            domain=self.plan.domain,
        )

    def start(self) -> Round:
        """The first round.

        Raises InvalidParameter if answers have been received already.
        """
        if self._received:
            raise InvalidParameter("the rounds have been started already; see `round` for what is asked now.")
        found = self.round
        if found is None:
            raise InvalidParameter("the plan has no rounds.")
        return found

    def receive(self, counts: Mapping[str, int]) -> Round | None:
        """Take the counts of kept votes, keep those that reach the threshold, and go on.

        Returns the next question; None if that was the last, and `nodes` has the result. Raises InvalidParameter for
        counts of nodes that were not asked for, or that are no counts; nothing is taken then.
        """
        asked = self.round
        if asked is None:
            raise InvalidParameter("all rounds have been answered.")
        found = []
        for name, count in counts.items():
            if not asked.asks_for(name):
                raise InvalidParameter("counts hold a node that was not asked for.")
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= LARGEST_FREQUENCY:
                raise InvalidParameter("counts must be whole numbers from 0 to 2^62.")
            if count >= self.plan.law.threshold:
                found.append(Node(asked.level, name, count))
        self._nodes += sorted(found)
        self._received += 1
        return self.round

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What has been reported so far; `PrefixTree.of_rounds` makes a release of it."""
        return tuple(self._nodes)

    def guarantee(self) -> Guarantee:
        """What is guaranteed for all rounds together."""
        return self.plan.guarantee(unit=self.unit, private=self.private)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, to go on later."""
        return {
            "plan": self.plan.to_dict(),
            "unit": self.unit,
            "private": self.private,
            "received": self._received,
            "nodes": [[node.level, node.name, node.value] for node in self._nodes],
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> TrieRounds:
        """Go on where `to_dict` was called. The law is verified again.

        Raises InvalidParameter for data that is no state of rounds, PrivacyViolation for a plan that does not keep its
        promise.
        """
        plan = TriePlan.from_dict(facts.get("plan", {}))
        plan.verify()
        made = cls(plan, unit=facts.get("unit"), private=facts.get("private") is True)
        try:
            received = int(facts["received"])
            nodes = [Node(int(level), name, int(value)) for level, name, value in facts["nodes"]]
        except (KeyError, TypeError, ValueError):
            raise InvalidParameter("the data is not a state of rounds, or is damaged.") from None
        for level in range(1, received + 1):
            if made.round is None:
                raise InvalidParameter("the data is not a state of rounds, or is damaged.")
            made.receive({node.name: node.value for node in nodes if node.level == level})
        if sorted(made._nodes) != sorted(nodes):
            raise InvalidParameter("the data is not a state of rounds, or is damaged.")
        return made
