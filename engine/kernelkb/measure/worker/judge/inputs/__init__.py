"""Inputs, reference results and the memory that they take."""
