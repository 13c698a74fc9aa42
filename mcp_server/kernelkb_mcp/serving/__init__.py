"""Serves the tools over stdio or HTTP, and ends in time."""
