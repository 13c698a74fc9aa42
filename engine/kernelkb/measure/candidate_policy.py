"""Detects candidates that only call the library: by source text and launched kernel names."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence

_OWN_KERNEL_MARKERS = (
    *("triton", "load_inline", "cpp_extension", "RawKernel", "ElementwiseKernel", "cutlass"),
    *("tilelang", "numba", "CDLL", "tvm_ffi", "cuda.compile", "nvrtc", "cute"),
)
_LIBRARY_KERNEL_NAMES = re.compile(
    r"^(?:void )?at::"
    r"|^(?:void )?pytorch_flash::"
    r"|^fmha_cutlass[FB]_"
    r"|^(?:void )?(?:\(anonymous namespace\)::)?cunn_[A-Z]"
    r"|^triton_(?:poi|per|red|tem)_fused_"
    # Kernels in assembly have C names without parameters: architecture or template, then tile.
    r"|^(?:maxwell|pascal|volta|turing|ampere)_\w*(?:gemm|cudnn)_\w*\d+x\d+\w*$"
    r"|^[sdcz]gemm_\d+x\d+x\d+_[NT]{2}_"
    r"|^sm\d+_xmma_"
    r"|^nvjet_"
    r"|^(?:void cutlass::Kernel2?<)?cutlass_\d+_(?:wmma_)?(?:tensorop|simt)_"
    r"|^(?:void )?(?:cask_)?cudnn(?:::|_(?:generated|infer|train)_)"
    r"|^(?:void )?cublasLt::"
    r"|\bcublas[A-Z]\w*<"  # a parameter's type, in the name of a template
    r"|^(?:void )?gemv(?:NSP|[12][NT])_kernel(?:_val)?(?:<|$)"
    r"|\bgemvx::kernel<"
    r"|^(?:void )?splitKreduce_kernel<"
)
"""Names of kernels of torch, of torch.compile and of the libraries that they call."""


def find_library_only_reason(kernels: Iterable[str]) -> str | None:
    """Return a sentence if all launched kernels are the library's; None otherwise.

    Args:
        kernels: Names of launched kernels, as torch's profiler reports them.
    """
    names = [name for name in kernels if not name.startswith(("Memcpy", "Memset"))]
    if not names or not all(map(_LIBRARY_KERNEL_NAMES.search, names)):
        return None
    shown = ", ".join(sorted(name[:60] for name in names)[:3])
    return f"all kernels that it launches are the library's: {shown}"


def check_candidate_source(text: str) -> tuple[list[str], list[str]]:
    """Return reasons to reject a candidate's source, and warnings about it.

    Args:
        text: Python source of a ``torch.nn.Module`` that replaces a task's model.

    Returns:
        Reasons and warnings. Both are empty for a source that does not parse: loading it fails with
        a better message.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return [], []
    reasons = [*_find_reference_subclasses(tree), *_find_fallback_handlers(tree)]
    warnings = list(_find_import_fallbacks(tree))
    if not any(marker in text for marker in _OWN_KERNEL_MARKERS):
        warnings.append(
            "it has no kernel of its own: it calls the library that it is compared with"
        )
    return reasons, warnings


def _find_reference_subclasses(tree: ast.Module) -> Iterator[str]:
    """Yield classes that leave the computation to the task's model that they inherit from."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [ast.unparse(base) for base in node.bases]
        if not any(base.split(".")[-1] == "Model" for base in bases):
            continue
        forwards = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "forward"]
        if not forwards:
            yield f"{node.name} inherits from the task's Model instead of replacing it"
        elif any(map(_calls_inherited_forward, ast.walk(forwards[0]))):
            yield f"the forward of {node.name} calls the one of the task's Model"


def _calls_inherited_forward(node: ast.AST) -> bool:
    """Return whether a node is ``super().forward`` or ``Model.forward``."""
    if not isinstance(node, ast.Attribute) or node.attr not in ("forward", "__call__"):
        return False
    owner = ast.unparse(node.value)
    return owner.startswith("super(") or owner.split(".")[-1] == "Model"


_HOT_FUNCTIONS = ("forward", "run", "__call__")
_BUILT_IN_ERRORS = {name for name in dir(builtins) if isinstance(getattr(builtins, name), type)}
"""A kernel may raise these itself."""


def _find_fallback_handlers(tree: ast.Module) -> Iterator[str]:
    """Yield ``except`` blocks that compute something: they hide a kernel that fails."""
    for line in _find_handler_lines(tree, is_import=False):
        yield f"line {line}: when its kernel fails it computes with something else"


def _find_import_fallbacks(tree: ast.Module) -> Iterator[str]:
    """Yield the same where only an import is tried: what is there on this machine is measured."""
    for line in _find_handler_lines(tree, is_import=True):
        yield f"line {line}: where an import fails it computes with something else"


def _find_handler_lines(tree: ast.Module, *, is_import: bool) -> Iterator[int]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name not in _HOT_FUNCTIONS:
            continue
        for child in ast.walk(node):
            if (
                isinstance(child, ast.Try)
                and any(_is_computing_handler(one, child.body) for one in child.handlers)
                and all(isinstance(n, ast.Import | ast.ImportFrom) for n in child.body) == is_import
            ):
                yield child.handlers[0].lineno


def _is_computing_handler(handler: ast.ExceptHandler, tried: Sequence[ast.stmt]) -> bool:
    """Return whether a handler computes, unless what it waits for is raised in the block itself."""
    raised = {
        ast.unparse(node.exc).split("(")[0]
        for statement in tried
        for node in ast.walk(statement)
        if isinstance(node, ast.Raise) and node.exc
    }
    if handler.type is not None and ast.unparse(handler.type) in raised - _BUILT_IN_ERRORS:
        return False
    return any(isinstance(n, ast.Return | ast.Assign) for n in ast.walk(handler)) and not any(
        isinstance(node, ast.Raise) for node in handler.body
    )
