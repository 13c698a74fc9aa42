"""Defines what the page of a report shows: plain data, which ``actions.report_page`` collects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KernelAnswer


class SassLine(NamedTuple):
    """One instruction."""

    offset: int
    """In bytes, from the function's start."""
    text: str
    share: float
    """Of the kernel's samples, 0 to 1."""
    stall: str | None
    """The most frequent reason of its samples to wait."""


class SourceRow(NamedTuple):
    """What was counted at one line."""

    share: float
    """Of the kernel's samples, 0 to 1."""
    stall: str | None
    """The most frequent reason of its samples to wait."""
    instructions: tuple[SassLine, ...]
    """In the order of their addresses."""


class PageSource(NamedTuple):
    """A file that instructions of the kernel come from."""

    path: str
    text: tuple[str, ...]
    """Its lines; empty where the report does not contain them."""
    rows: Mapping[int, SourceRow]
    """By the number of the line, from 1."""

    @property
    def share(self) -> float:
        """Share of the kernel's samples that lie in the file."""
        return sum(row.share for row in self.rows.values())


class KernelCode(NamedTuple):
    """The code of a kernel, and where its samples lie."""

    counted: str
    """What the shares are of: ``samples``, or ``executed instructions`` without samples."""
    files: tuple[PageSource, ...]
    """The one with the largest share first."""
    unplaced: SourceRow
    """Instructions without a line."""
    outside: float
    """Share of the samples in functions that the kernel calls, which are not shown."""
    instruction_count: int


class RooflinePoint(NamedTuple):
    """Where a kernel stands below the roofs of its GPU; every value is above zero."""

    intensity: float
    """Operations executed per byte of device memory."""
    gflops: float
    """1e9 operations per second, outside tensor cores."""
    peak_gflops: float
    peak: str
    """Which peak that is: ``FP32``."""
    bandwidth_gbps: float
    """Practical peak of the device memory, 1e9 bytes per second."""


class KernelSection(NamedTuple):
    """All about one kernel."""

    answer: KernelAnswer
    launch_count: int
    """Of this kernel and shape in the report."""
    shape: tuple[str, str]
    """Grid and block."""
    roofline: RooflinePoint | None
    code: KernelCode | None
    missing: str = ""
    """Why there is no code."""


class ReportContents(NamedTuple):
    """One page."""

    report: str
    """Name of the file."""
    devices: tuple[str, ...]
    """As the driver names them."""
    launch_count: int
    """In the report."""
    kernel_count: int
    """Kernels and shapes in the report."""
    total_us: float
    """Of all launches."""
    sections: tuple[KernelSection, ...]
    """Those that take the most time first."""
    knowledge: str
    """Version and hash of the knowledge."""
