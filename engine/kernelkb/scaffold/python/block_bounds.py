"""What the blocks of a Triton kernel need of sizes, and which array's parts another one bounds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kernelkb.scaffold.draft import SizeLimit, to_field_name
from kernelkb.scaffold.python.arguments import list_defaults
from kernelkb.scaffold.python.branches import list_stored
from kernelkb.scaffold.python.indices import STARTS
from kernelkb.scaffold.python.launches import (
    ACCESSES,
    Kernels,
    iter_passed,
    list_places,
    name_passed,
)
from kernelkb.scaffold.python.nodes import (
    find_mask,
    iter_accesses,
    iter_assigned,
    iter_checks,
    iter_named,
    list_words,
    map_first,
    match_arguments,
)
from kernelkb.scaffold.python.shapes import list_parts, read_shapes


class _Block(NamedTuple):
    """A block of elements that a kernel loads or stores at once."""

    extent: str
    """Its elements along one axis, as ``BLOCK // 2``: for Triton a power of two."""
    size: str
    """The size of that axis, where a block pointer says it; else empty."""
    is_open: bool
    """No mask or boundary check keeps it inside."""
    is_only: bool = False
    """It begins at 0: there is no second one along the axis."""


_NAME = re.compile(r"[A-Za-z_]\w*")
_WHOLE_ROW = 65536
"""The largest size of which one block holds all elements."""


def list_limits(
    function: ast.FunctionDef, kernels: Kernels, said: Mapping[str, object]
) -> tuple[SizeLimit, ...]:
    """List what sizes have to be for the blocks of the kernels that a function launches.

    Args:
        function: The launcher.
        kernels: Of its file.
        said: What its user said of arguments, as values.
    """
    values, stored = _list_numbers(kernels) | _list_assigned(function), list_stored(function)
    values |= {n: f"{v}" for n, v in said.items() if type(v) is int and n not in stored}
    found = [
        SizeLimit(_resolve(function, m[1]), int(values[m[2]]))
        for m in _DIVISIBLE.finditer(ast.unparse(function))
        if values.get(m[2], "").isdecimal()
    ]
    found += [*_list_aligned(function, kernels), *_list_parts(function, kernels, values)]
    found += _list_listed(function)
    for kernel, passed in iter_passed(function, kernels):
        steps = _list_constants(kernel, kernels) | passed
        for block in _list_blocks(kernel):
            name = next((w for w in _NAME.findall(block.extent) if w in steps), "")
            value = _follow(steps.get(name, ""), values)
            power = re.fullmatch(r".*\bnext_power_of_2\(([\w.\[\]()-]+?)\).*", value)
            if value.isdecimal() or block.extent.isdecimal():
                extent = re.sub(rf"\b{name}\b", value, block.extent) if name else block.extent
                step = int(extent) if extent.isdecimal() else int(value)
                sizes = [passed.get(block.size, "")] if block.size else []
                sizes = sizes or _list_divided(function, kernel, name, passed)
                most = step if block.is_only else 0
                limits = [SizeLimit(_resolve(function, each), step, most) for each in sizes]
                found += limits if block.is_open else []
            elif power:
                step = 0 if block.is_open or "//" in block.extent else 1
                found.append(SizeLimit(_resolve(function, power[1]), step, _WHOLE_ROW))
            elif name and re.fullmatch(r"[\w.\[\]()-]+", value):
                both = (*_resolve(function, steps[name]), *_resolve(function, value))
                found.append(SizeLimit(both, 0, _WHOLE_ROW))
    return tuple(dict.fromkeys(each for each in found if each.sizes))


def _follow(name: str, values: Mapping[str, str]) -> str:
    """Return what a name stands for, through names that stand for each other."""
    for _ in range(_MAX_NAMES):
        name = values.get(name, name)
    return name


def _list_parts(
    function: ast.FunctionDef, kernels: Kernels, values: Mapping[str, str]
) -> list[SizeLimit]:
    """List the sizes that are divided by other ones, as heads by those of the keys."""
    divided = [(n.op, ast.unparse(n.left), ast.unparse(n.right)) for n in _iter_divided(function)]
    for kernel, passed in iter_passed(function, kernels):
        for node in _iter_divided(kernel):
            left, right = (passed.get(ast.unparse(side), "") for side in (node.left, node.right))
            divided.append((node.op, left, right))
    whole_parts = list_parts(function, read_shapes(function)).values()
    found = [SizeLimit((axis,), count) for axis, count in whole_parts if count & (count - 1)]
    for operator, left, right in divided:
        whole, part = _resolve(function, left), _resolve(function, right)
        number = _follow(right, values)
        if whole and number.isdecimal() and isinstance(operator, ast.Mod):
            found.append(SizeLimit(whole, int(number)))
        elif whole and part and left != right:
            found.append(SizeLimit(whole, 1, of=part))
    return found


_MAX_NAMES = 3
"""Of names that stand for each other."""


def find_power(test: ast.AST) -> ast.expr | None:
    """Return the size of a check that a power of two passes: ``n == f(n)``, ``is_pow2(n)``."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.NotEq):
        sides = (test.left, test.comparators[0])
        for call, size in (sides, sides[::-1]):
            given = [*map(ast.unparse, call.args)] if isinstance(call, ast.Call) else []
            if given == [ast.unparse(size)] and not _ROUNDS.match(ast.unparse(call)):
                return size
    is_power = isinstance(test, ast.Call) and _POWER.search(ast.unparse(test.func))
    return test.args[0] if is_power and len(test.args) == 1 else None  # type: ignore[attr-defined]


_POWER = re.compile(r"(?i)pow\w*(?:2|two)\w*$")
_ROUNDS = re.compile(r"(?:int|float|abs|round|math\.\w+|torch\.\w+)\(")
"""Calls that leave any whole number as it is."""


def _list_listed(function: ast.FunctionDef) -> list[SizeLimit]:
    """List the sizes that a function checks to be a power of two, or one of some numbers."""
    found = []
    for checked, is_refused in iter_checks(function):
        is_kept = (ast.NotIn, ast.NotEq) if is_refused else (ast.In, ast.Eq)
        for test in ast.walk(checked):
            if (size := find_power(test)) is not None:
                found.append(SizeLimit(_resolve(function, ast.unparse(size))))
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], is_kept):
                numbers = _NUMBERS.fullmatch(ast.unparse(test.comparators[0]))
                sizes = _resolve(function, ast.unparse(test.left))
                if numbers and len(test.ops) == 1:
                    allowed = tuple(map(int, numbers[1].split(", ")))
                    found.append(SizeLimit(sizes, 1, one_of=allowed))
    return found


_NUMBERS = re.compile(r"[\[({]?(\d+(?:, \d+)*),?[\])}]?")


def _iter_divided(function: ast.FunctionDef) -> Iterator[ast.BinOp]:
    """Yield each ``a // b`` and ``a % b`` of two plain sizes."""
    plain = (ast.Name, ast.Subscript, ast.Call)
    for node in ast.walk(function):
        is_divided = isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod)
        if is_divided and isinstance(node.left, plain) and isinstance(node.right, plain):  # type: ignore[attr-defined]
            yield node  # type: ignore[misc]


_ALIGNED = 16
"""Elements of one byte in the unit of a tensor descriptor's strides, except of the last axis."""


def _list_aligned(function: ast.FunctionDef, kernels: Kernels) -> list[SizeLimit]:
    """List the sizes that are strides of tensor descriptors, which are multiples of 16 bytes."""
    found: list[tuple[str, ...]]
    found = [(f"{name}.shape[-1]",) for name in _FROM_TENSOR.findall(ast.unparse(function))]
    for kernel, passed in iter_passed(function, kernels):
        calls = [n for n in ast.walk(kernel) if isinstance(n, ast.Call)]
        for call in [n for n in calls if "tensor_descriptor" in ast.unparse(n.func)]:
            strides = match_arguments(["base", "shape", "strides"], call).get("strides")
            for each in getattr(strides, "elts", []):
                size = _STRIDE.sub(".shape[-1]", passed.get(ast.unparse(each), ""))
                found.append(_resolve(function, size))
    return [SizeLimit(sizes, _ALIGNED) for sizes in found]


_FROM_TENSOR = re.compile(r"\bTensorDescriptor(?:\.from_tensor)?\((\w+)")
_STRIDE = re.compile(r"\.stride\(-?\d+\)")


def _list_assigned(function: ast.FunctionDef) -> dict[str, str]:
    """Map each name that a function assigns once, or has a default for, to that."""
    names, found = [], dict[str, str]()
    for target, value in iter_assigned(function):
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names += [ast.unparse(each) for each in parts]
        found[ast.unparse(target)] = ast.unparse(value)
    defaults = {n: ast.unparse(v) for n, v in list_defaults(function).items() if n not in names}
    return defaults | {name: value for name, value in found.items() if names.count(name) <= 1}


def _list_numbers(kernels: Kernels) -> dict[str, str]:
    """Map the names that a file, or a class of it, sets to a whole number once to that."""
    found = [(ast.unparse(n.targets[0]), ast.unparse(n.value)) for n in kernels.assignments]
    names = [name for name, _ in found]
    return {n: value for n, value in found if value.isdecimal() and names.count(n) == 1}


_DIVISIBLE = re.compile(r"\b(\w+\.(?:shape\[-?\d+\]|size\(-?\d+\))) % ([\w.]+) == 0")


def list_unread(function: ast.FunctionDef, kernels: Kernels) -> tuple[tuple[str, str], ...]:
    """List kernels with their blocks without a mask whose size no configuration shows."""
    found = []
    for kernel, passed in iter_passed(function, kernels):
        open_ = {a.arg for a in kernel.args.args} - (
            _list_constants(kernel, kernels) | passed
        ).keys()
        used = {w for b in _list_blocks(kernel) if b.is_open for w in _NAME.findall(b.extent)}
        if own := ", ".join(sorted(used & open_)):
            found.append((kernel.name, own))
    return tuple(dict.fromkeys(found))


def _list_constants(kernel: ast.FunctionDef, kernels: Kernels) -> dict[str, str]:
    """Map parameters of a kernel to their defaults, or the largest that it is tuned with."""
    found = {name: ast.unparse(value) for name, value in list_defaults(kernel).items()}
    tuned = _list_tuned(kernel, kernels)
    for argument in kernel.args.args:
        sizes = [size for name, size in tuned if name == argument.arg]
        found |= {argument.arg: str(max(sizes))} if sizes else {}
    return found


def _list_tuned(kernel: ast.FunctionDef, kernels: Kernels) -> list[tuple[str, int]]:
    """List the values of the configurations of a kernel, also those that names of its file give."""
    named: dict[str, list[ast.expr | ast.stmt]] = {n: [f] for n, f in kernels.functions.items()}
    for set_ in kernels.assignments:
        named.setdefault(ast.unparse(set_.targets[0]), []).append(set_)
    pending: list[ast.expr | ast.stmt] = [*kernel.decorator_list]
    seen = list[ast.AST]()
    while pending:
        own = [*ast.walk(pending.pop())]
        seen += own
        for name in [ast.unparse(n) for n in own if isinstance(n, ast.Name | ast.Attribute)]:
            pending += named.pop(name, [])
    given: list[tuple[object, ast.expr]] = []
    values: dict[str, list[ast.expr]] = {}
    for node in sorted(seen, key=lambda n: not isinstance(n, ast.Assign)):
        if isinstance(node, ast.Dict):
            keys = [getattr(key, "value", None) for key in node.keys]
            given += zip(keys, node.values, strict=True)
        elif isinstance(node, ast.Call):
            given += [(k.arg, k.value) for k in node.keywords]
        elif isinstance(node, ast.Assign):
            values.setdefault(ast.unparse(node.targets[0]), []).append(node.value)
        elif isinstance(node, ast.comprehension | ast.For):
            for name, column in _iter_looped(node.target, node.iter, values):
                values.setdefault(name, []).extend(column)
    return [
        (str(key), size.value)
        for key, value in given
        for size in values.get(ast.unparse(value), [value])
        if isinstance(size, ast.Constant) and isinstance(size.value, int)
    ]


def _iter_looped(
    target: ast.expr, over: ast.expr, values: Mapping[str, list[ast.expr]]
) -> Iterator[tuple[str, list[ast.expr]]]:
    """Yield each name that a loop sets with the elements of what is written that it runs over."""
    over = values.get(ast.unparse(over), [over])[0]
    if not isinstance(target, ast.Tuple):
        yield ast.unparse(target), getattr(over, "elts", [])
    elif isinstance(over, ast.Call) and ast.unparse(over.func).endswith("product"):
        for each, part in zip(target.elts, over.args, strict=False):
            yield from _iter_looped(each, part, values)
    else:
        rows = [getattr(row, "elts", []) for row in getattr(over, "elts", [])]
        for each, *column in zip(target.elts, *rows, strict=False):
            yield ast.unparse(each), column


def _list_divided(
    function: ast.FunctionDef, kernel: ast.FunctionDef, name: str, passed: Mapping[str, str]
) -> list[str]:
    """List the sizes that a launcher, or its kernel, divides by the size of a block."""
    size = r"([\w.]+(?:\[-?\d+\]|\(-?\d*\))?)"
    inner, outer = ast.unparse(kernel), ast.unparse(function)
    found = re.findall(rf"cdiv\({size}, {name}\)|range\([^,()]+, {size}, {name}\)", inner)
    sizes = [passed[word] for pair in found for word in pair if word in passed]
    steps = [rf"\w+\['{name}'\]", *([re.escape(passed[name])] if name in passed else [])]
    return sizes + re.findall(rf"cdiv\({size}, (?:{'|'.join(steps)})\)", outer)


def _resolve(function: ast.FunctionDef, size: str) -> tuple[str, ...]:
    """Return a size of a launcher, and the place in a shape that it is read from."""
    found, moved = [(size, _NO_LINE)] if size else [], dict[str, int]()
    for target, value in iter_assigned(function):
        text = ast.unparse(value)
        if isinstance(target, ast.Name) and _MOVES.search(text):
            moved.setdefault(target.id, value.lineno)
        names = [ast.unparse(e) for e in getattr(target, "elts", [target])]
        own = _SIZE.fullmatch(text)
        if own and size in names:
            at = names.index(size) if isinstance(target, ast.Tuple) else own[2] or own[3] or -1
            found.append((f"{own[1]}.shape[{at}]", value.lineno))
    kept = []
    for place, line in found:
        is_moved = moved.get(place.partition(".")[0], _NO_LINE) < line
        if "." not in place or not is_moved or place.endswith("[-1]"):
            place = re.sub(r"\.numel\(\)$", ".shape[-1]", place)  # its last axis will do
            kept.append(re.sub(r"\.size\((-?\d+)\)", r".shape[\1]", place))
    return tuple(kept)


_NO_LINE = 10**9
_SIZE = re.compile(r"(\w+)\.(?:shape(?:\[(-?\d+)\])?|size\((-?\d+)\)|numel\(\))")
_MOVES = re.compile(r"(?:view|reshape|permute|transpose|flatten|squeeze|\bt)\(|\.m?T\b")
"""What makes another place in a shape of a size."""


def _list_blocks(kernel: ast.FunctionDef) -> list[_Block]:
    """List the blocks that a kernel loads and stores, through block pointers or offsets."""
    pointers: dict[str, ast.Call] = {}
    spans: dict[str, set[str]] = {}
    moved = " ".join(re.findall(r"advance\(.*\)", ast.unparse(kernel)))
    for node in [*ast.walk(kernel)] * 2:
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not isinstance(target, ast.Name):
            continue
        if isinstance(node.value, ast.Call) and _MAKES.search(ast.unparse(node.value.func)):
            pointers[target.id] = node.value
        else:
            spans.setdefault(target.id, set()).update(_find_spans(node.value, spans))
    found = []
    for call in iter_accesses(kernel, ACCESSES):
        place = ast.unparse(call.args[0])
        if place in pointers:
            found += _list_pointed(pointers[place], call, moved)
            continue
        at = 1 if ast.unparse(call.func) == "tl.load" else 2
        mask = find_mask(call) or (call.args[at] if len(call.args) > at else None)
        kept = _find_spans(mask, spans) if mask is not None else set()
        found += [_Block(e, "", e not in kept) for e in _find_spans(call.args[0], spans)]
    return found


def _find_spans(node: ast.AST, spans: Mapping[str, set[str]]) -> set[str]:
    """Return the extents of the ranges that an expression runs over; none behind a ``%``."""
    nodes = [*ast.walk(node)]
    if any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in nodes):
        return set()
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    if any(ast.unparse(n.func) in ("tl.load", "tl.sum", "tl.max", "tl.dot") for n in calls):
        return set()
    own = {
        ast.unparse(n.args[1])
        for n in calls
        if ast.unparse(n.func).endswith(".arange") and len(n.args) == 2
    }
    names = (n.id for n in nodes if isinstance(n, ast.Name))
    return own.union(*(spans.get(name, set()) for name in names))


def _list_pointed(make: ast.Call, access: ast.Call, moved: str) -> list[_Block]:
    """Return the blocks of a block pointer, one for each axis; the checked axes are closed."""
    given = match_arguments(["base", "shape", "strides", "offsets", "block_shape"], make)
    parts = [getattr(given.get(key), "elts", []) for key in ("shape", "block_shape", "offsets")]
    check = match_arguments([], access).get("boundary_check")
    checked = {ast.unparse(each) for each in getattr(check, "elts", [check] if check else [])}
    return [
        _Block(
            ast.unparse(extent),
            ast.unparse(size),
            str(at) not in checked,
            ast.unparse(offset) == "0" and not moved,
        )
        for at, (size, extent, offset) in enumerate(zip(*parts, strict=False))
    ]


_MAKES = re.compile(r"make_block_ptr")


def bounds_parts(function: ast.FunctionDef, kernels: Kernels, tensor: str) -> bool:
    """Return whether a tensor says where parts of an array begin: it is read at i and at i + 1.

    A table that is read at elements of an array does not, unless it is named as one that does.
    """
    is_named = STARTS.search(to_field_name(tensor))
    for kernel, given in iter_passed(function, kernels):
        passed = name_passed(function, given)
        inner = next((n for n, value in passed.items() if value == tensor), None)
        if inner is not None:
            data = set[str]() if is_named else _list_loaded(kernel)
            listed = [t for t in list_places(kernel, inner) if not data & {*_WORD.findall(t)}]
            places = {re.sub(r"[()]", "", each) for each in listed}
            if any(f"{place} + 1" in places for place in places):
                return True
    return False


_WORD = re.compile(r"\w+")


def list_spread(function: ast.FunctionDef, kernels: Kernels) -> set[str]:
    """List the arrays of which a kernel writes only the elements that another array names.

    Where that array says where parts begin and end, all may be written: such are left out.
    """
    found = set[str]()
    for kernel, passed in iter_passed(function, kernels):
        if any(bounds_parts(function, kernels, value) for value in passed.values()):
            continue
        data, values = _list_loaded(kernel), map_first(kernel)
        for call in iter_accesses(kernel, ["tl.store"]):
            place = call.args[0]
            place = values.get(place.id, place) if isinstance(place, ast.Name) else place
            words = list_words(place)
            found |= {passed[name] for name in words & passed.keys() if words & data}
    return found


def find_indexed(function: ast.FunctionDef, kernels: Kernels, tensor: str) -> tuple[str, int, int]:
    """Return the array that a tensor's elements choose from, the smallest one, and the axis.

    That is an array that is read at ``x + index * D``, D being its last size or its first stride,
    or at ``x + index``, where x may be a row of it. The smallest is -1 where that is tested for.
    Else an empty name.
    """
    for kernel, given in iter_passed(function, kernels):
        passed = name_passed(function, given)
        inner = next((n for n, value in passed.items() if value == tensor), None)
        text = ast.unparse(kernel)
        loads = rf"(?m)^ *(\w+) = tl\.load\({inner}\b[^\n]*$"
        for index in re.findall(loads, text) if inner else ():
            own = rf"{index}(?:\[[^\]]*\])?"
            low = -1 if re.search(rf"\b{own}\)? *(?:>= 0|!= -1|== -1|> -1|< 0)", text) else 0
            for name in sorted(passed.keys() - {inner}):
                found = re.search(rf"\b{name} \+ {own} \* (\w+)", text)
                size = passed.get(found[1], "") if found else ""
                array = passed[name]
                is_first, moves = size == f"{array}.stride(0)", _list_moves(kernel, name)
                if is_first or _is_last_size(function, array, size):
                    return array, low, -2 if moves and not is_first else 0
                rows = (f"{array}.stride(0)", f"{array}.stride(-2)")
                steps = [passed.get(each, "") for each in moves]
                if re.search(rf"tl\.load\({name} \+ {own}[,)]", text) and all(
                    each in rows or _is_last_size(function, array, each) for each in steps
                ):
                    return array, low, -1 if moves else 0
    return "", 0, 0


def _is_last_size(function: ast.FunctionDef, array: str, size: str) -> bool:
    last = (f"{array}.shape[1]", f"{array}.shape[-1]")
    return any(each in last for each in _resolve(function, size))


def _list_moves(kernel: ast.FunctionDef, name: str) -> list[str]:
    """List by what a kernel moves a pointer along: S of ``x += row * S``, else all that it adds."""
    found = []
    for node in ast.walk(kernel):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AugAssign) and ast.unparse(target or node) == name:
            text = ast.unparse(node.value).removeprefix(f"{name} + ")
            step = re.fullmatch(r"[\w.()]+ \* (\w+)(?:\.to\([\w.]+\))?", text)
            found.append(step[1] if step else text)
    return found


def _list_loaded(kernel: ast.FunctionDef) -> set[str]:
    """List the variables of a kernel that are elements of arrays, or computed from them."""
    found = set[str]()
    for name, value in [*iter_named(kernel)] * 2:
        text = ast.unparse(value)
        if "tl.load(" in text or found & {*_WORD.findall(text)}:
            found.add(name)
    return found
