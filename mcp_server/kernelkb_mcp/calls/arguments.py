"""Tool arguments. Descriptions state the defaults, which some clients drop from a schema."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Annotated, Literal

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import AfterValidator, Field
from pydantic.json_schema import SkipJsonSchema

_MAX_PATH_CHARS = 1000
_SOURCE_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".py")


def _refuse_source(kernel: str) -> str:
    """Reject the path of a source where the name of a kernel belongs."""
    path = PurePath(kernel)
    if path.suffix not in _SOURCE_SUFFIXES:
        return kernel
    name = re.sub(r"[^a-z0-9_]", "_", path.stem.lower()) or "mine"
    cure = f"build_kernel(kernel={name!r}, file={kernel!r}) makes it one"
    raise ValueError(f"{kernel} is a source, not a kernel; {cure}")


Kernel = Annotated[
    str,
    AfterValidator(_refuse_source),
    Field(description="Name in kernels/.", max_length=200),
]
Change = Annotated[
    str | None,
    Field(max_length=300, description="What you changed, by fix id."),
]
Variant = Annotated[
    str | None,
    Field(description="Default: the first.", max_length=60),
]
Target = Annotated[
    Literal["auto", "cpu", "cuda"],
    Field(description="Default auto."),
]
Workload = Annotated[
    str | None,
    Field(
        description="tiny to xlarge; default by target.",
        max_length=60,
    ),
]
Budget = Annotated[
    str | SkipJsonSchema[float],
    Field(description="90s, 20m or 1h; default 10m."),
]
"""A number is taken, too: seconds."""
_SECONDS_BY_UNIT = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_budget(budget: str | float) -> float:
    """Return a time in seconds.

    Raises:
        ToolError: It is no duration, or zero.
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smh]?)", str(budget))
    seconds = float(found[1]) * _SECONDS_BY_UNIT[found[2]] if found else 0.0
    if not seconds:
        raise ToolError(f"budget {str(budget)[:40]!r} is no duration; write 90s, 20m or 1h")
    return seconds


def require_path(argument: str, value: str) -> None:
    """Check that an argument is a path inside the workspace, not what the file holds.

    Raises:
        ToolError: It is the text of a file, or no file is there.
        ForbiddenPathError: It leads out of the workspace.
    """
    from kernelkb.safety.workspace import resolve_inside

    if "\n" in value or len(value) > _MAX_PATH_CHARS or value.startswith(('"', "==")):
        raise ToolError(
            f"{argument} is the text of a file; write it to a file and give a path: "
            f"{argument}='PATH'"
        )
    if not value.strip():
        raise ToolError(f"{argument} is empty; give a path: {argument}='PATH'")
    resolve_inside(value)
    if not Path(value).exists():
        raise ToolError(f"{argument}: there is no file {value!r}; give a path in the project")
