"""Tool arguments. Descriptions state the defaults, which some clients drop from a schema."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

Kernel = Annotated[
    str, Field(description="Folder in kernels/, such as row_softmax.", max_length=60)
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
    Field(description="Default auto: cuda if possible."),
]
Workload = Annotated[
    str | None,
    Field(
        description="tiny to xlarge. Default: the target's own.",
        max_length=60,
    ),
]
Budget = Annotated[
    str | SkipJsonSchema[float],
    Field(description="Time for everything: 90s, 20m, 1h; default 10m."),
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
