"""Reads the text files of tasks and candidates that a user names."""

from __future__ import annotations

from pathlib import Path

from kernelkb.errors import BadValueError


def read_task_text(path: Path) -> str:
    """Return the text of a file.

    Raises:
        BadValueError: It cannot be read, or is no UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadValueError(f"{path} is no text: {error}") from error
