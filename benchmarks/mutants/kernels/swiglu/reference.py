import torch


def swiglu(gate, x):
    return torch.nn.functional.silu(gate) * x
