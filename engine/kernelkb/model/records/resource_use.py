"""Defines what a bench found besides times: memory, energy, and the judge's own time."""

from __future__ import annotations

from pydantic import Field

from kernelkb.model.base import Name, Record


class ResourceUse(Record):
    """Memory and energy of candidate and baseline, measured in calls outside of the timed batches.

    None stands for what could not be measured.
    """

    peak_bytes: int | None = None
    """Peak of one call of the candidate: inputs, outputs and scratch memory."""
    baseline_peak_bytes: int | None = None
    """The same of the baseline."""
    held_bytes: int | None = None
    """What the candidate's process keeps between calls. On a CPU what it took since its code was
    loaded, imports included; on a GPU all of its device memory, its CUDA context included."""
    baseline_held_bytes: int | None = None
    """The same of the baseline."""
    joules: float | None = None
    """Energy of the GPU for one call of the candidate (NVML); None on a CPU."""
    baseline_joules: float | None = None
    """The same of the baseline."""
    step_seconds: dict[Name, float] = Field(default_factory=dict)
    """The judge's own time by step, from the end of the check on. start: starting processes,
    importing torch, save what was done beside the check. load: loading the code and its first
    calls. baselines: choosing the baseline and the batch size. timing: the timed pairs. checks:
    comparing their outputs. energy and memory: measuring them."""
