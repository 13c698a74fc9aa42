"""Launches of Triton kernels, and what a kernel does with the arrays that it is given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple, TypeGuard, get_args

from kernelkb.model.kernels.kernel import Dtype
from kernelkb.scaffold.python.branches import fold_branches
from kernelkb.scaffold.python.nodes import (
    find_first,
    find_mask,
    is_view,
    iter_accesses,
    iter_assigned,
    iter_named,
    list_words,
    map_first,
)

UPDATES = tuple(f"tl.atomic_{kind}" for kind in ("add", "max", "min", "and", "or", "xor"))
"""What changes elements, and so reads what they held before."""
STORES = ("tl.store", "tl.atomic_xchg", "tl.atomic_cas", *UPDATES)
ACCESSES = ("tl.load", *STORES)
HELPER = "kb."
"""In place of ``tl.``: a function that the kernel calls loads or stores there."""


class Kernels(NamedTuple):
    """The kernels of a Python file."""

    nodes: Mapping[str, ast.FunctionDef | None]
    """By name; None for one of another file."""
    assignments: Sequence[ast.Assign] = ()
    """Those of the file's top level, which may give a kernel another name."""
    functions: Mapping[str, ast.FunctionDef] = {}
    """The file's other functions, which may launch a kernel for their callers."""


class KernelCall(NamedTuple):
    """One launch of a Triton kernel."""

    kernels: tuple[str, ...]
    """What may be launched: several where the source chooses between them."""
    call: ast.Call


class _KernelNames(NamedTuple):
    """What a name or an expression stands for: some kernels."""

    kernels: tuple[str, ...]
    subscripts: int
    """How many it needs to be called: of a kernel one, its grid; of a table of kernels two."""


def iter_launches(function: ast.FunctionDef, kernels: Kernels) -> Iterator[KernelCall]:
    """Yield the launches of a function: ``k[grid](...)``, ``k.run(...)``, ``k.warmup(...)``.

    Also of a kernel that was chosen or bound before: ``k = a if fast else b``, ``run = k[grid]``,
    ``TABLE[key][grid](...)``.
    """
    known = {name: _KernelNames((name,), 1) for name in kernels.nodes}
    named = [pair for each in (*kernels.assignments, function) for pair in iter_named(each)]
    bound = {name: value for name, value in named if _is_partial(value)}
    for _ in range(_MAX_RENAMINGS):
        for target, value in named:
            if (found := _resolve_kernels(value, known)) is not None:
                before = known.get(target, found).kernels
                every = tuple(dict.fromkeys([*before, *found.kernels]))
                known[target] = found._replace(kernels=every)
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            called = _resolve_kernels(node.func, known)
            if called is not None and called.subscripts == 0:
                first = bound.get(ast.unparse(node.func))
                yield KernelCall(called.kernels, _join_bound(first, node) if first else node)


_MAX_RENAMINGS = 2


def _is_partial(node: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in _PARTIAL


_PARTIAL = ("partial", "functools.partial")


def _join_bound(first: ast.Call, call: ast.Call) -> ast.Call:
    """Return a call with what ``functools.partial(kernel[grid], x, B=64)`` gave it before."""
    joined = ast.Call(call.func, [*first.args[1:], *call.args], [*first.keywords, *call.keywords])
    return ast.copy_location(joined, call)


def _resolve_kernels(node: ast.expr, known: Mapping[str, _KernelNames]) -> _KernelNames | None:
    """Return the kernels that an expression stands for; None for another value."""
    parts: list[ast.expr] = []
    more = 0
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        if (whole := ast.unparse(node)) in known:  # kernels.double, of a module
            return known[whole]
        base = _resolve_kernels(node.value, known)
        if base is None:  # Gate.kernel, a static method, or self.kernel of any class
            owner, method = ast.unparse(node.value), f".{node.attr}"
            is_any = owner in ("self", "cls")
            same = tuple(n for n in known if n == owner + method or (is_any and n.endswith(method)))
            return _KernelNames(same, 1) if same else None
        is_run = node.attr in ("run", "warmup")
        return base._replace(subscripts=0) if is_run else _KernelNames((node.attr,), 1)
    if isinstance(node, ast.Subscript):
        parts, more = [node.value], -1
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.Dict | ast.List | ast.Tuple):
        parts, more = node.values if isinstance(node, ast.Dict) else node.elts, 1
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
        parts, more = [node.func.value], -1  # type: ignore[attr-defined]
    elif isinstance(node, ast.Call) and _resolve_kernels(node.func, known) is None:
        parts = node.args[:1]  # wrap_triton(k)
    found = [each for part in parts if (each := _resolve_kernels(part, known)) is not None]
    names = tuple(dict.fromkeys(name for each in found for name in each.kernels))
    left = found[0].subscripts + more if found else -1
    return _KernelNames(names, left) if left >= 0 else None


def list_launches(function: ast.FunctionDef, kernels: Kernels) -> tuple[str, ...]:
    """List the kernels that a function launches, or may launch."""
    found = [name for launch in iter_launches(function, kernels) for name in launch.kernels]
    return tuple(dict.fromkeys(found))


def list_passed_on(function: ast.FunctionDef, kernels: Kernels) -> set[str]:
    """List the names passed to kernels of another file, or behind a ``*x.stride()``."""
    found = set[str]()
    for names, call in iter_launches(function, kernels):
        nodes = [node for name in names if (node := kernels.nodes.get(name)) is not None]
        bound = [[value for _, value in bind(node, call)] for node in nodes]
        known = bound[0] if bound and len(bound) == len(names) else []
        every = (*call.args, *(k.value for k in call.keywords))
        found |= {ast.unparse(value) for value in every if value not in known}
        roles = [
            [_find_passed(node, call, calls) for calls in (("tl.load",), STORES)] for node in nodes
        ]
        found |= {each for node in nodes for each in _list_unseen(node, call)}
        for one in roles[1:]:  # a choice between kernels that do not treat it alike
            found |= one[0] ^ roles[0][0] | one[1] ^ roles[0][1]
    return found


def _list_unseen(kernel: ast.FunctionDef, call: ast.Call) -> set[str]:
    """List what a launch passes for parameters that a kernel passes on, and is not seen to load."""
    passed_on = {
        name.id
        for node in ast.walk(kernel)
        if isinstance(node, ast.Call)
        for each in (*node.args, *(k.value for k in node.keywords))
        for name in ast.walk(each)
        if isinstance(name, ast.Name)
    }
    return {
        ast.unparse(value)
        for name, value in bind(kernel, call)
        if name in passed_on
        and not _is_counted(kernel, name)
        and not is_accessed(kernel, name, ACCESSES)
    }


def guess_shape(
    function: ast.FunctionDef,
    kernels: Kernels,
    tensor: str,
    shapes: Mapping[str, tuple[str, ...]],
) -> str:
    """Return the shape of the tensor that a kernel reads at the same places, as a guess.

    Else the size that its mask compares the place with.
    """
    for kernel, passed in iter_passed(function, kernels):
        inner = next((n for n, value in passed.items() if value == tensor), None)
        if inner is None:
            continue
        places, own = list_places(kernel, inner), _is_by_program(kernel, inner)
        for name, value in passed.items():
            is_like = bool(places & list_places(kernel, name)) and value != tensor
            if is_like and shapes.get(value) and own == _is_by_program(kernel, name):
                return f"[{', '.join(shapes[value])}]"
        sizes = {passed[n] for n in _list_limits(kernel, inner) if n in passed}
        if len(sizes) == 1 and (size := sizes.pop()).isidentifier():
            is_part = _is_by_program(kernel, inner) or is_computed(function, size)
            return "" if is_part else f"[{size}]"
    return ""


def is_computed(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function calculates a number of others, as a product of sizes: it is no axis."""
    return any(
        target == name and any(isinstance(n, ast.BinOp) for n in ast.walk(value))
        for target, value in iter_named(function)
    )


def iter_passed(
    function: ast.FunctionDef, kernels: Kernels, depth: int = 0
) -> Iterator[tuple[ast.FunctionDef, dict[str, str]]]:
    """Yield each kernel that a function launches, and what it passes for its parameters.

    Also what it passes on through functions of the file; what those make themselves is left out.
    """
    for names, call in iter_launches(function, kernels):
        for kernel in map(kernels.nodes.get, names):
            if kernel is not None:
                given = bind(kernel, call)
                known = ((n, v.value) for n, v in given if isinstance(v, ast.Constant))
                yield _compile(kernel, (*known,)), {n: ast.unparse(v) for n, v in given}
    for node in ast.walk(function) if depth < _MAX_RENAMINGS else ():
        called = node.func if isinstance(node, ast.Call) else None
        helper = kernels.functions.get(called.id) if isinstance(called, ast.Name) else None
        if helper is None or helper is function or not isinstance(node, ast.Call):
            continue
        own = {name: ast.unparse(value) for name, value in bind(helper, node)}
        for kernel, passed in iter_passed(helper, kernels, depth + 1):
            yield kernel, {n: own[value] for n, value in passed.items() if value in own}


@lru_cache(maxsize=256)
def _compile(kernel: ast.FunctionDef, known: tuple[tuple[str, object], ...]) -> ast.FunctionDef:
    """Return a kernel without the branches that constants of its launch rule out."""
    return fold_branches(kernel, dict(known)) if known else kernel


def bind(kernel: ast.FunctionDef, call: ast.Call) -> list[tuple[str, ast.expr]]:
    """Return each parameter of a kernel with what a launch passes, up to a ``*x.stride()``."""
    names = [a.arg for a in kernel.args.args]
    plain = [*takewhile(lambda value: not isinstance(value, ast.Starred), call.args)]
    passed = [*zip(names, plain, strict=False)]
    return passed + [(k.arg or "", k.value) for k in call.keywords]


def list_places(kernel: ast.FunctionDef, name: str) -> set[str]:
    """Return the offsets from a pointer at which a kernel loads and stores."""
    texts = [ast.unparse(call.args[0]) for call in iter_accesses(kernel, ACCESSES)]
    own = re.compile(rf"\b{re.escape(name)}\b")
    return {own.sub("_", text) for text in texts if own.search(text)}


def _list_limits(kernel: ast.FunctionDef, name: str) -> set[str]:
    """Return the names that masks compare the very places with at which a pointer is loaded."""
    values, found = map_first(kernel), set[str]()
    for call in iter_accesses(kernel, ACCESSES):
        place = re.fullmatch(rf"{re.escape(name)}(?: \+ (.*))?", ast.unparse(call.args[0]))
        mask = find_mask(call)
        mask = values.get(mask.id, mask) if isinstance(mask, ast.Name) else mask
        if place and isinstance(mask, ast.Compare) and isinstance(mask.ops[0], ast.Lt):
            left = _expand(kernel, ast.unparse(mask.left))
            if _expand(kernel, place[1] or left) == left:
                found.add(ast.unparse(mask.comparators[0]))
    return found


def _is_by_program(kernel: ast.FunctionDef, name: str) -> bool:
    """Whether each program of a kernel has a part of an array of its own, as a row.

    Then what a mask compares with is not all of the array's size.
    """
    programs = set[str]()
    for node in ast.walk(kernel):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if not isinstance(target, ast.Name) or value is None:
            continue
        words = list_words(value)
        if "program_id" in words or (words & programs and "load" not in words):
            programs.add(target.id)
        if target.id == name and isinstance(node, ast.AugAssign) and words & programs:
            return True
    for call in iter_accesses(kernel, ACCESSES):
        words, mask = list_words(call.args[0]), find_mask(call)
        kept = _expand(kernel, ast.unparse(mask)) if mask is not None else ""
        if name in words and words & programs - {*re.findall(r"\w+", kept)}:
            return True
    return False


def _expand(kernel: ast.FunctionDef, name: str) -> str:
    """Return what is assigned to a name of a kernel; another text as it is."""
    values = (value for target, value in iter_assigned(kernel) if ast.unparse(target) == name)
    return next(map(ast.unparse, values), name)


def list_accessed(function: ast.FunctionDef, kernels: Kernels, calls: Sequence[str]) -> set[str]:
    """List the names that are passed for a pointer that a kernel loads from, or stores to."""
    copies = COPIES if "tl.load" in calls else ()
    return {
        value
        for kernel, passed in iter_passed(function, kernels)
        for name, value in name_passed(function, passed, copies).items()
        if is_accessed(kernel, name, calls)
    }


COPIES = ("to", "long", "int", "clone", "cuda", "type", "float", "half", "bfloat16")
"""Methods that may return a copy."""


def name_passed(
    function: ast.FunctionDef, passed: Mapping[str, str], copies: Sequence[str] = COPIES
) -> dict[str, str]:
    """Return what is passed to a kernel with the argument in place of a view or part of it.

    Args:
        function: A launcher.
        passed: By parameter of the kernel.
        copies: Methods that count as views.
    """
    arguments = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    values, found = map_first(function), {}
    for inner, text in passed.items():
        node: ast.expr | None = ast.parse(text, mode="eval").body
        for _ in range(_MAX_STEPS):
            node = _find_base(node) if node is not None else None
            name = find_first(node) if node is not None and is_view(node, copies) else ""
            node = values.get(name)
            if name in arguments:
                break
        found[inner] = name if name in arguments else text
    return found


_MAX_STEPS = 4
"""Of names that are computed from each other."""


def _find_passed(kernel: ast.FunctionDef, call: ast.Call, calls: Sequence[str]) -> set[str]:
    accessed = {a.arg for a in kernel.args.args if is_accessed(kernel, a.arg, calls)}
    return {ast.unparse(value) for name, value in bind(kernel, call) if name in accessed}


def _is_counted(kernel: ast.FunctionDef, name: str) -> bool:
    """Whether a kernel calculates with a parameter as no pointer is, or compiles it in."""
    kinds = {a.arg: ast.unparse(a.annotation) for a in kernel.args.args if a.annotation}
    if "constexpr" in kinds.get(name, ""):
        return True
    for node in ast.walk(kernel):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            continue
        operands: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, _NUMERIC):
            operands = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        if any(isinstance(each, ast.Name) and each.id == name for each in operands):
            return True
    return False


_NUMERIC = (ast.Mult, ast.FloorDiv, ast.Mod, ast.Sub)


def is_accessed(kernel: ast.FunctionDef, name: str, calls: Sequence[str]) -> bool:
    """Whether a kernel uses a pointer in some calls, also after adding an offset to it."""
    if _is_counted(kernel, name):
        return False
    names = list_pointers(kernel, name)
    every = [*calls, *(each.replace("tl.", HELPER) for each in calls)]
    return any(names & list_words(call.args[0]) for call in iter_accesses(kernel, every))


def list_pointers(kernel: ast.FunctionDef, name: str) -> set[str]:
    """List a pointer of a kernel and the variables that it is computed into."""
    names = {name}
    for target, value in iter_named(kernel):
        text = _KIND.sub("", ast.unparse(_find_base(value)))
        if "load" not in text and names & {*re.findall(r"\w+", text)}:
            names.add(target)
    return names


_KIND = re.compile(r"\b\w+\.(?:type|dtype)\b[\w.]*")
"""What a pointer points to, which is no place."""


def _find_base(value: ast.expr) -> ast.expr:
    """Return the array of a block pointer or descriptor, whose sizes are no pointers; else all."""
    if not isinstance(value, ast.Call) or not _MAKES.search(ast.unparse(value.func)):
        return value
    base = next((k.value for k in value.keywords if k.arg in ("base", "desc_ptr")), None)
    return base or next(iter(value.args), value)


_MAKES = re.compile(
    r"(?:make_block_ptr|make_tensor_descriptor|TensorDescriptor(?:\.from_tensor)?|tma_desc\w*)$"
)


DTYPES = get_args(Dtype)
SHORT_DTYPES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64"}
_INTEGERS = "uint8|int8|int32|int64"
_FLAGS = f"bool|{_INTEGERS}"
_INDICES = "int64|int32"
_ANY = "|".join(("int8", "uint8", "int32", "bool", *DTYPES))
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)


def guess_dtypes(
    function: ast.FunctionDef, kernels: Kernels, tensor: str, *, is_index: bool
) -> str:
    """Return the dtypes that a tensor may have by what is done with it, with | between.

    A single one is the only one that the function takes. Empty where nothing tells that its
    elements are integers: then they are floats.

    Args:
        function: The launcher.
        kernels: Of its file.
        tensor: The argument.
        is_index: Whether its elements are places in other arrays.
    """
    if checked := _read_checked(ast.unparse(function), tensor):
        return checked
    if is_index:
        return _INDICES
    found = {
        dtypes
        for kernel, passed in iter_passed(function, kernels)
        for name, value in passed.items()
        if value == tensor and not _is_counted(kernel, name)
        for dtypes in _iter_dtypes(kernel, list_pointers(kernel, name))
    }
    kinds = (each for each in (_INTEGERS, _FLAGS, _ANY) if each in found)
    return "|".join(dict.fromkeys(next(kinds, "").split("|")))


def _read_checked(text: str, name: str) -> str:
    """Return the dtypes of which a function refuses all others for a tensor, with | between."""
    head = rf"\b{re.escape(name)}\.dtype"
    asserted = re.search(rf"assert[^\n]*{head} == torch\.[^\n]*", text)
    one = re.search(rf"if {head} != torch\.(\w+):\n\s*raise", text)
    found = re.search(rf"(?:assert[^\n]*{head} in|if {head} not in) [(\[{{]([^)\]}}]*)", text)
    kinds = re.findall(r"torch\.(\w+)", found[1]) if found else [one[1]] if one else []
    kinds = re.findall(rf"{head} == torch\.(\w+)", asserted[0]) if asserted else kinds
    kinds = [SHORT_DTYPES.get(each, each) for each in kinds]
    return "|".join(kinds) if {*kinds} <= {*DTYPES} else ""


def _iter_dtypes(kernel: ast.FunctionDef, pointers: set[str]) -> Iterator[str]:
    """Yield the dtypes that each use of what is loaded from some pointers tells."""
    calls = [n for n in ast.walk(kernel) if isinstance(n, ast.Call) and n.args]
    loads = [n for n in calls if ast.unparse(n.func) == "tl.load" and _has(n.args[0], pointers)]
    names = {name for name, value in iter_named(kernel) if value in loads}

    def is_loaded(node: ast.AST) -> bool:
        return node in loads or (isinstance(node, ast.Name) and node.id in names)

    if any("pointer_type" in ast.unparse(load.args[0]) for load in loads):
        yield _ANY
    for node in ast.walk(kernel):
        if isinstance(node, ast.BinOp) and any(map(is_loaded, (node.left, node.right))):
            is_number = any(isinstance(e, ast.Constant) for e in (node.left, node.right))
            if isinstance(node.op, ast.LShift | ast.RShift):
                yield _INTEGERS
            elif isinstance(node.op, _BITS):
                yield _INTEGERS if is_number else _FLAGS
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert | ast.Not):
            yield from [_FLAGS] if is_loaded(node.operand) else []
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            is_whole = re.fullmatch(r"\d+", ast.unparse(node.comparators[0]))
            yield from [_ANY] if is_whole and is_loaded(node.left) else []
    for call in calls:
        masks = [k.value for k in call.keywords if k.arg == "mask"]
        masks += call.args[:1] if ast.unparse(call.func) == "tl.where" else []
        yield from [_FLAGS] if any(map(is_loaded, masks)) else []


def _has(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))
