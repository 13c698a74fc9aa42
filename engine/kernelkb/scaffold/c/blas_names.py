"""Shapes that the names of a matrix product's parameters stand for, as BLAS has them."""

from __future__ import annotations

import re

from kernelkb.scaffold.draft.call_signature import Function

_PRODUCT = re.compile(r"gemm|mat_?mul|matrix_?mul|mmul|\bmm\b", re.IGNORECASE)
_VECTOR_PRODUCT = re.compile(r"gemv|mat_?vec", re.IGNORECASE)
_MATRICES = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n"), "d": ("m", "n")}
_VECTORS = {"a": ("m", "n"), "x": ("n",), "y": ("m",)}
_SCALARS = ("alpha", "beta")


def apply_blas_names(function: Function) -> Function:
    """Give arrays named A, B and C of a product the shapes of row-major matrices.

    Leading dimensions become the matrices' columns; arrays named alpha and beta hold one number.
    A function without sizes m, n (and k) is returned as it is.
    """
    sizes = {p.name.lower(): p.name for p in function.parameters if p.role == "size"}
    is_product = _PRODUCT.search(function.name) and {"m", "n", "k"} <= sizes.keys()
    is_vector = _VECTOR_PRODUCT.search(function.name) and {"m", "n"} <= sizes.keys()
    if not is_product and not is_vector:
        return function
    shapes = _MATRICES if is_product else _VECTORS
    parameters = []
    for each in function.parameters:
        name = each.name.lower().split("_")[-1]
        if each.role in ("input", "output") and name in _SCALARS:
            each = each._replace(shape=("1",))
        elif each.role in ("input", "output") and name in shapes:
            found = tuple(sizes[dim] for dim in shapes[name])
            transposed = each.shape == found[::-1]
            each = each if transposed else each._replace(shape=found)
        elif name.startswith("ld") and name[2:] in shapes and each.role == "size":
            each = each._replace(role="number", value=sizes[shapes[name[2:]][-1]])
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))
