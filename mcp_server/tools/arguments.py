"""Arguments that several tools share. Defaults stand in the text: some clients drop them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Kernel = Annotated[
    str, Field(description="Kernel folder below kernels/, for example row_softmax.", max_length=60)
]
Variant = Annotated[
    str | None,
    Field(
        description="Variant id, for example naive. Default: the first, plain one.", max_length=60
    ),
]
Target = Annotated[
    Literal["auto", "cpu", "cuda"],
    Field(description="auto (default) takes CUDA where there is a GPU and nvcc, else the CPU."),
]
Workload = Annotated[
    str | None,
    Field(
        description="Named workload of the kernel, tiny to xlarge. Default: the target's own.",
        max_length=60,
    ),
]
