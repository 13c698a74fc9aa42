"""Keeps the commands of an answer to those that work for the kernel of a report."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.safety.paths import project_root, shipped_folder

if TYPE_CHECKING:
    from kernelkb.model.answers.recommendation import KernelAnswer

_BY_NAME = ("kb bench ", "kb build ", "kb profile ")
TAKE_IN = (
    "kb init its-source.cu takes this kernel into a project; then kb bench times it beside its "
    "reference"
)


def list_project_kernels() -> Collection[str]:
    """Return the names of the kernels that ``kb bench`` knows here.

    ``loading.kernels`` says the same, and takes 0.3 s to import.
    """
    bases = (Path(shipped_folder("kernels")), Path(project_root()) / "kernels")
    return {path.parent.name for base in bases for path in base.glob("*/kernel.yaml")}


def keep_working_commands(answer: KernelAnswer, known: Collection[str]) -> None:
    """Leave out commands that take the kernel by name, if the project does not have it.

    Args:
        answer: For a kernel of a report; changed.
        known: Names of the project's kernels.
    """
    rows = answer["measure_next"]
    kept = [
        row
        for row in rows
        if not row["command"].startswith(_BY_NAME) or row["command"].split()[2] in known
    ]
    if len(kept) < len(rows):
        answer["measure_next"] = kept
        answer["next"] = [*answer["next"], TAKE_IN]
