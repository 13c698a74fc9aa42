"""Lanes that build and try configurations: those of this host, and those of a cluster."""
