"""Every tunable of the attention kernels changes the machine code; formulas match the compiler."""

from pathlib import Path

import pytest

from kernelkb.actions.project.bench_target import prepare_for_architecture
from kernelkb.measure.build.build import build_all
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.measure.machine.tools import find_nvcc
from kernelkb.profiles.machine_code import digest_code
from kernelkb.tune.plan import enumerate_variant, format_defines
from kernelkb.tune.space import evaluate_expression

WORKLOAD = "b2-h8-s512-d64"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_nvcc() is None, reason="no nvcc"),
]


def list_single_changes(space, default):
    """Yield a feasible configuration for each other value of each tunable, near the default."""
    base = space.rows[space.find_index(default)]
    for column, values in enumerate(space.values):
        for place in range(len(values)):
            if place == base[column]:
                continue
            rows = space.rows[space.rows[:, column] == place]
            if len(rows):
                nearest = rows[(rows != base).sum(axis=1).argmin()]
                index = int((space.rows == nearest).all(axis=1).nonzero()[0][0])
                yield space.names[column], space.get_configuration(index)


@pytest.mark.parametrize("variant", ["flash-mma", "flash-wgmma"])
def test_each_value_of_each_tunable_is_another_program(variant, project):
    bench_target = prepare_for_architecture("attention_fp16", variant, "cuda", "9.0")
    subject = bench_target.subject
    kernel = subject.kernel_folder.kernel
    space = enumerate_variant(kernel, subject.variant, WORKLOAD, "9.0")
    tune = subject.variant.tune
    changes = list(list_single_changes(space, tune.default))
    configurations = [tune.default, *(one for _, one in changes)]
    unique = {tuple(sorted(one.items())): one for one in configurations}
    builds = build_all(
        subject,
        Path(project) / ".kb" / "build",
        [(*format_defines(one), "DIM=64", "CAUSAL=0") for one in unique.values()],
    )
    codes = [digest_code(find_machine_code(one)) for one in builds if one.status == "built"]

    assert {name for name, _ in changes} == set(space.names)
    assert all(one.status == "built" for one in builds), [one.error for one in builds]
    assert len(set(codes)) == len(unique)
    if tune.registers is None:
        return
    axes = kernel.workloads[WORKLOAD]
    for configuration, built in zip(unique.values(), builds, strict=True):
        least = evaluate_expression(tune.registers, configuration, axes)
        assert least <= max(one.registers for one in built.resources)
