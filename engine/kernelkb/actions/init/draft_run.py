"""Runs a finished draft once, before it is called usable."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.actions.kernels.measure_variant import build_prepared, check_variant
from kernelkb.actions.project.bench_target import prepare
from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.check.sanitize import sanitize
from kernelkb.measure.machine.environment import lock_device
from kernelkb.measure.subject import DEFAULT_OPTIONS
from kernelkb.model.records.measurement import Build
from kernelkb.scaffold.draft import DRAFTED_VARIANT
from kernelkb.scaffold.observed.calls import OBSERVED_VARIANT, VARIANT_FILE


class DraftRun(NamedTuple):
    """What the run of a draft found."""

    text: str
    """Empty for a draft that is not run: of Python, whose recorded calls were repeated."""
    is_unusable: bool = False
    next: str = ""
    """What cures an unusable draft."""


def run_draft(kernel: str) -> DraftRun:
    """Run a finished draft of CUDA once under compute-sanitizer, and copied code by itself.

    A shape that is too small reads out of bounds, and such a draft is not to be used. Where this
    machine has no GPU or no such tool it is not run, and the text says why.

    Args:
        kernel: Its name.

    Raises:
        KbError: The reference, or the comparison with it, refuses the draft; the text has the cure.
    """
    drafted = load_kernel(kernel).kernel
    if drafted.reference.file and any(v.id == OBSERVED_VARIANT for v in drafted.variants):
        return _run_observed(kernel)
    if not any(v.id == DRAFTED_VARIANT and v.language == "cuda" for v in drafted.variants):
        return DraftRun("")
    is_reference = drafted.reference.variant == DRAFTED_VARIANT
    try:
        made = _sanitize_draft(kernel) if is_reference else _check_draft(kernel)
    except EnvironmentGapError as error:
        return DraftRun(f"the draft was not run: {error.gap}")
    if isinstance(made, Build):
        return DraftRun("the draft was not run: it does not compile", True, f"kb build {kernel}")
    tools, fault = made
    if not fault:
        unchecked = "; nothing checks what it computes" if is_reference else ""
        return DraftRun(f"the draft ran once under compute-sanitizer ({tools}){unchecked}")
    return DraftRun(
        f"the draft is not usable yet: {fault}",
        True,
        "correct the shapes, the values of the inputs (fill), the numbers, the launch or the "
        f"reference, which is for the same numbers, in kernels/{kernel}, "
        f"with kb init and --set or by hand, then kb bench {kernel} --sanitize",
    )


def _run_observed(kernel: str) -> DraftRun:
    """Run code that was copied out of a program: calls that are too large are not recorded."""
    try:
        made = check_variant(kernel, OBSERVED_VARIANT)
    except EnvironmentGapError as error:
        return DraftRun(f"the draft was not run: {error.gap}")
    except KbError as error:
        fault: str | None = str(error)
    else:
        fault = (
            ""
            if made.status == "correct"
            else made.error
            if isinstance(made, Build)
            else made.detail
        )
    if not fault:
        return DraftRun("the draft ran once, and repeats its reference")
    cure = f"correct {VARIANT_FILE} and reference.py in kernels/{kernel}, then kb bench {kernel}"
    return DraftRun(f"the draft is not usable yet: {fault}", True, cure)


def _check_draft(kernel: str) -> Build | tuple[str, str]:
    """Return the tools that found nothing, and what is wrong; the Build if that failed."""
    options = DEFAULT_OPTIONS._replace(with_sanitizer=True)
    made = check_variant(kernel, DRAFTED_VARIANT, "cuda", options)
    if isinstance(made, Build):
        return made
    fault = "" if made.status == "correct" else made.detail or made.status
    return ", ".join(made.sanitized), fault


def _sanitize_draft(kernel: str) -> Build | tuple[str, str]:
    """As ``_check_draft``, of a draft that is its own reference: its outputs are not compared."""
    bench_target = prepare(kernel, DRAFTED_VARIANT, "cuda")
    built = build_prepared(bench_target, DEFAULT_OPTIONS)
    if built.error:
        return built
    with lock_device(bench_target.subject.machine):
        report = sanitize(bench_target.subject, built)
    if report.reason is not None:
        raise EnvironmentGapError(report.reason, report.cure)
    faults = [f"{each.tool} found {each.error_count}: {each.message}" for each in report.findings]
    return ", ".join(report.finished_tools), (faults or [""])[0]
