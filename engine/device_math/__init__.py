"""Arithmetic about hardware. Pure."""
