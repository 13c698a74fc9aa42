"""Metrics, reports and runs to advice, and advice to the next steps."""
