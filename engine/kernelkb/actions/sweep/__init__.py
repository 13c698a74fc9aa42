"""Variants of many kernels, measured on many lanes."""
