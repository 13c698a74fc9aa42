"""Computes recommendations from metrics and compiled rules.

Pure: no I/O, no clock, no randomness, no pydantic.
"""
