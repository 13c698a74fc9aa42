"""Which shape of the decision program this code reads."""

SCHEMA = 9
"""Raise it whenever ``engine.decide.program`` changes: caches of another shape are ignored."""
