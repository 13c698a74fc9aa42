"""Writes the HTML page of a search."""

from __future__ import annotations

from pathlib import Path

from kernelkb.errors import BadValueError
from kernelkb.model.kernels.tuning import TuningResult
from kernelkb.render.html.tuning_page import format_tuning_page
from kernelkb.safety.replace_file import replace_file
from kernelkb.safety.storage import describe_write_cure
from kernelkb.safety.workspace import resolve_inside

_FOLDER_CURE = "name a file in a folder that exists"


def require_page_folder(path: Path) -> None:
    """Raise BadValueError where no page could be written, before a long search rather than after.

    Args:
        path: The file of the page.
    """
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise BadValueError(f"cannot write {path}: no such folder; {_FOLDER_CURE}")


def write_tuning_page(result: TuningResult, path: Path) -> int:
    """Write the page of a search, which replaces the file as a whole; return its size in bytes.

    Args:
        result: What the search found.
        path: The file; its folder must exist.

    Raises:
        BadValueError: The page cannot be written.
    """
    page = format_tuning_page(result).encode()
    try:
        replace_file(Path(resolve_inside(path, to_write=True)), page)
    except OSError as error:
        cure = describe_write_cure(error, _FOLDER_CURE)
        raise BadValueError(f"cannot write {path}: {error.strerror}; {cure}") from error
    return len(page)
