"""A mechanism from outside, private half."""

from __future__ import annotations

from typing import Any

from toy_coin.law import Coin, CoinLaw  # type: ignore[import-not-found]  # installed by the test

import dptally
from dptally.laws.spec import Question
from dptally.mechanisms import independent_keys


def draw(question: Question, summary: Any, bits: Any) -> Any:
    """One draw for each key."""
    return independent_keys.draw(question, summary, bits)


def register() -> None:
    """Called through the entry point."""
    dptally.register(Coin, law=CoinLaw, draw=draw)
