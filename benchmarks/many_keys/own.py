"""dptally itself: what a user calls, on the table of pairs."""

from __future__ import annotations

import inspect

import numpy as np
from data import DataSet, as_frame

import dptally
from dptally.randomness import SeededBits

__all__ = ["MissingMechanismError", "automatic", "automatic_with_counts", "former_default", "former_gaussian"]

FORMER_BOUND = 10


class MissingMechanismError(Exception):
    """The installed dptally does not choose mechanism and bound by itself."""


def automatic(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator) -> int:
    """Number of keys that `dptally.publish` releases with nothing but the columns, epsilon and delta; keys only.

    Accounting: the certificate of the release.

    Raises:
        MissingMechanismError: if the installed package wants a bound on the keys per unit.
    """
    return _automatic(data, epsilon, delta, rng, values=False)


def automatic_with_counts(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator) -> int:
    """Number of keys that `dptally.publish` releases with nothing but the columns, epsilon and delta; with counts.

    Accounting: the certificate of the release.

    Raises:
        MissingMechanismError: if the installed package wants a bound on the keys per unit.
    """
    return _automatic(data, epsilon, delta, rng, values=True)


def former_default(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator) -> int:
    """Number of keys of the weighted sample, dptally's former default, with at most 10 keys per unit.

    Statement: docs/mechanisms/weighted-sample.md. Accounting: optimal composition of (e, d), docs/keys-per-unit.md.
    Default: 10 keys per unit, the figure of the documentation's examples.
    """
    return _former(data, epsilon, delta, rng, "weighted_sample")


def former_gaussian(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator) -> int:
    """Number of keys of dptally's Gaussian histogram with at most 10 keys per unit; its counts cost nothing more.

    Statement and accounting: docs/mechanisms/gaussian-histogram.md. Default: 10 keys per unit.
    """
    return _former(data, epsilon, delta, rng, "gaussian")


def _automatic(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator, values: bool) -> int:
    if inspect.signature(dptally.publish).parameters["max_keys_per_unit"].default is not None:
        raise MissingMechanismError("the installed dptally wants max_keys_per_unit: its automatic choice is not there.")
    release = dptally.publish(
        as_frame(data),
        key="key",
        unit="unit",
        epsilon=str(epsilon),
        delta=str(delta),
        values=values,
        randomness=_bits(rng),
        progress=False,
    )
    return len(release)


def _former(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator, mechanism: str) -> int:
    release = dptally.publish(
        as_frame(data),
        key="key",
        unit="unit",
        max_keys_per_unit=FORMER_BOUND,
        epsilon=str(epsilon),
        delta=str(delta),
        mechanism=mechanism,
        randomness=_bits(rng),
        progress=False,
    )
    return len(release)


def _bits(rng: np.random.Generator) -> SeededBits:
    return SeededBits(int(rng.integers(1 << 62)))
