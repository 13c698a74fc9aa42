"""Kernels, launchers and their parameters in C++ and CUDA text; uncertain roles are flagged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kernelkb.model.base import Target
from kernelkb.scaffold.c.c_declarations import (
    Declaration,
    get_text,
    iter_declarations,
    iter_nodes,
    parse_c,
)
from kernelkb.scaffold.c.c_functions import build_function
from kernelkb.scaffold.c.launch_sites import (
    LaunchSite,
    find_launch_sites,
    iter_calls,
)
from kernelkb.scaffold.c.tensor_functions import find_style, read_tensor_function
from kernelkb.scaffold.draft.call_signature import (
    Function,
    SourceKind,
    SourceSummary,
)
from kernelkb.scaffold.draft.default_values import choose_number

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
    known = all(p.role != "number" or choose_number(p) for p in function.parameters)
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
