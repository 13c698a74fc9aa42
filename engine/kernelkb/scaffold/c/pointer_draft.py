"""Drafts a kernel folder for kernels and launchers that take pointers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from kernelkb.scaffold.c.c_declarations import Declaration
from kernelkb.scaffold.c.c_functions import build_function, count_parts
from kernelkb.scaffold.c.call_plan import CallPlan, plan_call
from kernelkb.scaffold.c.elementwise import translate_elementwise
from kernelkb.scaffold.c.file_facts import read_facts
from kernelkb.scaffold.c.launch_sites import LaunchSite, bind_arguments
from kernelkb.scaffold.c.older_toolkits import draft_compatibility
from kernelkb.scaffold.c.pointer_launchers import draft_c_launcher, draft_torch_launcher
from kernelkb.scaffold.c.source_facts import SourceFacts
from kernelkb.scaffold.draft.call_signature import Function
from kernelkb.scaffold.draft.draft_request import DraftRequest
from kernelkb.scaffold.draft.drafted_reference import format_kernel_files, guess_expression
from kernelkb.scaffold.draft.kernel_yaml import Draft, DraftedVariant, list_all_inputs
from kernelkb.scaffold.draft.launchers import (
    assign_field_names,
    draft_include,
    draft_including_files,
    make_start_input,
)

_ROUNDED = re.compile(r"- ?1\)?\s*\)?\s*/|ceil|[cC]eil|[dD]iv")


def draft_pointer_files(request: DraftRequest) -> dict[str, str]:
    """Return kernel.yaml, reference.py and a launcher for a function of pointers."""
    facts = read_facts(request.text, request.headers, request.callers)
    plan = plan_call(request.function, facts)
    draft = _make_draft(request, plan, facts)
    lines = draft_include(request.include, has_main=request.summary.has_main)
    if request.target == "cuda":
        lines = draft_compatibility(request.text, request.headers) + lines
    if request.uses_torch:
        launcher = draft_torch_launcher(draft, plan, lines)
    elif request.function.is_variant:
        launcher = lines
    else:
        launcher = draft_c_launcher(draft, plan, lines)
    inputs, name = list_all_inputs(draft), request.name
    expression = _translate_body(plan, facts, draft.fields) or guess_expression(
        [request.function.name, *request.function.launches, name],
        inputs,
        draft.outputs,
        [p for p in plan.function.parameters if p.role == "number"],
        draft.fields,
    )
    names = [draft.fields[p.name] for p in inputs] or ["unused"]
    return {
        **format_kernel_files(draft, names, expression),
        draft.variant.source: launcher,
        **draft_including_files(request.others),
    }


def _make_draft(request: DraftRequest, plan: CallPlan, facts: SourceFacts) -> Draft:
    function, is_cuda = request.function, request.target == "cuda"
    parameters = plan.function.parameters
    inputs = [p for p in parameters if p.role == "input"]
    outputs = [p for p in parameters if p.role == "output"]
    starts = [make_start_input(p) for p in outputs if p.is_read]
    arrays = [p.name for p in (*inputs, *starts, *outputs)]
    is_own = function.is_variant and not request.uses_torch
    return Draft(
        name=request.name,
        include=request.include,
        target=request.target,
        axes=plan.axes,
        inputs=inputs,
        outputs=outputs,
        fields=assign_field_names([*arrays, *plan.axes]),
        entry=function.name if is_own else f"kb_{request.name}",
        variant=DraftedVariant(
            "cuda" if is_cuda else "c++",
            "launch.cu" if is_cuda else "launch.cpp",
            f"{function.name} of {PurePosixPath(request.include).name}",
            binding="torch-extension" if request.uses_torch else "",
            also=[*draft_including_files(request.others)],
            flags=request.flags,
            kernels=[function.name] if function.is_kernel else [*function.launches],
        ),
        notes=plan.notes,
        takes_odd_sizes=_takes_odd_sizes(plan, facts),
    )


def _takes_odd_sizes(plan: CallPlan, facts: SourceFacts) -> bool:
    """Whether no size has to be a multiple of a tile or a vector, as far as the text shows."""
    if any(count_parts(p.type) > 1 for p in plan.function.parameters):
        return False
    names = {plan.function.name, *plan.function.launches}
    bodies = [d.body for d in facts.declarations if d.name in names and d.body is not None]
    text = " ".join((each.text or b"").decode() for each in bodies)
    if re.search(r"\b(?:float4|float2|int4|uint4|half2|__half2|half8|VEC\w*)\b", text):
        return False
    grid = " ".join((*plan.statements, *plan.configuration[:1]))
    return "/" not in grid or bool(_ROUNDED.search(grid))


def _translate_body(plan: CallPlan, facts: SourceFacts, fields: Mapping[str, str]) -> str | None:
    """Return the torch expression of an elementwise kernel, also of the one of a launcher."""
    function = plan.function
    name = function.name if function.is_kernel else next(iter(function.launches), "")
    kernel = next((d for d in facts.declarations if d.name == name and d.body), None)
    outputs = [p for p in function.parameters if p.role == "output"]
    if kernel is None or kernel.body is None or len(outputs) != 1:
        return None
    names = _name_in_kernel(function, kernel, facts.sites)
    if names is None:
        return None
    arrays = {
        names[p.name]: fields[make_start_input(p).name if p.role == "output" else p.name]
        for p in function.parameters
        if p.name in names and (p.role == "input" or (p.role == "output" and p.is_read))
    }
    numbers = {
        names[p.name]: p.value
        for p in function.parameters
        if p.name in names and p.role == "number" and p.value
    }
    written = names.get(outputs[0].name)
    return written and translate_elementwise(kernel.body, written, arrays, numbers)


def _name_in_kernel(
    function: Function, kernel: Declaration, sites: Sequence[LaunchSite]
) -> dict[str, str] | None:
    """Map each parameter to what the kernel calls it; None where it is launched more than once."""
    if function.is_kernel:
        return {p.name: p.name for p in function.parameters}
    own = [s for s in sites if s.host.name == function.name]
    if [s.kernel for s in own] != [kernel.name]:
        return None
    taken = [p.name for p in build_function(kernel).parameters]
    return {passed: name for name, passed in bind_arguments(own[0].arguments, taken).items()}
