"""The decision program, from its cache when the knowledge has not changed.

The cache is keyed by content, so it cannot be stale; written to a temporary file and renamed, so
two writers cannot mix; and optional, so a read-only machine only loses time.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, cast

from kernelkb import __version__
from kernelkb.decide.schema import SCHEMA
from kernelkb.loading.digest import key, stamp
from kernelkb.safety.paths import cache_folder, overlay_folder, shipped

if TYPE_CHECKING:
    from kernelkb.decide.rules import Program
    from kernelkb.loading.digest import Stamp

_SETTLED_NS = 2_000_000_000
"""An edit that is younger may be followed by another one that looks the same."""

_LOOK_NS = 1_000_000_000
"""Between two looks at the shipped files: a look costs twice what a decision does."""

_kept: dict[tuple[Stamp, Stamp], Program] = {}
_looked: dict[str, tuple[int, int, Stamp]] = {}


def decision_program(root: str | None = None) -> Program:
    """Return the program of a knowledge folder; nobody may change it.

    Args:
        root: The folder; by default the shipped one with the project's own on top of it, which
            stays in memory for a server that is asked a thousand times. An edit of the project's
            own counts at once, one of the shipped files within a second.

    Raises:
        KnowledgeError: The knowledge is wrong (it is only read when no cache holds it).
    """
    if root is not None:
        return _loaded(root, None)
    folder, overlay = shipped("knowledge"), overlay_folder()
    latest, base = _seen(folder)
    edited, own = stamp(overlay) if overlay else (0, ())
    if program := _kept.get((base, own)):
        return program
    _kept.clear()
    settled = time.time_ns() - max(latest, edited) > _SETTLED_NS  # before the files are read
    program = _loaded(folder, overlay)
    if settled:
        _kept[base, own] = program
    return program


def _seen(folder: str) -> tuple[int, Stamp]:
    """Look at files, unless that was done just now."""
    now = time.monotonic_ns()
    when, latest, files = _looked.get(folder, (0, 0, ()))
    if not files or now - when > _LOOK_NS:
        latest, files = stamp(folder)
        _looked[folder] = (now, latest, files)
    return latest, files


def _loaded(folder: str, overlay: str | None) -> Program:
    content = key(folder, overlay)
    path = os.path.join(cache_folder(), f"program-{__version__}-{SCHEMA}-{content}.json")
    program = _cached(path) or _compiled(folder, overlay, path)
    program["knowledge"]["overlay"] = overlay  # the same content may lie in several projects
    return program


def _cached(path: str) -> Program | None:
    try:
        with open(path, encoding="utf-8") as file:
            program = cast("Program", json.load(file))
        schema, version = program["schema"], program["knowledge"]["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return program if (schema, version) == (SCHEMA, __version__) else None


def _compiled(folder: str, overlay: str | None, path: str) -> Program:
    import tempfile  # this and what follows cost a quarter second, once for each knowledge
    from pathlib import Path

    from kernelkb.graph.compile import flatten
    from kernelkb.loading.knowledge import load_knowledge

    program = flatten(load_knowledge(Path(folder), Path(overlay) if overlay else None))
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=os.path.dirname(path), suffix=".tmp", delete=False, encoding="utf-8"
        ) as file:
            json.dump(program, file, separators=(",", ":"))
        os.replace(file.name, path)
    except OSError:
        return program  # nowhere to write: the next start compiles again
    return program
