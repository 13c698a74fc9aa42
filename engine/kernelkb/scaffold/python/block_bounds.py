"""What the blocks of a Triton kernel need of sizes, and which array's parts another one bounds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kernelkb.scaffold.draft import UNKNOWN, SizeLimit
from kernelkb.scaffold.python.indices import name_passed
from kernelkb.scaffold.python.launches import (
    STORES,
    Kernels,
    is_accessed,
    iter_passed,
    list_places,
)


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


def list_limits(function: ast.FunctionDef, kernels: Kernels) -> tuple[SizeLimit, ...]:
    """List what sizes have to be for the blocks of the kernels that a function launches."""
    values = _list_numbers(kernels) | _list_assigned(function)
    found = [
        SizeLimit(_resolve(function, m[1]), int(values[m[2]]))
        for m in _DIVISIBLE.finditer(ast.unparse(function))
        if values.get(m[2], "").isdecimal()
    ]
    found += [*_list_aligned(function, kernels), *_list_parts(function, kernels)]
    found += _list_listed(function)
    for kernel, passed in iter_passed(function, kernels):
        steps = _list_constants(kernel, kernels) | passed
        for block in _list_blocks(kernel):
            name = next((w for w in _NAME.findall(block.extent) if w in steps), "")
            value = values.get(steps.get(name, ""), steps.get(name, ""))
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
            elif name and (least := re.fullmatch(r"(?:min|max)\((.*)\)", value)):
                of = [part.strip() for part in least[1].split(",") if not part.strip().isdecimal()]
                found += [SizeLimit(_resolve(function, each), 0, _WHOLE_ROW) for each in of]
    return tuple(dict.fromkeys(each for each in found if each.sizes))


def _list_parts(function: ast.FunctionDef, kernels: Kernels) -> list[SizeLimit]:
    """List the sizes that are divided by other ones, as heads by those of the keys."""
    divided: list[tuple[ast.BinOp, dict[str, str]]]
    divided = [(node, {}) for node in _iter_divided(function)]
    for kernel, passed in iter_passed(function, kernels):
        divided += [(node, passed) for node in _iter_divided(kernel)]
    found, values = [], _list_assigned(function)
    for node, passed in divided:
        texts = [ast.unparse(each) for each in (node.left, node.right)]
        texts = [passed.get(text, "") if passed else text for text in texts]
        whole, part = (_resolve(function, text) for text in texts)
        number = texts[1]
        for _ in range(_MAX_NAMES):
            number = values.get(number, number)
        if whole and number.isdecimal() and isinstance(node.op, ast.Mod):
            found.append(SizeLimit(whole, int(number)))
        elif whole and part and texts[0] != texts[1]:
            found.append(SizeLimit(whole, 1, of=part))
    return found


_MAX_NAMES = 3
"""Of names that stand for each other."""


def iter_checks(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what a function asserts, and what it refuses: the latter with True."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            yield node.test, False
        elif isinstance(node, ast.If) and any(isinstance(n, ast.Raise) for n in node.body):
            yield node.test, True


def find_power(test: ast.AST) -> ast.expr | None:
    """Return the size of a check that a power of two passes: ``n == f(n)``, ``is_pow2(n)``."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.NotEq):
        sides = (test.left, test.comparators[0])
        for call, size in (sides, sides[::-1]):
            given = map(ast.unparse, call.args) if isinstance(call, ast.Call) else ()
            if [*given] == [ast.unparse(size)] and not _ROUNDS.search(ast.unparse(call)):
                return size
    is_power = isinstance(test, ast.Call) and _POWER.search(ast.unparse(test.func))
    return test.args[0] if is_power and len(test.args) == 1 else None  # type: ignore[attr-defined]


_POWER = re.compile(r"(?i)pow\w*(?:2|two)\w*$")
_ROUNDS = re.compile(r"^(?:int|float|abs|round|math\.\w+|torch\.\w+)\(")
"""Calls that leave any whole number as it is."""


def _list_listed(function: ast.FunctionDef) -> list[SizeLimit]:
    """List the sizes that a function checks to be a power of two, or one of some numbers."""
    found = []
    for checked, is_refused in iter_checks(function):
        for test in ast.walk(checked):
            if (size := find_power(test)) is not None:
                found.append(SizeLimit(_resolve(function, ast.unparse(size))))
            if not isinstance(test, ast.Compare) or len(test.ops) > 1:
                continue
            is_kept = (ast.NotIn, ast.NotEq) if is_refused else (ast.In, ast.Eq)
            numbers = re.fullmatch(
                r"[\[({]?(\d+(?:, \d+)*),?[\])}]?", ast.unparse(test.comparators[0])
            )
            sizes = _resolve(function, ast.unparse(test.left))
            if isinstance(test.ops[0], is_kept) and numbers and sizes:
                found.append(SizeLimit(sizes, 1, one_of=tuple(map(int, numbers[1].split(", ")))))
    return found


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
    made = _FROM_TENSOR.findall(ast.unparse(function))
    found = [SizeLimit((f"{name}.shape[-1]",), _ALIGNED) for name in made]
    for kernel, passed in iter_passed(function, kernels):
        for call in ast.walk(kernel):
            if not isinstance(call, ast.Call) or "tensor_descriptor" not in ast.unparse(call.func):
                continue
            given = dict(zip(("base", "shape", "strides"), call.args, strict=False))
            given |= {k.arg or "": k.value for k in call.keywords}
            for each in getattr(given.get("strides"), "elts", []):
                text = passed.get(ast.unparse(each), "")
                own = re.fullmatch(r"(\w+)\.stride\(-?\d+\)", text)
                sizes = (f"{own[1]}.shape[-1]",) if own else _resolve(function, text)
                found.append(SizeLimit(sizes, _ALIGNED))
    return found


_FROM_TENSOR = re.compile(r"\bTensorDescriptor(?:\.from_tensor)?\((\w+)")


def _list_assigned(function: ast.FunctionDef) -> dict[str, str]:
    """Map each name that a function assigns once, or has a default for, to that."""
    pairs = [(ast.unparse(one), ast.unparse(value)) for one, value in _iter_assigned(function)]
    parts = [
        one.elts if isinstance(one, ast.Tuple) else [one] for one, _ in _iter_assigned(function)
    ]
    names, plain = [ast.unparse(each) for part in parts for each in part], function.args.args
    defaults = zip(plain[::-1], function.args.defaults[::-1], strict=False)
    pairs += [(a.arg, ast.unparse(value)) for a, value in defaults if a.arg not in names]
    return {name: value for name, value in pairs if names.count(name) <= 1}


def _list_numbers(kernels: Kernels) -> dict[str, str]:
    """Map the names that a file, or a class of it, sets to a whole number once to that."""
    found = [(ast.unparse(n.targets[0]), ast.unparse(n.value)) for n in kernels.assignments]
    names = [name for name, _ in found]
    return {n: value for n, value in found if value.isdecimal() and names.count(n) == 1}


_DIVISIBLE = re.compile(r"\b(\w+\.(?:shape\[-?\d+\]|size\(-?\d+\))) % ([\w.]+) == 0")


def _iter_assigned(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of a function with its value; ``m, n = a, b`` are two."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            is_pair = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            parts = [each.elts if is_pair else [each] for each in (target, value)]  # type: ignore[attr-defined]
            yield from zip(*parts, strict=False)


def list_unread(function: ast.FunctionDef, kernels: Kernels) -> tuple[tuple[str, str], ...]:
    """List kernels with their blocks without a mask whose size no configuration shows."""
    found = []
    for kernel, passed in iter_passed(function, kernels):
        if "autotune" not in " ".join(map(ast.unparse, kernel.decorator_list)):
            continue
        open_ = {a.arg for a in kernel.args.args} - (
            _list_constants(kernel, kernels) | passed
        ).keys()
        used = {w for b in _list_blocks(kernel) if b.is_open for w in _NAME.findall(b.extent)}
        if own := ", ".join(sorted(used & open_)):
            found.append((kernel.name, own))
    return tuple(dict.fromkeys(found))


def _list_constants(kernel: ast.FunctionDef, kernels: Kernels) -> dict[str, str]:
    """Map parameters of a kernel to their defaults, or the largest that it is tuned with."""
    arguments, defaults = kernel.args.args, kernel.args.defaults
    pairs = zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    found = {argument.arg: ast.unparse(value) for argument, value in pairs}
    tuned = _list_tuned(kernel, kernels)
    for argument in arguments:
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
            for name, each in _iter_looped(node.target, node.iter, values):
                values.setdefault(name, []).extend(each)
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
    over = next(iter(values.get(ast.unparse(over), [])), over)
    if isinstance(target, ast.Name):
        yield target.id, getattr(over, "elts", [])
    elif isinstance(target, ast.Tuple) and isinstance(over, ast.Call):  # itertools.product
        for each, part in zip(target.elts, over.args, strict=False):
            yield from _iter_looped(each, part, values)
    elif isinstance(target, ast.Tuple):
        rows = [getattr(row, "elts", []) for row in getattr(over, "elts", [])]
        for each, *column in zip(target.elts, *rows, strict=False):
            yield from _iter_looped(each, ast.Tuple(column), values)


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
    found = [size] if size else []
    moved: dict[str, int] = {}
    for target, value in _iter_assigned(function):
        text = ast.unparse(value)
        if isinstance(target, ast.Name) and _MOVES.search(text):
            moved.setdefault(target.id, value.lineno)
        own = re.fullmatch(r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\)|shape)", text)
        if own and isinstance(target, ast.Name) and target.id == size:
            found.append(f"{own[1]}.shape[{own[2] or own[3]}]@{value.lineno}")
        elif text.endswith(".numel()") and ast.unparse(target) == size:
            found.append(f"{text.removesuffix('.numel()')}.shape[-1]@{value.lineno}")
        elif own and isinstance(target, ast.Tuple):
            names = [ast.unparse(each) for each in target.elts]
            found += (
                [f"{own[1]}.shape[{names.index(size)}]@{value.lineno}"] if size in names else []
            )
    kept = []
    for each in found:
        text, _, line = each.partition("@")
        is_moved = moved.get(text.partition(".")[0], 10**9) < int(line or 10**9)
        if "." not in text or not is_moved or text.endswith("[-1]"):
            text = re.sub(r"\.numel\(\)$", ".shape[-1]", text)  # its last axis will do
            kept.append(re.sub(r"\.size\((-?\d+)\)", r".shape[\1]", text))
    return tuple(kept)


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
    for call in ast.walk(kernel):
        is_access = isinstance(call, ast.Call) and ast.unparse(call.func) in ("tl.load", *STORES)
        if not isinstance(call, ast.Call) or not is_access or not call.args:
            continue
        words = {k.arg: k.value for k in call.keywords}
        place = ast.unparse(call.args[0])
        if place in pointers:
            found += _list_pointed(pointers[place], words.get("boundary_check"), moved)
            continue
        at = 1 if ast.unparse(call.func) == "tl.load" else 2
        mask = words.get("mask", call.args[at] if len(call.args) > at else None)
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


def _list_pointed(make: ast.Call, check: ast.expr | None, moved: str) -> list[_Block]:
    """Return the blocks of a block pointer, one for each axis; the checked axes are closed."""
    is_descriptor = "descriptor" in ast.unparse(make.func)
    order = ["base", "shape", "strides", "offsets", "block_shape"]
    order = [name for name in order if not is_descriptor or name != "offsets"]
    given = dict(zip(order, make.args, strict=False)) | {
        k.arg or "": k.value for k in make.keywords
    }
    parts = [getattr(given.get(key), "elts", []) for key in ("shape", "block_shape", "offsets")]
    if is_descriptor:  # what is outside of it is not stored, and loaded as 0
        parts[2] = [ast.Constant("any") for _ in parts[0]]
    checked = {ast.unparse(each) for each in getattr(check, "elts", [check] if check else [])}
    return [
        _Block(
            ast.unparse(extent),
            ast.unparse(size),
            not is_descriptor and str(at) not in checked,
            ast.unparse(offset) == "0" and not moved,
        )
        for at, (size, extent, offset) in enumerate(zip(*parts, strict=False))
    ]


_MAKES = re.compile(r"make_block_ptr|make_tensor_descriptor")


def find_pointed(function: ast.FunctionDef, kernels: Kernels, tensor: str) -> str:
    """Return the array of which a tensor says where parts begin: it is read at i and at i + 1.

    A table that is read at elements of an array is none. Empty where it is not read so;
    ``UNKNOWN`` where several arrays, or none, are read there.
    """
    for kernel, given in iter_passed(function, kernels):
        passed = name_passed(function, given)
        inner = next((n for n, value in passed.items() if value == tensor), None)
        if inner is None:
            continue
        data = _list_loaded(kernel)
        listed = [t for t in list_places(kernel, inner) if not data & {*re.findall(r"\w+", t)}]
        places = {re.sub(r"[()]", "", each) for each in listed}
        if not any(f"{place} + 1" in places for place in places):
            continue
        bounds = _list_reached(kernel, inner)
        read = {
            passed[name]
            for name in passed.keys() - {inner}
            if is_accessed(kernel, name, ("tl.load",))
            and any(bounds & {*re.findall(r"\w+", p)} for p in list_places(kernel, name))
        }
        return read.pop() if len(read) == 1 else UNKNOWN
    return ""


def list_spread(function: ast.FunctionDef, kernels: Kernels) -> set[str]:
    """List the arrays of which a kernel writes only the elements that another array names.

    Where that array says where parts begin and end, all may be written: such are left out.
    """
    found = set[str]()
    for kernel, passed in iter_passed(function, kernels):
        if any(find_pointed(function, kernels, value) for value in passed.values()):
            continue
        data = _list_loaded(kernel)
        for call in ast.walk(kernel):
            if isinstance(call, ast.Call) and call.args and ast.unparse(call.func) == "tl.store":
                words = {*re.findall(r"\w+", ast.unparse(_expand_place(kernel, call.args[0])))}
                found |= {passed[name] for name in words & passed.keys() if words & data}
    return found


def _expand_place(kernel: ast.FunctionDef, place: ast.expr) -> ast.expr:
    """Return where a kernel stores; of a name what it assigns to it."""
    values = [
        value
        for target, value in _iter_assigned(kernel)
        if ast.unparse(target) == ast.unparse(place)
    ]
    return values[0] if isinstance(place, ast.Name) and len(values) == 1 else place


def find_indexed(function: ast.FunctionDef, kernels: Kernels, tensor: str) -> tuple[str, int]:
    """Return the array whose rows a tensor's elements number, and -1 where it is tested for.

    That is an array that is read at ``x + index * D``, D being its last size or its first stride,
    or at ``x + index``. Else an empty name and 0.
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
                sizes = _resolve(function, size)
                is_row = size == f"{array}.stride(0)" or any(
                    re.fullmatch(rf"{re.escape(array)}\.shape\[(?:1|-1)\](?:@.*)?", each)
                    for each in (size, *sizes)
                )
                if is_row or re.search(rf"tl\.load\({name} \+ {own}[,)]", text):
                    return array, low
    return "", 0


def _list_loaded(kernel: ast.FunctionDef) -> set[str]:
    """List the variables of a kernel that are elements of arrays, or computed from them."""
    found = set[str]()
    for node in [*ast.walk(kernel)] * 2:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = ast.unparse(node.value)
            if "tl.load(" in text or found & {*re.findall(r"\w+", text)}:
                found.add(node.targets[0].id)
    return found


def _list_reached(kernel: ast.FunctionDef, name: str) -> set[str]:
    """List the variables of a kernel that hold what is loaded from a pointer, or count from it."""
    found = set[str]()
    for node in [*ast.walk(kernel)] * 2:
        if isinstance(node, ast.Assign | ast.For):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            text = ast.unparse(node.value if isinstance(node, ast.Assign) else node.iter)
            words = {*re.findall(r"\w+", text)}
            is_own = "load" in words and name in words
            if is_own or (words & found and "load" not in words):
                found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return found
