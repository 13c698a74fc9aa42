"""Generates knowledge/QUICKREF.md from the shipped knowledge, checks it, and makes the sheet."""

from __future__ import annotations

from pathlib import Path

from kernelkb.loading.knowledge import load_knowledge
from kernelkb.render.documents.quickref import format_quickref
from kernelkb.render.documents.quickref_sheet import format_quickref_sheet
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import shipped_folder


def generate_quickref() -> str:
    """Return the text of the quick reference."""
    return format_quickref(load_knowledge())


def generate_quickref_sheet() -> str:
    """Return the quick reference as HTML that prints on two A4 pages."""
    return format_quickref_sheet(load_knowledge())


def is_quickref_fresh() -> bool:
    """Return whether the file equals the generated text."""
    file = _quickref_path()
    return file.is_file() and file.read_text(encoding="utf-8") == generate_quickref()


def write_quickref() -> Path:
    """Write the file and return it."""
    file = _quickref_path()
    replace_file(file, generate_quickref())
    return file


def _quickref_path() -> Path:
    return Path(shipped_folder("knowledge")) / "QUICKREF.md"
