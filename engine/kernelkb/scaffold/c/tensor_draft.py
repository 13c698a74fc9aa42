"""Drafts a kernel folder for C++ functions of torch or tvm-ffi tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.model.base import Target
from kernelkb.model.kernels.languages import choose_compiled_language
from kernelkb.scaffold.c.c_source import complete_function
from kernelkb.scaffold.draft.call_signature import DraftRequest, Function, Parameter
from kernelkb.scaffold.draft.default_values import guess_shape
from kernelkb.scaffold.draft.kernel_yaml import (
    Draft,
    DraftedVariant,
    assign_field_names,
    draft_include,
    draft_including_files,
    format_kernel_yaml,
    hide_module,
    make_start_input,
)

_STRINGS = ("string", "string_view", "c10::string_view")


def draft_tensor_files(request: DraftRequest) -> dict[str, str]:
    """Return kernel.yaml and sources for a function of tensors."""
    function = request.function
    if function.style != "bound" and request.headers:
        function = complete_function(function, request.text, request.headers)
        request = request._replace(function=function)
    function = _fill_strings(function, (request.text, *request.headers))
    shaped, notes = _complete_shapes(function)
    draft = _make_draft(request, shaped, notes)
    lines = draft_include(request.include, has_main=request.summary.has_main)
    if function.style != "bound":
        lines = _draft_launcher(draft, function, shaped, lines)
    return {
        "kernel.yaml": format_kernel_yaml(draft),
        draft.variant.source: lines,
        **draft_including_files(request.others),
    }


def _make_draft(request: DraftRequest, shaped: Sequence[Parameter], notes: list[str]) -> Draft:
    function, is_bound = request.function, request.function.style == "bound"
    inputs = [p for p in shaped if p.role == "input"]
    outputs = [p for p in shaped if p.role == "output"]
    axes = list(dict.fromkeys(d for p in (*inputs, *outputs) for d in p.shape if not d.isdecimal()))
    starts = [make_start_input(p) for p in outputs if p.is_read]
    is_ffi = request.summary.kind == "tvm-ffi"
    also = [*draft_including_files(request.others)]
    missing = request.summary.missing_functions if not also else ()
    return Draft(
        name=request.name,
        include=request.include,
        target=request.target,
        axes=axes,
        inputs=inputs,
        outputs=outputs,
        fields=assign_field_names([p.name for p in (*inputs, *starts, *outputs)] + axes),
        entry=function.name if is_bound else f"kb_{request.name}",
        variant=DraftedVariant(
            choose_compiled_language(request.target),
            f"launch{_choose_suffix(request.include, request.target)}",
            f"{function.name} of {PurePosixPath(request.include).name}",
            binding="tvm-ffi" if is_ffi else "torch-extension",
            also=also or ([FILL_IN_MARK] if missing else []),
            returns=not is_ffi and (is_bound or any(p.type == "return" for p in outputs)),
            flags=request.flags,
            kernels=function.launches,
            comment=_format_missing(missing),
        ),
        notes=notes,
    )


def _choose_suffix(include: str, target: Target) -> str:
    suffix = PurePosixPath(include).suffix
    return ".cu" if target == "cuda" and suffix in (".cuh", ".h") else suffix


def _format_missing(missing: Sequence[str]) -> str:
    if not missing:
        return ""
    text = f"    # also: a file in this folder that includes the definition of {', '.join(missing)}"
    return f"{text}\n"


def _complete_shapes(function: Function) -> tuple[list[Parameter], list[str]]:
    """Give tensors without a shape that of another one, and say so."""
    tensors = [p for p in function.parameters if p.role in ("input", "output")]
    known = [p for p in tensors if p.shape]
    common = known[0].shape if known else ("rows", "cols")
    if known and all(not p.shape for p in tensors if p not in known):
        common = max((p.shape for p in known), key=len)
    notes, result = [], []
    for each in function.parameters:
        if each.role in ("input", "output") and not each.shape:
            shape = guess_shape(each.name, common) if each.role == "input" else common
            notes.append(f"the shape of {each.name} was guessed: {' x '.join(shape)}")
            each = each._replace(shape=shape)
        if each.role == "number" and each.value not in ("", "{}"):
            notes.append(f"{each.name} = {each.value}")
        result.append(each)
    return result, notes


def _fill_strings(function: Function, texts: Sequence[str]) -> Function:
    """Give strings that are options the first word that the file compares or maps them with."""
    whole = "\n".join(texts)
    parameters = []
    for each in function.parameters:
        if each.role == "number" and each.type in _STRINGS and not each.value:
            compared = re.search(rf'\b{each.name}\s*==\s*"([\w-]+)"', whole)
            mapped = re.search(r'\{\s*"([\w-]+)"\s*,\s*\w+\s*\}', whole)
            if match := compared or mapped:
                each = each._replace(value=f'"{match[1]}"')
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _draft_launcher(
    draft: Draft, function: Function, parameters: Sequence[Parameter], include: str
) -> str:
    """Return a source that includes the function's file and exports a call of tensors only."""
    is_ffi = draft.variant.binding == "tvm-ffi"
    passed = {p.name: p for p in parameters if p.role in ("input", "output") and p.type != "return"}
    starts = {make_start_input(p).name: p for p in draft.outputs if p.is_read}
    order = [*draft.inputs, *(p for p in draft.outputs if p.type != "return")]
    kinds: Mapping[str, str] = {p.name: _qualify(p.type, is_ffi=is_ffi) for p in order}
    declared = [f"{kinds[p.name]} {p.name}" for p in draft.inputs]
    declared += [f"{kinds[p.name]}" for p in starts.values()]
    declared += [f"{kinds[p.name]} {p.name}" for p in order if p not in draft.inputs]
    arguments = ", ".join(
        p.name if p.name in passed else p.value or FILL_IN_MARK
        for p in parameters
        if p.type != "return"
    )
    call = (
        f"{'return ' if draft.variant.returns else ''}{function.scope}{function.name}({arguments});"
    )
    head = "tvm/ffi/tvm_ffi.h" if is_ffi else "torch/csrc/utils/pybind.h"
    if is_ffi:  # a lambda would be in decltype, which C++17 does not take
        called = f"static void kb_call({', '.join(declared)}) {{ {call} }}\n"
        module = f"TVM_FFI_DLL_EXPORT_TYPED_FUNC(kb_{draft.name}, kb_call);\n"
        return f"#include <{head}>\n{include}\n{called}{module}"
    lambda_ = f"[]({', '.join(declared)}) {{ {call} }}"
    return f"""\
// Exports {function.name} with the arguments of kernel.yaml, and constants for the others.
#include <{head}>

{hide_module(include)}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {{
  module.def("kb_{draft.name}", {lambda_});
}}
"""


def _qualify(kind: str, *, is_ffi: bool) -> str:
    if not is_ffi:
        return "at::Tensor"
    return "DLTensor*" if kind == "DLTensor" else "tvm::ffi::TensorView"
