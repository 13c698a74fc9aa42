"""The functions of a source in C++, their parameters, and what its text says of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kernelkb.scaffold.cpp.element_types import (
    find_dtype,
    is_size_type,
    read_objects,
    read_records,
)
from kernelkb.scaffold.cpp.syntax import (
    MACRO,
    Declaration,
    LaunchSite,
    find_launch_sites,
    get_part,
    get_text,
    has_const,
    iter_declarations,
    iter_declarators,
    iter_nodes,
    iter_values,
    iter_variables,
    parse_c,
    read_called_name,
    read_template_arguments,
)
from kernelkb.scaffold.draft import CallStyle, Function, Parameter, ParameterRole

if TYPE_CHECKING:
    from tree_sitter import Node

_DEFAULT_NAMES = {"input": "x", "output": "y", "size": "n", "number": "a", "stream": "stream"}
Access = Literal["read", "written", "updated", "passed on"]
"""``updated`` is read and written (``y[i] += 1``); ``passed on`` is an argument of unknown code."""
_TESTS = ("==", "!=", "<", ">", "<=", ">=", "&&", "||")
_STILL_POINTER = (
    "binary_expression",
    "cast_expression",
    "conditional_expression",
    "update_expression",
)
_NO_ACCESS = (
    "binary_expression",
    "condition_clause",
    "conditional_expression",
    "expression_statement",
    "init_declarator",
    "pointer_declarator",
    "sizeof_expression",
    "unary_expression",
)
"""Around a pointer: it is declared, tested or moved, and its array is left alone."""
_BY_VALUE = re.compile(
    r"__(?!st)\w+|sizeof|printf|make_\w+|\w+_t|\w*_rn"
    r"|float|double|int|half|h?f?(?:abs|max|min|exp\d*|log\w*|r?sqrt|tanh?|sinh?|cosh?|pow|fma"
    r"|erfc?|floor|ceil|round|rint|isnan|isinf|isfinite)f?"
)
"""Functions that take numbers by value, so that an element handed to them is only read."""
_ALIAS = re.compile(
    r"^[ \t]*(?:typedef\s+([\w: ]+)\s+(\w+)|using\s+(\w+)\s*=\s*([\w: ]+))\s*;", re.MULTILINE
)
_MEMORY = re.compile(
    r"^[ \t]*(?:(?:static|extern|volatile)\s+)*(?:__(?:constant|managed|device)__\s+)+"
    r"(?:(?:static|extern|volatile|__align__\(\d+\))\s+)*"
    r"(?:struct\s*\w*\s*\{[^{}]*\}|\w+<[^<>;]*>|[\w:<> ]+?)[\s*]+"
    r"(\w+\s*(?:\[[^\]\n]*\]\s*)*(?:,[\s*]*\w+\s*(?:\[[^\]\n]*\]\s*)*)*)(?:=[^;]*)?;",
    re.MULTILINE,
)
_CONSTANT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n/]+)"
    r"|^[ \t]*(?:static\s+|inline\s+|__constant__\s+)*(?:constexpr|const)\s+(?:static\s+)?"
    r"(?:[\w:]+\s+){1,3}?(\w+)\s*(?:=\s*([^;]+)|\{([^{};]*)\}\s*);",
    re.MULTILINE,
)


_BRACE = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/'
    r'|(?P<scope>\bnamespace\b[^;{}()]*|\bextern\s*"C"\s*)?(?P<brace>[{}])',
    re.DOTALL,
)
_INCLUDE = re.compile(r"[ \t]*#[ \t]*include\b")


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
    return Function(
        declaration.name,
        tuple(parameters),
        declaration.is_global,
        declaration.scope,
        declaration.returns,
        tuple(each.name for each in declaration.template),
        declaration.max_threads,
        takes_shared_memory=is_shared,
        line=declaration.line,
    )


def _is_dynamic_shared_memory(node: Node) -> bool:
    words = {get_text(child) for child in node.children} if node.type == "declaration" else set()
    return {"extern", "__shared__"} <= words


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


_ROWS = re.compile(
    r"[^*&]*?(?:\(\s*\*\s*(?:\w+\s+)*\w+\s*\)|\w+\s*\[[^][]*\])\s*((?:\[[^][]+\]\s*)+)"
)
"""A parameter that points to rows: ``int (*c)[W + 1]``, ``int c[][64]``."""


def _parse_parameter(node: Node) -> Parameter:
    chain = list(iter_declarators(node))
    name = get_text(chain[-1]) if chain and chain[-1].type == "identifier" else ""
    depth = sum("pointer" in each.type or "array" in each.type for each in chain)
    if any(each.type == "function_declarator" for each in chain):
        return Parameter(name, "auto", "number")  # a pointer to a function
    type_name = get_part(node, "type").replace("std::", "")
    is_const = has_const(node)
    is_untyped_stream = type_name == "void" and "stream" in name and not is_const
    if type_name.lower().endswith("stream_t") or is_untyped_stream:
        return Parameter(name, type_name, "stream")
    if depth == 1 and not any("reference" in each.type for each in chain):
        role: ParameterRole = "input" if is_const else "output"
        return Parameter(name, type_name, role, find_dtype(type_name))
    if row := _ROWS.fullmatch(get_text(node)):
        cast = f"{'const ' if is_const else ''}{type_name} (*){row[1]}"
        held: ParameterRole = "input" if is_const else "output"
        return Parameter(name, type_name, held, find_dtype(type_name), rows=cast)
    if depth > 1:
        return Parameter(name, type_name + "*" * depth, "number")
    is_size = not chain[:-1] and is_size_type(type_name)
    return Parameter(name, type_name, "size" if is_size else "number")


def classify_array(parameter: Parameter, uses: Mapping[str, Sequence[Node]]) -> Parameter:
    """Return an array parameter with the role that a body shows, and whether that is certain.

    One that is not const arrives as an output.
    """
    if parameter.role == "input":
        return parameter
    accesses = _collect_accesses(parameter.name, uses, frozenset({parameter.name}))
    if accesses <= {"read"}:
        return parameter._replace(role="input")
    is_certain = "passed on" not in accesses
    read = {"read"} if _is_cleared(parameter.name, uses) else {"read", "updated"}
    is_read = bool(read & accesses or parameter.rows)  # of rows some may be left as they are
    return parameter._replace(is_read=is_read, is_certain=is_certain)


def _is_cleared(name: str, uses: Mapping[str, Sequence[Node]]) -> bool:
    """Whether the body sets elements to a literal, so that adding to them reads no old value."""
    for use in uses.get(name, ()):
        node, is_pointer = _climb_to_access(use)
        right = node.parent and node.parent.child_by_field_name("right")
        if not is_pointer and right is not None and right.type == "number_literal":
            operator = node.parent and node.parent.child_by_field_name("operator")
            if get_text(operator) == "=":
                return True
    return False


def _collect_accesses(
    name: str, uses: Mapping[str, Sequence[Node]], visited: frozenset[str]
) -> set[Access]:
    accesses: set[Access] = set()
    for use in uses.get(name, ()):
        node, is_pointer = _climb_to_access(use)
        parent = node.parent
        if parent is None:
            continue
        alias = _find_alias(node, parent) if is_pointer else None
        if is_pointer and _makes_const(parent):
            accesses.add("read")
        elif alias is not None and alias in visited:  # A = &A[row * width], which moves it
            continue
        elif alias is not None:
            accesses |= _collect_accesses(alias, uses, visited | {alias})
        elif parent.type == "argument_list":
            accesses.add(_classify_argument(node, parent, is_pointer=is_pointer))
        elif not is_pointer:
            accesses.add(_classify_element(node, parent))
        elif parent.type not in _NO_ACCESS and parent.child_by_field_name("left") != node:
            accesses.add("passed on")
    return accesses


def _climb_to_access(use: Node) -> tuple[Node, bool]:
    """Return the largest expression that is an array's pointer or element, and whether a pointer.

    Casts, offsets and parentheses keep a pointer a pointer; a subscript, ``*`` and ``->`` make it
    an element, and ``&`` makes that a pointer again.
    """
    node, is_pointer = use, True
    while (parent := node.parent) is not None:
        is_argument = parent.child_by_field_name("argument") == node
        if parent.type == "pointer_expression":
            is_pointer = get_text(parent.children[0]) == "&"
        elif parent.type in ("subscript_expression", "field_expression") and is_argument:
            is_pointer = False
        elif parent.type != "parenthesized_expression" and (
            not is_pointer
            or parent.type not in _STILL_POINTER
            or _makes_const(parent)
            or parent.child_by_field_name("condition") == node
            or get_part(parent, "operator") in _TESTS
        ):
            break
        node = parent
    return node, is_pointer


def _makes_const(parent: Node) -> bool:
    """Whether a pointer is cast, or copied to a variable, that cannot be written through."""
    is_cast = parent.type == "cast_expression"
    if not is_cast and parent.type != "init_declarator":
        return False
    return has_const(parent.child_by_field_name("type") if is_cast else parent.parent)


def _find_alias(node: Node, parent: Node) -> str | None:
    """Return the local variable that a pointer is copied to."""
    target = None
    if parent.child_by_field_name("value") == node:
        target = parent.child_by_field_name("declarator")
    elif parent.child_by_field_name("right") == node:
        target = parent.child_by_field_name("left")
    if target is not None and target.type == "pointer_declarator":
        target = target.child_by_field_name("declarator")
    return get_text(target) if target is not None and target.type == "identifier" else None


def _classify_argument(node: Node, arguments: Node, *, is_pointer: bool) -> Access:
    called = arguments.parent and arguments.parent.child_by_field_name("function")
    base = (called and called.child_by_field_name("name")) or called
    name = get_text(base).rpartition("::")[2]
    is_first = arguments.named_children[0] == node
    if name.startswith("atomic") and is_first:
        return "written" if name == "atomicExch" else "updated"
    if name.startswith("__ld"):
        return "read"
    if name.startswith("__st") and is_first:
        return "written"
    is_by_value = name.startswith(("(", "atomic")) or _BY_VALUE.fullmatch(name)
    return "read" if is_by_value and not is_pointer else "passed on"


def _classify_element(node: Node, parent: Node) -> Access:
    if parent.type == "assignment_expression" and parent.child_by_field_name("left") == node:
        operator = get_part(parent, "operator")
        return "written" if operator == "=" else "updated"
    if parent.type == "init_declarator" and not has_const(parent.parent):
        target = parent.child_by_field_name("declarator")
        return "passed on" if target and target.type == "reference_declarator" else "read"
    return "updated" if parent.type == "update_expression" else "read"


class SourceFacts(NamedTuple):
    """What a C++ file holds besides the function to call."""

    declarations: tuple[Declaration, ...]
    sites: tuple[LaunchSite, ...]
    constants: Mapping[str, str]
    """Macros and global constants, by name; the value as written."""
    instantiations: Mapping[str, tuple[str, ...]]
    """Template arguments of explicit instantiations, by the function's name."""
    aliases: Mapping[str, str]
    """The type that each typedef or using names."""
    outer_constants: Mapping[str, str] = {}
    """Integer constants of files that launch its kernels, which a launcher does not see."""
    records: Mapping[str, tuple[str, int]] = {}
    """Structures whose members have one type: that type, and how many there are."""
    objects: Mapping[str, str] = {}
    """Structures that no array of kernel.yaml can hold, and why."""
    memory: Mapping[str, str] = {}
    """``__constant__``, ``__device__`` and ``__managed__`` variables, with the line."""
    variables: Mapping[str, str] = {}
    """Of the host, with the line that declares each; that which defines it, if there is one."""
    include_lines: tuple[int, ...] = ()
    """Lines of the file's ``#include``, of which a body may hold one."""


def add_macros(text: str, headers: Sequence[str]) -> str:
    """Return a text with the macros of its headers that it uses behind it, where they expand it."""
    found = [m for header in headers for m in MACRO.finditer(header)]
    macros = {m[1]: m[0] for m in reversed(found)}  # of several the first, as the text's own
    used: dict[str, None] = {}
    pending = [text]
    while pending:
        words = set(re.findall(r"\b(\w+)\b", pending.pop()))
        new = [name for name in macros if name in words and name not in used]
        used |= dict.fromkeys(new)
        pending += [macros[name] for name in new]
    return "\n".join([text, *(macros[name] for name in used)])


def read_facts(text: str, headers: Sequence[str] = (), callers: Sequence[str] = ()) -> SourceFacts:
    """Return what drafting a call needs of a C++ or CUDA text.

    Args:
        text: What the file holds.
        headers: What the files hold that it includes: their functions and constants count, too.
        callers: What the files hold that include it: their launches count, too.
    """
    own = _read_file(text)
    inner = [_read_file(header) for header in headers]
    outer = [_read_file(caller) for caller in callers]
    every = [*reversed(inner), own]  # the file's own names win
    sites = [site for each in (own, *inner) for site in each.sites]
    sites += [site._replace(is_of_caller=True) for each in outer for site in each.sites]
    outer_constants = {
        name: value
        for each in outer
        for name, value in each.constants.items()
        if re.fullmatch(r"-?\d+", value) and name not in own.constants
    }
    return SourceFacts(
        tuple(d for each in (own, *inner) for d in each.declarations),
        tuple(sites),
        {name: value for each in every for name, value in each.constants.items()},
        {name: value for each in every for name, value in each.instantiations.items()},
        {name: value for each in every for name, value in each.aliases.items()},
        outer_constants,
        {name: parts for each in every for name, parts in each.records.items()},
        {name: why for each in every for name, why in each.objects.items()},
        {name: line for each in every for name, line in each.memory.items()},
        _merge_variables(each.variables for each in every),
        own.include_lines,
    )


def _read_memory(text: str) -> dict[str, str]:
    return {
        name: f"line {text.count(chr(10), 0, match.start()) + 1}: {' '.join(match[0].split())}"
        for match in _MEMORY.finditer(text)
        for name in re.findall(r"(?:^|,)[\s*]*(\w+)", match[1])
    }


def _merge_variables(files: Iterable[Mapping[str, str]]) -> dict[str, str]:
    rows = [row for variables in files for row in variables.items()]
    return dict(sorted(rows, key=lambda row: is_declared_only(row[1]), reverse=True))


def is_declared_only(line: str) -> bool:
    """Whether a line of a variable says that another one defines it."""
    return re.search(r"\bextern\b[^=]*$", line) is not None


def _read_file(text: str) -> SourceFacts:
    root = parse_c(text)
    declarations = tuple(iter_declarations(root))
    constants: dict[str, str] = {}
    blocks = [*_iter_blocks(text)]
    for match in _CONSTANT.finditer(text):
        name = match[1] or match[3]
        value = (match[2] or match[4] or match[5] or "").strip()
        if match[3] and any(begin < match.start(3) < end for begin, end in blocks):
            continue
        number = _evaluate_integer(value, constants)
        constants[name] = str(number) if number is not None else value
    instantiations = {
        read_called_name(called): read_template_arguments(called)
        for node in iter_nodes(root)
        if node.type == "template_instantiation"
        for called in iter_nodes(node)
        if called.type == "template_function"
    }
    sites = tuple(find_launch_sites(declarations))
    aliases = {
        match[2] or match[3]: (match[1] or match[4]).strip() for match in _ALIAS.finditer(text)
    }
    return SourceFacts(
        declarations,
        sites,
        constants,
        instantiations,
        aliases,
        records=read_records(root, constants | aliases),
        objects=read_objects(root, constants | aliases),
        memory=_read_memory(text),
        variables=_merge_variables(
            {name: f"line {node.start_point[0] + 1}: {' '.join(get_text(node).split())}"}
            for name, node in iter_variables(root)
        ),
        include_lines=tuple(
            n for n, line in enumerate(text.split("\n"), 1) if _INCLUDE.match(line)
        ),
    )


def _iter_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the blocks in braces begin and end, without namespaces."""
    stack: list[tuple[int, bool]] = []
    for match in _BRACE.finditer(text):
        if match["brace"] == "{":
            stack.append((match.start("brace"), bool(match["scope"])))
        elif match["brace"] and stack:
            begin, is_scope = stack.pop()
            if not is_scope:
                yield begin, match.end()


def list_undefined_macros(text: str, headers: Sequence[str]) -> list[str]:
    """Return the names that neither a file nor a header says, though its code counts on them.

    Arrays are as long as they say, or constants of the file have their values. The project's
    build says them then: ``float x[TILE]`` with ``-DTILE=64``.
    """
    root = parse_c(text)
    found = {
        get_text(size): None
        for node in iter_nodes(root)
        if node.type == "array_declarator" and (size := node.child_by_field_name("size"))
        if size.type == "identifier"
    }
    values = [match[4] or match[5] or "" for match in _CONSTANT.finditer(text) if match[3]]
    values += re.findall(r"<<<([^;{}]*?)>>>", text)
    words = [w for v in values for w in re.findall(r"(?<![\w:.\"])[A-Z]\w+\b(?!\s*\()", v)]
    found |= dict.fromkeys(word for word in words if _MACRO_NAME.fullmatch(word))
    other = re.sub(r"<<<[^;{}]*?>>>", "", "\n".join((text, *headers)))
    # A macro, a variable or parameter with its type before it, an enumerator.
    said = r"#[ \t]*define[ \t]+{0}\b|(?:[\w>*&][ \t]+|[,{{][ \t]*){0}\s*(?:[=,;>){{]|$)"
    return [n for n in found if not re.search(said.format(n), other, re.MULTILINE)]


_MACRO_NAME = re.compile(
    r"(?!(?:FLT|DBL|LDBL|U?INT\d*|U?L?LONG|U?SHRT|U?CHAR|SCHAR|SIZE|CU|CUDA|CUDART|M|RAND|NULL"
    r"|INFINITY|NAN|TRUE|FALSE|HUGE|CUBLAS\w*|CUDNN|CUFFT|CURAND|NCCL|AT|TORCH|C10|CUTE|CUTLASS)"
    r"(?:_|\b))[A-Z][A-Z\d]*_[A-Z\d_]*"
)
"""A macro by its name, and none of the language's or a library's headers."""


def list_row_extents(array: Parameter, constants: Mapping[str, str]) -> tuple[str, ...]:
    """Return the extents of the rows that an array is a pointer to; 0 for one that is not known."""
    texts = re.findall(r"\[([^][]+)\]", array.rows)
    return tuple(str(_evaluate_integer(each, constants) or 0) for each in texts)


def _evaluate_integer(text: str, constants: Mapping[str, str]) -> int | None:
    """Return the value of a constant integer expression."""
    known = re.sub(r"[A-Za-z_]\w*", lambda m: constants.get(m[0], m[0]), text)
    known = re.sub(r"(\d)[uUlL]+\b", r"\1", known).replace("/", "//")
    if not re.fullmatch(r"[\d\s()+*/<>-]{1,80}", known) or "**" in known:
        return None
    from simpleeval import InvalidExpression, simple_eval

    try:
        return int(simple_eval(known.strip()))
    except (InvalidExpression, TypeError, SyntaxError, ValueError, ArithmeticError, RecursionError):
        return None


_TORCH_TENSOR = re.compile(r"(?:(?:torch|at)::(?:stable::)?)?Tensor")
_FFI_TENSOR = re.compile(r"(?:(?:tvm::)?ffi::)?Tensor(?:View)?|DLTensor")


def is_tensor(kind: str) -> bool:
    """Whether a type is a tensor of torch or of tvm-ffi."""
    return bool(_TORCH_TENSOR.fullmatch(kind) or _FFI_TENSOR.fullmatch(kind))


def find_style(declaration: Declaration) -> CallStyle:
    """Return how a host function takes its arrays, by the types of its parameters."""
    texts = [get_part(node, "type") for node in declaration.parameters]
    is_ffi = any("TensorView" in text or "ffi" in text for text in texts)
    if any(_TORCH_TENSOR.fullmatch(text) for text in texts):
        return "tvm-ffi" if is_ffi else "torch"
    return "tvm-ffi" if any(_FFI_TENSOR.fullmatch(text) for text in texts) else "pointers"


_MAKERS = re.compile(
    r"(?:(?:torch|at)::)?(?:empty|zeros|ones|full)_?(like)?\s*\(\s*(.*)|(\w+)\.(?:new_\w+|clone|contiguous)\((.*)",
    re.DOTALL,
)
TORCH_KINDS = {
    **dict.fromkeys(("kHalf", "kFloat16", "float16"), "float16"),
    **dict.fromkeys(("kBFloat16", "bfloat16"), "bfloat16"),
    **dict.fromkeys(("kInt", "kInt32", "int32"), "int32"),
    **dict.fromkeys(("kLong", "kInt64", "int64"), "int64"),
    **dict.fromkeys(("kChar", "kInt8", "int8"), "int8"),
    **dict.fromkeys(("kByte", "kUInt8", "uint8"), "uint8"),
    **dict.fromkeys(("kFloat", "kFloat32", "float32"), "float32"),
    **dict.fromkeys(("kDouble", "kFloat64"), "float64"),
}
"""Data types by their names in torch."""
_KIND_OF = re.compile(r"\b(\w+)\.(?:options|scalar_type|dtype|type)\(\)")


class MadeTensor(NamedTuple):
    """What the statement that makes a tensor says of it."""

    source: str = ""
    """Tensor whose shape it has; empty for none."""
    dtype_source: str = ""
    """Tensor whose data type it has, where ``dtype`` is empty."""
    dims: tuple[str, ...] = ()
    dtype: str = ""


def collect_made(declaration: Declaration) -> dict[str, MadeTensor]:
    """Map each tensor that a body makes to the tensor it is like, or to its sizes."""
    values = {get_text(name): get_text(value) for name, value in iter_values(declaration.body)}
    options = {name: text for name, text in values.items() if "ption" in name + text}
    made = {}
    for own, text in values.items():
        if match := _MAKERS.match(text):
            words = re.findall(r"(?<![\w.])\w+", text)
            whole = " ".join([text, *(options[w] for w in words if w in options and w != own)])
            made[own] = _read_made(match, whole)
    return made


def _read_made(match: re.Match[str], whole: str) -> MadeTensor:
    """Return what a tensor is made like; ``whole`` is the call with the options it is given."""
    like = re.match(r"\w+", match[2] or "") if match[1] else None
    source = like[0] if like else match[3] or ""
    given = re.search(r"\bdtype\(\s*([\w:.]+(?:\(\))?)", whole)
    said = given[1] if given else whole
    kinds = {TORCH_KINDS[word] for word in re.findall(r"\w+", said) if word in TORCH_KINDS}
    of = {*_KIND_OF.findall(said)} or ({source} if source and not given else set())
    dtype = kinds.pop() if len(kinds) == 1 else ""
    dtype_source = of.pop() if len(of) == 1 and not (dtype or kinds) else ""
    arguments = match[2] or match[4] or ""
    sizes = re.match(r"\s*\{([^{}]*)\}", arguments)
    same = re.match(r"(\w+)\.sizes\(\)", arguments)
    if not sizes and (source or same):
        return MadeTensor(same[1] if same else source, dtype_source, (), dtype)
    dims = tuple(part.strip() for part in sizes[1].split(",")) if sizes else ()
    is_plain = all(d.isidentifier() or d.isdecimal() for d in dims)
    return MadeTensor("", dtype_source, dims if is_plain else (), dtype)
