"""Attempts at a kernel: every state of its source that was built, in the project's database."""
