def scatter_add(start, x, index):
    return start.index_add(0, index, x)
