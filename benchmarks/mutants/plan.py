"""Lists the mutants of the base kernels: the same list on every machine and at every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.mutants import c_operators, python_operators
from benchmarks.mutants.c_source import CSource
from benchmarks.mutants.mutant import Edit, Mutant, describe_difference

from kernelkb.loading.kernels import KernelFolder, load_kernel_folder
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import Variant

KERNELS_FOLDER = Path(__file__).parent / "kernels"


def load_kernels() -> dict[str, KernelFolder]:
    """Return the base kernels by name."""
    files = sorted(KERNELS_FOLDER.glob("*/kernel.yaml"))
    return {file.parent.name: load_kernel_folder(file.parent) for file in files}


def list_mutants(target: Target) -> list[Mutant]:
    """Return all mutants of all kernels of a target, none of them twice."""
    return [
        mutant
        for kernel_folder in load_kernels().values()
        for variant in kernel_folder.kernel.variants
        if variant.target == target
        for mutant in _mutate_variant(kernel_folder, variant)
    ]


def _mutate_variant(kernel_folder: KernelFolder, variant: Variant) -> Iterator[Mutant]:
    text = (kernel_folder.folder / variant.source).read_text(encoding="utf-8")
    seen = {text}
    numbers: Counter[tuple[str, int]] = Counter()
    for edit in _find_edits(kernel_folder, variant, text):
        source = edit.apply(text)
        if source in seen:
            continue
        seen.add(source)
        number = numbers[edit.operator, edit.start]
        numbers[edit.operator, edit.start] += 1
        yield Mutant(
            kernel=kernel_folder.kernel.id,
            variant=variant.id,
            language=variant.language,
            kind=edit.kind,
            operator=edit.operator,
            position=edit.start,
            number=number,
            source=source,
            difference=describe_difference(text, source),
        )


def _find_edits(kernel_folder: KernelFolder, variant: Variant, text: str) -> Iterator[Edit]:
    kernel = kernel_folder.kernel
    axes = kernel.workloads[kernel.default_workload[variant.target]]
    if variant.language in ("python", "triton"):
        is_triton = variant.language == "triton"
        return python_operators.find_edits(
            python_operators.PythonSource(text, axes, kernel.entry, is_triton)
        )
    is_cuda = variant.language == "cuda"
    return c_operators.find_edits(CSource(text, axes, is_cuda))
