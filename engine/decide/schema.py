"""Which shape of the decision program this code reads."""

SCHEMA = 10
"""Raise it whenever ``engine.decide.program`` changes: caches of another shape are ignored."""
