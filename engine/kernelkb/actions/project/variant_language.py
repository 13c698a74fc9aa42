"""What the language of a variant says about it: a metric that fixes for one language ask for."""

from __future__ import annotations

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import KbError
from kernelkb.loading.kernels import load_kernel, select_variant
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.kernels.languages import LANGUAGES


def measure_language(variant: Variant) -> dict[str, float]:
    """Return the metric of a variant's language, such as ``triton_kernel``; nothing without one."""
    metric = LANGUAGES[variant.language].metric
    return {metric: 1.0} if metric else {}


def measure_language_by_name(
    kernel: str, target: Target, variant: str | None = None
) -> dict[str, float]:
    """Do as ``measure_language`` for a kernel by its name; nothing where it cannot be loaded.

    Args:
        kernel: Its name.
        target: Of the variant.
        variant: The variant's id; None: the first one.
    """
    try:
        folder = load_kernel(kernel, get_project_path())
        return measure_language(select_variant(folder.kernel, target, variant))
    except KbError:
        return {}
