"""Kernel folders made from something else: names, text, and where they go."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

FILL_IN_MARK = "FILL_IN"
"""What a generated kernel.yaml holds where only its owner knows the value."""


class KernelFiles(NamedTuple):
    """A kernel folder that is not on disk yet."""

    id: str
    files: dict[str, str]
    """Text by name; one of them is kernel.yaml."""
    warnings: tuple[str, ...]

    def write(self, root: Path) -> Path:
        """Write the folder below ``root``, under a name that says what is in it; return it.

        The folder's own name is the kernel's id, as everywhere; what was written before stays.
        """
        digest = hashlib.sha256("\0".join(sorted(self.files.values())).encode()).hexdigest()[:12]
        folder = root / digest / self.id
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder


def to_snake_case(text: str) -> str:
    """Return a name as metrics, axes and kernels have it."""
    words = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:58]
    return words if words[:1].isalpha() else f"k_{words}"


def to_slug(text: str) -> str:
    """Return a name as workloads and variants have it."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50].strip("-")
    return words if words[:1].isalpha() else f"w-{words}"


def dump_kernel_yaml(kernel: dict[str, Any]) -> str:
    """Return a kernel.yaml."""
    return yaml.safe_dump(kernel, sort_keys=False, width=100, default_flow_style=None)
