def row_sum(x):
    return x.sum(dim=1)
