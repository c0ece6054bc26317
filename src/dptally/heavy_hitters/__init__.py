"""Heavy hitters of strings as a tree of prefixes: what is asked in each round, and what is released.

Nothing here reads private data: a server that adds up answers, a device that gives one, and whoever reads a released
tree share this package. The central mechanism is `dptally.mechanisms.trie_heavy_hitters`.
"""

from __future__ import annotations

from dptally.heavy_hitters.domains import Domain
from dptally.heavy_hitters.plans import TriePlan, plan_trie
from dptally.heavy_hitters.rounds import Round, TrieRounds, answer
from dptally.heavy_hitters.tree import PrefixTree
from dptally.heavy_hitters.tree_file import load_tree

__all__ = ["Domain", "PrefixTree", "Round", "TriePlan", "TrieRounds", "answer", "load_tree", "plan_trie"]
