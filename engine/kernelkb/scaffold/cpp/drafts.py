"""Drafts kernel.yaml and a launcher for a function in C++ that takes pointers or tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK, to_snake_case
from kernelkb.model.kernels.languages import choose_compiled_language
from kernelkb.scaffold.answers import apply_answers, find_answer, mark_unknown
from kernelkb.scaffold.cpp.call_plan import CallPlan, apply_template, plan_call
from kernelkb.scaffold.cpp.functions import (
    SourceFacts,
    add_macros,
    build_function,
    is_size_type,
    list_undefined_macros,
    read_facts,
)
from kernelkb.scaffold.cpp.observed_launches import SeenAnswers, SeenLaunch, answer_by_launches
from kernelkb.scaffold.cpp.source import complete_function
from kernelkb.scaffold.cpp.syntax import Structure, bind_arguments, drop_comments
from kernelkb.scaffold.cpp.type_aliases import expand_aliases
from kernelkb.scaffold.draft import (
    Draft,
    DraftedFiles,
    DraftedVariant,
    DraftQuestion,
    DraftRequest,
    Function,
    Parameter,
    is_option,
    list_all_inputs,
    list_defaults,
    make_draft,
    make_start_input,
    order_numbers,
)
from kernelkb.scaffold.draft_text import finish_draft


def draft_pointer_files(request: DraftRequest) -> DraftedFiles:
    """Return kernel.yaml and a launcher for a function of pointers."""
    request, macros = _ask_macros(request)
    facts, structures = _read_texts(request)
    structures = [each for each in structures if each.function == request.function.name]
    request = request._replace(function=_rebuild(request.function, facts))
    plan = plan_call(request.function, facts, request.answers, structures, request.observed)
    hidden = _list_hidden_macros(request, plan.function.parameters)
    plan = _spell_out(plan, {n: facts.constants.get(n, "") for n in hidden})
    plan = plan._replace(questions=(*plan.questions, *macros))
    draft = _make_draft(request, plan)
    lines = draft_include(request, hidden)
    if request.uses_torch:
        launcher = draft_torch_launcher(draft, plan, lines)
    elif request.function.is_variant:
        launcher = lines
    else:
        launcher = draft_c_launcher(draft, plan, lines)
    files = {draft.variant.source: launcher, **draft_including_files(request.others)}
    names = [p.name for p in plan.function.parameters] + [*plan.function.template]
    locals_ = re.findall(r"(?:const int|const auto|using) (\w+) =", "\n".join(plan.statements))
    fills = re.findall(r"kb_(\w+)_is_set", "\n".join(plan.fills))
    names += [*locals_, *fills, *_list_asked_macros(request), "grid", "block", "shared"]
    return finish_draft(draft, files, names)


def answer_launches(request: DraftRequest, launches: Sequence[SeenLaunch]) -> SeenAnswers:
    """Return what launches of a program say of a draft of pointers, as ``--set`` would say it.

    Args:
        request: The kernel, or the function that launches it.
        launches: Of one kernel, the most frequent first.
    """
    facts, structures = _read_texts(request)
    name = launches[0].name
    named = [d for d in facts.declarations if d.is_global and d.body is not None]
    own = next(d for d in named if re.search(rf"\b{d.name}\b", name))
    function = _rebuild(request.function, facts)
    plan = plan_call(function, facts, request.answers, structures)
    types = re.search(rf"\b{own.name}<(.*)>\(", name)
    kernel = apply_template(
        build_function(own), re.split(r",\s*", types[1]) if types else (), facts
    )
    names = [p.name for p in kernel.parameters]
    sites = [s for s in facts.sites if (s.kernel, s.host.name) == (own.name, function.name)]
    passed = bind_arguments(sites[0].arguments, names) if sites else {n: n for n in names}
    fields = {
        field: each.parameter
        for each in structures
        if each.function == own.name
        for _, field in each.fields
    }
    asks = function.is_kernel and not plan.configuration
    return answer_by_launches(plan.function, kernel, fields, passed, launches, asks_launch=asks)


def _read_texts(request: DraftRequest) -> tuple[SourceFacts, list[Structure]]:
    """Return what a source, its headers and its callers say, with structures taken apart."""
    inner = (*request.headers, *request.other_texts)
    every = (add_macros(request.text, request.headers), *inner, *request.callers)
    texts, structures = take_structures_apart([expand_aliases(each, inner) for each in every])
    count = len(inner) + 1
    return read_facts(texts[0], texts[1:count], texts[count:]), structures


def _rebuild(function: Function, facts: SourceFacts) -> Function:
    """Return a function as it is in a text with its headers' macros, and without structures."""
    own = next(d for d in facts.declarations if (d.name, d.line) == (function.name, function.line))
    return build_function(own)._replace(launches=function.launches)


_MACRO_NAME = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\b(?!\()", re.MULTILINE)


def _list_hidden_macros(request: DraftRequest, parameters: Sequence[Parameter]) -> list[str]:
    """Return the macros of a source and its headers that a launcher's parameters are named like."""
    text = "\n".join((request.text, *request.headers))
    names = {p.name for p in parameters}
    return [n for n in dict.fromkeys(_MACRO_NAME.findall(text)) if n in names]


def _spell_out(plan: CallPlan, values: Mapping[str, str]) -> CallPlan:
    """Return a plan whose constants do not name macros that a launcher hides, by their values."""
    if not values:
        return plan
    pattern = re.compile(rf"\b(?:{'|'.join(values)})\b")
    numbers = [
        p._replace(value=pattern.sub(lambda m: values[m[0]], p.value))
        if p.role == "number" and p.origin not in ("said", "observed")
        else p
        for p in plan.function.parameters
    ]
    template = tuple(pattern.sub(lambda m: values[m[0]], each) for each in plan.template)
    function = plan.function._replace(parameters=tuple(numbers))
    return plan._replace(function=function, template=template)


def _list_asked_macros(request: DraftRequest) -> list[str]:
    given = {flag[2:].partition("=")[0] for flag in request.flags if flag.startswith("-D")}
    every = list_undefined_macros(request.text, request.headers)
    return [n for n in every if n not in given or find_answer(request.answers, n)]


def _ask_macros(request: DraftRequest) -> tuple[DraftRequest, list[DraftQuestion]]:
    """Return a request with the flags for the macros that nothing defines, and what is asked."""
    said = {n: find_answer(request.answers, n) for n in _list_asked_macros(request)}
    flags = [f"-D{name}={value or FILL_IN_MARK}" for name, value in said.items()]
    why = "a macro that the build defines"
    asked = [DraftQuestion(name, "", why) for name, value in said.items() if not value]
    return request._replace(flags=(*request.flags, *flags)), asked


def _make_draft(request: DraftRequest, plan: CallPlan) -> Draft:
    function, is_cuda = request.function, request.target == "cuda"
    variant = DraftedVariant(
        choose_compiled_language(request.target),
        "launch.cu" if is_cuda else "launch.cpp",
        f"{function.name} of {PurePosixPath(request.include).name}",
        binding="torch-extension" if request.uses_torch else "",
        also=[*draft_including_files(request.others)],
        flags=request.flags,
        kernels=[function.name] if function.is_kernel else [*function.launches],
    )
    entry = function.name if function.is_variant and not request.uses_torch else ""
    parameters = plan.function.parameters
    return make_draft(
        request, parameters, variant, entry=entry, axes=plan.axes, questions=plan.questions
    )


def draft_c_launcher(draft: Draft, plan: CallPlan, include: str) -> str:
    """Return the source of an ``extern "C"`` function with KernelKB's interface."""
    function = plan.function
    start_names = {make_start_input(p).name for p in draft.outputs if p.is_read}
    arrays = [*list_all_inputs(draft), *draft.outputs]
    declared = [
        f"{'const ' if p.role == 'input' else ''}{p.type}* {p.name}"
        for p in arrays
        if p.name not in start_names
    ]
    starts = [f"const {p.type}* {p.name}" for p in arrays if p.name in start_names]
    if not draft.inputs and not starts:
        starts = ["const float*"]
    position = len(draft.inputs)
    declared[position:position] = starts
    declared += [f"std::int64_t {axis}" for axis in draft.axes] + ["void* kb_stream"]
    is_cuda = draft.target == "cuda"
    numbers = _draft_numbers(function)
    call = _draft_call(plan, "static_cast<cudaStream_t>(kb_stream)")
    return f"""\
// Calls {function.name} with the arguments of kernel.yaml: inputs, outputs, sizes, a stream.
{"#include <cuda_runtime.h>" if is_cuda else ""}
#include <cstdint>
#include <type_traits>

{include}
extern "C" int kb_{draft.name}({", ".join(declared)}) {{
{numbers}{call}  return {"static_cast<int>(cudaGetLastError())" if is_cuda else "0"};
}}
"""


def draft_torch_launcher(draft: Draft, plan: CallPlan, include: str) -> str:
    """Return a torch extension that passes the tensors' pointers, for a file of torch's headers."""
    starts = {make_start_input(p).name: p for p in draft.outputs if p.is_read}
    inputs = [p for p in list_all_inputs(draft) if p.name not in starts]
    declared = [f"at::Tensor kb_{p.name}" for p in inputs] + ["at::Tensor"] * len(starts)
    declared += [f"at::Tensor kb_{p.name}" for p in draft.outputs]
    lines = [
        f"  auto* {p.name} = reinterpret_cast<{p.type}*>(kb_{p.name}.data_ptr());\n"
        for p in (*inputs, *draft.outputs)
    ]
    for axis in draft.axes:
        having = (p for p in (*inputs, *draft.outputs) if axis in p.shape)
        places = (f"kb_{p.name}.size({p.shape.index(axis)})" for p in having)
        lines.append(f"  const std::int64_t {axis} = {next(places, FILL_IN_MARK)};\n")
    call = _draft_call(plan, "c10::cuda::getCurrentCUDAStream().stream()")
    return f"""\
// Calls {plan.function.name} with the tensors of kernel.yaml.
#include <torch/csrc/utils/pybind.h>
#include <c10/cuda/CUDAStream.h>
#include <cstdint>

{hide_module(include)}
static void kb_call({", ".join(declared)}) {{
{"".join(lines)}{_draft_numbers(plan.function)}{call}}}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {{ module.def("kb_{draft.name}", &kb_call); }}
"""


def _draft_numbers(function: Function) -> str:
    lines = (f"  {_declare_constant(p)}{_format_origin(p)}\n" for p in order_numbers(function))
    return "".join(lines)


def _declare_constant(number: Parameter) -> str:
    if number.dtype and number.type.endswith("*"):  # the launcher itself reads it
        kind = number.type.removesuffix("*")
        return f"static {kind} {number.name}[] = {{{kind}({number.value})}};"
    if number.type.endswith("*"):
        return f"{number.type} const {number.name} = {number.value};"
    return f"const {number.type} {number.name} = {number.value};"


def _format_origin(number: Parameter) -> str:
    """Return the line that uses a number which is not known, else where its value is from."""
    if number.value != FILL_IN_MARK:
        return f"  // {number.origin or 'as its launch passes it'}"
    guess = f"{number.name}={number.guess}? " if number.guess else ""
    return f"  // {guess}{number.use}"


def _draft_call(plan: CallPlan, stream: str) -> str:
    function = plan.function
    arguments, filled = _format_arguments(plan, stream)
    called = f"{function.scope}{function.name}"
    if plan.template:
        called += f"<{', '.join(plan.template)}>"
    fills = "".join(f"  {line}\n" for line in plan.fills)
    if not function.is_kernel:
        return f"{filled}{fills}  {called}({arguments});\n"
    if not plan.configuration:
        shared = FILL_IN_MARK if function.takes_shared_memory else "0"
        shown = (
            "  // The text does not show the grid and the block: copy them from your own launch.\n"
            f"  const dim3 kb_blocks({FILL_IN_MARK}), kb_threads({FILL_IN_MARK});"
            f"  // {plan.launch_hint}\n"
            f"  {called}<<<kb_blocks, kb_threads, {shared}, "
            f"{stream}>>>({arguments});\n"
        )
        return filled + fills + shown
    grid, block, shared, *_ = *plan.configuration, "0"
    statements = filled + fills + "".join(f"  {line}\n" for line in plan.statements)
    if plan.asks_shared:
        limit = "cudaFuncAttributeMaxDynamicSharedMemorySize"
        statements += f"  cudaFuncSetAttribute({called}, {limit}, {shared});\n"
    return f"{statements}  {called}<<<{grid}, {block}, {shared}, {stream}>>>({arguments});\n"


def _format_arguments(plan: CallPlan, stream: str) -> tuple[str, str]:
    """Return the arguments of a call, and the statements that fill the structures among them."""
    members = {name: each for each in plan.structures for _, name in each.fields}
    chosen = dict(zip(plan.function.template, plan.template, strict=False))
    arguments: dict[str, None] = {}
    filled = ""
    for p in plan.function.parameters:
        value, each = _format_argument(p, stream), members.get(p.name)
        if each is None:
            arguments[value] = None
            continue
        own = f"kb_{each.parameter}"
        if own not in arguments:
            kind = re.sub(r"\w+", lambda match: chosen.get(match[0], match[0]), each.kind)
            filled += f"  {kind} {own}{{}};\n"
            arguments[own] = None
        field = next(field for field, name in each.fields if name == p.name)
        filled += f"  {own}.{field} = {value};\n"
    return ", ".join(arguments), filled


def _format_argument(parameter: Parameter, stream: str) -> str:
    name, kind = parameter.name, parameter.type
    if parameter.role == "size":
        return f"static_cast<{kind}>({name})"
    if parameter.role == "stream":
        return stream if kind != "void" else f"static_cast<void*>({stream})"
    if parameter.role == "input":  # many kernels take their inputs without const
        return f"const_cast<{kind}*>({name})"
    return name


def draft_tensor_files(request: DraftRequest) -> DraftedFiles:
    """Return kernel.yaml and sources for a function of tensors."""
    function = request.function
    inner = (*request.headers, *request.other_texts)
    if inner:
        function = complete_function(function, request.text, inner)
        request = request._replace(function=function)
    request, macros = _ask_macros(request)
    said = _take_sizes(apply_answers(function.parameters, request.answers, request.observed))
    shaped = mark_unknown(said, request.text, function.line)
    function = function._replace(parameters=tuple(shaped))
    draft = _make_tensor_draft(request, shaped, list_defaults(function))
    draft = draft._replace(questions=(*draft.questions, *macros))
    arrays = [p for p in shaped if p.role in ("input", "output")]
    hidden = _list_hidden_macros(request, arrays)
    lines = draft_include(request, hidden)
    launcher = _draft_launcher(draft, function, shaped, lines)
    files = {draft.variant.source: launcher, **draft_including_files(request.others)}
    return finish_draft(draft, files, [p.name for p in shaped] + _list_asked_macros(request))


def _take_sizes(parameters: Sequence[Parameter]) -> list[Parameter]:
    """Return the parameters of a function of tensors; a number that is a size of one is read there.

    A number that is not known and has the type of a size may be one: its guess is ``axis``.
    """
    tensors = [p for p in parameters if p.role in ("input", "output") and p.type != "return"]
    places = {dim: f"{p.name}.size({at})" for p in tensors for at, dim in enumerate(p.shape)}
    is_asked = not all(p.shape for p in tensors)
    found = []
    for each in parameters:
        is_open = each.role in ("size", "number") and not each.value
        if is_open and each.name in places:
            each = each._replace(role="number", value=places[each.name], origin="of its shape")
        elif is_open:
            is_size = is_asked and is_size_type(each.type) and not is_option(each.name)
            guess = "axis" if is_size else ""
            each = each._replace(role="number", guess=guess)
        found.append(each)
    return found


def _make_tensor_draft(
    request: DraftRequest, shaped: Sequence[Parameter], notes: list[str]
) -> Draft:
    function = request.function
    is_ffi = request.summary.kind == "tvm-ffi"
    also = [*draft_including_files(request.others)]
    missing = ", ".join(request.summary.missing_functions if not also else ())
    suffix = PurePosixPath(request.include).suffix
    suffix = ".cu" if request.target == "cuda" and suffix in (".cuh", ".h") else suffix
    where = f"    # also: a file in this folder that includes the definition of {missing}\n"
    asked = [DraftQuestion("also", "", f"the file that defines {missing}")] if missing else []
    variant = DraftedVariant(
        choose_compiled_language(request.target),
        f"launch{suffix}",
        f"{function.name} of {PurePosixPath(request.include).name}",
        binding="tvm-ffi" if is_ffi else "torch-extension",
        also=also or ([FILL_IN_MARK] if missing else []),
        returns=not is_ffi and any(p.type == "return" for p in shaped),
        flags=request.flags,
        kernels=function.launches,
        comment=where if missing else "",
    )
    return make_draft(request, shaped, variant, notes=notes, questions=asked)


def _draft_launcher(
    draft: Draft, function: Function, parameters: Sequence[Parameter], include: str
) -> str:
    """Return a source that includes the function's file and exports a call of tensors only."""
    is_ffi = draft.variant.binding == "tvm-ffi"
    passed = {p.name: p for p in parameters if p.role in ("input", "output") and p.type != "return"}
    starts = {make_start_input(p).name: p for p in draft.outputs if p.is_read}
    order = [*draft.inputs, *(p for p in draft.outputs if p.type != "return")]
    ffi = {p.name: "DLTensor*" if p.type == "DLTensor" else "tvm::ffi::TensorView" for p in order}
    kinds = ffi if is_ffi else dict.fromkeys(ffi, "at::Tensor")
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
    hints = "".join(
        f"// {p.name} is not known, {p.use}\n" for p in parameters if p.value == FILL_IN_MARK
    )
    head = "tvm/ffi/tvm_ffi.h" if is_ffi else "torch/csrc/utils/pybind.h"
    if is_ffi:  # a lambda would be in decltype, which C++17 does not take
        called = f"static void kb_call({', '.join(declared)}) {{ {call} }}\n"
        module = f"TVM_FFI_DLL_EXPORT_TYPED_FUNC(kb_{draft.name}, kb_call);\n"
        return f"{hints}#include <{head}>\n{include}\n{called}{module}"
    lambda_ = f"[]({', '.join(declared)}) {{ {call} }}"
    return f"""\
// Exports {function.name} with the arguments of kernel.yaml, and constants for the others.
{hints}#include <{head}>

{hide_module(include)}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {{
  module.def("kb_{draft.name}", {lambda_});
}}
"""


def draft_include(request: DraftRequest, hidden: Sequence[str] = ()) -> str:
    """Return the lines that include a source unchanged, its ``main`` renamed if it has one.

    Args:
        request: The source, and what stands before it.
        hidden: Its macros that mean something else behind it.
    """
    named = (*request.before, f'"{request.include}"')
    lines = "".join(f"#include {name}\n" for name in named)
    if request.summary.has_main:
        lines = f"#define main kb_hidden_main\n{lines}#undef main\n"
    return lines + "".join(f"#undef {name}\n" for name in hidden)


def name_including_file(path: str) -> str:
    """Return the name of the file beside kernel.yaml that includes another source."""
    words = "_".join(PurePosixPath(path).with_suffix("").parts).replace(".", "")
    return f"{to_snake_case(words)}{PurePosixPath(path).suffix}"


def draft_including_files(paths: Sequence[str]) -> dict[str, str]:
    """Return files that include other sources of a kernel, which are compiled with it."""
    return {name_including_file(path): f'#include "{path}"\n' for path in paths}


def hide_module(include: str) -> str:
    """Return lines that include a source without the Python module that it may define."""
    return f"""\
// The source's own module, if it has one, is left out.
#pragma push_macro("PYBIND11_MODULE")
#undef PYBIND11_MODULE
#define PYBIND11_MODULE(name, variable) \\
  [[maybe_unused]] static void kb_hide_module(pybind11::module_& variable)
{include}#pragma pop_macro("PYBIND11_MODULE")
"""


_STRUCTURE = re.compile(
    r"(?:template\s*<([^<>]*)>\s*)?\bstruct\s+(?:__align__\(\d+\)\s*|alignas\(\d+\)\s*)?(\w+)"
    r"(?:\s*:\s*(?:public\s+)?(\w+))?\s*(\{)"
)
_FIELD = re.compile(
    r"^((?:(?:const|unsigned|long|struct|typename)\s+)*[A-Za-z_][\w:]*(?:<[^<>;]*>)?(?:\s+const)?)"
    r"((?:\s*\*|\s|__restrict__|const\b)*[\s*])([A-Za-z_]\w*)\s*(?:=[^;,]*|\{[^{}]*\})?$"
)


_TYPEDEF = re.compile(r"\btypedef\s+struct\b\s*(\w*)\s*(\{[^{}]*\})\s*(\w+)[^;{}]*;")


class _Layout(NamedTuple):
    template: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]
    """Type and name of each."""


def take_structures_apart(texts: Sequence[str]) -> tuple[list[str], list[Structure]]:
    """Return texts in which functions take the fields of structures, and what was taken apart.

    ``k(Params p) { p.y[0] = p.n; }`` becomes ``k(float *y, int n) { y[0] = n; }``, on the same
    lines. A structure with arrays or methods that are called stays as it is.

    Args:
        texts: A source, then what it includes.
    """
    named = _TYPEDEF.sub(r"struct \1 \2; struct \3 \2;", "\n".join(map(drop_comments, texts)))
    layouts = _read_layouts(named)
    found: list[Structure] = []
    return [_take_apart(text, layouts, found) for text in texts] if layouts else [*texts], found


def _read_layouts(text: str) -> dict[str, _Layout]:
    """Map each structure of plain fields, also of its base, to them."""
    layouts: dict[str, _Layout] = {}
    for match in _STRUCTURE.finditer(text):
        body = text[match.end() : _find_end(text, match.end())]
        base = layouts.get(match[3] or "")
        names = tuple(re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", match[1] or ""))
        fields = _read_fields(body)
        if fields and (base or not match[3]):
            layouts[match[2]] = _Layout(names, (*(base.fields if base else ()), *fields))
    # One of numbers alone, as a complex number, is a value.
    return {n: x for n, x in layouts.items() if any("*" in kind for kind, _ in x.fields)}


def _read_fields(body: str) -> list[tuple[str, str]]:
    """Return type and name of each field; none where one is an array or has an unknown form."""
    flat = body
    while (inner := re.sub(r"\{[^{}]*\}", ";", flat)) != flat:
        flat = inner
    fields = []
    for line in filter(None, (" ".join(each.split()) for each in flat.split(";"))):
        if line.startswith(("static ", "using ", "typedef ", "enum ")) or "(" in line:
            continue
        first, *more = line.partition(":")[2].split(",") if line == "public:" else line.split(",")
        match = _FIELD.match(re.sub(r"^(?:public|private)\s*:\s*", "", first).strip())
        if match is None:
            return []
        kind = match[1] + re.sub(r"[^*]", "", match[2])
        fields.append((kind, match[3]))
        for name in more:
            own = re.fullmatch(r"\s*(\**)\s*(\w+)\s*(?:=.*)?", name)
            if own is None:
                return []
            fields.append((match[1] + own[1], own[2]))
    return fields


def _find_end(text: str, start: int, pair: str = "{}") -> int:
    """Return where the block ends that begins before a place."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        if not depth:
            return place
    return len(text)


def _take_apart(text: str, layouts: Mapping[str, _Layout], found: list[Structure]) -> str:
    kinds = "|".join(map(re.escape, layouts))
    taken = re.compile(
        rf"(?<=[(,])(\s*(?:\w*GRID_CONSTANT\s+|__grid_constant__\s+)?(?:const\s+)?)(?:struct\s+)?(?:\w+::)*({kinds})"
        r"(<[^<>()]*>)?(?:\s*const)?\s*&?\s+&?(?:const\s+)?(\w+)(?=\s*[,)])"
    )
    while (match := taken.search(text)) is not None:
        layout, parameter = layouts[match[2]], match[4]
        head = max(text.rfind(mark, 0, match.start()) for mark in ";}") + 1
        closing = _find_end(text, match.end(), "()")
        opening = re.compile(r"[{;]").search(text, closing)
        begin = opening.end() if opening and opening[0] == "{" else closing
        end = _find_end(text, begin) if begin != closing else closing
        called = re.findall(r"\b(\w+)\s*\(", text[head : match.start() + 1])
        other = text[head : match.start()] + text[match.end() : closing] + text[begin:end]
        names = {f: f if _is_free(f, other) else f"{parameter}_{f}" for _, f in layout.fields}
        given = dict(zip(layout.template, (match[3] or "<>")[1:-1].split(","), strict=False))
        parts = [f"{_fill(kind, given)} {names[field]}" for kind, field in layout.fields]
        body = _pass_on(text[begin:end], parameter, names)
        if begin != closing and called:
            kind = f"{match[2]}{match[3] or ''}"
            found.append(Structure(called[-1], parameter, kind, tuple(names.items())))
        lines = "\n" * match[0].count("\n")
        parameters = ", ".join(parts) + lines + text[match.end() : begin]
        text = text[: match.start()] + parameters + body + text[end:]
    return _expand_locals(text, layouts, kinds)


def _is_free(name: str, text: str) -> bool:
    return re.search(rf"(?<![.>\w]){re.escape(name)}\b", text) is None


def _fill(kind: str, given: Mapping[str, str]) -> str:
    return re.sub(r"\w+", lambda match: given.get(match[0], match[0]).strip(), kind)


def _pass_on(body: str, parameter: str, names: Mapping[str, str]) -> str:
    """Return a body that uses the fields' own names, also where it passes all of them on."""
    own = rf"(?<![.>\w]){re.escape(parameter)}"
    body = re.sub(rf"{own}\.(\w+)\b", lambda m: names.get(m[1], m[0]), body)
    return re.sub(rf"(?<=[(,])(\s*){own}(?=\s*[,)])", rf"\1{', '.join(names.values())}", body)


def _expand_locals(text: str, layouts: Mapping[str, _Layout], kinds: str) -> str:
    """Pass the fields of a local structure one by one, as what was assigned to each."""
    declared = re.compile(rf"\b({kinds})(?:<[^<>;()]*>)?\s+(\w+)\s*(?:=?\s*\{{([^{{}};]*)\}})?\s*;")
    for match in [*declared.finditer(text)]:
        fields = [field for _, field in layouts[match[1]].fields]
        values = dict(zip(fields, (match[3] or "").split(","), strict=False)) if match[3] else {}
        for field in fields:
            sets = re.findall(rf"\b{match[2]}\.{field}\s*=(?!=)\s*([^;]+);", text)
            values |= {field: sets[0]} if len(sets) == 1 else {}
        passed = [" ".join(values.get(f, f"{match[2]}.{f}").split()) for f in fields]
        shown = ", ".join(passed).replace("\\", r"\\")
        text = re.sub(rf"(?<=[(,])(\s*){match[2]}(?=\s*[,)])", rf"\g<1>{shown}", text)
    return text
