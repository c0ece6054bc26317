"""Let a copy of the package on PYTHONPATH win over an editable installation, in this process and those it starts."""

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
