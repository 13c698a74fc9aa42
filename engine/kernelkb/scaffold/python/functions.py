"""Parameters of Python functions that launch kernels: tensors, shapes, what is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from kernelkb.scaffold.draft import (
    LIST,
    UNKNOWN,
    Function,
    Parameter,
    ParameterRole,
    is_option,
    to_field_name,
)
from kernelkb.scaffold.python.arguments import (
    Given,
    drop_guarded,
    list_defaults,
    list_lists,
    list_words,
    read_given,
    read_values,
)
from kernelkb.scaffold.python.block_bounds import (
    bounds_parts,
    find_indexed,
    list_limits,
    list_spread,
    list_unread,
)
from kernelkb.scaffold.python.branches import ARRAY, list_stored
from kernelkb.scaffold.python.indices import LENGTHS, STARTS, Index, list_indices
from kernelkb.scaffold.python.launches import (
    DTYPES,
    STORES,
    UPDATES,
    Kernels,
    guess_dtypes,
    guess_shape,
    is_computed,
    list_accessed,
    list_launches,
    list_passed_on,
)
from kernelkb.scaffold.python.made import (
    OTHER,
    Made,
    collect_made,
    find_cast,
    list_casts,
)
from kernelkb.scaffold.python.nodes import find_first, iter_named, map_first, walk_own
from kernelkb.scaffold.python.objects import describe_objects
from kernelkb.scaffold.python.shapes import find_dimension, list_parts, read_shapes
from kernelkb.scaffold.python.writes import is_used, list_chosen, list_unstored, list_written

_TENSOR_WORDS = re.compile(
    r"\b{name}\.(?:shape|stride|size|is_cuda|numel|dtype|device|contiguous|view|reshape|dim|ndim"
    r"|new_empty|is_contiguous|data_ptr|unsqueeze|permute|transpose|T|element_size|to|[a-z]+_)\b"
)
_MAX_CALLS = 2
"""Of functions of the file, one in another, whose result is returned."""


def read_python_function(
    function: ast.FunctionDef,
    kernels: Kernels,
    launches: Sequence[str],
    owner: str = "",
    *,
    takes_tensors: bool = False,
    callers: Sequence[ast.FunctionDef] = (),
    said: Mapping[str, object] = MappingProxyType({}),
) -> Function:
    """Return a function with its tensors, their shapes, and the tensors that it returns.

    Args:
        function: The function; of an autograd class its ``forward``.
        kernels: The file's Triton kernels.
        launches: Those that it launches.
        owner: Its class; empty for a plain function.
        takes_tensors: Whether arguments without a type are tensors.
        callers: The file's functions, whose defaults may reach it.
        said: What is known of arguments that it has defaults for, as values.
    """
    given = _read_given(function, kernels, launches, owner, said)
    values, words = read_values(function, given, owner, callers), list_words(function)
    function = given.function
    launches = list_launches(function, kernels) or launches
    parts = _read_parameters(given, kernels, values, takes_tensors=takes_tensors)
    return Function(
        owner or function.name,
        tuple(_name_kind(p, function, words) for p in parts),
        returns="apply" if owner else "",
        style="python",
        line=function.lineno,
        launches=tuple(launches),
        limits=list_limits(function, kernels, said),
        unread=list_unread(function, kernels),
        lacks=describe_objects(function, kernels, owner or function.name),
        options=tuple(given.options),
        words=tuple(words),
        parts=_write_parts(function),
    )


def _read_given(
    function: ast.FunctionDef,
    kernels: Kernels,
    launches: Sequence[str],
    owner: str,
    said: Mapping[str, object],
) -> Given:
    """Return what a launcher is called with, with each array of which it needs at least one."""
    used = {n for each in (("tl.load",), STORES) for n in list_accessed(function, kernels, each)}
    used = drop_guarded(kernels, launches, used)
    given = read_given(function, owner, used, said)
    lost = list_unstored(function, given, kernels, said)
    known: dict[str, object] = {**dict.fromkeys(lost, ARRAY), **said}
    return read_given(function, owner, used, known) if lost else given


def _name_kind(each: Parameter, function: ast.FunctionDef, words: Mapping[str, str]) -> Parameter:
    """Return a parameter with what its user may say of it: a word, a list of numbers, a dtype.

    That is asked for an optional output by itself.
    """
    each = each._replace(guess=each.guess or words.get(each.name, ""))
    if each.role == "output" and each.type == "tensor" and each.name in list_defaults(function):
        each = each._replace(has_own_dtype=True)
    is_list = each.type == "number" and each.value != STREAM and each.name in list_lists(function)
    return each._replace(type=LIST, use="a list of numbers, as [1, 2]") if is_list else each


def _write_parts(function: ast.FunctionDef) -> tuple[tuple[str, str], ...]:
    """List the names that are parts of axes, with that: ``("H", "three_H // 3")``."""
    found = list_parts(function, read_shapes(function))
    return tuple((name, f"{axis} // {count}") for name, (axis, count) in found.items())


def _read_parameters(
    given: Given,
    kernels: Kernels,
    values: Mapping[str, tuple[str, str]],
    *,
    takes_tensors: bool,
) -> tuple[Parameter, ...]:
    function, required, text = given.function, given.passed, ast.unparse(given.function)
    loaded, stored = (list_accessed(function, kernels, each) for each in (("tl.load",), STORES))
    changed = _drop_set(list_accessed(function, kernels, UPDATES), text)
    used, own = loaded | stored, list_written(function, kernels)
    plain = {a.arg for a in required if takes_tensors and not a.annotation} - {"stream"} | used
    present = [a for a in required if values[a.arg][0] != "None"]
    tensors = [a.arg for a in present if a.arg in plain or _is_tensor(a, text, given.needed)]
    stored |= own & {*tensors}
    changed |= {name for name in _drop_set(own, text) if is_used(function, name)}
    shapes = read_shapes(function)
    guesses = _guess_shapes(function, kernels, [a for a in tensors if a not in shapes])
    indices = list_indices(function, kernels)
    dtypes = {a: guess_dtypes(function, kernels, a, is_index=a in indices) for a in tensors}
    elsewhere = list_passed_on(function, kernels) | list_chosen(function, kernels)
    returned = _read_followed(function, kernels)
    returned = returned or _read_returned(function, shapes, dtypes, guesses)
    returned = [] if _returns_only(function, {*tensors} & (stored | elsewhere)) else returned
    written, unsure = (set[str](), set[str]()) if returned else (stored, elsewhere)
    unsure |= {p.origin.removeprefix(RETURNED) for p in returned} - stored
    spread, parameters = list_spread(function, kernels) & written, []
    unsure |= spread - loaded
    by_name = {a.arg for a in function.args.kwonlyargs}
    for each in (_make_parameter(a, tensors, written, shapes, dtypes) for a in required):
        each = each._replace(is_certain=each.name not in unsure, by_name=each.name in by_name)
        if each.role == "number":
            value, origin = (each.value, "") if each.value else values[each.name]
            parameters.append(each._replace(value=value, origin=origin))
            continue
        copy = f"{each.name}.clone()" if returned and each.name in stored else ""  # each call's own
        is_read = each.role == "output" and each.name in loaded | changed | spread
        each = each._replace(value=copy, guess=guesses.get(each.name, ""), is_read=is_read)
        parameters.append(_read_places(function, kernels, each, indices.get(each.name)))
    return _fix_sizes(function, (*parameters, *returned))


def _read_places(
    function: ast.FunctionDef, kernels: Kernels, each: Parameter, index: Index | None
) -> Parameter:
    """Return an array with what its elements are places in; else with that question."""
    is_bound = each.role == "input" and bounds_parts(function, kernels, each.name)
    indexed, low, axis = find_indexed(function, kernels, each.name)
    each = each._replace(points_into=UNKNOWN if is_bound else "")
    each = each._replace(indexes=(indexed, low), indexed_axis=axis)
    lengths = [a.arg for a in function.args.args if LENGTHS.search(to_field_name(a.arg))]
    if indexed and lengths and STARTS.search(to_field_name(each.name)):
        why = (
            f"parts of {indexed} begin there: {each.name} + {lengths[0]} has to stay inside: "
            f"{to_field_name(each.name)}.fill='integers COUNT'"
        )
        return each._replace(indexes=("", 0), asks_fill=("", why))
    if index is None or not index.is_place or is_bound or indexed:
        return each
    why = f"{index.line}; places below COUNT: {to_field_name(each.name)}.fill='integers COUNT'"
    return each._replace(asks_fill=("", why))


def _guess_shapes(
    function: ast.FunctionDef, kernels: Kernels, tensors: Sequence[str]
) -> dict[str, str]:
    """Map tensors to what the docstring, a type or their uses suggest as a shape, or nothing."""
    text, shapes = ast.unparse(function), read_shapes(function)
    own = {name: _find_noted(text, name) for name in tensors}
    return {n: own[n] or guess_shape(function, kernels, n, shapes) for n in tensors}


def _fix_sizes(function: ast.FunctionDef, parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return parameters with the sizes that keep the function's defaults as numbers."""
    own, found = {each.name for each in parameters}, []
    defaults = {n: ast.unparse(v) for n, v in list_defaults(function).items() if n not in own}
    sizes = {name: value for name, value in defaults.items() if value.isdecimal()}
    for each in parameters:
        guess = re.sub(r"\w+", lambda m: sizes.get(m[0], m[0]), each.guess)
        shape = tuple(sizes.get(d, d) for d in each.shape)
        found.append(each._replace(shape=shape, guess=guess))
    return tuple(found)


def _drop_set(names: set[str], text: str) -> set[str]:
    """Return the tensors that a function does not set itself before, as by ``y.zero_()``."""
    return {name for name in names if not re.search(rf"\b{name}\.(?:zero|fill)_\(", text)}


STREAM = "_get_stream()"
"""What launch.py passes for a stream."""


def _make_parameter(
    argument: ast.arg,
    tensors: Sequence[str],
    written: set[str],
    shapes: Mapping[str, tuple[str, ...]],
    dtypes: Mapping[str, str],
) -> Parameter:
    name = argument.arg
    if name not in tensors:
        kind = ast.unparse(argument.annotation) if argument.annotation else ""
        is_stream = "CUstream" in kind or name == "stream"
        is_size = kind == "int" and not is_option(name)
        value, guess = STREAM if is_stream else "", "axis" if is_size else ""
        use = "" if kind or is_stream else "an array's shape, as [n], or a number"
        return Parameter(name, "number", "number", value=value, guess=guess, use=use)
    role: ParameterRole = "output" if name in written else "input"
    each = Parameter(name, "tensor", role, shape=shapes.get(name, ()), dtypes=dtypes[name])
    checked = each.dtypes if each.dtypes in DTYPES else None
    return each._replace(has_own_dtype=bool(each.dtypes), dtype=checked)


def _is_tensor(argument: ast.arg, text: str, needed: Sequence[str]) -> bool:
    """Whether an argument's type, what is done with it, or the function's text say a tensor."""
    name = re.escape(argument.arg)
    saved = rf"\.save_for_backward\([^()]*\b{name}\b(?! *[.=(])"
    if re.search(saved, text) or _find_noted(text, argument.arg):
        return True
    kind = ast.unparse(argument.annotation) if argument.annotation else ""
    if kind:
        is_optional = "Optional" in kind or "None" in kind
        return bool(_ARRAY.search(kind)) and (argument.arg in needed or not is_optional)
    pattern = _TENSOR_WORDS.pattern.replace("{name}", name)
    return bool(re.search(rf"{pattern}|\b\w+_like\({name}\b", text))


def _find_noted(text: str, name: str) -> str:
    """Return the shape that a docstring gives an argument, as ``[N, 4]``.

    As ``g: a vector of shape [N]`` or ``x: (tokens * k, D)``.
    """
    head = rf"(?m)^( *)[-*]?\s*:?(?:param )?`*{re.escape(name)}`*\b"
    dims = rf"\s*:?\s*`*[\[(]({_NOTED}(?:, *{_NOTED})*),?[\])]"
    said = text.partition('"""')[2].partition('"""')[0]
    noted = re.search(rf"{head}[^\n\[]*?(?:shape|size|of|:|[Tt]ensor){dims}", said)
    noted = noted or re.search(rf"{head}[^\n]*\n(?:\1 [^\n]*\n)*?\1 [^\n]*[Ss]hape{dims}", said)
    if noted is None or re.fullmatch(_TYPE_WORDS, noted[2]) or re.search(r"\w \w", noted[2]):
        return ""
    return f"[{noted[2]}]"


_NOTED = r"\w[\w*/+ -]*"
_ARRAY = re.compile(r"Tensor|\b(?:Float|Int|UInt8|Bool|Shaped|BFloat16)\[")
_TYPE_WORDS = r"(?i)(?:torch\W*)?(?:tensor|int|float|bool|str|optional|list|tuple)\w*(?:, *\w+)*"


def _read_returned(
    function: ast.FunctionDef,
    shapes: Mapping[str, tuple[str, ...]],
    dtypes: Mapping[str, str],
    guesses: Mapping[str, str],
) -> list[Parameter]:
    """Return an output for each tensor that a function returns; of one like another its guess."""
    tensors = [*dtypes]
    returns = [n.value for n in walk_own(function) if isinstance(n, ast.Return) and n.value]
    if not (values := [v for v in returns if not isinstance(v, ast.Constant) or v.value]):
        return []
    last, is_one = values[-1], len({ast.unparse(value) for value in values}) == 1
    parts, outputs = [*iter_parts(last)], list[Parameter]()
    made, casts = collect_made(function), list_casts(function, last.lineno)
    known = {*made, *tensors, *_list_computed(function, {*made, *tensors})}
    for index, (pick, part) in enumerate(parts):
        base = next((w for w in re.findall(r"\w+", ast.unparse(part)) if w != "torch"), "")
        is_empty = len(parts) > 1 and "0" in made.get(base, ("", ()))[1]  # its option is left out
        is_other = base not in known and (base.isupper() or len(parts) > 1)
        is_same = ast.unparse(part) in [ast.unparse(each) for _, each in parts[:index]]
        if isinstance(part, ast.Constant) or is_empty or is_other or is_same:
            continue
        is_name = isinstance(part, ast.Name) and base not in tensors
        field = base if is_name else f"{'result' if 'out' in tensors else 'out'}{index or ''}"
        own = source, _, dtype = made.get(base, (base, (), casts.get(base, "")))
        shape, is_known = _find_returned_shape(function, part, own, shapes, tensors)
        is_known &= is_one
        shown = f"[{', '.join(shape)}]" if shape else _find_noted(ast.unparse(function), field)
        guess = shown if shape and not is_known else guesses.get(source) or shown * (not shape)
        dtype = (find_cast(part, casts) or dtype or dtypes.get(source, "")) if is_one else OTHER
        has_own = dtype == OTHER or base not in (*made, *tensors)
        output = Parameter(field, "return", "output", dtype if dtype in DTYPES else None)
        if not is_name:  # it is no name of the text
            given = base if base in tensors and _is_given(function, part, base) else ""
            use = f"line {last.lineno}: return {ast.unparse(last)}"
            output = output._replace(use=use, origin=given and RETURNED + given)
        output = output._replace(value=pick + _find_dense(function, part), guess=guess)
        outputs.append(output._replace(shape=shape * is_known, has_own_dtype=has_own))
    is_lost = not outputs and any(isinstance(part, ast.Name) for _, part in parts)
    return [Parameter("out", "return", "output", is_certain=False)] if is_lost else outputs


def iter_parts(value: ast.expr, pick: str = "") -> Iterator[tuple[str, ast.expr]]:
    """Yield each array that a function returns, with what takes it out of the rest: ``[1][0]``."""
    if isinstance(value, ast.Dict):
        for key, each in zip(value.keys, value.values, strict=True):
            yield from iter_parts(each, f"{pick}[{ast.unparse(key) if key else ''}]")
    elif isinstance(value, ast.Tuple | ast.List):
        single = len(value.elts) == 1 and not pick
        for at, each in enumerate(value.elts):
            yield from iter_parts(each, "" if single else f"{pick}[{at}]")
    else:
        yield pick, value


def _read_followed(function: ast.FunctionDef, kernels: Kernels) -> list[Parameter]:
    """Return an output for each array of a tuple that a function of the file returns in turn.

    That is for ``return pair(x)``; none for anything else.
    """
    value = _find_last(function)
    own, found = {a.arg for a in function.args.args}, list[Parameter]()
    followed = _follow_call(value, kernels)
    for at, part in enumerate(followed.elts if isinstance(followed, ast.Tuple) else ()):
        use = f"line {value.lineno}: return {ast.unparse(value)}" if value else ""
        name = part.id if isinstance(part, ast.Name) else f"out{at or ''}"
        name += "_out" * (name in own)
        each = Parameter(name, "return", "output", use=use, value=f"[{at}]", has_own_dtype=True)
        found += [] if isinstance(part, ast.Constant) else [each]
    return found


def _find_last(function: ast.FunctionDef) -> ast.expr | None:
    """Return what the last line of a function returns that returns something."""
    values = [n.value for n in walk_own(function) if isinstance(n, ast.Return) and n.value]
    return max(values, key=lambda value: value.lineno, default=None)


def _follow_call(
    value: ast.expr | None, kernels: Kernels, left: int = _MAX_CALLS
) -> ast.expr | None:
    """Return what a function of the file returns that an expression calls; else None."""
    called = value.func if isinstance(value, ast.Call) else None
    helper = kernels.functions.get(called.id) if isinstance(called, ast.Name) else None
    last = _find_last(helper) if helper is not None and left else None
    return _follow_call(last, kernels, left - 1) if isinstance(last, ast.Call) else last


RETURNED = "the argument "
"""How the origin of an array begins that is returned and that the caller gave."""


def _is_given(function: ast.FunctionDef, part: ast.expr, name: str) -> bool:
    """Whether what a function returns is an argument, or a view of it."""
    viewed = rf"{re.escape(name)}(?:\.(?:view|reshape|contiguous)\([^()]*\))*"
    return name not in list_stored(function) and bool(re.fullmatch(viewed, ast.unparse(part)))


def _find_dense(function: ast.FunctionDef, part: ast.expr) -> str:
    """Return what makes a returned sparse tensor dense, as outputs are; else nothing."""
    text, sparse = ast.unparse(part), r"\.to_sparse\w*\([^()]*\)(?:\.coalesce\(\))?"
    own = rf"(?m)^\s*{re.escape(text)} = [^\n]*{sparse}$"
    is_sparse = re.search(rf"{sparse}$", text) or re.search(own, ast.unparse(function))
    return ".to_dense()" if is_sparse else ""


def _returns_only(function: ast.FunctionDef, tensors: set[str]) -> bool:
    """Whether all that a function returns are some of its arguments, which it assigns no other."""
    values = [n.value for n in walk_own(function) if isinstance(n, ast.Return) and n.value]
    parts = [p for v in values for p in (v.elts if isinstance(v, ast.Tuple | ast.List) else [v])]
    names = {p.id for p in parts if isinstance(p, ast.Name)}
    return len(names) == len({*map(ast.unparse, parts)}) > 0 and names <= tensors - {
        *list_stored(function)
    }


def _find_returned_shape(
    function: ast.FunctionDef,
    part: ast.expr,
    own: Made,
    shapes: Mapping[str, tuple[str, ...]],
    tensors: Sequence[str],
) -> tuple[tuple[str, ...], bool]:
    """Return the shape of what a function returns, and whether the text proves it.

    Args:
        function: The function.
        part: One tensor that it returns.
        own: What that was made like.
        shapes: Of tensors, as far as they are known.
        tensors: The function's arguments.
    """
    source, dims, _ = own
    text, sizes = ast.unparse(part), {dim for shape in shapes.values() for dim in shape}
    viewed = _VIEW.fullmatch(text)
    kept = re.escape(viewed[1]) if viewed else "$^"
    if same := re.search(rf"\b{kept} = (\w+)\.(?:shape|size\(\))\n", ast.unparse(function)):
        return shapes.get(same[1], ()), same[1] in shapes
    named = [value for name, value in iter_named(function) if name == text]
    if first := _LIKE.search(_write_shapes(function, [part, *named][-1])):
        led = shapes.get(first[1], ())[: int(first[2])]
        return (led, True) if led else (_name_sizes(dims, shapes), False)
    dims = _name_sizes(viewed[1].split(", ") if viewed else dims, shapes)
    if any(is_computed(function, dim) for dim in dims):
        return (), False
    if summed := _SUMMED.search(text):
        at = int(summed[1] or len(dims))
        return (*dims[:at], *dims[at + 1 :]) if at < len(dims) else (), False
    base = re.search(r"\w+", text)
    is_made = base is not None and _is_as_made(function, part, base[0])
    is_known = bool(dims) if viewed else is_made and (source in tensors or bool(dims))
    like = source if source in tensors else next(iter(tensors), "")
    shape = dims or (shapes.get(like, ()) if source in tensors or len(tensors) == 1 else ())
    return shape, is_known and all(d in sizes or d.isdecimal() for d in dims)


def _is_as_made(function: ast.FunctionDef, part: ast.expr, base: str) -> bool:
    """Whether a returned tensor is still the one that was made, with all of its dimensions."""
    same = r"(?:\.(?:contiguous\(\)|(?:to|type_as)\([^()]*\)|(?:view|reshape)\(\*[^():,]*\)))*"
    if not re.fullmatch(rf"{re.escape(base)}{same}", _write_shapes(function, part)):
        return False
    values = [
        _write_shapes(function, value) for name, value in iter_named(function) if name == base
    ]
    changed = [v for v in values if re.search(rf"\b{re.escape(base)}\b", v) and "_like(" not in v]
    is_moved = any(_RANKS.search(value) for value in changed[-1:])
    of_own = (re.fullmatch(rf"{re.escape(base)}\.[\w.]+\(.*\)", value) for value in changed)
    return all(of_own) and not is_moved


_RANKS = re.compile(r"\.(?:(?:un)?squeeze|flatten)\(|\.(?:view|reshape)\([^()]*[,:]")
"""What gives a tensor other axes."""


def _write_shapes(function: ast.FunctionDef, value: ast.expr) -> str:
    """Return a view with a name for its whole shape replaced by what that is."""
    own = {name: ast.unparse(each) for name, each in map_first(function).items()}
    return re.sub(r"(?<=[(*])\w+(?=\))", lambda name: own.get(name[0], name[0]), ast.unparse(value))


_OF_TENSOR = re.compile(r"\b\w+\.(?:shape|size|stride|numel|dtype|device|n?dim|is_\w+|data_ptr)\b")
"""What a tensor says of itself."""


def _list_computed(function: ast.FunctionDef, tensors: set[str]) -> set[str]:
    """List the variables that an expression of torch, or arithmetic of tensors, is assigned to."""
    found = set[str]()
    for name, value in iter_named(function):
        text = ast.unparse(value)
        is_torch = re.match(r"torch\.(?!cuda|device|float)", text)
        used = (tensors | found) & {*re.findall(r"\b(?<!\.)\w+", _OF_TENSOR.sub("", text))}
        is_method = isinstance(value, ast.Call) and find_first(value) in used
        is_method &= not re.search(r"\.(?:item|tolist|nelement|get_device)\(\)$", text)
        if is_torch or is_method or (used and isinstance(value, ast.BinOp | ast.UnaryOp)):
            found.add(name)
    return found


def _name_sizes(dims: Sequence[str], shapes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return sizes, ``x.shape[0]`` as the shape of x names it; none if one is not known."""
    nodes = [ast.parse(dim, mode="eval").body for dim in dims]
    named = [find_dimension(n, shapes) or d for n, d in zip(nodes, dims, strict=True)]
    return tuple(named) if all(d.isidentifier() or d.isdecimal() for d in named) else ()


_VIEW = re.compile(r"\w+\.(?:view|reshape)\(\(?((?:[\w.]+(?:\[\d+\])?(?:, )?)+)\)?\)")
_LIKE = re.compile(
    r"\.(?:view|reshape)\(\*?(\w+)\.(?:shape|size\(\))\[:(-?\d+)\]\)(?:\.contiguous\(\))?$"
)
"""A view with the first axes of another tensor."""
_SUMMED = re.compile(r"\.(?:sum|mean|amax|amin)\((?:dim=|axis=)?(\d+)?")
