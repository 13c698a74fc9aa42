def arg_max(x):
    return x.argmax(dim=1)


def same_choice(inputs, left, right):
    """Return whether two answers name the same values, whichever of several equal ones."""
    x = inputs[0]
    first, second = (x.gather(1, at[0].clamp(0, x.shape[1] - 1)[:, None]) for at in (left, right))
    return bool(((first == second) | (first.isnan() & second.isnan())).all())
