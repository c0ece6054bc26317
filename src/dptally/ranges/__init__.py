"""Quantiles and ranges: grids over an order, the laws of a tree over them, and the search for a quantile."""
