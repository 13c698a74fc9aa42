"""Formats records as plain strings; the command line adds colours and tables."""
