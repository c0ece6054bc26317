"""Figures, comparisons and long runs behind the documentation; see README.md. Nothing here keeps a guarantee."""
