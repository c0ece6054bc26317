"""Verifiers: the exact privacy loss of the tables in use. They share no code with what builds the tables."""
