"""Drafts kernel.yaml and a launcher for a function in C++ that takes pointers or tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK, to_snake_case
from kernelkb.model.kernels.languages import choose_compiled_language
from kernelkb.scaffold.answers import apply_answers, find_answer, mark_unknown
from kernelkb.scaffold.cpp.build_flags import is_main_alone
from kernelkb.scaffold.cpp.call_plan import CallPlan, apply_template, plan_call
from kernelkb.scaffold.cpp.element_types import is_size_type
from kernelkb.scaffold.cpp.functions import (
    SourceFacts,
    add_macros,
    build_function,
    list_undefined_macros,
    read_facts,
)
from kernelkb.scaffold.cpp.observed_launches import SeenAnswers, SeenLaunch, answer_by_launches
from kernelkb.scaffold.cpp.source import complete_function
from kernelkb.scaffold.cpp.structures import take_structures_apart
from kernelkb.scaffold.cpp.syntax import Structure, bind_arguments, drop_comments
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
from kernelkb.scaffold.extents import list_axes


def draft_pointer_files(request: DraftRequest) -> DraftedFiles:
    """Return kernel.yaml and a launcher for a function of pointers.

    Raises:
        BadValueError: It takes pointers to structures, and no array.
    """
    request, macros = _ask_macros(request)
    facts, structures = _read_texts(request)
    structures = [each for each in structures if each.function == request.function.name]
    request = request._replace(function=_rebuild(request.function, facts))
    plan = plan_call(request.function, facts, request.answers, structures, request.observed)
    if plan.refusal and not any(p.dtype for p in plan.function.parameters):
        raise BadValueError(plan.refusal)
    hidden = _list_hidden_macros(request, plan.function.parameters)
    plan = _spell_out(plan, {n: facts.constants.get(n, "") for n in hidden})
    plan = plan._replace(questions=(*plan.questions, *macros))
    request = request._replace(function=request.function._replace(limits=plan.limits))
    draft = _make_draft(request, plan)
    lines = draft_include(request, hidden) + plan.definitions
    if request.uses_torch:
        launcher = draft_torch_launcher(draft, plan, lines)
    elif request.function.is_variant:
        launcher = lines
    else:
        launcher = draft_c_launcher(draft, plan, lines)
    files = {draft.variant.source: launcher, **draft_including_files(request)}
    names = [p.name for p in plan.function.parameters] + [*plan.function.template]
    locals_ = re.findall(r"(?:const int|const auto|using) (\w+) =", "\n".join(plan.statements))
    names += [*locals_, *plan.filled, *_list_asked_macros(request), "grid", "block", "shared"]
    warnings = (*plan.warnings, *_list_pasted_names(request))
    return finish_draft(draft, files, names)._replace(refusal=plan.refusal, warnings=warnings)


def answer_launches(request: DraftRequest, launches: Sequence[SeenLaunch]) -> SeenAnswers:
    """Return what launches of a program say of a draft of pointers, as ``--set`` would say it."""
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
    texts, structures = take_structures_apart(every)
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
    macros = [flag[2:].partition("=") for flag in request.flags if flag.startswith("-D")]
    open_ = [name for name, sign, value in macros if sign and not value]  # put together elsewhere
    given = {name for name, _, _ in macros} - {*open_}
    every = dict.fromkeys((*list_undefined_macros(request.text, request.headers), *open_))
    return [n for n in every if n not in given or find_answer(request.answers, n)]


def _ask_macros(request: DraftRequest) -> tuple[DraftRequest, list[DraftQuestion]]:
    """Return a request with the flags for the macros that nothing defines, and what is asked."""
    said = {n: find_answer(request.answers, n) for n in _list_asked_macros(request)}
    flags = [f"-D{name}={value or FILL_IN_MARK}" for name, value in said.items()]
    why = "a macro that the build defines"
    asked = [DraftQuestion(name, "", why) for name, value in said.items() if not value]
    kept = [flag for flag in request.flags if flag[2:].rstrip("=") not in said]
    return request._replace(flags=(*kept, *flags)), asked


_PASTED = r"^[ \t]*#[ \t]*define[ \t]+{0}\b(?:[^\n]|\\\n)*##"


def _list_pasted_names(request: DraftRequest) -> list[str]:
    """Return a sentence for each kernel whose name a macro puts together."""
    function, text = request.function, "\n".join((request.text, *request.headers))
    names = [function.name] if function.is_kernel else function.launches
    pasted = [n for n in names if re.search(_PASTED.format(n), text, re.MULTILINE)]
    return [f"{n} is a macro with ##: a profile shows another name of its kernel" for n in pasted]


def _make_draft(request: DraftRequest, plan: CallPlan) -> Draft:
    function, is_cuda = request.function, request.target == "cuda"
    variant = DraftedVariant(
        choose_compiled_language(request.target),
        "launch.cu" if is_cuda else "launch.cpp",
        f"{function.name} of {PurePosixPath(request.include).name}",
        binding="torch-extension" if request.uses_torch else "",
        also=[*draft_including_files(request)],
        flags=request.flags,
        kernels=[function.name] if function.is_kernel else [*function.launches],
    )
    entry = function.name if function.is_variant and not request.uses_torch else ""
    parameters = plan.function.parameters
    sizes = {p.name for p in parameters if p.role == "size"}
    notes = [
        f"{each.sizes[0]} is at most {each.most}, what its launch has threads or shared memory for"
        for each in plan.limits
        if each.most and each.sizes[0] in sizes
    ]
    return make_draft(
        request,
        parameters,
        variant,
        entry=entry,
        axes=plan.axes,
        notes=[*dict.fromkeys(notes)],
        questions=plan.questions,
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
    call = _draft_call(plan, "static_cast<cudaStream_t>(kb_stream)", _RETURN_STATUS)
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
    stream = "c10::cuda::getCurrentCUDAStream().stream()"
    call = _draft_call(plan, stream, "C10_CUDA_CHECK({})")
    return f"""\
// Calls {plan.function.name} with the tensors of kernel.yaml.
#include <torch/csrc/utils/pybind.h>
#include <c10/cuda/CUDAException.h>
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


_RETURN_STATUS = (
    "const cudaError_t kb_status = {};\n"
    "  if (kb_status != cudaSuccess) return static_cast<int>(kb_status)"
)


def _draft_call(plan: CallPlan, stream: str, check: str) -> str:
    function = plan.function
    arguments, filled = _format_arguments(plan, stream)
    called = f"{function.scope}{function.name}"
    if plan.template:
        called += f"<{', '.join(plan.template)}>"
    fills = "".join(f"  {line}\n" for line in plan.fills)
    if not function.is_kernel:
        call = f"{called}({arguments})"
        if function.returns == "cudaError_t":  # what it returns is not seen a second time
            call = check.format(call)
        return f"{filled}{fills}  {call};\n"
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
    if parameter.rows:
        return f"({parameter.rows})({name})"
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
    parameters = [_ask_unseen(each, request.text, function.line) for each in function.parameters]
    told = apply_answers(parameters, request.answers, request.observed)
    said = _take_sizes(told, request.answers)
    shaped = mark_unknown(said, request.text, function.line)
    function = function._replace(parameters=tuple(shaped))
    draft = _make_tensor_draft(request, shaped, list_defaults(function))
    draft = draft._replace(questions=(*draft.questions, *macros))
    arrays = [p for p in shaped if p.role in ("input", "output")]
    hidden = _list_hidden_macros(request, arrays)
    lines = draft_include(request, hidden)
    launcher = _draft_launcher(draft, function, shaped, lines)
    files = {draft.variant.source: launcher, **draft_including_files(request)}
    drafted = finish_draft(draft, files, [p.name for p in shaped] + _list_asked_macros(request))
    return drafted._replace(warnings=(*_list_pasted_names(request),))


def _ask_unseen(each: Parameter, text: str, line: int) -> Parameter:
    """Return a tensor with the question for its integers, where no kernel that reads it is seen."""
    is_integer = each.role == "input" and each.dtype in ("int32", "int64")
    if each.is_certain or not is_integer or each.fill or each.points_into:
        return each
    use = mark_unknown([each._replace(shape=())], text, line)[0].use
    why = f"'offsets COUNT' where parts of another array begin; {use}"
    return each._replace(asks_fill=("integers 32|zeros", why))


def _take_sizes(parameters: Sequence[Parameter], answers: Mapping[str, str]) -> list[Parameter]:
    """Return the parameters of a function of tensors; a number that is a size of one is read there.

    A number that is not known and has the type of a size may be one: its guess is ``axis``.

    Raises:
        BadValueError: One is said to be a size, and no tensor that is passed has it.
    """
    tensors = [p for p in parameters if p.role in ("input", "output") and p.type != "return"]
    places = {dim: f"{p.name}.size({at})" for p in tensors for at, dim in enumerate(p.shape)}
    is_asked = not all(p.shape for p in tensors)
    returned = [p for p in parameters if p.type == "return"]
    made = list_axes([dim for p in returned for dim in (*p.shape, p.guess)])
    is_guessed = is_asked and all(p.shape or p.guess for p in returned)
    found = []
    for each in parameters:
        is_open = each.role in ("size", "number") and not each.value
        if is_open and each.name in places:
            each = each._replace(role="number", value=places[each.name], origin="of its shape")
        elif is_open and find_answer(answers, each.name) and not is_asked:
            raise BadValueError(
                f"--set {each.name}=axis: no tensor that is passed has that size; give a number, "
                f"as --set {each.name}=8, or an expression of C++"
            )
        elif is_open:
            is_size = is_guessed and is_size_type(each.type) and not is_option(each.name)
            guess = "axis" if is_size and each.name not in made else ""
            each = each._replace(role="number", guess=guess)
        found.append(each)
    return found


def _make_tensor_draft(
    request: DraftRequest, shaped: Sequence[Parameter], notes: list[str]
) -> Draft:
    function = request.function
    is_ffi = request.summary.kind == "tvm-ffi"
    also = [*draft_including_files(request)]
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

    ``hidden`` are its macros that mean something else behind it.
    """
    named = (*request.before, f'"{request.include}"')
    lines = "".join(f"#include {name}\n" for name in named)
    if request.summary.has_main:
        lines = _hide_main(lines, request.text)
    return lines + "".join(f"#undef {name}\n" for name in hidden)


def _hide_main(lines: str, text: str) -> str:
    """Return lines that include a file without its ``main``, nor what only that needs."""
    name = "static kb_hidden_main" if is_main_alone(text) else "kb_hidden_main"
    return f"#define main {name}\n{lines}#undef main\n"


def name_including_file(path: str) -> str:
    """Return the name of the file beside kernel.yaml that includes another source."""
    words = "_".join(PurePosixPath(path).with_suffix("").parts).replace(".", "")
    return f"{to_snake_case(words)}{PurePosixPath(path).suffix}"


def draft_including_files(request: DraftRequest) -> dict[str, str]:
    """Return files that include other sources of a kernel, which are compiled with it."""
    files = {}
    for path, text in zip(request.others, request.other_texts, strict=True):
        line = f'#include "{path}"\n'
        has_main = re.search(r"\bmain\s*\(", drop_comments(text))
        files[name_including_file(path)] = _hide_main(line, text) if has_main else line
    return files


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
