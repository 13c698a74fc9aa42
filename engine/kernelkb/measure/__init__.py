"""Builds, checks, times and profiles kernels in child processes; README.md draws them."""
