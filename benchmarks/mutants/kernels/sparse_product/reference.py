import torch


def draw(rows, cols, count):
    begin = torch.randint(0, count + 1, (rows,)).sort().values
    begin[0] = 0
    return [begin, torch.randint(0, cols, (count,)), torch.randn(count), torch.randn(cols)]


def sparse_product(begin, column, value, x):
    row = torch.searchsorted(begin, torch.arange(len(column), device=x.device), right=True) - 1
    y = torch.zeros(len(begin), dtype=x.dtype, device=x.device)
    return y.index_add_(0, row, value * x[column])
