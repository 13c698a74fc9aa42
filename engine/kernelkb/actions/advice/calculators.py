"""Calculates occupancy and roofline, and names the failures in a log, without measuring."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from kernelkb.actions.project.hardware import GpuSpec, find_requested_spec
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import resolve_device
from kernelkb.decide.symptoms import (
    FirstError,
    LogExtent,
    SymptomMatch,
    read_log,
)
from kernelkb.device_math.occupancy import (
    Launch,
    LaunchStep,
    Limits,
    Occupancy,
    better_block_size,
    largest_shared_bytes,
    occupancy,
    one_more_block,
    register_cap,
    register_steps,
    registers_for_blocks,
    spare_registers,
    spare_shared_bytes,
    waves,
)
from kernelkb.device_math.roofline import (
    Roof,
    comes_from_memory,
    highest_roof,
    ridge_flop_per_byte,
    roofs,
)
from kernelkb.errors import BadValueError, NextStep, UnknownNameError
from kernelkb.units import (
    parse_byte_count,
    parse_positive_number,
    parse_whole_number,
)

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KnowledgeStamp

_MAX_GRID_BLOCKS = 2**31 - 1
"""Largest x dimension of a grid; CUDA C++ Programming Guide, table of technical specifications."""

PIPES = {
    "fp64": "fp64_tflops",
    "fp32": "fp32_tflops",
    "tf32": "tf32_tensor_tflops",
    "fp16": "fp16_tensor_tflops",
    "bf16": "fp16_tensor_tflops",
    "fp8": "fp8_tensor_tflops",
    "fp4": "fp4_tensor_tflops",
}
"""The peak that counts for each type; tensor cores accumulate in fp32."""

_OPTIONAL_PIPES = frozenset({"fp4_tensor_tflops"})
"""Not the fastest unit by default: most kernels cannot use it."""

_FIRST_BF16_MAJOR = 8
"""Major compute capability of the first tensor cores that take bf16."""

_MAX_END_CHARS = 500_000
"""Characters read from each end of a longer log; compilers repeat the same errors in between."""


class OccupancyQuery(NamedTuple):
    """A launch, its numbers as typed by the user."""

    threads: str | int
    """Per block."""
    registers: str | int
    """Per thread."""
    gpu: str | None = None
    """Any name of a GPU."""
    architecture: str | None = None
    """``8.9`` or ``sm_89``, instead of a GPU."""
    static_smem: str | int = 0
    """Bytes of a block, or text such as ``48KiB``."""
    dynamic_smem: str | int = 0
    """Dynamic shared memory of a block, in the same notation."""
    carveout: str | int | None = None
    """Preferred shared memory per SM, as a size or a percentage. None: the maximum."""
    barriers: str | int = 0
    """Named barriers of a block."""
    grid: str | int | None = None
    """Blocks of the whole launch. Needs a GPU, or an architecture and a number of SMs."""
    blocks: str | int | None = None
    """Wanted blocks per SM: the answer holds the registers and bytes that allow them."""
    given: Mapping[str, str | float] = MappingProxyType({})
    """Numbers of a GPU that is not listed; see ``actions.project.hardware.GIVEN_FACTS``."""


def analyze_occupancy(query: OccupancyQuery) -> dict[str, Any]:
    """Return the occupancy of one launch, its limits and possible changes, as plain data.

    Raises:
        UnknownNameError: No such GPU or architecture.
        BadValueError: A number outside what a launch can have.
    """
    target = find_requested_spec(query.gpu, query.architecture, query.given)
    limits = target.limits
    launch = _parse_launch(limits, query)
    grid = (
        None if query.grid is None else parse_whole_number("grid", query.grid, 1, _MAX_GRID_BLOCKS)
    )
    result = occupancy(limits, launch)
    return {
        "gpu": target.id,
        "title": target.title,
        "architecture": target.cc,
        "launch": {**launch._asdict(), "grid_blocks": grid},
        **_result_to_dict(limits, launch, result),
        "next_step": _step_to_dict(one_more_block(limits, launch)),
        "better_block_size": _step_to_dict(better_block_size(limits, launch)),
        "wanted": _compute_block_goal(limits, launch, query.blocks),
        "register_cap": register_cap(limits, launch.threads),
        "register_steps": [row._asdict() for row in register_steps(limits, launch)],
        "waves": _compute_waves(target, result, grid) if grid else None,
    }


def _parse_launch(limits: Limits, query: OccupancyQuery) -> Launch:
    return Launch(
        threads=parse_whole_number("threads per block", query.threads, 1, limits.threads_block),
        registers=parse_whole_number(
            "registers per thread", query.registers, 1, limits.registers_thread
        ),
        static_bytes=parse_byte_count("static shared memory", query.static_smem),
        dynamic_bytes=parse_byte_count("dynamic shared memory", query.dynamic_smem),
        barriers=parse_whole_number("barriers", query.barriers, 0, limits.barriers_block),
        carveout_bytes=_parse_carveout(limits, query.carveout),
    )


def _result_to_dict(limits: Limits, launch: Launch, result: Occupancy) -> dict[str, Any]:
    shared = result.shared
    return {
        "possible": not result.obstacles,
        "obstacles": list(result.obstacles),
        "blocks_per_sm": result.blocks,
        "warps_per_sm": result.warps,
        "warps_max": limits.warps,
        "occupancy": result.share,
        "limits": result.limits._asdict(),
        "limited_by": list(result.limiters),
        "registers": {
            "block": result.registers_block,
            "sm": limits.registers,
            "spare_per_thread": spare_registers(limits, launch),
        },
        "shared_memory": {
            **shared._asdict(),
            "reserved": limits.shared_reserved,
            "static_limit": limits.shared_static,
            "opt_in_limit": limits.shared_opt_in,
            "spare_per_block": spare_shared_bytes(limits, launch),
        },
    }


def _parse_carveout(limits: Limits, text: str | int | None) -> int | None:
    if text is None:
        return None
    word = str(text).strip()
    if word.endswith("%"):
        return limits.shared * parse_whole_number("carve-out in percent", word[:-1], 0, 100) // 100
    size = parse_byte_count("carve-out", word)
    if size > limits.shared:
        raise BadValueError(
            f"carve-out is {size} bytes, but an SM has {limits.shared}; write 100% for the most"
        )
    return size


def _step_to_dict(step: LaunchStep | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "changes": [change._asdict() for change in step.changes],
        "blocks_per_sm": step.occupancy.blocks,
        "warps_per_sm": step.occupancy.warps,
        "occupancy": step.occupancy.share,
    }


def _compute_block_goal(
    limits: Limits, launch: Launch, blocks: str | int | None
) -> dict[str, Any] | None:
    if blocks is None:
        return None
    goal = parse_whole_number("wanted blocks per SM", blocks, 1, limits.blocks)
    room = limits.warps // limits.warps_per_block(launch.threads)
    if goal > room:
        raise BadValueError(
            f"{goal} blocks of {launch.threads} threads do not fit an SM of {limits.threads} "
            f"threads; ask for {room} or for smaller blocks"
        )
    return {
        "blocks_per_sm": goal,
        "registers": registers_for_blocks(limits, launch.threads, goal),
        "shared_bytes": largest_shared_bytes(limits, goal, launch.carveout_bytes),
    }


def _compute_waves(target: GpuSpec, result: Occupancy, grid: int) -> dict[str, Any] | None:
    if not target.facts.get("sm_count"):
        raise BadValueError(
            "waves need a number of SMs, which an architecture has not; name the GPU with --gpu "
            "or give --sm-count"
        )
    sm_count = int(target.facts["sm_count"])
    counts = waves(grid, result.blocks, sm_count)
    return {"sm_count": sm_count, **counts._asdict()} if counts else None


class RooflineQuery(NamedTuple):
    """The work of a kernel, its numbers as typed by the user."""

    gpu: str | None = None
    """Any name of a GPU."""
    bytes: str | int | None = None
    """Bytes that every correct kernel moves through device memory, such as ``1GiB``."""
    flop: str | float | None = None
    """Operations that every correct kernel executes, such as ``2.5e9``."""
    dtype: str | None = None
    """A key of ``PIPES``. None: the fastest unit of this GPU."""
    us: str | float | None = None
    """Measured time of the kernel."""
    cold: bool = False
    """Count the bytes also when they fit in L2."""
    copy_gbps: str | float | None = None
    """Copy bandwidth as measured on this machine, instead of the data sheet's share."""
    launch_us: str | float | None = None
    """Time of an empty kernel as measured on this machine."""
    architecture: str | None = None
    """``8.9`` or ``sm_89``, instead of a GPU."""
    given: Mapping[str, str | float] = MappingProxyType({})
    """Numbers of a GPU that is not listed; see ``actions.project.hardware.GIVEN_FACTS``."""


class _ParsedQuery(NamedTuple):
    """The parsed numbers of a query."""

    bytes: int | None
    flop: float | None
    us: float | None
    bandwidth_gbps: float
    launch_us: float


def analyze_roofline(query: RooflineQuery) -> dict[str, Any]:
    """Return the floor of each roof, which one binds, and the attainable speedup, as plain data.

    Raises:
        UnknownNameError: No such GPU or type.
        BadValueError: An impossible size or time, no work at all, or a type without a unit.
    """
    gpu = find_requested_spec(query.gpu, query.architecture, query.given)
    pipe, peak = _select_pipe(gpu, query)
    given = _parse_query(gpu, query)
    rows = _list_roofs(gpu, given, query, peak, pipe)
    counted = [Roof(row["name"], row["floor_us"]) for row in rows if row["counts"]]
    binds = highest_roof(counted)
    floor = binds.floor_us if binds else None
    return {
        "gpu": gpu.id,
        "title": gpu.title,
        "dtype": query.dtype,
        "pipe": pipe,
        "bytes": given.bytes,
        "flop": given.flop,
        "roofs": rows,
        "binds": binds.name if binds else None,
        "floor_us": floor,
        "intensity_flop_per_byte": given.flop / given.bytes if given.flop and given.bytes else None,
        "ridge_flop_per_byte": peak and ridge_flop_per_byte(peak, given.bandwidth_gbps),
        "ridge_data_sheet_flop_per_byte": peak and ridge_flop_per_byte(peak, _find_dram_gbps(gpu)),
        "data_sheet_gbps": _find_dram_gbps(gpu),
        "l2_bytes": _l2_bytes(gpu),
        "measured_us": given.us,
        "attainable_speedup": given.us / floor if given.us and floor else None,
    }


def _parse_query(gpu: GpuSpec, query: RooflineQuery) -> _ParsedQuery:
    size = parse_byte_count("bytes", query.bytes) if query.bytes is not None else None
    flop = parse_positive_number("flop", query.flop) if query.flop is not None else None
    if not size and not flop:
        raise BadValueError("there is no work to estimate; give --bytes, --flop or both")
    streamed = _find_dram_gbps(gpu) * gpu.facts["achievable_dram_share"]
    return _ParsedQuery(
        bytes=size,
        flop=flop,
        us=parse_positive_number("us", query.us) if query.us is not None else None,
        bandwidth_gbps=parse_positive_number(
            "copy-gbps", streamed if query.copy_gbps is None else query.copy_gbps
        ),
        launch_us=parse_positive_number(
            "launch-us", gpu.launch_floor_us if query.launch_us is None else query.launch_us
        ),
    )


def _select_pipe(gpu: GpuSpec, query: RooflineQuery) -> tuple[str, float] | tuple[None, None]:
    """Return the field of the peak that counts, and the peak in TFLOPS; None if none matters."""
    dtype = query.dtype
    facts: Mapping[str, Any] = gpu.facts
    if dtype is None:
        usual = set(PIPES.values()) - _OPTIONAL_PIPES
        fastest = max(usual, key=lambda field: (facts.get(field) or 0.0, field))
        if not facts.get(fastest) and query.flop is None:
            return None, None
        if not facts.get(fastest):
            raise BadValueError(f"no peak of {gpu.title} is known; give --fp16-tflops or another")
        return fastest, facts[fastest]
    if dtype not in PIPES:
        raise UnknownNameError("type", dtype, PIPES, "roofline --help")
    peak = facts.get(PIPES[dtype])
    too_old = dtype == "bf16" and int(gpu.cc.partition(".")[0]) < _FIRST_BF16_MAJOR
    if not peak or too_old:
        lists_peaks = NextStep("show", {"id": gpu.id or gpu.cc}, "lists what is known")
        flag = PIPES[dtype].replace("_tensor", "").replace("_", "-")
        raise BadValueError(
            f"{gpu.id or gpu.title} has no unit for {dtype}, or its peak is not known; "
            f"--{flag} gives one",
            lists_peaks,
        )
    return PIPES[dtype], peak


def _exceeds_l2(gpu: GpuSpec, size: int | None) -> bool:
    l2 = _l2_bytes(gpu)
    return comes_from_memory(size / l2 if size and l2 else None)


def _l2_bytes(gpu: GpuSpec) -> float | None:
    size = gpu.facts.get("l2_mb")
    return float(size) * 2**20 if size else None


def _find_dram_gbps(gpu: GpuSpec) -> float:
    if not gpu.facts.get("dram_gbps"):
        raise BadValueError(f"the memory bandwidth of {gpu.title} is not known; give --dram-gbps")
    return float(gpu.facts["dram_gbps"])


def _list_roofs(
    gpu: GpuSpec, given: _ParsedQuery, query: RooflineQuery, peak: float | None, pipe: str | None
) -> list[dict[str, Any]]:
    """Return every roof, also one that does not count, with the rate it was computed from.

    ``sustained_us`` is the time at the rate that libraries reach on the same unit, if known.
    """
    known = roofs(
        algorithmic_bytes=given.bytes,
        bandwidth_gbps=given.bandwidth_gbps,
        flops=given.flop,
        peak_tflops=peak,
        launch_floor_us=given.launch_us,
    )
    rates = {
        "memory": (given.bandwidth_gbps, "GB/s", query.copy_gbps, "data sheet"),
        "compute": (peak, "TFLOPS", None, "data sheet"),
        "launch": (None, None, query.launch_us, "judgement"),
    }
    rows: list[dict[str, Any]] = []
    for name, floor in known:
        rate, unit, measured, otherwise = rates[name]
        tensor = name == "compute" and "tensor" in (pipe or "")
        row = {
            "name": name,
            "floor_us": floor,
            "counts": name != "memory" or query.cold or _exceeds_l2(gpu, given.bytes),
            "rate": rate,
            "unit": unit,
            "origin": otherwise if measured is None else "measured",
            "sustained_us": floor / gpu.facts["achievable_tensor_share"] if tensor else None,
        }
        rows.append(row)
    return rows


class LogDiagnosis(TypedDict):
    """The symptoms in a log: errors first, then warnings, each in the order of its lines."""

    symptoms: list[SymptomMatch]
    first_error: FirstError | None
    read: LogExtent
    knowledge: KnowledgeStamp


def diagnose_log(log: str, gpu: str | None = None, *, apart: bool = False) -> LogDiagnosis:
    """Return the symptoms that match a log, its first error line, and how much was read.

    Args:
        log: Output of a compiler, a loader, a sanitizer, a profiler or a run.
        gpu: Any name of the GPU that the program was built for, or None.
        apart: Read it in a process of its own, which a cancelled call ends: there are logs on
            which a pattern takes minutes, and a match cannot be stopped.

    Raises:
        KbError: The process apart was ended, or took too long.
        UnknownNameError: No such GPU.
        OperationCancelled: The event given to ``cancel_on`` was set.
    """
    program = load_compiled_rules()
    device = resolve_device(program, gpu) if gpu else None
    arch = program["hardware"]["devices"][device]["cc"] if device else None
    skipped = max(0, len(log) - 2 * _MAX_END_CHARS)
    read = f"{log[:_MAX_END_CHARS]}\n{log[-_MAX_END_CHARS:]}" if skipped else log
    if apart:
        from kernelkb.profiles.reader_process import read_in_process  # loads multiprocessing

        found = read_in_process(read_log, program, read, arch, name="the log")
    else:
        found = read_log(program, read, arch)
    return {
        "symptoms": found[0],
        "first_error": found[1],
        "read": {"lines": len(read.splitlines()), "skipped_characters": skipped},
        "knowledge": program["knowledge"],
    }
