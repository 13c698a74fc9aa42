"""From metrics to a decision. Pure: no I/O, no clock, no randomness, no pydantic."""
