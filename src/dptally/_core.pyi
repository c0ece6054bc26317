import numpy as np
from numpy.typing import NDArray

class ShiftTable:
    def __init__(self, table: NDArray[np.uint8]) -> None: ...
    def draw(self, frequencies: NDArray[np.int64], words: NDArray[np.uint64], reported: NDArray[np.int64]) -> None: ...

def choose_smallest_tags(
    starts: NDArray[np.int64],
    tags: NDArray[np.uint64],
    limit: int,
    keep: NDArray[np.uint8],
) -> None: ...
