"""Writes kernel folders and the text of kernel.yaml: names, generated files, added variants."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kernelkb.errors import KbError

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


def insert_variant(text: str, position: int, changes: Mapping[str, str]) -> str:
    """Return the text with one more variant, behind the last one: a copy of one with other fields.

    Args:
        text: Of a valid kernel.yaml.
        position: Of the variant to copy, among all variants.
        changes: Fields that differ, each with its value as YAML on one line; a field that the copy
            lacks is added.

    Raises:
        KbError: The text has no list of variants, or none at that position.
    """
    variants = _find_variants(text)
    if position >= len(variants.value):
        raise KbError(f"kernel.yaml lists {len(variants.value)} variants, no number {position + 1}")
    entry = variants.value[position]
    last = variants.value[-1]
    if variants.flow_style:
        copy = _change_fields(text, entry, changes, ", ")
        return _splice(text, last.end_mark.index, f", {copy}")
    dash = text.rindex("-", 0, last.start_mark.index)
    margin = text[text.rfind("\n", 0, dash) + 1 : dash]
    gap = text[dash + 1 : last.start_mark.index]
    inner = "\n" + " " * entry.start_mark.column
    copy = _change_fields(text, entry, changes, ", " if entry.flow_style else inner)
    return _splice(text, _find_line_end(text, _find_end(text, last)), f"\n{margin}-{gap}{copy}")


def _find_variants(text: str) -> yaml.SequenceNode:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    fields = root.value if isinstance(root, yaml.MappingNode) else []
    for key, value in fields:
        if key.value == "variants" and isinstance(value, yaml.SequenceNode) and value.value:
            return value
    raise KbError("kernel.yaml has no list of variants")


def _change_fields(
    text: str, entry: yaml.MappingNode, changes: Mapping[str, str], separator: str
) -> str:
    """Return the text of an entry with other values."""
    start, end = entry.start_mark.index, _find_end(text, entry)
    copy = text[start:end]
    left = dict(changes)
    spans = [(key.value, value) for key, value in entry.value if key.value in left]
    for name, value in reversed(spans):
        first, last = value.start_mark.index - start, _find_end(text, value) - start
        copy = f"{copy[:first]}{left.pop(name)}{copy[last:]}"
    more = "".join(f"{separator}{name}: {value}" for name, value in left.items())
    if entry.flow_style:
        return f"{copy[:-1].rstrip()}{more}}}"
    return copy + more


def _find_end(text: str, node: yaml.Node) -> int:
    """Return where a node's text ends; a block's end mark lies behind the comments after it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    end: int = node.end_mark.index
    is_block_text = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return len(text[:end].rstrip()) if is_block_text else end


def _find_line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _splice(text: str, at: int, added: str) -> str:
    return text[:at] + added + text[at:]
