"""Kernels, launchers and functions of tensors in C++ and CUDA text; uncertain roles are flagged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kernelkb.model.base import Target
from kernelkb.scaffold.c.c_functions import DTYPES, build_function
from kernelkb.scaffold.c.syntax import (
    Declaration,
    LaunchSite,
    find_launch_sites,
    get_text,
    iter_calls,
    iter_declarations,
    iter_declarators,
    iter_nodes,
    parse_c,
)
from kernelkb.scaffold.draft import (
    CallStyle,
    Function,
    Parameter,
    ParameterRole,
    SourceKind,
    SourceSummary,
    complete_shape,
)

if TYPE_CHECKING:
    from tree_sitter import Node


_CUDA_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*cuda", re.MULTILINE | re.IGNORECASE)
_KERNEL_WORDS = (
    *("__global__", 'extern "C"', "PYBIND11_MODULE", "TORCH_LIBRARY", "TVM_FFI_", "Tensor"),
    "<<<",
)
_MODULES = (
    "PYBIND11_MODULE",
    *("TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT", "TORCH_LIBRARY_IMPL"),
    *("STABLE_TORCH_LIBRARY", "STABLE_TORCH_LIBRARY_FRAGMENT", "STABLE_TORCH_LIBRARY_IMPL"),
)
_ARRAYS = ("input", "output")
_NUMBER_TYPE = re.compile(
    r"bool|dim3|(?:float|double|u?int|half)[234]|\w*(?:float|double|half)|T|scalar_t|__nv_bfloat16"
    r"|[\w ]*(?:int|long|short|size_t|char|int\d+_t)"
)
"""A number's type, and no structure of the file's own."""
_HOST_MEMORY = ("cudaMalloc", "cudaMemcpy", "cudaMallocManaged", "cudaMallocHost", "malloc")


def summarize_c_source(name: str, text: str) -> SourceSummary | None:
    """Return the kernels and launchers of a source file, None where it holds neither.

    Args:
        name: The file's name; its suffix decides how it is read.
        text: What the file holds.
    """
    if not any(word in text for word in _KERNEL_WORDS):  # most files; spares the parsing
        return None
    root = parse_c(text)
    declarations = list(iter_declarations(root))
    defined = {each.name: each for each in declarations if each.body is not None}
    is_cuda = name.endswith((".cu", ".cuh")) or _CUDA_INCLUDE.search(text) or _names_cuda(root)
    target: Target = "cuda" if is_cuda else "cpu"
    sites = find_launch_sites(declarations)
    tensor = _list_tensor_functions(root, declarations, sites)
    if tensor:
        missing = _list_missing(root, declarations, defined)
        kind: SourceKind = "tvm-ffi" if tensor[0].style == "tvm-ffi" else "torch-extension"
        return SourceSummary(
            kind, tuple(tensor), target, "main" in defined, missing_functions=tuple(missing)
        )
    functions = _list_pointer_functions(declarations, sites)
    if not functions:
        return None
    return SourceSummary("cuda", tuple(functions), target, has_main="main" in defined)


def _list_tensor_functions(
    root: Node, declarations: list[Declaration], sites: list[LaunchSite]
) -> list[Function]:
    """List the functions of tensors that a module exports, else those that launch a kernel."""
    modules = [each for each in declarations if each.name in _MODULES and each.body is not None]
    bindings = [pair for module in modules for pair in _iter_bindings(module)]
    bindings += list(_iter_ffi_exports(root))
    exported = list(dict.fromkeys(bound or name for name, bound in bindings))
    bodies = {each.name: each for each in declarations if each.body is not None}
    launches = {name: _list_launches(each, bodies, sites) for name, each in bodies.items()}
    tensor = [each for each in bodies.values() if find_style(each) != "pointers"]
    chosen = [each for each in tensor if each.name in exported]
    launching = [each for each in tensor if launches[each.name] and not each.template]
    called = {name for each in launching for name, _ in iter_calls(each.body)}  # type: ignore[arg-type]
    chosen = chosen or [each for each in launching if each.name not in called] or launching
    if not chosen and not (sites and any(each.is_global for each in bodies.values())):
        # Functions that another file exports: of a library, or that launch through a macro.
        inner = {name for each in tensor for name, _ in iter_calls(each.body)}  # type: ignore[arg-type]
        chosen = [each for each in tensor if each.name not in inner and not each.template]
    functions = [read_tensor_function(each, declarations, launches[each.name]) for each in chosen]
    elsewhere = [name for name, bound in bindings if (bound or name) not in bodies]
    return [*functions, *(Function(name, style="bound") for name in dict.fromkeys(elsewhere))]


def complete_function(function: Function, text: str, headers: Sequence[str]) -> Function:
    """Return a function of tensors with what the kernels in its file's headers show of it."""
    own = list(iter_declarations(parse_c(text)))
    inner = [d for header in headers for d in iter_declarations(parse_c(header))]
    found = next(d for d in own if d.name == function.name and d.line == function.line)
    every = [*own, *inner]
    bodies = {each.name: each for each in reversed(every) if each.body is not None}
    launches = _list_launches(found, bodies, find_launch_sites(every))
    return read_tensor_function(found, every, launches)


def _list_launches(
    function: Declaration, bodies: Mapping[str, Declaration], sites: list[LaunchSite]
) -> tuple[str, ...]:
    """List the kernels that a function starts, itself or through functions of the file."""
    seen, pending, found = {function.name}, [function], []
    while pending:
        each = pending.pop()
        found += [site.kernel for site in sites if site.host.name == each.name]
        for name, _ in iter_calls(each.body) if each.body is not None else ():
            if name in bodies and name not in seen:
                seen.add(name)
                pending.append(bodies[name])
    return tuple(dict.fromkeys(found))


def _list_missing(
    root: Node, declarations: list[Declaration], defined: Mapping[str, Declaration]
) -> list[str]:
    modules = [each for each in declarations if each.name in _MODULES and each.body is not None]
    used = _list_used_declarations(root, declarations)
    used += [bound for module in modules for _, bound in _iter_bindings(module) if bound]
    return list(dict.fromkeys(name for name in used if name not in defined))


def _list_pointer_functions(
    declarations: list[Declaration], sites: list[LaunchSite]
) -> list[Function]:
    """List launchers, then the kernels that none of them starts."""
    bodies = {each.name: each for each in declarations if each.body is not None}
    launchers = []
    for each in bodies.values():
        launches = _list_launches(each, bodies, sites)
        if each.is_extern or (launches and _is_launcher(each)):
            launchers.append(build_function(each)._replace(launches=launches))
    names = {launcher.name for launcher in launchers}
    inner = {
        name
        for each in bodies.values()
        if each.name in names and each.body is not None
        for name, _ in iter_calls(each.body)
    }
    outer = [f for f in launchers if f.name not in inner or bodies[f.name].is_extern] or launchers
    # Of a launcher that takes structures, only the kernels can be called with arrays.
    plain = [f for f in outer if all(p.dtype for p in f.parameters if p.role in _ARRAYS)]
    started = {kernel for launcher in plain for kernel in launcher.launches}
    kernels = [each for each in bodies.values() if each.is_global and each.name not in started]
    return [*outer, *(build_function(each) for each in kernels)]


def _is_launcher(declaration: Declaration) -> bool:
    """Whether a host function can be called with arrays of the GPU: it copies none itself."""
    if declaration.is_global or declaration.name == "main" or declaration.body is None:
        return False
    function = build_function(declaration)
    if not any(p.role in ("input", "output") for p in function.parameters):
        return False
    known = all(p.role != "number" or _NUMBER_TYPE.fullmatch(p.type) for p in function.parameters)
    return known and not any(name in _HOST_MEMORY for name, _ in iter_calls(declaration.body))


def list_undefined_functions(text: str, headers: Sequence[str]) -> tuple[str, ...]:
    """Return the functions that a source or its headers declare and use, and do not define.

    Args:
        text: What the source holds.
        headers: What the project's files hold that it includes.
    """
    texts = (text, *headers)
    declarations = [each for one in texts for each in iter_declarations(parse_c(one))]
    defined = {each.name for each in declarations if each.body is not None}
    declared = dict.fromkeys(each.name for each in declarations if each.body is None)
    calls = Counter(re.findall(r"\b([A-Za-z_]\w*)\s*(?:<[^;(){}]*>\s*)?\(", "\n".join(texts)))
    return tuple(name for name in declared if name not in defined and calls[name] > 1)


def defines_any(text: str, names: tuple[str, ...]) -> bool:
    """Whether C++ or CUDA text defines one of some functions."""
    if not any(name in text for name in names):
        return False
    declarations = iter_declarations(parse_c(text))
    return any(each.body is not None and each.name in names for each in declarations)


def _names_cuda(root: Node) -> bool:
    """Whether code names anything of CUDA, other than to refuse its tensors: ``!x.is_cuda()``."""
    for node in iter_nodes(root):
        if node.type in ("kernel_call_syntax", "__global__"):
            return True
        if node.type.endswith("identifier") and "cuda" in get_text(node).lower():
            call = node.parent and node.parent.parent
            refusal = call and call.parent
            if refusal is None or not get_text(refusal).startswith("!"):
                return True
    return False


def _iter_bindings(module: Declaration) -> Iterator[tuple[str, str]]:
    """Yield the Python and the C name of each ``m.def``; the latter empty for a lambda."""
    for node in iter_nodes(module.body) if module.body else ():
        called = node.child_by_field_name("function") if node.type == "call_expression" else None
        arguments = node.child_by_field_name("arguments")
        if called is None or arguments is None:
            continue
        if not get_text(called).endswith((".def", ".impl")):
            continue
        name, *rest = [get_text(each) for each in arguments.named_children]
        bound = re.sub(r"^TORCH_(?:FN|BOX)\(|^c10::\w+,|\)$|^&", "", rest[-1]) if rest else ""
        bound = bound.strip("& ").rpartition("::")[2]
        yield name.strip('"').partition("(")[0], bound if bound.isidentifier() else ""


def _iter_ffi_exports(root: Node) -> Iterator[tuple[str, str]]:
    """Yield the exported and the C name of each function of a tvm-ffi module."""
    for node in iter_nodes(root):
        if node.type == "call_expression" and get_text(
            node.child_by_field_name("function")
        ).startswith("TVM_FFI_DLL_EXPORT"):
            arguments = node.child_by_field_name("arguments")
            texts = [get_text(each) for each in arguments.named_children] if arguments else []
            if len(texts) > 1:
                yield texts[0], texts[1].rpartition("::")[2]


def _list_used_declarations(root: Node, declarations: list[Declaration]) -> list[str]:
    """List the functions that a file declares, does not define, and uses."""
    counts = Counter(get_text(node) for node in iter_nodes(root) if node.type == "identifier")
    return [each.name for each in declarations if each.body is None and counts[each.name] > 1]


_TORCH_TENSOR = re.compile(r"(?:(?:torch|at)::(?:stable::)?)?Tensor")
_FFI_TENSOR = re.compile(r"(?:(?:tvm::)?ffi::)?Tensor(?:View)?|DLTensor")
_SIZE = re.compile(
    r"(?:static_cast<[\w: ]+>\(|\(\w+\))?(\w+)\."
    r"(?:size\((-?\d+)\)|sizes\(\)\[(\d+)\]|shape\(\)?[\[(](\d+)[\])])\)?"
)
_POINTER = re.compile(r"\b(\w+)\.(?:\w*data_ptr|data)\b")
_MAKERS = re.compile(
    r"(?:(?:torch|at)::)?(?:empty|zeros|ones|full)_?(like)?\s*\(\s*(.*)|(\w+)\.(?:new_\w+|clone|contiguous)\((.*)",
    re.DOTALL,
)
_KINDS = {
    **dict.fromkeys(("kHalf", "kFloat16", "float16"), "float16"),
    **dict.fromkeys(("kBFloat16", "bfloat16"), "bfloat16"),
    **dict.fromkeys(("kInt", "kInt32", "int32"), "int32"),
    **dict.fromkeys(("kLong", "kInt64", "int64"), "int64"),
    **dict.fromkeys(("kChar", "kInt8", "int8"), "int8"),
    **dict.fromkeys(("kByte", "kUInt8", "uint8"), "uint8"),
    **dict.fromkeys(("kFloat", "kFloat32", "float32"), "float32"),
    **dict.fromkeys(("kDouble", "kFloat64"), "float64"),
}


def find_style(declaration: Declaration) -> CallStyle:
    """Return how a host function takes its arrays, by the types of its parameters."""
    texts = [get_text(node.child_by_field_name("type")) for node in declaration.parameters]
    if any(_TORCH_TENSOR.fullmatch(text) for text in texts):
        return (
            "torch"
            if not any("TensorView" in text or "ffi" in text for text in texts)
            else "tvm-ffi"
        )
    return "tvm-ffi" if any(_FFI_TENSOR.fullmatch(text) for text in texts) else "pointers"


def read_tensor_function(
    declaration: Declaration, declarations: Sequence[Declaration], launches: tuple[str, ...]
) -> Function:
    """Return a function of tensors; tensors that it returns stand last among its parameters."""
    parameters = [_read_parameter(node) for node in declaration.parameters]
    tensors = [p.name for p in parameters if p.role == "input"]
    shapes = _read_shapes(declaration, tensors)
    dtypes = _read_dtypes(declaration, tensors)
    written = _find_written(declaration, declarations, tensors)
    returned = _read_returned(declaration, shapes, dtypes, tensors)
    filled = []
    for each in parameters:
        if each.role == "input":
            role: ParameterRole = "output" if each.name in written and not returned else "input"
            each = each._replace(
                role=role,
                shape=shapes.get(each.name, ()),
                dtype=dtypes.get(each.name),
                is_read=role == "output" and written[each.name],
            )
        filled.append(each)
    return Function(
        declaration.name,
        (*filled, *returned),
        scope=declaration.scope,
        returns=declaration.returns,
        template=tuple(each.name for each in declaration.template),
        style=find_style(declaration),
        line=declaration.line,
        launches=launches,
    )


def _read_parameter(node: Node) -> Parameter:
    chain = list(iter_declarators(node))
    name = get_text(chain[-1]) if chain and chain[-1].type == "identifier" else ""
    kind = get_text(node.child_by_field_name("type")).replace("std::", "")
    if _TORCH_TENSOR.fullmatch(kind) or _FFI_TENSOR.fullmatch(kind):
        return Parameter(name, kind, "input")
    default = get_text(node.child_by_field_name("default_value"))
    return Parameter(name, kind, "number", value=default)


def _read_shapes(declaration: Declaration, tensors: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Name the dimensions of tensors by the variables that ``x.size(0)`` is assigned to."""
    sizes: dict[str, dict[int, str]] = {}
    for node in iter_nodes(declaration.body) if declaration.body else ():
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        text = get_text(value) if node.type == "init_declarator" else ""
        match = _SIZE.fullmatch(re.sub(r"\s", "", text))
        if match and name is not None and match[1] in tensors:
            index = int(next(group for group in match.groups()[1:] if group is not None))
            sizes.setdefault(match[1], {})[index] = get_text(name)
        elif node.type == "call_expression" and (match := _SIZE.fullmatch(get_text(node))):
            index = int(next(group for group in match.groups()[1:] if group is not None))
            if match[1] in tensors:
                sizes.setdefault(match[1], {}).setdefault(index, "")
    return {tensor: complete_shape(known) for tensor, known in sizes.items()}


def _read_dtypes(declaration: Declaration, tensors: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in iter_nodes(declaration.body) if declaration.body else ():
        text = get_text(node)
        if node.type not in ("call_expression", "cast_expression") or len(text) > 300:
            continue
        pointer = re.search(r"\b(\w+)\.\w*data_ptr<([\w:]+)>", text)
        cast = re.match(
            r"(?:\w+<|\()\s*(?:const\s+)?([\w:]+)\s*(?:const\s*)?\*[>)]*\(?\s*(\w+)\.", text
        )
        for name, kind in (
            (pointer.groups(),) if pointer else (cast.groups()[::-1],) if cast else ()
        ):
            if name in tensors and kind.replace("std::", "") in DTYPES:
                found.setdefault(name, DTYPES[kind.replace("std::", "")])
        words = re.findall(r"\w+", text)
        kinds = [_KINDS[word] for word in words if word in _KINDS]
        named = [word for word in words if word in tensors]
        if kinds and len(set(named)) == 1 and "empty" not in text and "zeros" not in text:
            found.setdefault(named[0], kinds[0])
    return found


def _find_written(
    declaration: Declaration,
    declarations: Sequence[Declaration],
    tensors: Sequence[str],
    depth: int = 0,
) -> dict[str, bool]:
    """Return the tensors that a kernel of the file writes, and whether it also reads them."""
    written: dict[str, bool] = {}
    if declaration.body is None or depth > 3:
        return written
    aliases = _list_pointer_aliases(declaration.body, tensors)
    calls = [(s.kernel, list(s.arguments)) for s in find_launch_sites([declaration])]
    calls += list(iter_calls(declaration.body))
    for name, arguments in calls:
        callee = next((d for d in declarations if d.name == name and d.body is not None), None)
        if callee is None or callee == declaration:
            continue
        if callee.is_global:
            roles = {p.name: p for p in build_function(callee).parameters if p.role == "output"}
        else:
            names = [read_parameter_name(node) for node in callee.parameters]
            inner = _find_written(callee, declarations, names, depth + 1)
            roles = {n: Parameter(n, "", "output", is_read=read) for n, read in inner.items()}
        for node, argument in zip(callee.parameters, arguments, strict=False):
            output = roles.get(read_parameter_name(node))
            tensor = _find_tensor(argument, tensors, aliases)
            if output is not None and tensor is not None:
                written[tensor] = written.get(tensor, False) or output.is_read
    return written


def read_parameter_name(node: Node) -> str:
    """Return the name of a declared parameter; empty without one."""
    chain = list(iter_declarators(node))
    return get_text(chain[-1]) if chain and chain[-1].type == "identifier" else ""


def _list_pointer_aliases(body: Node, tensors: Sequence[str]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for node in iter_nodes(body):
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if node.type == "init_declarator" and name is not None and value is not None:
            tensor = _find_tensor(get_text(value), tensors, aliases)
            if tensor is not None and ("data" in get_text(value) or "(" not in get_text(value)):
                aliases[re.sub(r"[*\s]", "", get_text(name))] = tensor
    return aliases


def _find_tensor(text: str, tensors: Sequence[str], aliases: dict[str, str]) -> str | None:
    match = _POINTER.search(text)
    if match and match[1] in tensors:
        return match[1]
    bare = re.sub(r"^\([^()]*\)", "", text.strip())
    return aliases.get(bare) or (bare if bare in tensors else None)


def _read_returned(
    declaration: Declaration,
    shapes: dict[str, tuple[str, ...]],
    dtypes: dict[str, str],
    tensors: Sequence[str],
) -> list[Parameter]:
    """Return an output for each tensor that a function returns."""
    if "Tensor" not in declaration.returns and "tuple" not in declaration.returns:
        return []
    texts = [
        get_text(node).removeprefix("return").strip(" ;")
        for node in iter_nodes(declaration.body or declaration.parameters[0])
        if node.type == "return_statement"
    ]
    last = texts[-1] if texts else "out"
    listed = re.fullmatch(r"(?:std::make_tuple|std::tuple\S*)?\s*[({](.*)[)}]", last, re.DOTALL)
    names = [part.strip() for part in listed[1].split(",")] if listed else [last]
    made = _collect_made(declaration)
    outputs = []
    for index, name in enumerate(names):
        source, dims = made.get(name, (name if name in tensors else "", ()))
        like = source if source in tensors else next(iter(tensors), "")
        known = dims or shapes.get(like, ())
        field = name if name.isidentifier() and name not in tensors else f"out{index or ''}"
        outputs.append(Parameter(field, "return", "output", dtypes.get(like), shape=known))
    return outputs


def _collect_made(declaration: Declaration) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Map each tensor that a body makes to the tensor it is like, or to its sizes."""
    made: dict[str, tuple[str, tuple[str, ...]]] = {}
    for node in iter_nodes(declaration.body) if declaration.body else ():
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        match = _MAKERS.match(get_text(value)) if node.type == "init_declarator" else None
        if match is None or name is None:
            continue
        if match[1]:
            source = re.match(r"\w+", match[2] or "")
            made[get_text(name)] = (source[0] if source else "", ())
        elif match[3]:
            made[get_text(name)] = (match[3], ())
        else:
            sizes = re.match(r"\{([^{}]*)\}", match[2] or "")
            dims = tuple(part.strip() for part in sizes[1].split(",")) if sizes else ()
            whole = dims if all(d.isidentifier() or d.isdecimal() for d in dims) else ()
            made[get_text(name)] = ("", whole)
    return made
