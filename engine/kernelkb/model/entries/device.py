"""Defines the records of GPUs: limits per architecture, peaks per product."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from kernelkb.model.base import Record, Slug


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
    sources: tuple[Slug, ...] = Field(min_length=1)


class DeviceCatalogue(Record):
    """The file ``devices.yaml``."""

    common: CommonLimits | None = None
    """Required in the shipped file; a project's own file only adds to the lists."""
    architectures: tuple[Architecture, ...] = ()
    devices: tuple[Device, ...] = ()
