"""Measurements and attempts to files of others, and back."""
