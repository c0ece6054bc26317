"""The funnel of randomness: fresh, secret, fork- and thread-safe; the seeded twin repeats itself."""

from __future__ import annotations

import copy
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dptally.randomness import BitSource, SeededBits, SystemBits


def words_of_child(source: BitSource) -> list[int]:
    """What a forked child draws from a source it inherited."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, source.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    return np.frombuffer(os.read(read, 32), dtype=np.uint64).tolist()


def test_seeded_words_are_known() -> None:
    """Golden: `openssl enc -aes-256-ctr` of zeros under SHA-256 of the seed text, initial counter 0."""
    assert SeededBits(1).words(3).tolist() == [12079963977498448532, 2903117258470911157, 12653185434136569430]
    assert SeededBits(1).words(3).tolist() != SeededBits(2).words(3).tolist()


def test_pieces_and_wholes_agree() -> None:
    """Drawing in pieces gives the same stream as drawing at once, also across the internal piece size."""
    whole = SeededBits(9).words(300_000)
    source = SeededBits(9)
    assert np.array_equal(np.concatenate([source.words(n) for n in (1, 131_071, 168_928)]), whole)


def test_system_bits_are_fresh_and_private() -> None:
    """Two sources never agree, and only the seeded one admits not to be private."""
    assert SystemBits().words(4).tolist() != SystemBits().words(4).tolist()
    assert SystemBits().private and not SeededBits(1).private


def test_bits_are_balanced() -> None:
    """Of 64 * 10^6 bits half are ones, within 6 standard deviations (false-alarm rate 2e-9), in each bit position."""
    words = SeededBits(3).words(10**6)
    for place in range(64):
        ones = int(((words >> np.uint64(place)) & np.uint64(1)).sum())
        assert abs(ones - 500_000) < 6 * 500


@pytest.mark.parametrize("source", [SystemBits(), SeededBits(5)], ids=repr)
def test_children_do_not_repeat_the_parent(source: BitSource) -> None:
    """After a fork, parent and children draw different words."""
    source.words(1)
    first, second = words_of_child(source), words_of_child(source)
    mine = source.words(4).tolist()
    assert len({*first, *second, *mine}) == 12


def test_threads_share_one_stream_without_repeats() -> None:
    """Eight threads drawing at once get the words of the stream, each once."""
    source = SeededBits(8)
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(source.words, [1000] * 64))
    assert sorted(np.concatenate(drawn).tolist()) == sorted(SeededBits(8).words(64_000).tolist())


def test_sources_cannot_be_copied() -> None:
    """A copy would repeat its words, so there is none; and nothing of the key shows in repr."""
    for twin in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            twin(SystemBits())
    assert repr(SystemBits()) == "SystemBits()"
