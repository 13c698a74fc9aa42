"""Explains a run that hangs or crashes: where its threads are, and what they wait for."""
