"""Writes new files into a user's project and adds kb-mcp to its .mcp.json; overwrites nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.safety.files import replace_file
from kernelkb.safety.storage import describe_write_cure

_PROJECT_FILES = {
    "sessions/README.md": "Session records, one file each. kb session list prints them.\n",
    ".kb/.gitignore": "*\n",
    "knowledge/README.md": "Own patterns and thresholds, added to those of KernelKB.\n",
}
_MCP_SERVER = {"command": "kb-mcp", "args": []}
_MANUAL_CURE = "add kb-mcp to your client by hand, for example: claude mcp add kernelkb -- kb-mcp"


class WriteResult(NamedTuple):
    """Files relative to the project: written, and left as they were; and warnings."""

    new: list[str]
    existing: list[str]
    warnings: list[str]


def write_project(root: Path, files: dict[str, str]) -> WriteResult:
    """Write a kernel's files, the project's folders, and the server's entry in .mcp.json.

    Args:
        root: The project's folder.
        files: Text by path below ``root``; existing files are kept.

    Raises:
        BadValueError: A file cannot be written.
    """
    result = WriteResult([], [], [])
    for relative, text in {**files, **_PROJECT_FILES}.items():
        if (root / relative).exists():
            result.existing.append(relative)
        else:
            _write_file(root / relative, text)
            result.new.append(relative)
    _add_mcp_server(root / ".mcp.json", result)
    return result


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        cure = describe_write_cure(error, "name a project that you may write to")
        raise BadValueError(f"cannot write {path}: {error.strerror}; {cure}") from error


def _add_mcp_server(path: Path, result: WriteResult) -> None:
    """Add kb-mcp to the servers of .mcp.json, which the project's MCP clients read."""
    try:
        config = _read_client_config(path)
    except ValueError as error:
        result.existing.append(path.name)
        result.warnings.append(f"kb-mcp is not in {path.name}, which {error}; {_MANUAL_CURE}")
        return
    servers = config.get("mcpServers") or {}
    if "kernelkb" in servers:
        result.existing.append(path.name)
        return
    servers = {**servers, "kernelkb": _MCP_SERVER}
    _write_file(path, json.dumps({**config, "mcpServers": servers}, indent=2) + "\n")
    result.new.append(path.name)


def _read_client_config(path: Path) -> dict[str, Any]:
    """Return the object in .mcp.json; empty where there is no file.

    Raises:
        ValueError: An entry cannot be added; the text says why.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError("is not a JSON object")
    if not isinstance(config.get("mcpServers") or {}, dict):
        raise ValueError("has mcpServers that are not a JSON object")
    return config
