"""Small JSON files in the user's cache: what costs seconds to find out and stays true."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from kernelkb.safety.paths import cache_folder


def read_cache(name: str, key: str) -> Any:
    """Return what is kept under a key of a file, or None."""
    return _read_json(_cache_path(name)).get(key)


def write_cache(name: str, key: str, value: Any) -> None:
    """Keep a value. A home that cannot be written costs finding it out again, no more."""
    path = _cache_path(name)
    everything = _read_json(path)
    everything[key] = value
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, scratch = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(everything, file, indent=1)
        Path(scratch).replace(path)
    except OSError:
        return


def _cache_path(name: str) -> Path:
    return Path(cache_folder()) / f"{name}.json"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
