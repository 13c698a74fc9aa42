"""Which shape of the decision program this code reads."""

SCHEMA = 8
"""Raise it whenever ``engine.decide.program`` changes: caches of another shape are ignored."""
