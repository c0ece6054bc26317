"""What a sketch hands over to a mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Form = Literal["single", "standard", "merged", "user", "summed"]


@dataclass(frozen=True, repr=False)
class SketchContents:
    """What a sketch hands over. Private."""

    keys: pa.Array  # of the counters, sorted, without placeholders; for the form "single" with zero counters
    counters: NDArray[np.int64]  # one for each key; for the form "summed" in units of 1 / (capacity + 1)
    missing: int  # S: no frequency exceeds its counter by more than S / `missing_parts`
    missing_parts: int  # capacity + 1 for the form "summed", where S is the length of all streams; otherwise 1
    column: str = "key"  # what the keys are called in a release
