"""The engine's side of a profile: counters in stages, and observed calls."""
