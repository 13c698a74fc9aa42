"""Measures what this machine's GPU reaches in practice, for the model of the time."""

from __future__ import annotations

from kernelkb.actions.project.bench_target import require_machine, validate_machine
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.machine.practical_peaks import measure_practical_peaks
from kernelkb.model.records.measurement import PracticalPeaks
from kernelkb.profiles.launch import list_raw_names


def measure_gpu_peaks() -> PracticalPeaks:
    """Measure the GPU, keep the result for later answers, and return it.

    Raises:
        EnvironmentGapError: Something required is missing; names the first gap and its cure.
        KbError: The microbenchmark could not be compiled or run.
    """
    machine = require_machine(validate_machine("cuda"))
    with lock_device(machine):
        return measure_practical_peaks(machine, list_raw_names(load_compiled_rules()))
