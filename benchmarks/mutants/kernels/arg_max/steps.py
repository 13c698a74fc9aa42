import torch


def arg_max(x):
    top = x.amax(dim=1, keepdim=True)
    equal = (x == top) | x.isnan()
    place = torch.arange(x.shape[1])
    return torch.where(equal, place, x.shape[1]).amin(dim=1)
