"""Loads the compiled rules, from a cache file while the knowledge has not changed.

The cache is keyed by content, so it cannot be stale; written to a temporary file and renamed, so
two writers cannot mix; and optional, so a read-only machine only loses time.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from kernelkb import __version__
from kernelkb.decide.rules_file import RULES_SCHEMA, format_rules, parse_rules
from kernelkb.loading.digest import (
    STABLE_AGE_NS,
    compute_cache_key,
    read_file_stamps,
    scan_shipped,
)
from kernelkb.safety.paths import cache_folder, overlay_folder, shipped_folder

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.loading.digest import FileStamps

_memory_cache: dict[tuple[FileStamps, FileStamps], CompiledRules] = {}


def load_compiled_rules(root: str | None = None) -> CompiledRules:
    """Return the rules of a knowledge folder; callers must not change them.

    Args:
        root: The folder; by default the shipped one with the project's own on top of it, which
            stays in memory for a server that is asked a thousand times. An edit of the project's
            own counts at once, one of the shipped files within a second.

    Raises:
        KnowledgeError: The knowledge is wrong (it is only read when no cache holds it).
    """
    if root is not None:
        return _load_or_compile(root, None)
    folder, overlay = shipped_folder("knowledge"), overlay_folder()
    latest, base = scan_shipped(folder)
    edited, own = read_file_stamps(overlay) if overlay else (0, ())
    if rules := _memory_cache.get((base, own)):
        return rules
    _memory_cache.clear()
    stable = time.time_ns() - max(latest, edited) > STABLE_AGE_NS  # before the files are read
    rules = _load_or_compile(folder, overlay)
    if stable:
        _memory_cache[base, own] = rules
    return rules


def _load_or_compile(folder: str, overlay: str | None) -> CompiledRules:
    content = compute_cache_key(folder, overlay)
    path = os.path.join(cache_folder(), f"program-{__version__}-{RULES_SCHEMA}-{content}.json")
    rules = _read_cache(path) or _compile_and_cache(folder, overlay, path)
    # Several projects may have the same content.
    return {**rules, "knowledge": {**rules["knowledge"], "overlay": overlay}}


def _read_cache(path: str) -> CompiledRules | None:
    try:
        with open(path, encoding="utf-8", opener=_open_at_once) as file:
            rules = parse_rules(file.read())
        return rules if rules["knowledge"]["version"] == __version__ else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a FIFO, which would wait for a writer, is empty."""
    return os.open(path, flags | os.O_NONBLOCK)


def _compile_and_cache(folder: str, overlay: str | None, path: str) -> CompiledRules:
    from pathlib import Path  # these cost a quarter of a second, only when knowledge has changed

    from kernelkb.graph.compile import compile_rules
    from kernelkb.loading.knowledge import load_knowledge
    from kernelkb.safety.files import keep_file

    rules = compile_rules(load_knowledge(Path(folder), Path(overlay) if overlay else None))
    keep_file(Path(path), format_rules(rules))
    return rules
