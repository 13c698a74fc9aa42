"""Where things are: the shipped data, and the project that somebody is working in."""

from __future__ import annotations

import os

_ENGINE_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
KNOWLEDGE_ENTRIES = (
    "metrics.yaml",
    "devices.yaml",
    "thresholds.yaml",
    "guards.yaml",
    "calibration.yaml",
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
"""What a knowledge folder may hold at its top."""


def shipped_folder(folder: str) -> str:
    """Return the shipped ``knowledge`` or ``kernels``: a wheel's own copy, else the checkout's."""
    packaged = os.path.join(_ENGINE_FOLDER, "_data", folder)
    return (
        packaged
        if os.path.isdir(packaged)
        else os.path.join(os.path.dirname(_ENGINE_FOLDER), folder)
    )


def project_root(start: str | None = None) -> str:
    """Return the nearest folder at or above ``start`` that is a project; never above a repository.

    Where there is none, the repository is the project, and without one ``start`` itself (the
    working directory by default).
    """
    here = first = os.path.abspath(start or os.getcwd())
    while True:
        if _is_project(here) or os.path.exists(os.path.join(here, ".git")):
            return here
        parent = os.path.dirname(here)
        if parent == here:
            return first
        here = parent


def _is_project(folder: str) -> bool:
    """Say whether somebody works with KernelKB here; many have a folder of sources ``kernels``."""
    if any(os.path.isdir(os.path.join(folder, mark)) for mark in (".kb", "sessions")):
        return True
    kernels = os.path.join(folder, "kernels")
    try:
        names = os.listdir(kernels)
    except OSError:
        return False
    return any(os.path.isfile(os.path.join(kernels, name, "kernel.yaml")) for name in names)


def overlay_folder(start: str | None = None) -> str | None:
    """Return the project's own ``knowledge`` folder, None where it has none.

    A folder of that name that holds no knowledge file is somebody else's.
    """
    folder = os.path.join(project_root(start), "knowledge")
    if not os.path.isdir(folder) or os.path.samefile(folder, shipped_folder("knowledge")):
        return None
    return (
        folder if any(os.path.exists(os.path.join(folder, n)) for n in KNOWLEDGE_ENTRIES) else None
    )


def cache_folder() -> str:
    """Return this user's cache folder for KernelKB; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "kernelkb")
