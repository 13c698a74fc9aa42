import torch


def sparse_product(begin, column, value, x):
    products = (value * x[column]).double()
    sums = torch.cat((torch.zeros(1, dtype=torch.float64), products.cumsum(dim=0)))
    last = torch.cat((begin[1:], torch.tensor([len(column)])))
    return (sums[last] - sums[begin]).float()
