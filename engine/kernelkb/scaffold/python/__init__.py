"""Drafts from Python source text."""
