"""Inputs that a candidate was not told of, and how exact it must be on them."""
