def cumulative_sum(x):
    return x.cumsum(dim=1)
