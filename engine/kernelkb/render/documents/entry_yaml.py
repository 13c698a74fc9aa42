"""Formats one knowledge entry as YAML, with texts of several lines as blocks."""

from __future__ import annotations

from typing import Any

import yaml


class _EntryDumper(yaml.SafeDumper):
    """Writes a text of several lines as it stands, not in quotes."""


def _represent_text(dumper: _EntryDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.rstrip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_EntryDumper.add_representer(str, _represent_text)


def format_entry_yaml(entry: dict[str, Any]) -> str:
    """Return an entry as YAML, its fields in their order.

    Args:
        entry: Plain data.
    """
    text: str = yaml.dump(entry, Dumper=_EntryDumper, sort_keys=False, allow_unicode=True, width=96)
    return text
