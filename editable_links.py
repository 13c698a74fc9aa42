"""Build hook: an editable install finds ``src/kernelkb`` and ``src/kernelkb_mcp``.

A checkout has these links already; an unpacked source distribution has not, because hatchling
follows links instead of storing them.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LINKS = {"kernelkb": "../engine", "kernelkb_mcp": "../mcp_server"}


class EditableLinks(BuildHookInterface[Any]):
    """Called by hatchling before each build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Make the links of an editable install; a wheel needs none."""
        if version != "editable":
            return
        source = Path(self.root) / "src"
        source.mkdir(exist_ok=True)
        for name, target in LINKS.items():
            if not (source / name).exists():
                (source / name).symlink_to(target)
