"""Lint of knowledge that loads: complete, reachable, used, and in agreement with its cases."""
