"""The languages of variants: a table of what building, loading, judging and drafting ask of them.

A new language is a row here; one that ``kb init`` shall draft from Python files also has a row in
``kernelkb.scaffold.python.source``. How a variant is called is its binding's part, which
``kernelkb.measure.worker.runner.load_candidate`` loads: a language with a present one needs nothing
else there.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kernelkb.model.base import Target

LanguageName = Literal["c++", "cuda", "python", "triton"]
Binding = Literal["c", "tvm-ffi", "torch-extension", "python", "module"]
"""How a variant is called. c: a C function of pointers, axes and a stream. tvm-ffi: a packed
function of tensors. torch-extension, python: a Python function of tensors. module: a
``torch.nn.Module`` class that replaces the reference's."""


class Language(NamedTuple):
    """What one language says about its variants."""

    suffixes: tuple[str, ...]
    """Of its files."""
    targets: tuple[Target, ...]
    """Where its variants run."""
    is_compiled: bool
    """Whether a variant is built before it can be loaded; its macros can be tuned."""
    bindings: tuple[Binding, ...]
    """How its variants can be called; the first one counts where none is given."""
    metric: str = ""
    """Metric that is 1 for its variants, which fixes for this language ask for; empty: none."""


_COMPILED: tuple[Binding, ...] = ("c", "tvm-ffi", "torch-extension")
_SCRIPTED: tuple[Binding, ...] = ("python", "module")
LANGUAGES: dict[LanguageName, Language] = {
    "c++": Language((".cpp", ".cc"), ("cpu",), True, _COMPILED),
    "cuda": Language((".cu", ".cuh"), ("cuda",), True, _COMPILED),
    "python": Language((".py",), ("cpu", "cuda"), False, _SCRIPTED),
    "triton": Language((".py",), ("cuda",), False, _SCRIPTED, metric="triton_kernel"),
}


HEADER_SUFFIXES = (".h", ".hpp", ".cuh", ".inl", ".inc", ".hxx")
COMPILED_SUFFIXES = tuple(
    suffix for row in LANGUAGES.values() if row.is_compiled for suffix in row.suffixes
)


def choose_compiled_language(target: Target) -> LanguageName:
    """Return the compiled language of a target: that of ``launch.cu`` or ``launch.cpp``."""
    return next(
        name for name, row in LANGUAGES.items() if row.is_compiled and target in row.targets
    )
