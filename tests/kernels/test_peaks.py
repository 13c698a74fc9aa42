"""What the machine can do at best, measured once and kept."""

from broken import make

from kernelkb.actions.bench_target import environment
from kernelkb.actions.kernels import bench
from kernelkb.measure.machine.json_cache import keep
from kernelkb.measure.machine.peaks import machine_peaks


def test_a_busy_machine_that_was_measured_once_accuses_no_right_kernel(project):
    make(project, "right")
    machine = environment("cpu").machine
    honest = machine_peaks(machine)
    key = f"cpu {machine.title} {machine.core_count} torch {machine.torch}"
    keep("peaks-2", key, honest._replace(copy_gbps=honest.copy_gbps / 1e5)._asdict())
    before = machine_peaks(machine).copy_gbps
    timed = bench("broken", target="cpu")

    assert before < honest.copy_gbps / 1e4
    assert timed.verdict not in ("invalid", "incorrect")
    assert machine_peaks(machine).copy_gbps > honest.copy_gbps / 4


def test_a_second_look_never_lowers_a_peak(project):
    machine = environment("cpu").machine
    first = machine_peaks(machine)
    second = machine_peaks(machine, again=True)

    assert second.copy_gbps >= first.copy_gbps
    assert second.dispatch_us <= first.dispatch_us
    assert machine_peaks(machine) == second
