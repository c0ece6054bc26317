"""Smaller than the data, and still private."""
