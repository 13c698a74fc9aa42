"""What a source file holds: kernels, launchers and how they are bound, in C++, CUDA or Python."""

from __future__ import annotations

from kernelkb.scaffold.c.c_source import summarize_c_source
from kernelkb.scaffold.draft import SourceSummary
from kernelkb.scaffold.python_source import summarize_python


def summarize_source(name: str, text: str) -> SourceSummary | None:
    """Return the kernels and launchers of a source file, None where it holds neither.

    Args:
        name: The file's name; its suffix decides how it is read.
        text: What the file holds.
    """
    return summarize_python(text) if name.endswith(".py") else summarize_c_source(name, text)
