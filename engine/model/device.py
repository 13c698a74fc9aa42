"""Facts about GPUs: limits per architecture, peaks per product."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from kernelkb.model.base import Record, Slug


class Architecture(Record):
    """Limits that every GPU of one compute capability shares."""

    cc: str = Field(pattern=r"^\d+\.\d$")
    max_threads_sm: PositiveInt
    max_blocks_sm: PositiveInt
    smem_sm: PositiveInt
    """Bytes of shared memory per SM."""
    smem_optin_block: PositiveInt
    """Bytes that one block may ask for after raising its dynamic limit."""
    smem_reserved_block: int = Field(ge=0)
    smem_gran: PositiveInt
    carveouts_kb: tuple[int, ...] = Field(min_length=1)
    barriers_sm: int | None
    """Block barriers that one SM has; None where no calculator counts them."""
    fp32_lanes: int | None
    fp64_lanes: int | None
    xu_lanes: int | None
    tc_fp16_fma: int | None
    """Dense fp16 tensor FMA per clock and SM. None: not verified, like the lanes above."""
    sources: tuple[Slug, ...] = Field(min_length=1)

    @property
    def id(self) -> str:
        """Name of the entry, as every other record has one."""
        return self.cc

    @property
    def title(self) -> str:
        """Name that compilers use."""
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
    """Least time of a kernel that does nothing, where this machine's was not measured."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class Device(Record):
    """One product. Peaks are data-sheet figures: a machine's measured peak overrules them."""

    id: Slug
    title: str
    aliases: tuple[str, ...] = ()
    """Names that drivers and people use: ``NVIDIA H100 80GB HBM3``."""
    cc: str
    sm_count: PositiveInt
    sm_clock_mhz: float
    l2_mb: float
    dram_gbps: float = Field(gt=0)
    """Data-sheet memory bandwidth, GB/s (1e9 bytes)."""
    achievable_dram_share: float = Field(gt=0, le=1)
    """Share of ``dram_gbps`` that a copy reaches on this kind of memory."""
    achievable_tensor_share: float = Field(gt=0, le=1)
    """Share of the tensor peak that a library's matrix product sustains."""
    tdp_w: float | None
    fp32_tflops: float
    tf32_tensor_tflops: float | None
    fp16_tensor_tflops: float
    fp8_tensor_tflops: float | None
    fp64_tflops: float
    sources: tuple[Slug, ...] = Field(min_length=1)


class DeviceCatalogue(Record):
    """The file ``devices.yaml``."""

    common: CommonLimits | None = None
    """Required in the shipped file; a project's own file only adds to the lists."""
    architectures: tuple[Architecture, ...] = ()
    devices: tuple[Device, ...] = ()
