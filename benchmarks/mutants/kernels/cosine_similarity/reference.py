import torch


def cosine_similarity(x, z):
    return torch.nn.functional.cosine_similarity(x, z, dim=1)
