"""Observes calls in a user's own program: its own processes, so that it runs as it always does."""
