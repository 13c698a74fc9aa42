"""Where to look and what to edit: the lines that hold a cause, and the place of a change."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.actions.advice.next_steps import MeasuredPlace
from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.project.variants import (
    choose_variant_name,
    find_included_source,
    list_copied_files,
    list_unchanged_copies,
)
from kernelkb.decide.past_changes import find_similar_cases
from kernelkb.decide.recommend import list_change
from kernelkb.decide.source_lines import find_accessed_lines, find_heaviest_line, find_lines
from kernelkb.errors import KbError
from kernelkb.loading.kernels import (
    KernelFolder,
    load_kernel,
    load_kernel_folder,
    select_variant,
)
from kernelkb.model.answers.next_step import CallerEdit, FixEdit, KeepCondition, Step
from kernelkb.model.answers.recommendation import Advice, Diagnosis, KernelAnswer
from kernelkb.model.answers.source_place import ChangePlace
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import DTYPE_BYTES, Variant
from kernelkb.model.records.measurement import Loop
from kernelkb.profiles.launch import name_function
from kernelkb.profiles.report import read_source_counters
from kernelkb.safety.paths import shipped_folder
from kernelkb.safety.workspace import read_text
from kernelkb.sass.static_facts import measure_code

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules
    from kernelkb.model.answers.recommendation import (
        Advice,
        Diagnosis,
        Finish,
        KernelAnswer,
        Level,
        TimeShare,
    )
    from kernelkb.model.answers.source_place import LineAnswer
    from kernelkb.profiles.reader_process import ReaderProcess
    from kernelkb.sass.counters import SourceCounters

_OF_LAUNCH = ("parallelism", "system")
"""Groups of bottlenecks whose cause lies in the launch, not in the kernel's body."""
_OF_CALLER = ("system", "measurement")
"""Groups of bottlenecks whose fixes change the program around the kernel: a copy of the kernel has
no place for them, and a benchmark of one does not show them."""
_LAUNCH = re.compile(r"<<<")

_MAX_DIAGNOSES = 3
_SAME_BYTES = 0.02
"""By which a cost in bytes may differ from the sizes of the arrays (chosen)."""
_MAX_SIMILAR = 3
_LEVEL_BELOW_LINES: Level = "L3"
_LEVEL_OF_LINES: Level = "L4"
_ACCESS = "{access}"
_NOTHING_COUNTED = (
    "the report counts nothing by instruction; ncu --section SourceCounters --import-source yes "
    "records it"
)


class AnsweredVariant(NamedTuple):
    """The variant of a project's kernel that an answer is about."""

    folder: KernelFolder
    variant: Variant
    workload: str | None = None
    """None: the target's default."""
    loops: Sequence[Loop] = ()
    """Of its build, with the line of each."""


class CodeLine(NamedTuple):
    """A line of a source, and what is there."""

    path: Path
    number: int | None
    because: str


def locate_edit(answer: KernelAnswer, subject: AnsweredVariant) -> KernelAnswer:
    """Return an answer with ``change``, and with its edit at that place among the next steps.

    Near its floor, it says which array the bytes are of.

    Args:
        answer: About the variant.
        subject: The variant.
    """
    answer = _tell_arrays(answer, subject)
    is_changed = any(isinstance(one, FixEdit) for one in answer["next"])
    if answer["gate"]["verdict"] in ("stop", "done") or not is_changed:
        return answer
    steps: list[Step] = [
        one for one in answer["next"] if not isinstance(one, FixEdit | KeepCondition)
    ]
    diagnosis, fix = _choose_fix(answer, subject.variant)
    if diagnosis is None or fix is None:
        return {**answer, "next": steps}
    if diagnosis["group"] in _OF_CALLER:
        return {**answer, "next": [*steps, CallerEdit(fix["id"], fix["do"])]}
    place = _find_place(subject, diagnosis, fix)
    change = list_change(fix, diagnosis["falsifier"], place)
    return {**answer, "change": place, "next": [*steps, *change]}


def name_measured(subject: AnsweredVariant, measured: Collection[str]) -> MeasuredPlace:
    """Return what was measured as commands name it, without what is the default."""
    kernel, variant = subject.folder.kernel, subject.variant
    default = next(one for one in kernel.variants if one.target == variant.target)
    named = {
        "kernel": kernel.id,
        "variant": variant.id if variant.id != default.id else None,
        "workload": subject.workload,
        "target": variant.target,
    }
    return MeasuredPlace({key: one for key, one in named.items() if one is not None}, measured)


def find_answered_variant(
    kernel: str, target: Target, variant: str | None = None, workload: str | None = None
) -> AnsweredVariant | None:
    """Return a variant of the project by its name; None where its kernel.yaml is not valid.

    Args:
        kernel: Its name.
        target: Of the variant.
        variant: The variant's id; None: the first one.
        workload: That was measured; None: the default.
    """
    try:
        folder = load_kernel(kernel, get_project_path())
        chosen = select_variant(folder.kernel, target, variant)
    except KbError:
        return None
    is_default = folder.kernel.default_workload.get(target) == workload
    return AnsweredVariant(folder, chosen, None if is_default else workload)


def find_profiled_variant(signature: str) -> AnsweredVariant | None:
    """Return the variant of the project that lists a ``__global__`` function; None without one.

    Args:
        signature: As a report names the function, such as ``void scale<float>(const float *)``.
    """
    name = name_function(signature)
    named = re.compile(rf"\b{re.escape(name)}\b")  # most files are not even parsed
    for path in sorted((get_project_path() / "kernels").glob("*/kernel.yaml")):
        try:
            if not named.search(read_text(path)):
                continue
            folder = load_kernel_folder(path.parent)
        except (OSError, KbError, UnicodeDecodeError):
            continue
        for variant in folder.kernel.variants:
            if name in variant.kernels:
                return AnsweredVariant(folder, variant)
    return None


def _choose_fix(answer: KernelAnswer, variant: Variant) -> tuple[Diagnosis | None, Advice | None]:
    """Return the best fix that the variant does not apply yet, with its diagnosis."""
    for diagnosis in answer["diagnoses"]:
        if diagnosis["verdict"] == "matches":
            for fix in diagnosis["fixes"]:
                if fix["id"] not in variant.applies:
                    return diagnosis, fix
    return None, None


def _find_place(subject: AnsweredVariant, diagnosis: Diagnosis, fix: Advice) -> ChangePlace:
    return find_change(subject, fix["id"], _find_line(subject, diagnosis))


def find_change(subject: AnsweredVariant, fix: str, place: CodeLine | None = None) -> ChangePlace:
    """Return where a fix goes, which variant applies it, and the copy to change if none does.

    Args:
        subject: The variant without the fix.
        fix: Its id.
        place: The line that holds the cause; None: that of the kernel's function.
    """
    kernel, variant = subject.folder.kernel, subject.variant
    others = [v for v in kernel.variants if v.target == variant.target]
    with_fix = [v.id for v in others if fix in v.applies and v.id != variant.id]
    unchanged = {name for _, name in list_unchanged_copies(subject.folder) if name in with_fix}
    done = next((name for name in with_fix if name not in unchanged), None)
    begun = next((name for name in with_fix if name in unchanged), None)
    name = begun or choose_variant_name(kernel, fix, variant.target)
    line = place or _find_function(subject)
    path = line.path
    if done is None:
        path = list_copied_files(subject.folder, variant, name).get(path.resolve(), path)
    return {
        "fix": fix,
        "kernel": kernel.id,
        "target": variant.target,
        "workload": subject.workload,
        "variant": variant.id,
        "file": _show_path(path),
        "line": line.number,
        "because": line.because,
        "variants": [v.id for v in others],
        "applied_by": done,
        "new_variant": name,
        "is_copied": begun is not None,
    }


def _show_path(path: Path) -> str:
    """Return a path relative to the project, also of a shipped kernel, which is copied into it."""
    shipped = Path(shipped_folder("kernels")).parent
    for root in (get_project_path(), shipped):
        if path.resolve().is_relative_to(root.resolve()):
            return os.path.relpath(path.resolve(), root.resolve())
    return str(path)


def _find_line(subject: AnsweredVariant, diagnosis: Diagnosis) -> CodeLine:
    """Return the line that the evidence names; else that of the launch or the kernel."""
    variant = subject.variant
    source = subject.folder.folder / variant.source
    told = diagnosis["lines"]
    if told and told["lines"]:
        first = told["lines"][0]
        path = _find_counted_file(subject, first["at"]["file"])
        return CodeLine(path, first["at"]["line"], f"{first['share']:.0%} of {first['of']}")
    scalar = next((loop for loop in subject.loops if not loop.vectorized), None)
    if scalar is not None and any(r["metric"] == "scalar_loop_count" for r in diagnosis["because"]):
        return CodeLine(source, scalar.line, f"this loop stays scalar: {scalar.reason}")
    if diagnosis["group"] in _OF_LAUNCH and variant.target == "cuda":
        path, text = _read_kernel_source(source)
        if found := _LAUNCH.search(text):
            return CodeLine(path, text.count("\n", 0, found.start()) + 1, "the launch")
    return _find_function(subject)


def _find_function(subject: AnsweredVariant) -> CodeLine:
    """Return the line of the kernel's function."""
    variant = subject.variant
    path, text = _read_kernel_source(subject.folder.folder / variant.source)
    names = [*variant.kernels, variant.entry or subject.folder.kernel.entry]
    for name in names:
        if (number := _find_definition(text, name)) is not None:
            return CodeLine(path, number, f"the function {name}")
    return CodeLine(path, None, "the variant's source")


def _find_counted_file(subject: AnsweredVariant, counted: str) -> Path:
    """Return the file of the project that a report names by the path at the time of the build."""
    name = Path(counted).name
    for path in list_copied_files(subject.folder, subject.variant, "any"):
        if path.name == name:
            return path
    return Path(counted)


def _read_kernel_source(source: Path) -> tuple[Path, str]:
    """Return a source, or the one that it includes whole, with its text."""
    path = find_included_source(source) or source
    try:
        return path, read_text(path, errors="replace")
    except (OSError, KbError):
        return path, ""


def _find_definition(text: str, name: str) -> int | None:
    """Return the line on which a function is defined; None without one."""
    pattern = rf"^[^\n/;]*\b{re.escape(name)}\s*\((?=[^;{{]*[{{:])"
    found = re.search(pattern, text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else None


def read_all_counters(
    path: Path, launches: Sequence[int], reader: ReaderProcess | None = None
) -> list[SourceCounters | str]:
    """Return what some launches counted by instruction, each or the reason why there is nothing.

    Args:
        path: A ``.ncu-rep`` file.
        launches: Indices in the file; of all but the first nothing is read that has no lines.
        reader: A process for this and other calls; by default one for this call.
    """
    counted = read_source_counters(path, launches, without_lines=1, reader=reader)
    return [_NOTHING_COUNTED if one is None else one for one in counted]


def measure_counted_code(counters: SourceCounters | str | None) -> dict[str, float]:
    """Return the metrics of the machine code that was counted; empty where nothing was."""
    if counters is None or isinstance(counters, str):
        return {}
    return measure_code([counters.function])


def add_source_lines(
    rules: CompiledRules, answer: KernelAnswer, counters: SourceCounters | str
) -> KernelAnswer:
    """Return an answer with ``lines`` of its first diagnoses, or a note why there are none."""
    if isinstance(counters, str):
        return {**answer, "notes": [*answer["notes"], f"no lines: {counters}"]}
    matches = [d for d in answer["diagnoses"] if d["verdict"] == "matches"]
    located = {
        one["bottleneck"]: _locate_diagnosis(rules, one, counters)
        for one in matches[:_MAX_DIAGNOSES]
    }
    with_lines: KernelAnswer = {
        **answer,
        "diagnoses": [located.get(one["bottleneck"], one) for one in answer["diagnoses"]],
        "notes": [*answer["notes"], *counters.notes],
        "accesses": find_accessed_lines(counters),
        "time": _locate_largest_part(answer["time"], counters),
        "finish": _locate_waits(answer["finish"], counters),
        "similar": answer["similar"] or find_similar_cases(answer, rules["cases"], _MAX_SIMILAR),
    }
    if any(one["lines"] and one["lines"]["lines"] for one in located.values()):
        return _raise_evidence_level(rules, with_lines)
    return with_lines


def _locate_largest_part(time: Sequence[TimeShare], counters: SourceCounters) -> list[TimeShare]:
    """Return the parts of the time, the largest with the line that it is due to."""
    return [
        {**one, "line": find_heaviest_line(counters, one["part"])} if not number else one
        for number, one in enumerate(time)
    ]


def _locate_waits(finish: Finish | None, counters: SourceCounters) -> Finish | None:
    return finish and {**finish, "waits_at": find_heaviest_line(counters, "waits")}


def _locate_diagnosis(
    rules: CompiledRules, diagnosis: Diagnosis, counters: SourceCounters
) -> Diagnosis:
    found = find_lines(counters, rules["line_evidence"].get(diagnosis["bottleneck"], []))
    fixes: list[Advice] = [
        {**fix, "on_line": _describe_change(rules["fixes"][fix["id"]]["on_line"], found)}
        for fix in diagnosis["fixes"]
    ]
    return {**diagnosis, "lines": found, "fixes": fixes}


def _raise_evidence_level(rules: CompiledRules, answer: KernelAnswer) -> KernelAnswer:
    """Leave out of the conclusions what counters by line are lacking for: here they are."""
    if answer["evidence_level"] != _LEVEL_BELOW_LINES:
        return answer
    lacking = rules["levels"][f"cuda/{_LEVEL_BELOW_LINES}"]["cannot"]
    can, cannot = answer["conclusions"]["can"], answer["conclusions"]["cannot"]
    return {
        **answer,
        "conclusions": {"can": can, "cannot": [text for text in cannot if text not in lacking]},
        "evidence_level": _LEVEL_OF_LINES,
    }


def _describe_change(words: str | None, answer: LineAnswer) -> str | None:
    """Return the change of a fix on the first line; None where it asks for an access in vain."""
    access = answer["lines"][0]["access"] if answer["lines"] else None
    if words is None or not answer["lines"] or (access is None and _ACCESS in words):
        return None
    return f"line {answer['lines'][0]['at']['line']}: {words.replace(_ACCESS, access or '')}"


def _tell_arrays(answer: KernelAnswer, subject: AnsweredVariant) -> KernelAnswer:
    """Return an answer whose verdict near the floor says which array the bytes are of.

    Only where the cost of the workload is the size of its arrays: a kernel may read a part of one.
    """
    kernel, finish = subject.folder.kernel, answer["finish"]
    name = subject.workload or kernel.default_workload.get(subject.variant.target)
    sizes = kernel.workloads.get(name or "")
    if finish is None or not finish["needed_bytes"] or sizes is None:
        return answer
    arrays = {
        one.name: float(math.prod(one.resolve_shape(sizes)) * DTYPE_BYTES[one.dtype])
        for one in (*kernel.inputs, *kernel.outputs)
        if getattr(one, "value", None) is None
    }
    if not math.isclose(sum(arrays.values()), finish["needed_bytes"], rel_tol=_SAME_BYTES):
        return answer
    return {**answer, "finish": {**finish, "arrays": arrays}}


def read_first_counters(report: Path | None) -> SourceCounters | str | None:
    """Return what the first launch of a report counted by instruction; None without a report."""
    return None if report is None else read_all_counters(report, [0])[0]
