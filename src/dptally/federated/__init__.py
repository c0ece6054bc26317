"""A federation of devices: rounds of sampling and thresholding, over any transport, and over Flower.

`protocol` says what a round and a task are, and what the messages look like; `server` and `client` are the two ends, as
plain Python; `flower_app` carries their messages with Flower (``pip install 'dptally[federated]'``).
"""

from dptally.federated.client import Node
from dptally.federated.histogram import HistogramRounds
from dptally.federated.limits import Answers, Limits
from dptally.federated.protocol import Round, Rounds, register_task
from dptally.federated.server import Server, enough_to_contact

__all__ = [
    "Answers",
    "HistogramRounds",
    "Limits",
    "Node",
    "Round",
    "Rounds",
    "Server",
    "enough_to_contact",
    "register_task",
]
