"""Kernels, launchers and their parameters in C++ and CUDA text; uncertain roles are flagged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernelkb.model.base import Target
from kernelkb.scaffold import python_source
from kernelkb.scaffold.array_usage import classify_array
from kernelkb.scaffold.c_declarations import (
    Declaration,
    get_text,
    has_const,
    iter_declarations,
    iter_declarators,
    iter_nodes,
    parse_c,
)
from kernelkb.scaffold.call_signature import Function, Parameter, ParameterRole, SourceSummary

if TYPE_CHECKING:
    from tree_sitter import Node

_CUDA_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*cuda", re.MULTILINE | re.IGNORECASE)
_DTYPES = {
    **dict.fromkeys(("float", "float32_t"), "float32"),
    "double": "float64",
    **dict.fromkeys(("half", "__half", "at::Half", "c10::Half"), "float16"),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "at::BFloat16", "c10::BFloat16"), "bfloat16"),
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    **dict.fromkeys(("int", "int32_t"), "int32"),
    **dict.fromkeys(("int64_t", "long", "long int", "long long", "long long int"), "int64"),
    **dict.fromkeys(("short", "int16_t"), "int16"),
    **dict.fromkeys(("uint8_t", "unsigned char"), "uint8"),
    **dict.fromkeys(("int8_t", "char", "signed char"), "int8"),
    "bool": "bool",
}
_SIZE_TYPE = re.compile(
    r"(?:unsigned\s+|signed\s+)?(?:int|long|long int|long long|long long int)|unsigned|s?size_t"
    r"|u?int(?:32|64)_t|ptrdiff_t"
)
_OTHER_DIMENSION = re.compile(r"(?:thread|block|grid)(?:Idx|Dim)\.[yz]")
_DEFAULT_NAMES = {"input": "x", "output": "y", "size": "n", "number": "a", "stream": "stream"}
_KERNEL_WORDS = ("__global__", 'extern "C"', "PYBIND11_MODULE")
_MODULE = "PYBIND11_MODULE"


def summarize_source(name: str, text: str) -> SourceSummary | None:
    """Return the kernels and launchers of a source file, None where it holds neither.

    Args:
        name: The file's name; its suffix decides how it is read.
        text: What the file holds.
    """
    if name.endswith(".py"):
        return python_source.summarize_python(text)
    if not any(word in text for word in _KERNEL_WORDS):  # most files; spares the parsing
        return None
    root = parse_c(text)
    declarations = list(iter_declarations(root))
    defined = {each.name: each for each in declarations if each.body is not None}
    is_cuda = name.endswith(".cu") or _CUDA_INCLUDE.search(text) or _names_cuda(root)
    target: Target = "cuda" if is_cuda else "cpu"
    if _MODULE in defined:
        bindings = list(_iter_bindings(defined[_MODULE]))
        used = [*_list_used_declarations(root, declarations), *(b for _, b in bindings if b)]
        missing = dict.fromkeys(name for name in used if name not in defined)
        functions = tuple(Function(name) for name, _ in bindings)
        return SourceSummary("torch-extension", functions, target, missing_functions=tuple(missing))
    bodies = [each for each in declarations if each.body is not None]
    launchers = [_build_function(each) for each in bodies if each.is_extern]
    kernels = [_build_function(each) for each in bodies if each.is_global]
    if not launchers and not kernels:
        return None
    return SourceSummary("cuda", (*launchers, *kernels), target, has_main="main" in defined)


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
        if called is None or arguments is None or not get_text(called).endswith(".def"):
            continue
        name, *rest = [get_text(each) for each in arguments.named_children]
        bound = rest[0].lstrip("& ").rpartition("::")[2] if rest else ""
        yield name.strip('"'), bound if bound.isidentifier() else ""


def _list_used_declarations(root: Node, declarations: list[Declaration]) -> list[str]:
    """List the functions that a file declares, does not define, and uses."""
    counts = Counter(get_text(node) for node in iter_nodes(root) if node.type == "identifier")
    return [each.name for each in declarations if each.body is None and counts[each.name] > 1]


def _build_function(declaration: Declaration) -> Function:
    """Return a function; for a kernel, its body tells the roles of arrays that are not const."""
    nodes = list(iter_nodes(declaration.body)) if declaration.body else []
    uses: dict[str, list[Node]] = {}
    for node in nodes:
        if node.type in ("identifier", "type_identifier"):  # View v(x); reads as a declaration
            uses.setdefault(get_text(node), []).append(node)
    parameters = _parse_parameters(declaration)
    if declaration.is_global:
        parameters = [
            classify_array(each, uses) if each.role in ("input", "output") else each
            for each in parameters
        ]
    is_shared = any(_is_dynamic_shared_memory(node) for node in nodes)
    is_multi_dimensional = any(_OTHER_DIMENSION.fullmatch(get_text(node)) for node in nodes)
    return Function(
        declaration.name,
        tuple(parameters),
        declaration.is_global,
        declaration.scope,
        declaration.returns,
        declaration.template,
        declaration.max_threads,
        is_flat=any(map(_is_flat_index, nodes)) and not is_multi_dimensional and not is_shared,
        takes_shared_memory=is_shared,
    )


def _is_dynamic_shared_memory(node: Node) -> bool:
    words = {get_text(child) for child in node.children} if node.type == "declaration" else set()
    return {"extern", "__shared__"} <= words


def _is_flat_index(node: Node) -> bool:
    """Whether an expression is ``blockIdx.x * blockDim.x + threadIdx.x``, casts or not."""
    if get_text(node.child_by_field_name("operator")) != "+":
        return False
    fields = [get_text(each) for each in iter_nodes(node) if each.type == "field_expression"]
    return sorted(fields) == ["blockDim.x", "blockIdx.x", "threadIdx.x"]


def _parse_parameters(declaration: Declaration) -> list[Parameter]:
    """Return a function's parameters, with names for those that have none."""
    nodes = [node for node in declaration.parameters if get_text(node) != "void"]
    parameters = [_parse_parameter(node) for node in nodes]
    last = parameters[-1] if parameters and not declaration.is_global else None
    if last and last.type == "void" and last.role == "output":
        parameters[-1] = last._replace(role="stream")
    names = [parameter.name for parameter in parameters]
    for index, parameter in enumerate(parameters):
        letter = _DEFAULT_NAMES[parameter.role]
        numbered = (f"{letter}{number}" for number in range(len(parameters)))
        free = [letter] if letter == "stream" else [name for name in numbered if name not in names]
        names[index] = parameter.name or free[0]
    return [each._replace(name=name) for each, name in zip(parameters, names, strict=True)]


def _parse_parameter(node: Node) -> Parameter:
    chain = list(iter_declarators(node))
    name = get_text(chain[-1]) if chain and chain[-1].type == "identifier" else ""
    depth = sum("pointer" in each.type or "array" in each.type for each in chain)
    type_name = get_text(node.child_by_field_name("type")).replace("std::", "")
    is_const = has_const(node)
    if type_name == "cudaStream_t" or (type_name == "void" and "stream" in name and not is_const):
        return Parameter(name, type_name, "stream")
    if depth == 1 and not any("reference" in each.type for each in chain):
        role: ParameterRole = "input" if is_const else "output"
        return Parameter(name, type_name, role, _DTYPES.get(type_name))
    is_size = not chain[:-1] and _SIZE_TYPE.fullmatch(type_name)
    return Parameter(name, type_name, "size" if is_size else "number")
