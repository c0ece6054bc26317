"""Figures of papers, recomputed from exact expressions: ``python -m dptally.evaluation.figures weighted_sampling``."""
