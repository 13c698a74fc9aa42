"""Defines metrics and the recipes that collect them, thresholds, sources, and the facts of GPUs.

Python's own parser reads formulas, so precedence and numbers are Python's. A formula becomes a
postfix program, which ``kernelkb.decide.derive`` evaluates without parsing.
"""

from __future__ import annotations

import ast
from datetime import date
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PositiveInt, model_validator

from kernelkb.model.base import Evidence, EvidenceLevel, Name, Record, Slug, Target

Program = tuple[str | float, ...]
"""Postfix: a number, the name of a quantity, or an operator that replaces the values before it."""

_BINARY_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}
_FOLDED_FUNCTIONS = ("min", "max")
"""Functions of two or more values."""
_FUNCTION_ARITIES = {"ceil": 1, "sqrt": 1, "mod": 2, "last_wave_loss": 1, "hidden_latency": 3}
OPERATORS = frozenset({*_BINARY_OPERATORS.values(), *_FOLDED_FUNCTIONS, *_FUNCTION_ARITIES})

Unit = Literal["ratio", "share", "truth", "us", "bytes", "gbps", "count", "cycles", "seconds"]
_DIMENSIONAL_UNITS = ("us", "bytes", "gbps", "count", "cycles", "seconds")
WithoutUrl = Literal[
    "own-measurement",
    "own-derivation",
    "own-judgement",
    "session",
    "many-addresses",
    "unpublished",
    "address-unknown",
]
"""Why a source has no address. own-measurement: timed, counted or compiled by the authors.
many-addresses: many public pages, none of which stands for all. address-unknown: public, and its
address was not written down when it was read."""


def parse_formula(text: str) -> Program:
    """Return the postfix program of a formula.

    Raises:
        ValueError: The text is no formula; names what is allowed.
    """
    try:
        return tuple(_flatten(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a formula: {error}") from error


def list_quantities(text: str) -> list[str]:
    """Return the quantities that a formula names, each once, in order."""
    tokens = parse_formula(text)
    names = (t for t in tokens if isinstance(t, str) and t not in OPERATORS)
    return list(dict.fromkeys(names))


def _to_text(value: object) -> object:
    """Return a number, as YAML reads a formula of one number, as text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _check_formula(text: str) -> str:
    parse_formula(text)
    return text


Formula = Annotated[str, BeforeValidator(_to_text), AfterValidator(_check_formula)]
"""Arithmetic with numbers, quantities, ``+ - * /``, parentheses, ``min``, ``max``, ``ceil``,
``sqrt``, ``mod``, ``last_wave_loss`` and ``hidden_latency``."""


def _flatten(node: ast.expr) -> list[str | float]:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            return [float(number)]
        case ast.Name():
            return [node.id]
        case ast.Attribute(value=ast.Name(id="device")):
            return [f"device.{node.attr}"]
        case ast.UnaryOp(op=ast.USub()):
            return [0.0, *_flatten(node.operand), "-"]
        case ast.BinOp() if type(node.op) in _BINARY_OPERATORS:
            symbol = _BINARY_OPERATORS[type(node.op)]
            return [*_flatten(node.left), *_flatten(node.right), symbol]
        case ast.Call(func=ast.Name(id=function), keywords=[]):
            return _flatten_call(function, node.args)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in a formula")


def _flatten_call(function: str, arguments: list[ast.expr]) -> list[str | float]:
    tokens = [token for argument in arguments for token in _flatten(argument)]
    if function in _FOLDED_FUNCTIONS and len(arguments) > 1:
        first = _flatten(arguments[0])
        rest = [token for argument in arguments[1:] for token in (*_flatten(argument), function)]
        return [*first, *rest]
    if _FUNCTION_ARITIES.get(function) == len(arguments):
        return [*tokens, function]
    known = ", ".join((*_FOLDED_FUNCTIONS, *_FUNCTION_ARITIES))
    raise ValueError(f"{function} of {len(arguments)} values is no function; known: {known}")


def _to_formulas(value: object) -> object:
    """Return one formula, or several, as a sequence."""
    return value if isinstance(value, list | tuple) else [value]


Formulas = Annotated[tuple[Formula, ...], BeforeValidator(_to_formulas)]
"""One formula, or several in order of preference: the first whose quantities are known holds."""


class Metric(Record):
    """One quantity that conditions may refer to."""

    id: Name
    """Ends in the unit, as ``kernel_us`` does; ratios, shares and truths have no unit."""
    title: str
    definition: str
    unit: Unit
    range: tuple[float, float | None] = (0.0, None)
    """Lowest and highest possible value; null means no upper bound."""
    direction: Literal["higher-is-better", "lower-is-better", "context"]
    level: EvidenceLevel
    targets: tuple[Target, ...] = ("cpu", "cuda")
    flag: Literal["speedup", "bandwidth", "occupancy", "kernel-us"] | None = None
    """The headline command-line flag that sets this metric on its targets."""
    raw: dict[Literal["ncu", "ncu-details", "ncu-rules"], tuple[str, ...]] = Field(
        default_factory=dict, alias="from"
    )
    """Raw names for each tool; the first one in a report is used. ``counter[label]`` is one
    instance of a counter. On the details page of ncu a name is ``section/title``. ``ncu-rules`` are
    regular expressions, with a group ``number``, for what ncu's own rules say of a launch; they
    count where the counter itself is missing."""
    raw_scale: float = 1.0
    """Factor from a raw value to this metric's unit."""
    raw_zero: Literal["known", "unknown"] = "known"
    """known: a raw 0 is a value. unknown: the tool reports 0 for an average over no samples."""
    derive: Formulas = ()
    """How it follows from other quantities; empty if it does not."""
    recipe: Slug | None = None
    """The recipe that collects it; null if it is derived or only the caller can give it."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_unit_suffix(self) -> Self:
        if self.id in OPERATORS:
            raise ValueError(f"{self.id} is a function of formulas; choose another id")
        if self.unit in _DIMENSIONAL_UNITS and not self.id.endswith(f"_{self.unit}"):
            raise ValueError(f"{self.id} has unit {self.unit}; name it {self.id}_{self.unit}")
        return self


class Recipe(Record):
    """One way to collect a group of metrics."""

    id: Slug
    title: str
    target: Target | None = None
    command: str
    """Shell command; ``{kernel}`` stands for the kernel's name, ``{target}`` for cpu or cuda."""
    verb: Literal["build", "bench", "profile"] | None = None
    """The command of ``kb`` that collects them for a kernel of the project; None: none does."""
    cost: float = Field(gt=0)
    """Relative cost of collecting, in profiler replay passes; 2 for what a build prints."""
    includes: tuple[Slug, ...] = ()
    """Recipes whose metrics this one collects as well."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class MetricCatalogue(Record):
    """The file ``metrics.yaml``."""

    metrics: tuple[Metric, ...] = ()
    recipes: tuple[Recipe, ...] = ()


class Threshold(Record):
    """A named limit of one metric. Projects may override it; explanations show the one used."""

    id: Slug
    metric: Name
    value: float
    by_device: dict[Slug, float] = Field(default_factory=dict)
    """Value by device id, for devices that need another one."""
    evidence: Evidence
    why: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class ThresholdCatalogue(Record):
    """The file ``thresholds.yaml``."""

    thresholds: tuple[Threshold, ...] = Field(min_length=1)


class Weights(Record):
    """Judgements that order answers; they change no verdict and no predicted gain."""

    direct: float = Field(gt=0, le=1)
    """Confidence when a counter measures the mechanism itself."""
    derived: float = Field(gt=0, le=1)
    coarse: float = Field(gt=0, le=1)
    hint: float = Field(gt=0, le=1)
    """Confidence of a bottleneck's ``hint``."""
    pattern: float = Field(gt=0, le=1)
    effort_5: float = Field(gt=0, le=1)
    """Rank factor of a fix that takes about five minutes; the others likewise."""
    effort_30: float = Field(gt=0, le=1)
    effort_120: float = Field(gt=0, le=1)
    effort_480: float = Field(gt=0, le=1)
    why: str
    sources: tuple[Slug, ...] = Field(min_length=1)


class Calibration(Record):
    """The file ``calibration.yaml``."""

    weights: Weights


class Source(Record):
    """One document or session from which claims of the knowledge come."""

    id: Slug
    title: str
    section: str | None = None
    """What of it was used."""
    url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+\.[^\s]+$")
    """Its address; None only with ``without_url``."""
    without_url: WithoutUrl | None = None
    """Why it has no address; None with one."""
    read: date
    """The day on which it was last looked at."""


class Bibliography(Record):
    """The file ``sources.yaml``."""

    sources: tuple[Source, ...] = Field(min_length=1)


class LatencyCycles(Record):
    """Clock cycles of one dependent load that hits, by level, without other load."""

    shared: float
    l1: float
    l2: float
    dram: float
    sources: tuple[Slug, ...] = Field(min_length=1)


class Architecture(Record):
    """Limits that every GPU of one compute capability shares."""

    cc: str = Field(pattern=r"^\d+\.\d$")
    max_threads_sm: PositiveInt
    max_blocks_sm: PositiveInt
    smem_sm: PositiveInt
    """Bytes of shared memory per SM."""
    smem_optin_block: PositiveInt
    """Maximum bytes of one block whose kernel raised its limit of dynamic shared memory."""
    smem_reserved_block: int = Field(ge=0)
    smem_gran: PositiveInt
    carveouts_kb: tuple[int, ...] = Field(min_length=1)
    barriers_sm: int | None
    """Block barriers of one SM; None: not counted on this architecture."""
    fp32_lanes: int | None
    fp64_lanes: int | None
    xu_lanes: int | None
    tc_fp16_fma: int | None
    """Dense fp16 tensor FMA per clock and SM. None: not verified, like the lanes above."""
    family: str | None = None
    """Name of the generation, such as Hopper."""
    fewest_sms: PositiveInt | None = None
    """No GPU that has it, and no MIG part of one, has fewer SMs; None: not found."""
    l1_kb: PositiveInt | None = None
    """KiB that L1 and shared memory of one SM have together."""
    cluster_blocks: int = Field(default=0, ge=0)
    """Most blocks of a cluster on every part; 0: no clusters."""
    cluster_blocks_optin: int = Field(default=0, ge=0)
    """Most blocks of a cluster whose kernel allows sizes that are not portable."""
    tmem_kb: int = Field(default=0, ge=0)
    """KiB of tensor memory of one SM; 0: none."""
    mma: str | None = None
    """Widest matrix instruction, with its shape for fp16."""
    latency: LatencyCycles | None = None
    sources: tuple[Slug, ...] = Field(min_length=1)

    @property
    def id(self) -> str:
        """The compute capability; every entry of the knowledge has an id."""
        return self.cc

    @property
    def title(self) -> str:
        """Name of the architecture for compilers, such as ``sm_90``."""
        return f"sm_{self.cc.replace('.', '')}"


class CommonLimits(Record):
    """Limits that hold for every listed architecture."""

    warp: int
    max_threads_block: int
    regs_sm: int
    regs_block: int
    regs_thread_max: int
    reg_alloc_unit_per_warp: int
    subpartitions: int
    static_smem_block: int
    const_bytes: int
    banks: int
    sector: int
    line: int
    smem_bytes_per_clk_sm: int
    smem_bytes_per_clk_sm_cc75: int
    barriers_block: int
    launch_floor_us: float
    """Time of an empty kernel in microseconds, used where it was not measured."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class Ceilings(Record):
    """What one GPU of a product reached in ``kb env --measure``; a GPU measured here outranks it.

    The fields are those of ``kernelkb.model.records.measurement.PracticalPeaks``.
    """

    gpu: str
    """Its name, as the driver reports it."""
    driver: str
    measured_on: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    copy_gbps: float = Field(gt=0)
    l2_read_gbps: float = Field(gt=0)
    empty_us: float = Field(gt=0)
    profiled_empty_us: float = Field(gt=0)
    l2_latency_ns: float = Field(gt=0)
    dram_latency_ns: float = Field(gt=0)
    dram_loaded_latency_ns: float = Field(gt=0)
    atomic_rate_address: float = Field(gt=0)
    atomic_rate_sector: float = Field(gt=0)
    atomic_rate_random: float = Field(gt=0)
    cas_rate_random: float = Field(gt=0)
    mix_gbps: tuple[tuple[float, float], ...] = Field(min_length=2)
    gather_gbps: tuple[tuple[float, float], ...] = Field(min_length=2)
    narrow_gbps: tuple[tuple[float, float], ...] = Field(min_length=2)
    l2_mix_gbps: tuple[tuple[float, float], ...] = ()
    """Empty, and None below: not measured on this GPU yet."""
    random_gbps: tuple[tuple[float, float, float], ...] = ()
    atomic_rates: tuple[tuple[float, float], ...] = ()
    shared_atomic_rates: tuple[tuple[float, float], ...] = ()
    fma_rate: float | None = Field(None, gt=0)
    fp64_rate: float | None = Field(None, gt=0)
    integer_rate: float | None = Field(None, gt=0)
    special_rate: float | None = Field(None, gt=0)
    shared_gbps: float | None = Field(None, gt=0)
    dram_share: float = Field(gt=0, le=1)
    l2_share: float = Field(gt=0, le=1)


class Device(Record):
    """One GPU product. Peaks are from the data sheet; a machine's measured peaks replace them."""

    id: Slug
    title: str
    aliases: tuple[str, ...] = ()
    """Other names, such as the driver's ``NVIDIA H100 80GB HBM3``."""
    cc: str
    sm_count: PositiveInt
    sm_clock_mhz: float | None = None
    """None, here and below: no source found; what needs it is unknown."""
    l2_mb: float | None = None
    dram_gbps: float = Field(gt=0)
    """Data-sheet memory bandwidth, GB/s (1e9 bytes)."""
    achievable_dram_share: float = Field(gt=0, le=1)
    """Share of ``dram_gbps`` that a copy reaches on this kind of memory."""
    achievable_tensor_share: float = Field(gt=0, le=1)
    """Share of the tensor peak that a library's matrix product sustains."""
    tdp_w: float | None = None
    fp32_tflops: float | None = None
    tf32_tensor_tflops: float | None = None
    fp16_tensor_tflops: float | None = None
    fp8_tensor_tflops: float | None = None
    fp4_tensor_tflops: float | None = None
    fp64_tflops: float | None = None
    ceilings: Ceilings | None = None
    """None: not measured; a share of the data sheet is assumed, and answers say so."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class DeviceCatalogue(Record):
    """The file ``devices.yaml``."""

    common: CommonLimits | None = None
    """Required in the shipped file; a project's own file only adds to the lists."""
    architectures: tuple[Architecture, ...] = ()
    devices: tuple[Device, ...] = ()
