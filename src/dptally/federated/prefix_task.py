"""The task of several rounds: which strings are frequent among devices, level by level over their prefixes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dptally.exact import as_count
from dptally.federated.protocol import LARGEST_VOTE, Round
from dptally.laws.prefix_plans import TriePlan, plan_trie
from dptally.laws.prefix_rounds import Round as TrieRound
from dptally.laws.prefix_rounds import TrieRounds
from dptally.privacy.spending import Spending
from dptally.releases.prefix_tree import PrefixTree


class HeavyHitterRounds:
    """TrieHH++ over a federation: each device votes for the prefix of its value, with a fresh coin in every round.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one device, for all rounds together: the plan is
        verified as a whole (`dptally.verifiers.rounds`). Each round states the whole epsilon and delta: it keeps them
        on its own, and what the rounds keep together is no more. So the sum over rounds that a server records
        overstates what the task spends.

    References:
        [BC22] section 4.1.

    Args:
        epsilon: for the device, for all rounds.
        delta: for the device, for all rounds.
        levels: how many, or the lengths of prefixes.
        step: symbols per level, where `levels` is a number.
        domain: "characters", "utf8" or "bits".
        width: of a symbol, for "bits".
        key_bytes: longer votes are not sent; every vote takes this many bytes.
    """

    task = "heavy_hitters"

    def __init__(
        self,
        epsilon: object,
        delta: object,
        *,
        levels: int | Sequence[int] = 10,
        step: int = 1,
        domain: Literal["characters", "utf8", "bits"] = "characters",
        width: int | None = None,
        key_bytes: int = 64,
    ) -> None:
        plan = plan_trie(epsilon, delta, levels=levels, step=step, domain=domain, width=width)
        self._prepare(plan, key_bytes)

    def _prepare(self, plan: TriePlan, key_bytes: int) -> None:
        self._plan = plan
        self._key_bytes = as_count("key_bytes", key_bytes, largest=LARGEST_VOTE)
        self._rounds = TrieRounds(plan, unit="device")

    @property
    def spends(self) -> Spending:
        """What all rounds together spend."""
        return self._plan.spends

    def start(self) -> Round:
        """The first level."""
        self._rounds = TrieRounds(self._plan, unit="device")
        return self._ask(self._rounds.start())

    def receive(self, sampled: Mapping[bytes, int]) -> Round | PrefixTree:
        """The next level, or the tree."""
        found = self._rounds.receive({vote.decode(): count for vote, count in sampled.items()})
        return PrefixTree.of_rounds(self._rounds) if found is None else self._ask(found)

    def _ask(self, asked: TrieRound) -> Round:
        facts = {"number": asked.level, "key_bytes": self._key_bytes, "question": asked.to_dict()}
        return Round.of_law(self._plan.observation_model, task=self.task, **facts)

    def accepts(self, vote: bytes, asked: Round) -> bool:
        """Whether a vote is a node of this level below one that was reported before."""
        running = self._rounds.round
        if running is None or running.level != asked.number:
            return False
        try:
            return running.asks_for(vote.decode())
        except UnicodeDecodeError:
            return False

    def to_dict(self) -> dict[str, Any]:
        """Its parameters."""
        return {"plan": self._plan.to_dict(), "key_bytes": self._key_bytes}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeavyHitterRounds:
        """From parameters as `to_dict` gives them, verified again; or as the class takes them."""
        if "plan" not in data:
            return cls(**data)
        plan = TriePlan.from_dict(data["plan"])
        plan.verify()
        made = cls.__new__(cls)
        made._prepare(plan, data.get("key_bytes", 64))
        return made

    @staticmethod
    def answer(value: Any, asked: Round) -> bytes | None:
        """The node of the device's value, or None where it has no part, or the name is too long to be sent."""
        node = _question(asked).answer(value)
        vote = None if node is None else node.encode()
        return None if vote is None or len(vote) > asked.key_bytes else vote


_RECENT: list[tuple[Round, TrieRound]] = []


def _question(asked: Round) -> TrieRound:
    """The question of a round; read once for all devices of a node."""
    if not _RECENT or _RECENT[0][0] is not asked:
        _RECENT[:] = [(asked, TrieRound.from_dict(dict(asked.question)))]
    return _RECENT[0][1]
