"""Facts about this machine: compilers, CPU, GPU, driver, torch, measured peaks, device lock."""
