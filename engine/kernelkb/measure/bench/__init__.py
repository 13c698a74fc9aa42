"""The engine's side of a bench: start it, and raw times to a verdict."""
