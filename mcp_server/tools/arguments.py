"""Shared tool arguments. Descriptions repeat the defaults: some clients drop the schema's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Kernel = Annotated[
    str, Field(description="Folder in kernels/, such as row_softmax.", max_length=60)
]
Change = Annotated[
    str | None,
    Field(max_length=300, description="What you changed, by fix id. Default none."),
]
Variant = Annotated[
    str | None,
    Field(description="Variant id. Default: the first.", max_length=60),
]
Target = Annotated[
    Literal["auto", "cpu", "cuda"],
    Field(description="auto (default): cuda with a GPU and nvcc, else cpu."),
]
Workload = Annotated[
    str | None,
    Field(
        description="By name, tiny to xlarge. Default: the target's own.",
        max_length=60,
    ),
]
