"""``kb profile --clocks``: where the warps of a variant spend their time, between its waits."""

from __future__ import annotations

from kernelkb.actions.kernels.measure_variant import build_prepared
from kernelkb.actions.project.bench_target import prepare, resolve_workload
from kernelkb.errors import BadValueError
from kernelkb.measure.machine.environment import TargetChoice, lock_device
from kernelkb.measure.profile.clocks import profile_clocks
from kernelkb.model.records.measurement import Profile


def clock_variant(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
) -> Profile:
    """Build a variant with clocks, call it on a workload, and return the time between its waits.

    Raises:
        KbError: A name is unknown, the variant is no CUDA C++ for a GPU, or it does not build.
    """
    bench_target = prepare(kernel, variant, target)
    subject = bench_target.subject
    if subject.machine.target != "cuda" or not subject.variant.is_compiled:
        raise BadValueError(
            f"clocks are for variants in CUDA C++ on a GPU, not {subject.variant.language}"
            f" for {subject.variant.target}"
        )
    size = resolve_workload(subject.kernel, subject.variant.target, workload)
    built = build_prepared(bench_target)
    if built.error:
        raise BadValueError(f"{subject.variant.id} does not build: {built.error}")
    with lock_device(subject.machine) as queue_warning:
        profiled = profile_clocks(subject, built, size)
    evidence = (*profiled.evidence, *filter(None, [queue_warning]))
    return profiled.model_copy(update={"evidence": evidence})
