"""Drafts from the calls of an observed run."""
