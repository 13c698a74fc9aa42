"""Write files into somebody's project; what is there already stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.errors import BadValueError

_PROJECT_FILES = {
    "sessions/README.md": "Retrospectives, one file each. kb session list names them.\n",
    ".kb/.gitignore": "*\n",
    "knowledge/README.md": "Own patterns and thresholds; they overlay those that ship.\n",
}
_MCP_SERVER = {"command": "kb-mcp", "args": []}
_MANUAL_CURE = "add kb-mcp to your client yourself, as with: claude mcp add kernelkb -- kb-mcp"


class WriteResult(NamedTuple):
    """What became of the files."""

    new: list[str]
    existing: list[str]
    warnings: list[str]


def write_project(root: Path, files: dict[str, str]) -> WriteResult:
    """Write a kernel's files, what every project has, and the entry of the MCP clients.

    Raises:
        BadValueError: A file cannot be written.
    """
    done = WriteResult([], [], [])
    for relative, text in {**files, **_PROJECT_FILES}.items():
        if (root / relative).exists():
            done.existing.append(relative)
        else:
            _write_file(root / relative, text)
            done.new.append(relative)
    _add_mcp_server(root / ".mcp.json", done)
    return done


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadValueError(f"cannot write {path}: {error.strerror}") from error


def _add_mcp_server(path: Path, done: WriteResult) -> None:
    """Add our server to the project's MCP clients, beside those that are there."""
    try:
        found = _read_client_config(path)
    except ValueError as error:
        done.existing.append(path.name)
        done.warnings.append(f"kb-mcp is not in {path.name}, which {error}; {_MANUAL_CURE}")
        return
    servers = found.get("mcpServers") or {}
    if "kernelkb" in servers:
        done.existing.append(path.name)
        return
    servers = {**servers, "kernelkb": _MCP_SERVER}
    _write_file(path, json.dumps({**found, "mcpServers": servers}, indent=2) + "\n")
    done.new.append(path.name)


def _read_client_config(path: Path) -> dict[str, Any]:
    """Return what the clients' file holds.

    Raises:
        ValueError: Something that we cannot add to; says what.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("holds no JSON object")
    if not isinstance(found.get("mcpServers") or {}, dict):
        raise ValueError("has mcpServers that are no JSON object")
    return found
