"""Compile variants: command lines, ninja, and what the compiler printed."""
