"""A project that KernelKB has been set up in."""

from __future__ import annotations

from kernelkb.model.base import Name, Record


class InitResult(Record):
    """What ``kb init`` did."""

    kernel: Name
    root: str
    written: tuple[str, ...]
    kept: tuple[str, ...]
    """Were there already, and stay as they are."""
    warnings: tuple[str, ...] = ()
    """What a person should know: a name that hides another, an entry that was not added."""
    to_fill: tuple[str, ...]
    """What could not be inferred: file, line, text."""
    next: str
