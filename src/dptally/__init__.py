"""Publish tables of private keys and counts under differential privacy."""
