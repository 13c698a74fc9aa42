"""Finds the shipped data, the project's root, its knowledge overlay and the cache folder."""

from __future__ import annotations

import os

_ENGINE_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
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


def shipped_folder(folder: str) -> str:
    """Return the path of the shipped ``knowledge`` or ``kernels``, in the wheel or the checkout."""
    packaged = os.path.join(_ENGINE_FOLDER, "_data", folder)
    return (
        packaged
        if os.path.isdir(packaged)
        else os.path.join(os.path.dirname(_ENGINE_FOLDER), folder)
    )


def project_root(start: str | None = None) -> str:
    """Return the nearest project folder at or above ``start``, at most the git repository's root.

    Without a project folder it is the repository's root, and without a repository ``start``
    itself, by default the working directory.
    """
    folder = first = os.path.abspath(start or os.getcwd())
    while True:
        if _is_project(folder) or os.path.exists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return first
        folder = parent


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
    """Return the project's ``knowledge`` folder; None without one that holds knowledge files."""
    folder = os.path.join(project_root(start), "knowledge")
    if not os.path.isdir(folder) or os.path.samefile(folder, shipped_folder("knowledge")):
        return None
    return (
        folder if any(os.path.exists(os.path.join(folder, n)) for n in KNOWLEDGE_ENTRIES) else None
    )


def cache_folder() -> str:
    """Return the user's cache folder for KernelKB, by XDG_CACHE_HOME; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "kernelkb")
