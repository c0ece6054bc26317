"""Figures of papers, recomputed from exact expressions: ``python -m studies.figures weighted_sampling``."""
