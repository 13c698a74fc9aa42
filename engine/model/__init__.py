"""Frozen records of what KernelKB knows and measures. No I/O; import the submodule you need."""
