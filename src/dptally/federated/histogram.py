"""The task of one round: how many devices hold which key?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.federated.protocol import LARGEST_VOTE, Round
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.specs.sample_and_threshold import SampleAndThreshold as SampleAndThresholdMechanism
from dptally.mechanisms.independent_keys import draw_batch
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Part, Spending, law_part
from dptally.randomness import SystemBits
from dptally.releases.table_release import RESERVED_COLUMNS, TableRelease
from dptally.sources.undeclared import is_unicode
from dptally.verifiers.tables import certify_copies

_LARGEST_COLLUSION = 100_000


class HistogramRounds:
    """Each device votes for the key it holds; keys with enough votes are released with their number of votes.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one device, also against a reader of the release
        who is in league with up to `colluding` devices: they may vote without a coin, or not at all, and tell him. With
        c such votes for a key the reader sees H + c where H + c >= t, that is the count H of the others where
        H >= t - c; so the law is verified with its own threshold, and the round's is that plus `colluding`.

    References:
        [BC22] section 3, and `dptally.observation_models.SampleAndThreshold` for the exact guarantee.

    Args:
        epsilon: for the device.
        delta: for the device.
        key: name of the key column of the release.
        rate: of taking part; None for the best one.
        threshold: of the law; None for the best one.
        key_bytes: keys that are longer as UTF-8 text are not counted; every vote takes this many bytes.
        keys: the only keys asked for, public; None for any.
        colluding: how many devices may be in league with readers of the release.

    Raises:
        PrivacyViolation: if rate and threshold do not keep epsilon and delta.
    """

    task = "histogram"

    def __init__(
        self,
        epsilon: object,
        delta: object,
        *,
        key: str = "key",
        rate: object = None,
        threshold: object = None,
        key_bytes: int = 64,
        keys: Sequence[str] | None = None,
        colluding: int = 0,
    ) -> None:
        if not isinstance(key, str) or not key or key in RESERVED_COLUMNS:
            raise InvalidParameter("key must be a name for the key column that the release does not use itself.")
        if isinstance(keys, str) or (keys is not None and not all(is_unicode(name) for name in keys)):
            raise InvalidParameter("keys must be a list of texts, or None for any key.")
        self._key = key
        self._key_bytes = as_count("key_bytes", key_bytes, largest=LARGEST_VOTE)
        self._keys = None if keys is None else sorted(set(keys))
        self._asked_for = None if keys is None else frozenset(name.encode() for name in keys)
        self._colluding = as_count("colluding", colluding, largest=_LARGEST_COLLUSION, smallest=0)
        self._epsilon, self._delta = as_epsilon(epsilon), as_delta(delta)
        judged = SampleAndThreshold(self._epsilon, self._delta, rate=rate, threshold=threshold)
        judged.certify()
        self._threshold = judged.threshold
        self.law = SampleAndThreshold(
            self._epsilon, self._delta, rate=judged.rate, threshold=judged.threshold + self._colluding
        )

    @property
    def spends(self) -> Spending:
        """What the round spends; without the law's profile where devices in league with readers lower its threshold."""
        part = Part(self._epsilon, self._delta) if self._colluding else law_part(self.law, 1)
        return Spending(SampleAndThresholdMechanism.name, self._epsilon, self._delta, (part,))

    def start(self) -> Round:
        """The only round."""
        question = {"key": self._key, "keys": self._keys}
        return Round.of_law(self.law, task=self.task, number=1, key_bytes=self._key_bytes, question=question)

    def receive(self, sampled: Mapping[bytes, int]) -> TableRelease:
        """The release made of the round's counts."""
        votes = sorted(sampled)
        keys = pa.record_batch({self._key: pa.array([vote.decode() for vote in votes], type=pa.string())})
        counts = np.array([sampled[vote] for vote in votes], dtype=np.int64)
        rows = draw_batch(self.law, keys, counts, SystemBits(), sampled=True)
        guarantee = Guarantee(
            epsilon=self._epsilon,
            delta=self._delta,
            unit="device",
            max_keys_per_unit=1,
            mechanism=SampleAndThresholdMechanism.name,
        )
        certificate = certify_copies(self.law.certify(), copies=1, epsilon=self._epsilon, delta=self._delta)
        return TableRelease(rows, guarantee, certificate, self.law)

    def accepts(self, vote: bytes, asked: Round) -> bool:
        """Whether a vote is text, and a key that was asked for."""
        try:
            vote.decode()
        except UnicodeDecodeError:
            return False
        return self._asked_for is None or vote in self._asked_for

    def to_dict(self) -> dict[str, Any]:
        """Its parameters; fractions are text."""
        return {
            "epsilon": str(self._epsilon),
            "delta": str(self._delta),
            "key": self._key,
            "rate": str(self.law.rate),
            "threshold": self._threshold,
            "key_bytes": self._key_bytes,
            "keys": self._keys,
            "colluding": self._colluding,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HistogramRounds:
        """The task with these parameters."""
        try:
            return cls(**data)
        except TypeError:
            raise InvalidParameter("the task 'histogram' does not have such parameters.") from None

    @staticmethod
    def answer(value: Any, asked: Round) -> bytes | None:
        """The key as UTF-8 text; None if there is none, if it is too long, or if it was not asked for."""
        if value is None:
            return None
        text = value if isinstance(value, str) else str(value)
        keys = asked.question.get("keys")
        vote = text.encode()
        return vote if len(vote) <= asked.key_bytes and (keys is None or text in keys) else None
