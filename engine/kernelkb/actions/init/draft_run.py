"""Runs a finished draft once, before it is called usable."""

from __future__ import annotations

from typing import NamedTuple

from kernelkb.actions.kernels.measure_variant import check_variant
from kernelkb.errors import EnvironmentGapError
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.subject import DEFAULT_OPTIONS
from kernelkb.model.records.measurement import Build
from kernelkb.scaffold.draft import DRAFTED_VARIANT


class DraftRun(NamedTuple):
    """What the run of a draft found."""

    text: str
    """Empty for a draft of another language than CUDA, which is not run."""
    is_unusable: bool = False
    next: str = ""
    """What cures an unusable draft."""


def run_draft(kernel: str) -> DraftRun:
    """Run a finished draft of CUDA once under compute-sanitizer.

    A shape that is too small reads out of bounds, and such a draft is not to be used. Where this
    machine has no GPU or no such tool it is not run, and the text says why.

    Args:
        kernel: Its name.

    Raises:
        KbError: The reference, or the comparison with it, refuses the draft; the text has the cure.
    """
    drafted = [v for v in load_kernel(kernel).kernel.variants if v.id == DRAFTED_VARIANT]
    if not any(each.language == "cuda" for each in drafted):
        return DraftRun("")
    options = DEFAULT_OPTIONS._replace(with_sanitizer=True)
    try:
        made = check_variant(kernel, DRAFTED_VARIANT, "cuda", options)
    except EnvironmentGapError as error:
        return DraftRun(f"the draft was not run: {error.gap}")
    if isinstance(made, Build):
        return DraftRun("the draft was not run: it does not compile", True, f"kb build {kernel}")
    if made.status == "correct":
        tools = ", ".join(made.sanitized)
        return DraftRun(f"the draft ran once under compute-sanitizer ({tools})")
    return DraftRun(
        f"the draft is not usable yet: {made.detail}",
        True,
        "correct the shapes, the values of the inputs (fill), the numbers, the launch or the "
        f"reference, which is for the same numbers, in kernels/{kernel}, "
        f"with kb init and --set or by hand, then kb bench {kernel} --sanitize",
    )
