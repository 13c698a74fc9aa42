"""Where things are: the shipped data, and the project that somebody is working in."""

from __future__ import annotations

import os

_ENGINE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KNOWLEDGE = (
    "metrics.yaml",
    "devices.yaml",
    "thresholds.yaml",
    "guards.yaml",
    "calibration.yaml",
    "sources.yaml",
    "workflow.yaml",
    "bottlenecks",
    "fixes",
    "patterns",
    "symptoms",
    "trees",
)
"""What a knowledge folder may hold at its top."""

MARKS = ("kernels", ".kb", "sessions")
"""Folders that make the one around them a project."""


def shipped(folder: str) -> str:
    """Return the shipped ``knowledge`` or ``kernels``: a wheel's own copy, else the checkout's."""
    packaged = os.path.join(_ENGINE, "_data", folder)
    return packaged if os.path.isdir(packaged) else os.path.join(os.path.dirname(_ENGINE), folder)


def project_root(start: str | None = None) -> str:
    """Return the nearest folder at or above ``start`` that holds kernels, sessions or .kb.

    Where there is none, ``start`` itself (the working directory by default) is the project.
    """
    here = first = os.path.abspath(start or os.getcwd())
    while True:
        if any(os.path.isdir(os.path.join(here, mark)) for mark in MARKS):
            return here
        parent = os.path.dirname(here)
        if parent == here:
            return first
        here = parent


def overlay_folder(start: str | None = None) -> str | None:
    """Return the project's own ``knowledge`` folder, None where it has none.

    A folder of that name that holds no knowledge file is somebody else's.
    """
    folder = os.path.join(project_root(start), "knowledge")
    if not os.path.isdir(folder) or os.path.samefile(folder, shipped("knowledge")):
        return None
    return folder if any(os.path.exists(os.path.join(folder, n)) for n in KNOWLEDGE) else None


def cache_folder() -> str:
    """Return this user's cache folder for KernelKB; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "kernelkb")
