"""Pointers to what is no array of numbers: structures, and arrays of pointers."""

from __future__ import annotations

import re

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.cpp.functions import SourceFacts
from kernelkb.scaffold.cpp.syntax import Declaration, get_text, iter_nodes
from kernelkb.scaffold.draft import Function, Parameter

_OF_LIBRARIES = re.compile(r"curandState\w*|curandDirectionVectors\w*|cooperative_groups\W.*")
_NULL = ("nullptr", "NULL", "0")


def set_objects_apart(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    """Return a function whose pointers to structures, as ``graph->label``, are no arrays.

    Nor are those that a launcher reads itself, as ``*alpha``: their value is of the host's memory.
    """
    text, is_host = get_text(own.body), any(site.host == own for site in facts.sites)
    pointed = (get_text(n) for n in iter_nodes(own.body) if n.type == "pointer_expression")
    read_here = {re.sub(r"^\*\s*", "", each) for each in pointed if each.startswith("*")}
    parameters = []
    for each in function.parameters:
        is_array = each.role not in ("input", "output") or each.dtype or each.type == "void"
        is_object = find_object(each.type, facts) or re.search(rf"\b{each.name}\s*->", text)
        if (not is_array and is_object) or (
            is_host and each.role in ("input", "output") and each.name in read_here
        ):
            each = each._replace(role="number", type=f"{each.type}*", shape=(), guess="")
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def find_object(kind: str, facts: SourceFacts) -> str:
    """Return why no array of kernel.yaml can hold elements of a type; empty where one may."""
    bare = kind.removeprefix("struct ").rpartition("::")[2]
    bare = facts.aliases.get(bare, bare)
    if _OF_LIBRARIES.fullmatch(bare):
        return "the state of a library"
    return facts.objects.get(bare, "")


def find_refusal(function: Function, own: Declaration, facts: SourceFacts) -> str:
    """Return why a pointer to structures or to pointers, which has no value yet, is no array.

    Raises:
        BadValueError: One is said to be null, and the function reads what it points to.
    """
    refusal = ""
    for each in function.parameters:
        if each.role != "number" or not each.type.endswith("*"):
            continue
        kind = each.type.removesuffix("*")
        why = find_object(kind, facts)
        is_pointers = kind.endswith("*")
        is_open = FILL_IN_MARK in each.value
        is_read = _is_read(each, get_text(own.body))
        if is_open and (is_pointers or why or (is_read and not each.dtype)):
            what = "an array of device pointers" if is_pointers else "a pointer to structures"
            refusal = refusal or (
                f"{function.name} takes {each.name}, {what} ({each.type}{why and f', which {why}'})"
                f", and no array of kernel.yaml can be it: write a launcher that takes the arrays "
                f"and numbers in it and fills it, and draft that one with kb init FILE --kernel "
                f"NAME; or give an expression of C++, with --set {each.name}=EXPRESSION"
            )
        if each.value.strip() in _NULL and is_read:
            raise BadValueError(
                f"--set {each.name}={each.value}: {function.name} reads what {each.name} points "
                "to; give the expression of a pointer to device memory that is filled"
            )
    return refusal


def _is_read(each: Parameter, text: str) -> bool:
    """Whether a body reads what a pointer points to, and does not test the pointer before."""
    name = re.escape(each.name)
    tested = rf"[(!&|]\s*{name}\s*[)&|?]|\b{name}\s*(?:[!=]=|\?)|[!=]=\s*{name}\b"
    reads = rf"\b{name}\s*(?:->|\[)|[(=+*/,-]\s*\*\s*{name}\b"
    return bool(re.search(reads, text)) and not re.search(tested, text)
