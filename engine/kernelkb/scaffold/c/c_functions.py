"""One function of C++ or CUDA text: its parameters, and what its body does with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelkb.scaffold.c.array_usage import classify_array
from kernelkb.scaffold.c.c_declarations import (
    Declaration,
    get_text,
    has_const,
    iter_declarators,
    iter_nodes,
)
from kernelkb.scaffold.draft.call_signature import Function, Parameter, ParameterRole

if TYPE_CHECKING:
    from tree_sitter import Node

DTYPES = {
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
    # kernel.yaml has no unsigned integers of more than 8 bits: the values are below 2 ** 31.
    **dict.fromkeys(("uint32_t", "unsigned int", "unsigned", "uint"), "int32"),
    **dict.fromkeys(("uint64_t", "unsigned long", "unsigned long long", "size_t"), "int64"),
    **dict.fromkeys(("uint16_t", "unsigned short", "ushort"), "int16"),
}
_SIZE_TYPE = re.compile(
    r"(?:unsigned\s+|signed\s+)?(?:int|long|long int|long long|long long int)|unsigned|s?size_t"
    r"|u?int(?:32|64)_t|ptrdiff_t"
)
_OTHER_DIMENSION = re.compile(r"(?:thread|block|grid)(?:Idx|Dim)\.[yz]")
_DEFAULT_NAMES = {"input": "x", "output": "y", "size": "n", "number": "a", "stream": "stream"}
_VECTOR = re.compile(
    r"(float|double|int|uint|char|uchar|short|half|__half|nv_bfloat16|__nv_bfloat16)([234]|16[24])"
)
_VECTOR_PARTS = {"uint": "int", "uchar": "uint8_t"}


def build_function(declaration: Declaration) -> Function:
    """Return a function; its body tells the roles of arrays that are not const.

    A host function that launches has the roles of the kernels, which the caller looks up.
    """
    nodes = list(iter_nodes(declaration.body)) if declaration.body else []
    uses: dict[str, list[Node]] = {}
    for node in nodes:
        if node.type in ("identifier", "type_identifier"):  # View v(x); reads as a declaration
            uses.setdefault(get_text(node), []).append(node)
    parameters = _parse_parameters(declaration)
    is_launcher = any(node.type == "kernel_call_syntax" for node in nodes)
    if nodes and not is_launcher:
        parameters = [
            classify_array(each, uses)
            if each.role in ("input", "output") and (declaration.is_global or each.name in uses)
            else each
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
        tuple(each.name for each in declaration.template),
        declaration.max_threads,
        is_flat=any(map(_is_flat_index, nodes)) and not is_multi_dimensional and not is_shared,
        takes_shared_memory=is_shared,
        line=declaration.line,
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
    is_untyped_stream = type_name == "void" and "stream" in name and not is_const
    if type_name.lower().endswith("stream_t") or is_untyped_stream:
        return Parameter(name, type_name, "stream")
    if depth == 1 and not any("reference" in each.type for each in chain):
        role: ParameterRole = "input" if is_const else "output"
        return Parameter(name, type_name, role, find_dtype(type_name))
    is_size = not chain[:-1] and _SIZE_TYPE.fullmatch(type_name)
    return Parameter(name, type_name, "size" if is_size else "number")


def is_size_type(type_name: str) -> bool:
    """Whether a type may hold the number of elements along an axis."""
    return bool(_SIZE_TYPE.fullmatch(type_name))


def find_dtype(type_name: str) -> str | None:
    """Return the dtype of an element type, also of a vector's parts; None for another type."""
    vector = _VECTOR.fullmatch(type_name)
    part = vector[1] if vector else type_name
    return DTYPES.get(_VECTOR_PARTS.get(part, part))


def count_parts(type_name: str) -> int:
    """Return the elements of a vector type such as ``float4``; 1 for another type."""
    vector = _VECTOR.fullmatch(type_name)
    return int(vector[2][-1]) if vector else 1
