"""Every tunable of the attention kernels changes the machine code; formulas match the compiler."""

from pathlib import Path

import pytest

from kernelkb.actions.project.bench_target import prepare_for_architecture
from kernelkb.measure.build.build import build_all
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.profiles.machine_code import digest_code
from kernelkb.tune.plan import enumerate_variant, format_defines
from kernelkb.tune.space import evaluate_expression

WORKLOAD = "b2-h8-s512-d64"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_nvcc() is None, reason="no nvcc"),
]


def list_single_changes(space, base):
    """Yield the tunable and a feasible configuration of each other value, near a row."""
    for column, values in enumerate(space.values):
        for value in range(len(values)):
            rows = space.rows[space.rows[:, column] == value]
            if value != base[column] and len(rows):
                nearest = rows[(rows != base).sum(axis=1).argmin()]
                index = int((space.rows == nearest).all(axis=1).nonzero()[0][0])
                yield space.names[column], space.get_configuration(index)


@pytest.mark.parametrize("variant", ["flash-mma", "flash-wgmma"])
def test_each_value_of_each_tunable_changes_the_program(variant, project):
    bench_target = prepare_for_architecture("attention_fp16", variant, "cuda", "9.0")
    subject = bench_target.subject
    space = enumerate_variant(subject.kernel, subject.variant, WORKLOAD, "9.0")
    tune = subject.variant.tune
    first = space.find_index(tune.default) if tune.default else 0
    changes = list(list_single_changes(space, space.rows[first]))
    configurations = [space.get_configuration(first), *(changed for _, changed in changes)]
    builds = build_all(
        subject,
        Path(project) / ".kb" / "build",
        [(*format_defines(one), "DIM=64", "CAUSAL=0") for one in configurations],
    )

    assert {name for name, _ in changes} == set(space.names)
    assert all(one.status == "built" for one in builds), [one.error for one in builds]
    codes = [digest_code(find_machine_code(one)) for one in builds]
    assert codes[0] not in codes[1:]
    if tune.registers is None:
        return
    axes = subject.kernel.workloads[WORKLOAD]
    for configuration, built in zip(configurations, builds, strict=True):
        least = evaluate_expression(tune.registers, configuration, axes)
        assert least <= max(one.registers for one in built.resources)
