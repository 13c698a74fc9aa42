"""The quick reference and its file."""

from __future__ import annotations

from pathlib import Path

from kernelkb.loading.knowledge import load_knowledge
from kernelkb.render.quickref import quickref
from kernelkb.safety.paths import shipped


def page() -> str:
    """Return the page as the knowledge gives it now."""
    return quickref(load_knowledge())


def fresh() -> bool:
    """Whether the file holds exactly that page."""
    file = _file()
    return file.is_file() and file.read_text(encoding="utf-8") == page()


def write() -> Path:
    """Write the file and return it."""
    file = _file()
    file.write_text(page(), encoding="utf-8")
    return file


def _file() -> Path:
    return Path(shipped("knowledge")) / "QUICKREF.md"
