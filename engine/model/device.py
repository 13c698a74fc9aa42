"""Facts about GPUs: limits per architecture, peaks per product."""

from __future__ import annotations

from pydantic import Field

from engine.model.base import Record, Slug


class Architecture(Record):
    """Limits that every GPU of one compute capability shares."""

    cc: str = Field(pattern=r"^\d+\.\d$")
    max_threads_sm: int
    max_blocks_sm: int
    smem_sm: int
    """Bytes of shared memory per SM."""
    smem_optin_block: int
    """Bytes that one block may ask for after raising its dynamic limit."""
    smem_reserved_block: int
    smem_gran: int
    carveouts_kb: tuple[int, ...]
    fp32_lanes: int
    fp64_lanes: int
    xu_lanes: int
    tc_fp16_fma: int
    """Dense fp16 tensor FMA per clock and SM."""
    sources: tuple[Slug, ...] = Field(min_length=1)


class Common(Record):
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
    sources: tuple[Slug, ...] = Field(min_length=1)


class Device(Record):
    """One product. Peaks are data-sheet figures: a machine's measured peak overrules them."""

    id: Slug
    title: str
    aliases: tuple[str, ...] = ()
    """Names that drivers and people use: ``NVIDIA H100 80GB HBM3``."""
    cc: str
    sm_count: int
    sm_clock_mhz: float
    l2_mb: float
    dram_gbps: float
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

    common: Common | None = None
    """Required in the shipped file; a project's own file only adds to the lists."""
    architectures: tuple[Architecture, ...] = ()
    devices: tuple[Device, ...] = ()
