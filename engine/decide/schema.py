"""Which shape of the decision program this code reads."""

SCHEMA = 10
"""Raise it whenever ``kernelkb.decide.program`` changes: caches of another shape are ignored."""
