"""Names the known failures in a log for recommend_fix, as ``kb diagnose`` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from kernelkb.errors import KbError
from kernelkb_mcp.paginate import MAX_ANSWER_BYTES, json_size, paginate

_MAX_LOG_BYTES = 64 * 2**20
_RESERVED_BYTES = 1500
"""Bytes reserved for everything but the symptoms."""
_LIST_OF_SYMPTOMS = ("kb show symptoms", "read_entry(id='symptoms')")
_WORDS_NEEDED = "words of the first error, for search_knowledge(query=...)"
_LOG_SUFFIXES = (".log", ".txt", ".out", ".err")


def diagnose_log_text(log: str, gpu: str | None) -> dict[str, Any]:
    """Return the fields of a ``RecommendResult`` for a log.

    Args:
        log: The text of a log, or the path of one.
        gpu: Any name of the GPU that the program was built for, or None.

    Raises:
        ToolError: A path of no file.
        ForbiddenPathError: The path leads out of the workspace.
        UnknownNameError: No such GPU.
    """
    from kernelkb.actions.advice.diagnose import diagnose_log
    from kernelkb.render.text.symptoms import format_diagnosis_lines

    found = diagnose_log(_read_log(log), gpu)
    symptoms = [dict(one) for one in found["symptoms"]]
    room = MAX_ANSWER_BYTES - _RESERVED_BYTES - json_size(found["knowledge"])
    shown = paginate(symptoms, 0, room).value
    left = len(symptoms) - len(shown)
    lines = format_diagnosis_lines(found["symptoms"], found["first_error"], found["read"], "log")
    first = "; ".join(list(lines)[: 1 if symptoms else None]).replace(*_LIST_OF_SYMPTOMS)
    return {
        "summary": f"{first}; cure: {symptoms[0]['cure']}" if symptoms else first,
        "kernels": [],
        "symptoms": shown,
        "log": {"first_error": found["first_error"], "read": found["read"]},
        "more": [f"{left} of {len(symptoms)} symptoms further on in the log"] if left else [],
        "next": _list_next_calls(symptoms),
        "needs": None if symptoms else _WORDS_NEEDED,
        "knowledge": found["knowledge"],
    }


def _list_next_calls(symptoms: list[dict[str, Any]]) -> list[str]:
    if not symptoms:
        return []
    entries = [symptoms[0]["symptom"], *symptoms[0]["fixes"][:1]]
    return [f"read_entry(id={entry!r})" for entry in entries]


def _read_log(log: str) -> str:
    from kernelkb.safety.workspace import read_bytes

    if "\n" in log or not _names_file(log):
        return log
    try:
        return read_bytes(log, _MAX_LOG_BYTES).decode("utf-8", errors="replace")
    except KbError:
        raise
    except OSError as error:
        message = f"cannot read {log}: {error.strerror}; log takes a path or the text itself"
        raise ToolError(message) from error


def _names_file(log: str) -> bool:
    """Return whether one line is the path of a file, or can be nothing else."""
    try:
        is_file = Path(log).is_file()
    except OSError:  # too long for a name
        return False
    return is_file or (" " not in log.strip() and log.strip().endswith(_LOG_SUFFIXES))
