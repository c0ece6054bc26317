"""Who is compared, in which environment, with which setting."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["BASE_LINE", "ENTRIES", "ENTRY_FILES", "OWN", "Entry"]

ENTRY_FILES = Path(__file__).parent / "entries"
OWN = "own"  # the environment that runs the comparison, with dptally and Polars


@dataclass(frozen=True)
class Entry:
    """One library with one setting.

    Attributes:
        name: of its file in `entries`.
        title: for tables and plots.
        environment: the virtual environment it runs in.
        setting: what was chosen, in a sentence.
        private: False for the base line.
        default: True where it is what a user gets who changes nothing.
        least_keys: it is run from this many keys per unit on.
        promises_only: it is run only to see whether it keeps its delta.
        folder: where its file is.
    """

    name: str
    title: str
    environment: str
    setting: str
    private: bool = True
    default: bool = False
    least_keys: int = 1
    promises_only: bool = False
    folder: Path = ENTRY_FILES

    @property
    def file(self) -> Path:
        """The code a user would write."""
        return self.folder / f"{self.name}.py"


BASE_LINE = Entry(
    "plain_polars",
    "plain Polars, not private",
    OWN,
    "Lazy group-by, streaming engine; with units, distinct pairs of unit and key first, and no bound.",
    private=False,
)

ENTRIES = (
    BASE_LINE,
    Entry(
        "plain_polars_eager",
        "plain Polars, eager",
        OWN,
        "The same on a table that has been read into memory.",
        private=False,
    ),
    Entry("dptally_default", "dptally", OWN, "`dptally.publish` as it comes; values from the same draw.", default=True),
    Entry(
        "dptally_gaussian",
        "dptally, Gaussian",
        OWN,
        'The same with `mechanism="gaussian"`, advised from three keys per unit on.',
        least_keys=3,
    ),
    Entry(
        "opendp_laplace",
        "OpenDP",
        "opendp",
        "Polars API as it comes: Laplace noise, threshold on the noisy count, one query with the whole budget.",
        default=True,
    ),
    Entry(
        "opendp_gaussian",
        "OpenDP, Gaussian",
        "opendp",
        "Polars API with zero-concentrated privacy; half of delta for the conversion, half for the threshold.",
        least_keys=3,
    ),
    Entry(
        "pipelinedp_default",
        "PipelineDP, default",
        "pipelinedp",
        "Local backend as it comes: truncated geometric choice of keys and Laplace counts, half of epsilon each.",
        default=True,
    ),
    Entry(
        "pipelinedp_threshold",
        "PipelineDP, threshold",
        "pipelinedp",
        "Local backend, `post_aggregation_thresholding=True`; Gaussian noise from three keys per unit on.",
    ),
    Entry(
        "pydp_threshold",
        "PyDP, threshold",
        "pydp",
        "Polars counts and bounds; `noised_value_if_should_keep` with Laplace or Gaussian noise, whichever has the "
        "lower threshold.",
    ),
    Entry(
        "pydp_split",
        "PyDP, split",
        "pydp",
        "Polars counts and bounds; truncated geometric choice of keys and Laplace counts, half of epsilon each.",
        default=True,
    ),
    Entry(
        "smartnoise_default",
        "SmartNoise",
        "smartnoise",
        "SQL on a pandas table as it comes: Laplace noise, threshold on the noisy count.",
        default=True,
    ),
    Entry(
        "tumult_default",
        "Tumult",
        "tumult",
        "Spark, local: `get_groups` with half of epsilon and all of delta, geometric counts with the other half.",
        default=True,
    ),
    Entry(
        "opendp_low_level",
        "OpenDP, low level",
        "opendp",
        "`make_laplace_threshold` called directly, with the threshold its own privacy map asks for.",
        promises_only=True,
    ),
)
