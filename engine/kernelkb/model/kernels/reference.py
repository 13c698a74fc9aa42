"""Defines the record of a kernel's reference: what its outputs are compared with."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import StringConstraints, model_validator

from kernelkb.model.base import Record, Slug

Symbol = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=120)]
"""An identifier of C and Python."""
FileName = Annotated[
    str, StringConstraints(pattern=r"^(\.\./[a-z][a-z0-9_]*/)?[A-Za-z0-9_][A-Za-z0-9_.-]*$")
]
"""A file in the folder of kernel.yaml, or in that of a kernel beside it, as ``../attention/a.cu``:
kernels of other dtypes share sources. No other path, so that a kernel cannot read other folders."""
COMPILED_SUFFIXES = (".cpp", ".cc", ".cxx", ".cu")
"""Of files that are compiled before they can be called."""


class Reference(Record):
    """What defines correct outputs: torch code, a C++ function, a variant, or recorded outputs."""

    file: FileName | None = None
    """Source of ``function`` or ``module``: Python, or C++ or CUDA with the interface of a C
    variant. ``function: oracle.cpp:scale`` names both."""
    function: Symbol | None = None
    """Of Python: returns the outputs; with a parameter ``out``, its timing leaves out the
    allocator. Of C++ or CUDA: writes them."""
    module: Symbol | None = None
    """A ``torch.nn.Module``; the file also has ``get_inputs`` and ``get_init_inputs``."""
    variant: Slug | None = None
    """One of the kernel's variants, which is not judged then: nothing is right but what it says."""
    recorded: FileName | None = None
    """A safetensors file with inputs and outputs as ``workload/name``. Only these are checked."""
    computes_in: Literal["float64"] | None = None
    """Of C++ and CUDA: takes and returns floating-point arrays as double; None: in their dtypes."""
    inputs: Symbol | None = None
    """A function that returns the inputs, given the axes by keyword; None: use ``fill``."""

    @property
    def is_compiled(self) -> bool:
        """Whether it is a C++ or CUDA function of its own."""
        return self.file is not None and self.file.endswith(COMPILED_SUFFIXES)

    @property
    def is_torch(self) -> bool:
        """Whether it is torch code, which runs in fp64 too and is a baseline."""
        return self.file is not None and not self.is_compiled

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names; none for a variant."""
        return tuple(name for name in (self.file, self.recorded) if name is not None)

    @model_validator(mode="before")
    @classmethod
    def _split_function(cls, fields: Any) -> Any:
        function = fields.get("function") if isinstance(fields, dict) else None
        if isinstance(function, str) and ":" in function and "file" not in fields:
            file, _, symbol = function.partition(":")
            return {**fields, "file": file, "function": symbol}
        return fields

    @model_validator(mode="after")
    def _require_one_kind(self) -> Self:
        kinds = (self.function, self.module, self.variant, self.recorded)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("give either a function or a module, a variant, or a recorded file")
        has_file = self.function is not None or self.module is not None
        if has_file != (self.file is not None):
            raise ValueError("a function or a module has a file; a variant or a recording has none")
        if self.inputs is not None and (not has_file or self.is_compiled):
            raise ValueError("inputs names a function in the Python file of the reference")
        if self.computes_in is not None and not self.is_compiled:
            raise ValueError("computes_in is for a C++ or CUDA function; torch code runs in fp64")
        if self.module is not None and self.is_compiled:
            raise ValueError("a module is a class of a Python file")
        return self
