"""Drafts of what a run of a program called or launched."""
