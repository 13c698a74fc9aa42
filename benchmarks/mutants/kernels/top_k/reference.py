import torch


def top_k(x):
    return torch.topk(x, 4, dim=1)


def same_choice(inputs, left, right):
    """Return whether two answers name the same values, whichever of several equal ones."""
    x = inputs[0]
    for values, index in (left, right):
        chosen = x.gather(1, index.clamp(0, x.shape[1] - 1))
        distinct = (index.sort(dim=1).values.diff(dim=1) > 0).all()
        if not bool(((chosen == values) | (chosen.isnan() & values.isnan())).all() & distinct):
            return False
    return bool(((left[0] == right[0]) | (left[0].isnan() & right[0].isnan())).all())
