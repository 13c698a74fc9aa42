"""This machine: compilers, CPU, GPU, driver, torch, measured peaks, the lock of its device."""
