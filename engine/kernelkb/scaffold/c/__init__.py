"""Drafts from C, C++ and CUDA source text."""
