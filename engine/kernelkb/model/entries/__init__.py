"""Entries of knowledge, as their YAML holds them."""
