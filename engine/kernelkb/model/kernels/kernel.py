"""Defines the records of a kernel.yaml: inputs, outputs, reference, tolerances and variants."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from kernelkb.model.base import Name, Record, Slug, Target
from kernelkb.model.kernels.languages import LANGUAGES, Binding, LanguageName
from kernelkb.model.kernels.tuning import TuningSpace

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


HiddenInputs = Literal["tripled", "hundredth", "hundredfold", "tiny", "negated", "constant",
                       "sparse", "extremes", "outliers", "infinities", "nan", "sizes"]  # fmt: skip
"""What a check does to drawn inputs, besides comparing them as they are. tripled, hundredth,
hundredfold, tiny: scaled by 3, 0.01, 100, 1e-15. extremes: some values large, zero, −0, equal,
subnormal. outliers: one to three are large. infinities, nan: some values are. sizes: sizes that
kernel.yaml does not name."""


class HiddenInputsOptions(Record):
    """Which hidden inputs a check leaves out."""

    skip: tuple[HiddenInputs, ...] = ()
    """Those for which the kernel is not defined; each verdict names them."""
    reason: str = ""
    """Why, in one line."""

    @model_validator(mode="after")
    def _require_reason(self) -> Self:
        if self.skip and not self.reason:
            raise ValueError("give the reason for what is skipped")
        return self


class FlawPlace(Record):
    """Where a flaw lies in the source of ``before``, told from the code alone."""

    line: int = Field(gt=0)
    text: str
    """Of that line."""
    also: tuple[int, ...] = ()
    """Lines that are as right."""
    producers: tuple[int, ...] = ()
    """Where the flaw is a wait: the lines of what is waited for."""


class Pair(Record):
    """Two variants that differ by one change, whose effect was measured (``kernels/zoo``)."""

    before: Slug = "before"
    """Id of the variant without the change."""
    after: Slug = "after"
    """Id of the variant with it."""
    kind: Literal["flaw", "two-flaws", "at-roof", "no-gain"]
    """flaw: the change cures the cause. two-flaws: it cures two that hide each other. at-roof: a
    sensible change that gains nothing, since ``before`` is at its roof. no-gain: a change that an
    expert would try, and that gains nothing here or makes it slower."""
    operation: Slug
    """What is computed, such as ``softmax``; pairs of one operation are left out together when a
    fit is tested."""
    bottlenecks: tuple[Slug, ...] = Field(min_length=1)
    """What limits ``before``: any of them is a correct first cause."""
    fix: Slug
    """The change."""
    also_right: tuple[Slug, ...] = ()
    """Other changes that an expert would as soon make next."""
    tempting: tuple[Slug, ...] = ()
    """Ids of variants with a change that seems fit and gains nothing."""
    held_out: bool = False
    """Whether rules and thresholds are chosen without looking at it: the score of these pairs says
    what to expect of kernels that are new."""
    change: str
    """The change in words, with the factor that its author chose."""
    launch_count: int = Field(1, gt=0)
    """Launches in a call of ``before``; such a pair is timed, and profiled only if it is one."""
    place: FlawPlace | None = None
    """None: it lies in no line, or it has not been said in which."""


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
"""Bytes per element."""
StatedPrecision = Literal["fp32", "tf32", "open"]
"""How exact fp32 products have to be. fp32: as IEEE 754 says. tf32: as TF32. open: TF32 or better;
the baseline then runs at the fastest precision that the candidate's own error allows."""
_RESERVED_RIVAL_NAMES = ("candidate", "torch", "torch.compile")


def evaluate_axis_expression(expression: str, sizes: Mapping[str, int]) -> float:
    """Return the value of an arithmetic expression of the axes, such as ``2 * m * n * k``.

    Args:
        expression: Arithmetic with the axes' names, ``min`` and ``max``.
        sizes: The size of each axis, in elements.

    Raises:
        ValueError: The expression is not arithmetic, names another axis, or is not finite.
    """
    from simpleeval import InvalidExpression, SimpleEval

    evaluator = SimpleEval(names=dict(sizes), functions={"min": min, "max": max})
    try:
        ast.parse(expression, mode="eval")  # simpleeval alone would take statements too
        value = evaluator.eval(expression)
        finite = isinstance(value, int | float) and math.isfinite(value)
    except (InvalidExpression, SyntaxError, TypeError, ArithmeticError) as error:
        raise ValueError(f"{expression!r} is not an expression of the axes: {error}") from error
    if not finite:
        raise ValueError(f"{expression!r} is not an expression of the axes: it gives {value!r}")
    return float(value)


Extent = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_(][a-z0-9_()*/+ -]*$", max_length=80)]
"""A size in elements: an axis, or arithmetic of the axes such as ``n + 1`` and ``k // 2``."""


class Array(Record):
    """One tensor argument: contiguous, row-major; the C binding passes its pointer."""

    name: Name
    shape: tuple[int | Extent, ...] = ()
    """Extents, outermost first; empty for a tensor without dimensions."""
    dtype: Dtype

    def resolve_shape(self, sizes: Mapping[str, int]) -> list[int]:
        """Return the shape in elements.

        Args:
            sizes: Of every axis, in elements.

        Raises:
            ValueError: An extent names another axis, or gives no whole number of elements.
        """
        return [_resolve_extent(extent, sizes) for extent in self.shape]


def _resolve_extent(extent: int | str, sizes: Mapping[str, int]) -> int:
    if isinstance(extent, int):
        return extent
    if extent.isidentifier():
        if extent not in sizes:
            raise ValueError(f"it names {extent!r}, not one of the axes")
        return sizes[extent]
    size = evaluate_axis_expression(extent, sizes)
    if size < 0 or size != int(size):
        raise ValueError(f"{extent!r} is {size:g} for {dict(sizes)}, no number of elements")
    return int(size)


Fill = Literal["normal", "uniform", "integers", "offsets", "permutation", "ones", "zeros"]


class Input(Array):
    """A tensor that the judge fills with new values for every check."""

    fill: Fill = "normal"
    """normal: mean 0, standard deviation ``scale``. uniform: 0 to ``scale``. integers: ``low`` to
    ``scale`` − 1. offsets: ascending from 0 to ``scale``, as where the rows of a sparse matrix
    begin in its values. permutation: each integer below the number of elements once."""
    scale: Annotated[float, Field(gt=0)] | Extent = 1.0
    """Spread of the values, see ``fill``: a number, or arithmetic of the axes."""
    low: int = 0
    """Smallest value of ``integers``, below ``scale``."""
    value: int | float | Name | None = None
    """Makes it a scalar instead of a tensor: a number, 1 or 0 for a boolean, or the name of an
    axis, which is then passed here and not among the sizes. None: a tensor."""

    @model_validator(mode="after")
    def _check_low(self) -> Self:
        if self.low and self.fill != "integers":
            raise ValueError(f"low is for fill: integers, not for {self.fill}")
        return self

    def resolve_scale(self, sizes: Mapping[str, int]) -> float:
        """Return the spread of the values for some sizes of the axes, as ``resolve_shape``."""
        return self.scale if isinstance(self.scale, float) else _resolve_extent(self.scale, sizes)


class Output(Array):
    """A tensor that the kernel writes, filled with NaN before to detect unwritten elements."""

    starts_as: Name | None = None
    """An input whose values it holds before each call, for in-place kernels; None: NaN."""


class Baseline(Record):
    """An alternative to compare against: a vendor library's call, another backend."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.+-]*$", max_length=40)]
    file: FileName
    function: Symbol
    """Takes the inputs in order and returns the outputs, like the reference."""


class Tolerance(Record):
    """An element matches if |output − expected| ≤ atol + rtol·|expected|."""

    atol: float = Field(gt=0)
    """Absolute tolerance, in the unit of the output."""
    rtol: float = Field(ge=0)
    """Relative tolerance, as a share of the expected value."""
    matched_ratio: float = Field(gt=0, le=1)
    """Share of elements that must match, 0 to 1."""
    max_error: float = Field(gt=0)
    """Largest absolute error of any element."""


class ExtraCase(Record):
    """Inputs that are checked besides the workloads, such as hidden tests; they are not timed."""

    name: Slug
    file: FileName
    """Has the reference's module, ``get_inputs`` and ``get_init_inputs``."""
    inputs: tuple[Input, ...] = Field(min_length=1)
    """As in the kernel, with this case's own shapes and numbers."""
    outputs: tuple[Output, ...] = Field(min_length=1)


class Cost(Record):
    """Minimal work of any correct kernel, as expressions of the axes."""

    bytes: str
    """Bytes with each input read once and each output written once, as ``4 * m * n``."""
    flops: str
    """Floating-point operations; a fused multiply-add counts as two."""


class Variant(Record):
    """One implementation of a kernel, in a file beside kernel.yaml."""

    id: Slug
    target: Target
    language: LanguageName
    binding: Binding = "c"
    """How it is called; by default as the first binding of its language."""
    source: FileName
    also: tuple[FileName, ...] = ()
    """Further sources, compiled separately and linked, so that an edit compiles one file."""
    entry: Symbol | None = None
    """Function or class to call; None: the kernel's ``entry``."""
    returns: bool = False
    """Whether it returns its outputs instead of writing to tensor arguments."""
    summary: str
    """What it does, in one line."""
    flags: tuple[str, ...] = ()
    """Compiler flags in addition to the defaults."""
    kernels: tuple[str, ...] = ()
    """Names of the ``__global__`` functions to profile."""
    applies: tuple[Slug, ...] = ()
    """Ids of the fixes that distinguish it from the first variant of its target."""
    tune: TuningSpace | None = None
    """What ``kb tune`` may vary; None: nothing."""

    @property
    def is_compiled(self) -> bool:
        """Whether it has to be compiled before it can be loaded."""
        return LANGUAGES[self.language].is_compiled

    @model_validator(mode="before")
    @classmethod
    def _default_binding(cls, fields: Any) -> Any:
        language = fields.get("language") if isinstance(fields, dict) else None
        if isinstance(language, str) and language in LANGUAGES and "binding" not in fields:
            return {**fields, "binding": LANGUAGES[language].bindings[0]}
        return fields

    @model_validator(mode="after")
    def _check_language(self) -> Self:
        language = LANGUAGES[self.language]
        if self.target not in language.targets:
            raise ValueError(f"a {self.language} variant cannot have target {self.target}")
        if self.binding not in language.bindings:
            raise ValueError(f"a {self.language} variant cannot have binding {self.binding}")
        if self.returns and self.binding in ("c", "tvm-ffi"):
            raise ValueError(f"a {self.binding} variant writes its outputs and cannot return them")
        if self.tune is not None and not self.is_compiled:
            raise ValueError(f"a {self.language} variant has no macros to tune")
        if any(not flag.startswith("-") for flag in self.flags):
            raise ValueError("every flag starts with '-'")
        if any(not flag.isprintable() for flag in self.flags):
            raise ValueError("a flag is one line of printable text")
        return self


class Kernel(Record):
    """A kernel. In a C call, int64 axes follow the pointers of the inputs and outputs."""

    id: Name
    title: str
    axes: tuple[Name, ...] = ()
    workloads: dict[Slug, dict[Name, int]] = Field(min_length=1)
    """Sizes in elements, for every axis, from tiny to large."""
    default_workload: dict[Target, Slug]
    """The workload to measure on each target; larger than its caches, so that DRAM limits it."""
    check_workloads: tuple[dict[Name, int], ...] = ()
    """Odd sizes and boundary cases that are checked, in addition to the named workloads."""
    extra_cases: tuple[ExtraCase, ...] = ()
    """Further inputs to check, each from a file; only for a reference that is a module."""
    inputs: tuple[Input, ...] = Field(min_length=1)
    outputs: tuple[Output, ...] = Field(min_length=1)
    reference: Reference
    baselines: tuple[Baseline, ...] = ()
    """Alternatives to the reference and its torch.compile; the fastest is the baseline."""
    precision: StatedPrecision | None = None
    """Of reference, limits and baselines. None: as the reference's file and torch's defaults set
    it, which is IEEE for matrix products and TF32 for convolutions on a GPU."""
    tolerances: dict[Dtype, Tolerance] = Field(default_factory=dict)
    """By output dtype; without one, the limit follows from the reference's error in that dtype."""
    hidden_inputs: HiddenInputsOptions = Field(default_factory=HiddenInputsOptions)
    cost: Cost | None = None
    """None: no roofline and no headroom are computed."""
    entry: Symbol
    """Function or class to call in every variant that does not name its own."""
    variants: tuple[Variant, ...] = Field(min_length=1)
    pair: Pair | None = None
    """Two of the variants that differ by one change; None outside ``kernels/zoo``."""

    @property
    def size_axes(self) -> tuple[str, ...]:
        """The axes that are passed as sizes: those that no input has as its value."""
        values = {each.value for each in self.inputs}
        return tuple(axis for axis in self.axes if axis not in values)

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        unknown = {each.value for each in self.inputs if isinstance(each.value, str)} - {*self.axes}
        if unknown:
            raise ValueError(f"an input has the value {min(unknown)!r}, not one of the axes")
        for sizes in (*self.workloads.values(), *self.check_workloads):
            least = min((sizes.get(axis, 0) for axis in self.size_axes), default=1)
            if set(sizes) != set(self.axes) or least < 1 or min(sizes.values(), default=1) < 0:
                raise ValueError(
                    f"workload {sizes} must give a positive size to each of {self.axes}"
                )
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for array in (*self.inputs, *self.outputs):
            try:
                for sizes in (*self.workloads.values(), *self.check_workloads):
                    array.resolve_shape(sizes)
                    if isinstance(array, Input) and array.resolve_scale(sizes) <= array.low:
                        raise ValueError(f"low {array.low} is not below its scale")
            except ValueError as error:
                raise ValueError(f"{array.name}: {error}") from error
        inputs = {(each.name, each.shape, each.dtype) for each in self.inputs}
        for output in self.outputs:
            if output.starts_as and (output.starts_as, output.shape, output.dtype) not in inputs:
                raise ValueError(
                    f"{output.name} starts as {output.starts_as}, no input of its shape and dtype"
                )
        if self.extra_cases and self.reference.module is None:
            raise ValueError("extra_cases need a reference that is a module")
        names = [baseline.name for baseline in self.baselines]
        taken = next((n for n in names if n in _RESERVED_RIVAL_NAMES or names.count(n) > 1), None)
        if taken is not None:
            raise ValueError(f"the baseline name {taken} is reserved or used twice")
        unused = set(self.tolerances) - {each.dtype for each in self.outputs}
        if unused:
            raise ValueError(f"tolerance for {min(unused)}, but no output has that dtype")
        for target, name in self.default_workload.items():
            if name not in self.workloads:
                raise ValueError(f"default workload {name!r} of {target} is not defined")
        if self.reference.recorded is not None and self.precision == "open":
            raise ValueError("precision open needs a reference that runs, and it is a recording")
        own = self.reference.variant
        if own is not None and own not in {v.id for v in self.variants}:
            raise ValueError(f"the reference names the variant {own!r}, which is not defined")
        pairs = [(v.target, v.id) for v in self.variants]
        if len(set(pairs)) < len(pairs):
            raise ValueError("two variants share target and id")
        tunables = {name for v in self.variants if v.tune for name in v.tune.parameters}
        if both := tunables & {*self.axes}:
            raise ValueError(f"{min(both)} is an axis and a tunable: an expression may mean either")
        return self
