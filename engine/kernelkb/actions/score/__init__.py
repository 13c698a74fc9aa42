"""How often the advice is right: pairs of kernels that differ by one change."""
