"""Reads reports of Nsight Compute and returns the metrics of each launch, by KernelKB's ids."""
