"""kernel.yaml: what a kernel computes, how to judge it, and the variants that exist."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from kernelkb.model.base import Name, Record, Slug, Target

Dtype = Literal[
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
]
DTYPE_BYTES: dict[str, int] = {
    **dict.fromkeys(("float64", "int64"), 8),
    **dict.fromkeys(("float32", "int32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "int8", "uint8", "bool"), 1),
}
Binding = Literal["c", "tvm-ffi", "torch-extension", "python", "module"]
"""How a variant is called. c: a C function of pointers, axes and a stream. tvm-ffi: a packed
function of tensors. torch-extension, python: a Python function of tensors. module: a
``torch.nn.Module`` class that stands in for the reference's."""
Symbol = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=120)]
"""A name in C or Python."""
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
"""A file beside kernel.yaml; never a path, so that a kernel cannot reach outside its folder."""


_RESERVED_RIVAL_NAMES = ("candidate", "torch", "torch.compile")


class Array(Record):
    """One tensor argument: contiguous, row-major, passed as a raw pointer."""

    name: Name
    shape: tuple[Name | int, ...] = ()
    """Axes and sizes; none for a tensor of one element without dimensions."""
    dtype: Dtype


class Input(Array):
    """A tensor that the harness fills afresh, from a new seed, for every check."""

    fill: Literal["normal", "uniform", "integers", "ones", "zeros"] = "normal"
    """normal: mean 0, deviation ``scale``; uniform: 0 to ``scale``; integers: from 0, below it."""
    scale: float = Field(default=1.0, gt=0)
    value: int | float | None = None
    """Makes it a number instead of a tensor, the same in every call; a truth value as 1 or 0."""


class Output(Array):
    """A tensor that the kernel writes. It holds NaN before, so what is not written shows."""

    starts_as: Name | None = None
    """An input whose values it holds before each call: for kernels that work in place."""


class Reference(Record):
    """The torch code that says what is right: a function, or a module, of the inputs in order."""

    file: FileName
    function: Symbol | None = None
    """Returns the outputs; where it takes ``out``, timing it does not time the allocator."""
    module: Symbol | None = None
    """A ``torch.nn.Module``; the file also has ``get_inputs`` and ``get_init_inputs``."""
    inputs: Symbol | None = None
    """A function of the axes, by name, that makes the inputs where ``fill`` cannot."""

    @model_validator(mode="after")
    def _require_function_or_module(self) -> Self:
        if (self.function is None) == (self.module is None):
            raise ValueError("name one of the two: a function, or a module")
        return self


class Baseline(Record):
    """Something else that a user could run instead: a vendor's call, another backend."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.+-]*$", max_length=40)]
    file: FileName
    function: Symbol
    """Takes the inputs, like the reference; returns the outputs."""


class Tolerance(Record):
    """An element matches when |got − want| ≤ atol + rtol·|want|."""

    atol: float = Field(gt=0)
    rtol: float = Field(ge=0)
    matched_ratio: float = Field(gt=0, le=1)
    """Share of elements that must match."""
    max_error: float = Field(gt=0)
    """No element may be further off than this, matched or not."""


class Cost(Record):
    """Work that any correct kernel must do, as expressions of the axes."""

    bytes: str
    """Each input read once and each output written once."""
    flops: str


class Variant(Record):
    """One implementation, in a file beside kernel.yaml."""

    id: Slug
    target: Target
    language: Literal["c++", "cuda", "python", "triton"]
    binding: Binding = "c"
    """How it is called; a Python file is ``python`` or ``module``."""
    source: FileName
    also: tuple[FileName, ...] = ()
    """Further sources, compiled apart and linked: a binding is not compiled again with a kernel."""
    entry: Symbol | None = None
    """The kernel's entry by default."""
    returns: bool = False
    """It returns its outputs instead of writing the tensors that it is given."""
    summary: str
    flags: tuple[str, ...] = ()
    """Compiler flags on top of the defaults."""
    kernels: tuple[str, ...] = ()
    """``__global__`` functions that the profiler should look at."""
    applies: tuple[Slug, ...] = ()
    """Fixes that this variant applies to the plain one."""

    @property
    def is_compiled(self) -> bool:
        """Whether there is something to build before it can be loaded."""
        return self.language in ("c++", "cuda")

    @model_validator(mode="before")
    @classmethod
    def _default_python_binding(cls, fields: Any) -> Any:
        scripted = isinstance(fields, dict) and fields.get("language") in ("python", "triton")
        if scripted and "binding" not in fields:
            return {**fields, "binding": "python"}
        return fields

    @model_validator(mode="after")
    def _check_language(self) -> Self:
        needs = {"cuda": "cuda", "triton": "cuda", "c++": "cpu"}.get(self.language)
        if needs is not None and needs != self.target:
            raise ValueError(f"a {self.language} variant cannot have target {self.target}")
        if self.is_compiled != (self.binding in ("c", "tvm-ffi", "torch-extension")):
            raise ValueError(f"a {self.language} variant cannot have binding {self.binding}")
        if self.returns and self.binding in ("c", "tvm-ffi"):
            raise ValueError(f"a {self.binding} variant writes its outputs, it returns none")
        if any(not flag.startswith("-") for flag in self.flags):
            raise ValueError("every flag starts with '-'")
        if any(not flag.isprintable() for flag in self.flags):
            raise ValueError("a flag is one line of printable text")
        return self


class Kernel(Record):
    """A kernel, its judge and its variants. Axes are int64 and follow the pointers in the call."""

    id: Name
    title: str
    axes: tuple[Name, ...] = ()
    workloads: dict[Slug, dict[Name, int]] = Field(min_length=1)
    """From tiny to large: a value for every axis."""
    default_workload: dict[Target, Slug]
    """What triage measures: larger than the caches, so that memory speed is what is timed."""
    check_workloads: tuple[dict[Name, int], ...] = ()
    """Odd shapes and boundaries, checked besides the named workloads."""
    inputs: tuple[Input, ...] = Field(min_length=1)
    outputs: tuple[Output, ...] = Field(min_length=1)
    reference: Reference
    baselines: tuple[Baseline, ...] = ()
    """Rivals besides the reference and torch.compile of it; the fastest is the baseline."""
    tolerances: dict[Dtype, Tolerance] = Field(default_factory=dict)
    """Where a type has none, the reference's own error in that type is the yardstick."""
    cost: Cost | None = None
    """Without it nothing is known of the roofline."""
    entry: Symbol
    variants: tuple[Variant, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for sizes in (*self.workloads.values(), *self.check_workloads):
            if set(sizes) != set(self.axes) or min(sizes.values(), default=1) < 1:
                raise ValueError(
                    f"workload {sizes} must give a positive size to each of {self.axes}"
                )
        for array in (*self.inputs, *self.outputs):
            strange = [d for d in array.shape if isinstance(d, str) and d not in self.axes]
            if strange:
                raise ValueError(f"shape of {array.name} names {strange[0]!r}, not one of the axes")
        given = {(one.name, one.shape, one.dtype) for one in self.inputs}
        for one in self.outputs:
            if one.starts_as and (one.starts_as, one.shape, one.dtype) not in given:
                raise ValueError(f"{one.name} starts as {one.starts_as}, no input of its shape")
        others = [one.name for one in self.baselines]
        taken = next((n for n in others if n in _RESERVED_RIVAL_NAMES or others.count(n) > 1), None)
        if taken is not None:
            raise ValueError(f"two baselines are called {taken}")
        unused = set(self.tolerances) - {output.dtype for output in self.outputs}
        if unused:
            raise ValueError(f"a tolerance for {min(unused)}, which no output has")
        for target, name in self.default_workload.items():
            if name not in self.workloads:
                raise ValueError(f"default workload {name!r} of {target} is not defined")
        pairs = [(v.target, v.id) for v in self.variants]
        if len(set(pairs)) < len(pairs):
            raise ValueError("two variants share target and id")
        return self
