"""Where a module of the observed program is from, and how its users call it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_main_files: list[str] = []
"""At most one: the program's main script, once it is known."""


def find_main_file() -> str:
    """Return the path of the program's main script; empty where there is none.

    Python takes the path off the module when the script ends, before the last record is written.
    """
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file and not _main_files:
        _main_files.append(str(Path(file).resolve()))
    return _main_files[0] if _main_files else ""


def name_module(module: str) -> str:
    """Return a module's name as users know it: the main script by its file's name."""
    if module not in ("__main__", "__mp_main__"):
        return module
    return Path(find_main_file()).stem or "__main__"


def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed package or to Python itself."""
    if "site-packages" in file or "dist-packages" in file:
        return True
    return file.startswith((f"{Path(os.__file__).parent}{os.sep}", "<"))


def is_own(file: str) -> bool:
    """Return whether a library belongs to neither Python nor an installed package."""
    return not is_installed(file) and "lib-dynload" not in file
