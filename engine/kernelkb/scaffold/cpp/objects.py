"""What is no array of numbers: pointers to structures, arrays of pointers, a file's variables."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.answers import find_answer
from kernelkb.scaffold.cpp.functions import SourceFacts, build_function, is_declared_only
from kernelkb.scaffold.cpp.syntax import (
    Declaration,
    drop_comments,
    get_text,
    iter_calls,
    iter_declarators,
    iter_nodes,
    strip_casts,
)
from kernelkb.scaffold.draft import Function, Parameter
from kernelkb.scaffold.extents import list_axes

_OF_LIBRARIES = re.compile(r"curandState\w*|curandDirectionVectors\w*|cooperative_groups\W.*")
_ARRAYS = ("input", "output")
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


_SET_SYMBOL = re.compile(r"\bcudaMemcpyToSymbol(?:Async)?\s*(?:<[^<>]*>)?\(\s*&?\s*(?:\w+::)*(\w+)")


def list_memory(own: Declaration, facts: SourceFacts) -> dict[str, str]:
    """Map the variables that a function or what it calls reads, and no text says, to its scope.

    Of the device, and of a launcher's host. None that one of them sets: what nothing sets is zero,
    and may choose that nothing is done.
    """
    seen, pending, found, text = {own.name}, [own], dict[str, str](), ""
    known = {**facts.memory, **({} if own.is_global else facts.variables)}
    while pending:
        reader = pending.pop()
        text += get_text(reader.body)
        words = {get_text(n) for n in iter_nodes(reader.body) if n.type == "identifier"}
        scopes = dict.fromkeys(words & known.keys() - _list_own_names(reader), reader.scope)
        found |= {n: s for n, s in scopes.items() if n in facts.memory or not reader.is_global}
        called = [d for d in facts.declarations if d.name in words and d.name not in seen]
        seen |= {each.name for each in called}
        pending += called
    every = "".join(get_text(d.body) for d in facts.declarations)
    named = [name for name in known if name in found and not _is_set(name, text)]
    return {n: found[n] for n in named if not _is_initialised(n, known[n]) or _is_set(n, every)}


def refuse_memory(function: Function, facts: SourceFacts) -> None:
    """Raise BadValueError for a shape with a variable of the device: no launch changes it."""
    own = {p.name for p in function.parameters}
    for each in function.parameters:
        name = next((a for a in list_axes(each.shape) if a in facts.memory and a not in own), "")
        if name:
            raise BadValueError(
                f"{name} is set once, for all workloads ({facts.memory[name]}): no shape grows "
                f"with it; say its number, too, as --set {name}=64"
            )


def _list_own_names(reader: Declaration) -> set[str]:
    """Return the parameters and local variables of a function, which hide those of its file."""
    declared = [n for n in iter_nodes(reader.body) if n.type in ("declaration", "init_declarator")]
    nodes = [c for n in declared for c in n.children_by_field_name("declarator")]
    return {get_text([each, *iter_declarators(each)][-1]) for each in (*nodes, *reader.parameters)}


def _is_initialised(name: str, line: str) -> bool:
    """Whether a file's variable has a value where it is declared; a stream is the default one."""
    given = rf"[sS]tream_t\b|\b{name}\s*(?:\[[^\]]*\]\s*)*[=({{]"
    return re.search(given, line) is not None


def _is_set(name: str, text: str) -> bool:
    """Whether code sets a variable: itself, by a copy, or by a function that it hands it to."""
    return name in _SET_SYMBOL.findall(text) or bool(re.search(_WRITES.format(name), text))


def define_variables(facts: SourceFacts, said: Mapping[str, str], asked: Collection[str]) -> str:
    """Return definitions of the host's variables that the texts only declare."""
    lines = ""
    for name, line in facts.variables.items():
        if is_declared_only(line) and "[" not in line:
            is_const = re.search(r"\bconst\b", line)
            value = find_answer(said, name) or (FILL_IN_MARK if name in asked else "")
            lines += f"decltype({name}) {name}{f' = {value}' if is_const and value else '{}'};\n"
    return lines


_WRITES = (
    r"(?<![.>\w]){0}\s*(?:\[[^\]]*\]\s*)*(?:[-+*/|&^]?=(?!=)|\+\+|--)|(?:\+\+|--)\s*{0}\b"
    r"|(?<!&)&\s*{0}\b"
)
"""Where code that is called sets a variable itself, or has another function do so."""


def fill_memory(
    name: str, said: Mapping[str, str], facts: SourceFacts, of: tuple[str, Function]
) -> str:
    """Return the statements that copy values to a variable of the device, once.

    One of the host is set before each call.

    Args:
        name: Of the memory.
        said: What was told of it, among others.
        facts: Its file.
        of: The scope of a function that reads it, whose namespaces may be those of the memory;
            and the function that is called.

    Raises:
        BadValueError: The values depend on a size, and are copied for the first workload only.
    """
    value, (scope, function) = find_answer(said, name), of
    if name not in facts.memory:
        is_const = re.search(r"\bextern\b.*\bconst\b", facts.variables[name])
        shown = f"// {facts.variables[name]}"
        return shown if is_const else f"{name} = {value or FILL_IN_MARK};  {shown}"
    sizes = {p.name for p in function.parameters if p.role == "size"}
    if sizes & set(re.findall(r"\w+", value)):
        raise BadValueError(
            f"--set {name}={value}: {name} is set once for all workloads; give numbers"
        )
    kind = f"std::remove_all_extents_t<decltype({name})>"
    opened = f"using namespace {scope.removesuffix('::')};\n  " if scope else ""
    values = value.strip("{}[]") or FILL_IN_MARK
    return (
        f"{opened}static const {kind} kb_{name}[] = {{{values}}};  // {facts.memory[name]}\n"
        f"  [[maybe_unused]] static const cudaError_t kb_{name}_is_set =\n"
        f"      cudaMemcpyToSymbol({name}, kb_{name}, sizeof(kb_{name}));"
    )


_MAX_CALLS = 3
_MADE_OF = r"\bdevice_vector\s*<[^;]*>\s*\w+\s*[({{]\s*{0}\b|\b{0}\s*\[(?![^;]*<<<)"
"""Where a host function reads an array itself, or makes one of the device of it."""


def list_host_memory(
    declaration: Declaration,
    bodies: Mapping[str, Declaration],
    depth: int = 0,
    *,
    launches: bool = True,
) -> set[str]:
    """Return the parameters of a function that it copies from or to the host's memory.

    Or reads, if it launches. Itself, or by a function of the file that it passes them to.
    """
    arrays = [p.name for p in build_function(declaration).parameters]
    text = drop_comments(get_text(declaration.body))
    pointed = {p.name for p in build_function(declaration).parameters if p.role in _ARRAYS}
    pointed = set() if declaration.is_global or not launches else pointed
    found = {n for n in pointed if re.search(_MADE_OF.format(n), re.sub(r"&\s*\w+\s*\[", "", text))}
    for name, arguments in iter_calls(declaration.body):
        passed = [strip_casts(text) for text in arguments]
        inner = bodies.get(name)
        if inner is not None and inner != declaration and depth < _MAX_CALLS:
            host = list_host_memory(inner, bodies, depth + 1, launches=launches)
            names = [p.name for p in build_function(inner).parameters]
            found |= {text for text, each in zip(passed, names, strict=False) if each in host}
        elif name.startswith("cudaMemcpy"):
            kind = passed[-2:][0] + passed[-1]
            to_device = "ToSymbol" in name or "HostToDevice" in kind
            to_host = "FromSymbol" in name or "DeviceToHost" in kind
            at = 2 if "2D" in name else 1
            found |= {*passed[at : at + 1]} if to_device else {*passed[:1]} if to_host else set()
            if "cudaMemcpyDefault" in kind and len({passed[0], passed[at]} & {*arrays}) == 1:
                found |= {passed[0], passed[at]}
        elif re.fullmatch(r"(?:std::|thrust::)?(?:memcpy|copy(?:_n)?)", name):
            found |= set(passed) if "_vector" in text or not name.startswith("thrust") else set()
    return found & {*arrays}
