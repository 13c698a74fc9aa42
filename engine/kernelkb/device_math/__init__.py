"""Computes occupancy, register and shared-memory limits, waves and roofline floors.

Pure: no I/O, no clock, no randomness.
"""
