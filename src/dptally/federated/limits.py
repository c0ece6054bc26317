"""What a node lets a server ask of its devices, checked by the node itself, call by call.

A call states a rate, a threshold, an epsilon and a delta. None of it is believed: the node computes again, exactly,
whether rate and threshold keep epsilon and delta, and compares every number with limits that its owner has set.

What no node can check: that the server applies the threshold, and how many other nodes it asks. A server that lies
about these sees the value of each device that takes part. So `Limits.rate` is what holds against the server itself: in
one call it learns the value of a device with at most that probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.exact import as_count, as_fraction
from dptally.federated.messages import LARGEST_CALL, LARGEST_NODE, Call, ballot_size
from dptally.federated.protocol import RATE_UNIT, Round
from dptally.laws.sample_and_threshold import SampleAndThreshold

__all__ = ["Limits", "certify_round"]


@dataclass(frozen=True)
class Limits:
    """The largest request that a node answers. Set by its owner; nothing that a server sends changes it.

    Attributes:
        epsilon: of all answers together, added up over the node's lifetime.
        delta: of all answers together, added up.
        rate: the largest probability with which a device takes part in one call.
        devices: the fewest devices of this node that one call may ask; calls that single out fewer are refused.
        answers: how many calls are answered in all.
        message_bytes: the longest call that is read, and the longest ballot that is made.
        trust_contact_rate: whether calls are answered that ask only some devices. The server says that it chose them by
            secret coins, and devices then take part with a larger probability; a node can check neither, so such calls
            are refused unless its owner trusts the server's word. `rate` then limits the product of both probabilities.
    """

    epsilon: Fraction = Fraction(16)
    delta: Fraction = Fraction(1, 1000)
    rate: Fraction = Fraction(1, 2)
    devices: int = 1
    answers: int = 64
    message_bytes: int = LARGEST_CALL
    trust_contact_rate: bool = False

    def __post_init__(self) -> None:
        for name, largest in (("epsilon", None), ("delta", 1), ("rate", 1)):
            number = as_fraction(name, getattr(self, name))
            if number <= 0 or (largest is not None and number > largest):
                raise InvalidParameter(f"{name} must be above 0{' and at most 1' if largest else ''}, got {number}.")
            object.__setattr__(self, name, number)
        as_count("devices", self.devices, largest=LARGEST_NODE)
        as_count("answers", self.answers, largest=1 << 20)
        as_count("message_bytes", self.message_bytes, largest=1 << 30)

    def read(self, message: bytes) -> Call:
        """The call that a message holds, if it is within the limits. Nothing has been computed from any value then."""
        if isinstance(message, bytes) and len(message) > self.message_bytes:
            raise InvalidParameter(f"the call is longer than the {self.message_bytes} bytes that this node reads.")
        call = Call.read(message)
        if call.asked.epsilon > self.epsilon or call.asked.delta > self.delta:
            raise InvalidParameter("the call spends more epsilon or delta than this node allows.")
        if (call.contacted is not None or call.coin_of != RATE_UNIT) and not self.trust_contact_rate:
            raise InvalidParameter("the call asks only some devices, which this node does not allow.")
        if Fraction(call.asked.rate, RATE_UNIT) > self.rate:
            raise InvalidParameter("the call has devices take part with a larger probability than this node allows.")
        if 0 < call.votes < self.devices:
            raise InvalidParameter(f"the call asks fewer than the {self.devices} devices that this node allows.")
        if ballot_size(call.votes, call.asked.key_bytes) > self.message_bytes:
            raise InvalidParameter(f"the answer would be longer than the {self.message_bytes} bytes of this node.")
        try:
            certify_round(call.asked)
        except PrivacyViolation:
            raise InvalidParameter(
                "the call's rate and threshold do not keep the epsilon and delta it states."
            ) from None
        return call


def certify_round(asked: Round) -> None:
    """Verify that the rate and threshold of a round keep its epsilon and delta."""
    _certify(asked.epsilon, asked.delta, asked.rate, asked.threshold)


@lru_cache(maxsize=64)
def _certify(epsilon: Fraction, delta: Fraction, rate: int, threshold: int) -> None:
    """Each combination is verified once."""
    SampleAndThreshold(epsilon, delta, rate=Fraction(rate, RATE_UNIT), threshold=threshold).certify()
