"""Whose work a candidate's is: by its text, and by the kernels that it launches."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_OWN_KERNELS = (
    *("triton", "load_inline", "cpp_extension", "RawKernel", "ElementwiseKernel", "cutlass"),
    *("tilelang", "numba", "CDLL", "tvm_ffi", "cuda.compile", "nvrtc", "cute"),
)
_LIBRARIES = (
    *("at::", "cublas", "cudnn", "nvjet", "gemv", "xmma_gemm", "sgemm_", "dgemm_", "hgemm_"),
    *("s16816gemm", "s1688gemm", "splitKreduce", "pytorch_flash::", "fmha_cutlass", "cunn_"),
    *("triton_poi_", "triton_per_", "triton_red_", "triton_tem_"),
)
"""In the names of kernels of torch, of torch.compile and of the libraries that they call."""


def only_libraries(kernels: Iterable[str]) -> str | None:
    """Say that whoever launched these kernels launched none of its own.

    Args:
        kernels: Their names, as a profiler shows them.
    """
    names = [name for name in kernels if not name.startswith(("Memcpy", "Memset"))]
    if not names or not all(any(word in name for word in _LIBRARIES) for name in names):
        return None
    shown = ", ".join(sorted(name[:60] for name in names)[:3])
    return f"all kernels that it launches are the library's: {shown}"


def complaints(text: str) -> tuple[list[str], list[str]]:
    """Return why a candidate is none, and what a reader should know of it.

    Args:
        text: The source of a ``torch.nn.Module`` that claims to be faster than a task's.

    Returns:
        Reasons to refuse it, and warnings. A source that does not parse has neither: loading it
        will say so.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return [], []
    refused = [*_inherited(tree), *_fallbacks(tree)]
    if any(word in text for word in _OWN_KERNELS):
        return refused, []
    said = "it has no kernel of its own: it calls the library that it is compared with"
    return refused, [said]


def _inherited(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            if any(base.split(".")[-1] == "Model" for base in bases):
                yield f"{node.name} inherits from the task's Model instead of replacing it"


def _fallbacks(tree: ast.Module) -> Iterator[str]:
    """Find handlers that compute: a kernel that fails is then passed off as one that works."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name not in ("forward", "run", "__call__"):
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Try) and any(map(_computes, inner.handlers)):
                line = inner.handlers[0].lineno
                yield f"line {line}: when its kernel fails it computes with something else"


def _computes(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(n, ast.Return | ast.Assign) for n in ast.walk(handler)) and not any(
        isinstance(node, ast.Raise) for node in handler.body
    )
