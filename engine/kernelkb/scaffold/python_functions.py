"""Parameters of Python functions that launch kernels: tensors, shapes, what is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from kernelkb.scaffold.draft import Function, Parameter, ParameterRole, complete_shape

_TENSOR_WORDS = re.compile(
    r"\b{name}\.(?:shape|stride|size|is_cuda|numel|dtype|device|contiguous|view|reshape|dim|ndim"
    r"|new_empty|is_contiguous|data_ptr|unsqueeze|permute|transpose|T|element_size|to)\b"
)
_MAKER = re.compile(r"(?:torch\.)?(?:(?:empty|zeros|ones|full|rand|randn)(_like)?|(\w+)\.new_\w+)")
_STORES = ("tl.store", "tl.atomic_add")


def list_launches(
    function: ast.FunctionDef, jitted: Mapping[str, ast.FunctionDef | None]
) -> tuple[str, ...]:
    """List the kernels that a function launches: ``k[grid](...)``, ``k.run(...)``, ``k.warmup``.

    A kernel that was assigned to another name counts, too.
    """
    aliases = {name: name for name in jitted}
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            words = re.findall(r"\w+", ast.unparse(node.value))
            kernel = next((aliases[word] for word in words if word in aliases), None)
            if kernel is not None:
                aliases[node.targets[0].id] = kernel
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Subscript) or (
            isinstance(called, ast.Attribute) and called.attr in ("run", "warmup")
        ):
            called = called.value
        else:
            continue
        while isinstance(called, ast.Call) and called.args:  # wrap_triton(k)[grid](...)
            called = called.args[0]
        name = called.id if isinstance(called, ast.Name) else ""
        if name in aliases:
            found.append(aliases[name])
        elif isinstance(called, ast.Attribute) and _find_root(called) in aliases:
            found.append(called.attr)  # of an imported module with kernels
    return tuple(dict.fromkeys(found))


def _find_root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def read_python_function(
    function: ast.FunctionDef,
    jitted: Mapping[str, ast.FunctionDef | None],
    launches: Sequence[str],
    owner: str = "",
    *,
    takes_tensors: bool = False,
) -> Function:
    """Return a function with its tensors, their shapes, and the tensors that it returns.

    Args:
        function: The function; of an autograd class its ``forward``.
        jitted: The file's Triton kernels.
        launches: Those that it launches.
        owner: Its class; empty for a plain function.
        takes_tensors: Whether arguments without a type are tensors.
    """
    required = _list_required(function)[bool(owner) :]  # without ctx
    loaded = _list_accessed(function, jitted, ("tl.load",))
    text, shapes = ast.unparse(function), read_shapes(function)
    tensors = [
        a.arg
        for a in required
        if _is_tensor(a, text)
        or a.arg in loaded
        or (takes_tensors and a.annotation is None and a.arg != "stream")
    ]
    returned = _read_returned(function, shapes, tensors)
    written = set() if returned else _list_accessed(function, jitted, _STORES)
    parameters = [_make_parameter(a, tensors, written, shapes) for a in required]
    return Function(
        owner or function.name,
        (*parameters, *returned),
        returns="apply" if owner else "",
        style="python",
        line=function.lineno,
        launches=tuple(launches),
    )


def _list_required(function: ast.FunctionDef) -> list[ast.arg]:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return arguments[: len(arguments) - len(function.args.defaults)]


def _make_parameter(
    argument: ast.arg,
    tensors: Sequence[str],
    written: set[str],
    shapes: Mapping[str, tuple[str, ...]],
) -> Parameter:
    name = argument.arg
    if name not in tensors:
        kind = ast.unparse(argument.annotation) if argument.annotation else ""
        is_stream = "CUstream" in kind or name == "stream"
        return Parameter(name, "number", "number", value="_get_stream()" if is_stream else "")
    role: ParameterRole = "output" if name in written else "input"
    return Parameter(name, "tensor", role, shape=shapes.get(name, ()))


def _is_tensor(argument: ast.arg, text: str) -> bool:
    kind = ast.unparse(argument.annotation) if argument.annotation else ""
    if kind:
        return "Tensor" in kind and "Optional" not in kind and "None" not in kind
    pattern = _TENSOR_WORDS.pattern.replace("{name}", re.escape(argument.arg))
    return bool(re.search(pattern, text)) or bool(
        re.search(rf"\b\w+_like\({re.escape(argument.arg)}\b", text)
    )


def _list_accessed(
    function: ast.FunctionDef, jitted: Mapping[str, ast.FunctionDef | None], calls: Sequence[str]
) -> set[str]:
    """List the names that are passed for a pointer that a kernel loads from, or stores to."""
    found: set[str] = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
            continue
        kernel = jitted.get(ast.unparse(node.func.value))
        if kernel is None:
            continue
        names = [a.arg for a in kernel.args.args]
        written = {name for name in names if _is_accessed(kernel, name, calls)}
        passed = [*zip(names, node.args, strict=False)]
        passed += [(k.arg or "", k.value) for k in node.keywords]
        found |= {ast.unparse(value) for name, value in passed if name in written}
    return found


def _is_counted(kernel: ast.FunctionDef, name: str) -> bool:
    """Whether a kernel multiplies, divides or compares a parameter: then it is no pointer."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            continue
        operands: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.FloorDiv | ast.Mod):
            operands = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        if any(isinstance(each, ast.Name) and each.id == name for each in operands):
            return True
    return False


def _is_accessed(kernel: ast.FunctionDef, name: str, calls: Sequence[str]) -> bool:
    """Whether a kernel uses a pointer in some calls, also after adding an offset to it."""
    if _is_counted(kernel, name):
        return False
    names = {name}
    for node in ast.walk(kernel):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = ast.unparse(node.value)
            if "load" not in text and names & set(re.findall(r"\w+", text)):
                names.add(node.targets[0].id)
    used = [
        node.args[0]
        for node in ast.walk(kernel)
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in calls
    ]
    return any(names & set(re.findall(r"\w+", ast.unparse(node))) for node in used)


def _read_returned(
    function: ast.FunctionDef, shapes: Mapping[str, tuple[str, ...]], tensors: Sequence[str]
) -> list[Parameter]:
    """Return an output for each tensor that a function returns."""
    returns = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value]
    values = [v for v in returns if not (isinstance(v, ast.Constant) and v.value is None)]
    if not values:
        return []
    last = values[-1]
    parts = last.elts if isinstance(last, ast.Tuple | ast.List) else [last]
    made = _collect_made(function)
    outputs = []
    for index, part in enumerate(parts):
        if isinstance(part, ast.Constant) or (isinstance(part, ast.Name) and part.id.isupper()):
            continue
        base = next(iter(re.findall(r"\w+", ast.unparse(part))), "")
        if len(parts) > 1 and base not in made and base not in tensors:
            continue
        source, dims, dtype = made.get(base, (base, (), ""))
        like = source if source in tensors else next(iter(tensors), "")
        shape = dims or shapes.get(like, ())
        field = base if base.isidentifier() and base not in tensors else f"out{index or ''}"
        picked = f"[{index}]" if len(parts) > 1 else ""
        outputs.append(
            Parameter(field, "return", "output", dtype or None, shape=shape, value=picked)
        )
    return outputs


_Made = tuple[str, tuple[str, ...], str]
"""The tensor that another one is like, else its sizes; and its dtype, if that is written."""


def _collect_made(function: ast.FunctionDef) -> dict[str, _Made]:
    """Map each tensor that a function makes to what it is like."""
    made: dict[str, _Made] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if isinstance(node.value, ast.Call):
            own = _read_maker(node.value)
            if own is not None:
                made[node.targets[0].id] = own
    return made


def _read_maker(call: ast.Call) -> _Made | None:
    """Return what ``torch.empty((M, N), dtype=torch.float16)`` makes; None for another call."""
    match = _MAKER.fullmatch(ast.unparse(call.func))
    if match is None or not call.args:
        return None
    written = next((ast.unparse(k.value) for k in call.keywords if k.arg == "dtype"), "")
    dtype = written.removeprefix("torch.") if written.startswith("torch.") else ""
    dtype = dtype if dtype in _DTYPES else ""
    first = call.args[0]
    if match[1]:
        return ast.unparse(first), (), dtype
    elements = first.elts if isinstance(first, ast.Tuple | ast.List) else call.args
    dims = tuple(ast.unparse(e) for e in elements)
    if all(d.isidentifier() or d.isdecimal() for d in dims) and dims != ("shape",):
        return "", dims, dtype
    like = re.match(r"\w+", ast.unparse(first))
    return (like[0] if like else "", (), dtype)


_DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64"),
    *("bool", "float8_e4m3fn", "float8_e5m2"),
)


_DIMENSION = re.compile(
    r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\)|stride(?:\(\)\[|\()(-?\d+)[\])])"
)
"""Each of them says that there is such a dimension."""


def read_shapes(function: ast.FunctionDef) -> dict[str, tuple[str, ...]]:
    """Name the dimensions of tensors by ``M, N = x.shape``, ``x.shape[0]`` and ``x.size(1)``.

    A stride says that a dimension exists.
    """
    shapes: dict[str, tuple[str, ...]] = {}
    single: dict[str, dict[int, str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            _read_assignment(node.targets[0], node.value, shapes, single)
    for node in ast.walk(function):
        match = (
            _DIMENSION.fullmatch(ast.unparse(node))
            if (isinstance(node, ast.Subscript | ast.Call))
            else None
        )
        if match:
            index = int(match[2] or match[3] or match[4])
            single.setdefault(match[1], {}).setdefault(index, "")
    for name, dims in single.items():
        shapes.setdefault(name, complete_shape(dims))
    return _unify(function, shapes)


def _unify(
    function: ast.FunctionDef, shapes: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Give dimensions that an assertion compares one name."""
    renamed: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            one = _find_dimension(node.left, shapes)
            other = _find_dimension(node.comparators[0], shapes)
            if one and other and one != other:
                renamed[other] = one
    return {name: tuple(renamed.get(d, d) for d in shape) for name, shape in shapes.items()}


def _find_dimension(node: ast.expr, shapes: Mapping[str, tuple[str, ...]]) -> str | None:
    match = re.fullmatch(r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\))", ast.unparse(node))
    shape = shapes.get(match[1], ()) if match else ()
    index = int(match[2] or match[3]) if match else 0
    return shape[index] if shape and -len(shape) <= index < len(shape) else None


def _read_assignment(
    target: ast.expr,
    value: ast.expr,
    shapes: dict[str, tuple[str, ...]],
    single: dict[str, dict[int, str]],
) -> None:
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    for each, source in pairs:
        whole = re.fullmatch(r"(\w+)\.(?:shape|size\(\))", ast.unparse(source))
        part = re.fullmatch(r"(\w+)\.(?:shape\[(-?\d+)\]|size\((-?\d+)\))", ast.unparse(source))
        strides = re.fullmatch(r"(\w+)\.stride\(\)", ast.unparse(source))
        if strides and isinstance(each, ast.Tuple):
            single.setdefault(strides[1], {}).setdefault(len(each.elts) - 1, "")
        elif whole and isinstance(each, ast.Tuple):
            shapes[whole[1]] = tuple(
                e.id if isinstance(e, ast.Name) and e.id != "_" else f"d{i}"
                for i, e in enumerate(each.elts)
            )
        elif part and isinstance(each, ast.Name):
            single.setdefault(part[1], {})[int(part[2] or part[3])] = each.id
