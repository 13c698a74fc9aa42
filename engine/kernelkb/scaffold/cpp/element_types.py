"""The types of elements in C++ text: numbers, vectors, and the structures of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING

from kernelkb.scaffold.cpp.syntax import get_part, get_text, iter_nodes

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
    **dict.fromkeys(("int64_t", "long", "long long"), "int64"),
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
    r"(?:unsigned\s+)?(?:int|long|long long)|unsigned|signed|s?size_t"
    r"|u?int(?:32|64)_t|ptrdiff_t"
)
_INTEGER_WORDS = frozenset(("unsigned", "signed", "char", "short", "long", "int"))
_VECTOR = re.compile(
    r"(float|double|int|uint|char|uchar|short|half|__half|nv_bfloat16|__nv_bfloat16)([234]|16[24])"
)
_VECTOR_PARTS = {"uint": "int", "uchar": "uint8_t"}
_COMPLEX = {
    **dict.fromkeys(("cuComplex", "cuFloatComplex", "cufftComplex"), "float2"),
    **dict.fromkeys(("cuDoubleComplex", "cufftDoubleComplex"), "double2"),
}
"""The toolkit's names of complex numbers."""


def is_size_type(type_name: str) -> bool:
    """Whether a type may hold the number of elements along an axis."""
    return bool(_SIZE_TYPE.fullmatch(_order_words(type_name)))


def _order_words(type_name: str) -> str:
    """Return an integer type as ``unsigned long``, for ``long unsigned int`` and the like."""
    words = type_name.split()
    if len(words) < 2 or not {*words} <= _INTEGER_WORDS:
        return type_name
    kinds = [word for word in words if word in ("char", "short", "long")] or ["int"]
    is_signed = "signed" in words and "char" in words
    sign = ["unsigned"] if "unsigned" in words else ["signed"] if is_signed else []
    return " ".join((*sign, *kinds))


def find_dtype(type_name: str) -> str | None:
    """Return the dtype of an element type, also of a vector's parts; None for another type."""
    vector = _VECTOR.fullmatch(_COMPLEX.get(type_name, type_name))
    part = vector[1] if vector else type_name
    return DTYPES.get(_VECTOR_PARTS.get(part, _order_words(part)))


def count_parts(type_name: str) -> int:
    """Return the elements of a vector type such as ``float4``; 1 for another type."""
    vector = _VECTOR.fullmatch(_COMPLEX.get(type_name, type_name))
    return int(vector[2][-1]) if vector else 1


def _iter_structures(root: Node) -> Iterator[tuple[Node, list[Node]]]:
    """Yield each structure of a file, without templates, and its members that are no functions."""
    for node in iter_nodes(root):
        body = node.child_by_field_name("body")
        is_template = node.parent is not None and node.parent.type == "template_declaration"
        if node.type in ("struct_specifier", "class_specifier") and body and not is_template:
            fields = [n for n in body.named_children if n.type == "field_declaration"]
            yield node, [n for n in fields if "(" not in get_text(n)]


def read_objects(root: Node, names: Mapping[str, str]) -> dict[str, str]:
    """Map each structure that is more than numbers of one type to why, with a member's line.

    ``names`` tells what stands for a type, as ``real`` of ``typedef double real``.
    """
    found: dict[str, str] = {}
    for node, fields in _iter_structures(root):
        why, dtypes = "", set[str]()
        for each in fields:
            kind = names.get(get_part(each, "type"), get_part(each, "type"))
            shown = f"line {each.start_point[0] + 1}: {' '.join(get_text(each).split())}"
            dtype = find_dtype(kind)
            if re.search(r"[*&]", get_text(each)) or re.search(r"[<:]", kind) or kind in found:
                why = why or f"holds pointers or objects, {shown}"
            elif dtype and dtypes - {dtype}:
                why = why or f"has members of several types, {shown}"
            dtypes |= {dtype} if dtype else set()
        found |= dict.fromkeys(_list_names(node) if why else (), why)
    return found


def list_number_structures(root: Node) -> set[str]:
    """Return the structures of a file that hold numbers alone, so that one is passed as a value."""
    found = set[str]()
    for node, fields in _iter_structures(root):
        kinds = [get_part(each, "type").removeprefix("std::") for each in fields]
        are_numbers = all(find_dtype(kind) or is_size_type(kind) for kind in kinds)
        if fields and are_numbers and not any("*" in get_text(each) for each in fields):
            found |= {*_list_names(node)}
    return found


def read_records(root: Node, names: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Map each structure of numbers of one type, such as a complex number, to that type.

    The number after it tells how many there are, of vectors among them each part.
    """
    records: dict[str, tuple[str, int]] = {}
    for node, fields in _iter_structures(root):
        kinds = [names.get(kind, kind) for kind in (get_part(n, "type") for n in fields)]
        counts = [_count_members(n) for n in fields]
        if not all(counts) or len({find_dtype(kind) for kind in kinds}) != 1:
            continue
        parts = [count_parts(kind) for kind in kinds]
        is_packed = len(set(kinds)) == 1 or not {2, 4} & {*parts}  # those have gaps before them
        if is_packed and find_dtype(kind := min(kinds, key=count_parts)):
            total = sum(map(prod, zip(counts, parts, strict=True)))
            records |= dict.fromkeys(_list_names(node)[:1], (kind, total))
    return records


def _list_names(node: Node) -> list[str]:
    """List the names of a structure: its own, and that of its typedef."""
    parent = node.parent
    is_typedef = parent is not None and parent.type == "type_definition"
    names = [get_part(node, "name"), get_part(parent, "declarator") if is_typedef else ""]
    return [name for name in names if name]


def _count_members(field: Node) -> int:
    """Return the numbers that one line of a structure declares; 0 where that is not known."""
    total = 0
    for each in field.children_by_field_name("declarator"):
        sizes = re.findall(r"\[\s*(\w+)\s*\]", get_text(each))
        if "*" in get_text(each) or not all(size.isdecimal() for size in sizes):
            return 0
        total += prod(map(int, sizes))
    return total
