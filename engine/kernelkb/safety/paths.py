"""Finds the shipped data and the project's folders, and the kernel that a path is about."""

from __future__ import annotations

import os
import re

from kernelkb.errors import EnvironmentGapError

_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
KNOWLEDGE_ENTRIES = (
    "metrics.yaml",
    "devices.yaml",
    "thresholds.yaml",
    "guards.yaml",
    "calibration.yaml",
    "effects.yaml",
    "libraries.yaml",
    "measured.yaml",
    "learned.yaml",
    "search.yaml",
    "sources.yaml",
    "workflow.yaml",
    "bottlenecks",
    "fixes",
    "patterns",
    "symptoms",
    "trees",
    "reviews",
)
"""Files and folders at the top of a knowledge folder."""
_WHOLE_ENTRIES = ("metrics.yaml", "devices.yaml", "sources.yaml", "workflow.yaml", "trees", "fixes")
"""A folder with all of these is a knowledge base of its own: additions repeat none of it."""

_PATH = re.compile(r"[\w.~+/\\:-]+")


def shipped_folder(folder: str) -> str:
    """Return the path of the shipped ``knowledge`` or ``kernels``, in the wheel or the checkout."""
    packaged = os.path.join(_PACKAGE_FOLDER, "_data", folder)
    return (
        packaged
        if os.path.isdir(packaged)
        else os.path.join(os.path.dirname(os.path.dirname(_PACKAGE_FOLDER)), folder)
    )


def project_root(start: str | None = None) -> str:
    """Return the nearest project folder at or above ``start``, at most the git repository's root.

    Without a project folder it is the repository's root, and without a repository ``start``
    itself, by default the working directory.

    Raises:
        EnvironmentGapError: The working directory was removed.
    """
    folder = first = os.path.abspath(start or _get_working_directory())
    while True:
        if _is_project(folder) or os.path.exists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return first
        folder = parent


def _get_working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        gap = "the working directory was removed"
        raise EnvironmentGapError(gap, "change to a folder that exists") from error


def _is_project(folder: str) -> bool:
    """Whether KernelKB is set up here; a folder ``kernels`` counts only with a kernel.yaml."""
    if any(os.path.isdir(os.path.join(folder, mark)) for mark in (".kb", "sessions")):
        return True
    kernels = os.path.join(folder, "kernels")
    try:
        names = os.listdir(kernels)
    except OSError:
        return False
    return any(os.path.isfile(os.path.join(kernels, name, "kernel.yaml")) for name in names)


def overlay_folder(start: str | None = None) -> str | None:
    """Return the project's ``knowledge`` folder; None without one that adds to the shipped one."""
    folder = os.path.join(project_root(start), "knowledge")
    if not os.path.isdir(folder) or os.path.samefile(folder, shipped_folder("knowledge")):
        return None
    found = {name for name in KNOWLEDGE_ENTRIES if os.path.exists(os.path.join(folder, name))}
    return folder if found and not found.issuperset(_WHOLE_ENTRIES) else None


def find_unread_knowledge(start: str | None = None) -> str | None:
    """Return the ``knowledge`` folder of another KernelKB's source tree; None elsewhere.

    It is a knowledge base of its own, of another version perhaps, and not read as an overlay.
    """
    folder = os.path.join(project_root(start), "knowledge")
    whole = all(os.path.exists(os.path.join(folder, name)) for name in _WHOLE_ENTRIES)
    if not whole or os.path.samefile(folder, shipped_folder("knowledge")):
        return None
    return folder


def cache_folder() -> str:
    """Return the user's cache folder for KernelKB, by XDG_CACHE_HOME; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "kernelkb")


def read_kernel_name(text: str) -> str:
    """Return the name in ``kernels/row_softmax``, ``row_softmax/kernel.yaml`` and the like.

    Every command that takes a kernel's name takes it through this function. Text that is no path,
    such as a name or a regular expression, is returned as it is.

    Args:
        text: A name, the path of a kernel's folder below ``kernels/`` or
            ``kernels/zoo/<bottleneck>/``, the path of a file in it, or of any ``kernel.yaml``.
    """
    if not _PATH.fullmatch(text):
        return text
    parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")]
    if "kernels" in parts[:-1]:
        below = parts[len(parts) - parts[::-1].index("kernels") :]
        return below[2] if below[0] == "zoo" and len(below) > 2 else below[0]
    if len(parts) > 1 and parts[-1] == "kernel.yaml":
        return parts[-2]
    return parts[0] if len(parts) == 1 else text
