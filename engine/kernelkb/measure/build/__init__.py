"""Compiles variants: command lines, ninja files, and parsers of the compiler's output."""
