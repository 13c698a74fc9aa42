"""Caches facts that take seconds to determine, as JSON files in the user's cache folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernelkb.safety.files import keep_file
from kernelkb.safety.paths import cache_folder


def read_cache(name: str, key: str) -> Any:
    """Return the cached value of a key of the file ``name``, or None."""
    return _read_json(_cache_path(name)).get(key)


def write_cache(name: str, key: str, value: Any) -> None:
    """Cache a value; where the folder cannot be written, nothing is cached."""
    path = _cache_path(name)
    values = _read_json(path)
    values[key] = value
    keep_file(path, json.dumps(values, indent=1))


def _cache_path(name: str) -> Path:
    return Path(cache_folder()) / f"{name}.json"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
