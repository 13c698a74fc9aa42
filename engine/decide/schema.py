"""Which shape of the decision program this code reads."""

RULES_SCHEMA = 12
"""Raise it whenever ``kernelkb.decide.rules`` changes: caches of another shape are ignored."""
