def exclusive_scan(x):
    return x.cumsum(dim=0) - x
