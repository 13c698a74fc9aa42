"""Kernel folders that KernelKB generates: names, the text of kernel.yaml, and writing them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

FILL_IN_MARK = "FILL_IN"
"""Stands in a generated kernel.yaml or launcher for a value that a person must fill in."""


class KernelFiles(NamedTuple):
    """The text of a kernel folder's files, not on disk yet."""

    id: str
    """The kernel's id, and the folder's name."""
    files: dict[str, str]
    """Text by file name; one is kernel.yaml."""
    warnings: tuple[str, ...]

    def write(self, root: Path) -> Path:
        """Write the folder to ``root/<digest of its content>/<id>`` and return its path.

        Folders with other content stay.
        """
        digest = hashlib.sha256("\0".join(sorted(self.files.values())).encode()).hexdigest()[:12]
        folder = root / digest / self.id
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder


def to_snake_case(text: str) -> str:
    """Return a snake_case name for an axis or a kernel, at most 60 characters."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:58]
    return words if words[:1].isalpha() else f"k_{words}"


def to_slug(text: str) -> str:
    """Return a kebab-case name for a workload or a variant, at most 52 characters."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50].strip("-")
    return words if words[:1].isalpha() else f"w-{words}"


def dump_kernel_yaml(kernel: dict[str, Any]) -> str:
    """Return the text of a kernel.yaml, keys in the given order."""
    return yaml.safe_dump(kernel, sort_keys=False, width=100, default_flow_style=None)
