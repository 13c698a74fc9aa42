import torch


def swiglu(gate, x):
    share = 1.0 / (1.0 + torch.exp(-gate))
    return gate * share * x
