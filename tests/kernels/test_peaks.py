"""What the machine can do at best, measured once and kept."""

import pytest
from broken_kernels import make_broken_kernel

from kernelkb.actions.kernels.measure_variant import bench_variant
from kernelkb.actions.project.bench_target import validate_machine
from kernelkb.measure.machine.cached_facts import write_cache
from kernelkb.measure.machine.torch_info import get_machine_peaks


@pytest.mark.slow
def test_stale_low_peaks_do_not_invalidate_a_correct_kernel(project):
    make_broken_kernel(project, "right")
    machine = validate_machine("cpu").machine
    honest = get_machine_peaks(machine)
    key = f"cpu {machine.title} {machine.core_count} torch {machine.torch}"
    write_cache("peaks-2", key, honest._replace(copy_gbps=honest.copy_gbps / 1e5)._asdict())
    before = get_machine_peaks(machine).copy_gbps
    timed = bench_variant("broken", target="cpu")

    assert before < honest.copy_gbps / 1e4
    assert timed.verdict not in ("invalid", "incorrect")
    assert get_machine_peaks(machine).copy_gbps > honest.copy_gbps / 4


@pytest.mark.slow
def test_remeasuring_never_lowers_a_peak(project):
    machine = validate_machine("cpu").machine
    first = get_machine_peaks(machine)
    second = get_machine_peaks(machine, remeasure=True)

    assert second.copy_gbps >= first.copy_gbps
    assert second.dispatch_us <= first.dispatch_us
    assert get_machine_peaks(machine) == second
