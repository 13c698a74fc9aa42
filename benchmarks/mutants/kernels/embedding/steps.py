import torch


def embedding(table, index):
    y = torch.empty(index.shape[0], table.shape[1], dtype=table.dtype)
    half = index.shape[0] // 2
    y[:half] = table.index_select(0, index[:half])
    y[half:] = table.index_select(0, index[half:])
    return y
