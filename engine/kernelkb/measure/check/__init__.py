"""The engine's side of a check, with its hidden cases, and of compute-sanitizer."""
