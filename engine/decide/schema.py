"""Which shape of the decision program this code reads."""

SCHEMA = 10
"""Raise it whenever ``kernelkb.decide.rules`` changes: caches of another shape are ignored."""
