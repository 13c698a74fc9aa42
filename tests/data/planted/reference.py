"""What the planted kernels are to compute."""


def affine(a, b, bias):
    """Return a b + bias."""
    return a @ b + bias
