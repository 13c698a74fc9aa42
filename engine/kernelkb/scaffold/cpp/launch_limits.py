"""The largest sizes that a launch of a fixed block, or grid, reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.model.kernels.kernel import evaluate_axis_expression
from kernelkb.scaffold.answers import MAX_THREADS
from kernelkb.scaffold.cpp.element_types import find_dtype
from kernelkb.scaffold.cpp.element_uses import show_line
from kernelkb.scaffold.cpp.functions import SourceFacts, build_function
from kernelkb.scaffold.cpp.index_bounds import read_indices
from kernelkb.scaffold.cpp.size_branches import iter_branch_limits
from kernelkb.scaffold.cpp.syntax import (
    Declaration,
    LaunchSite,
    bind_arguments,
    collect_locals,
    drop_comments,
    find_local_value,
    get_part,
    get_text,
    iter_nodes,
    iter_values,
    strip_casts,
)
from kernelkb.scaffold.cpp.tiles import list_grid_steps, list_tile_steps
from kernelkb.scaffold.draft import Function, SizeLimit
from kernelkb.scaffold.extents import list_axes, split_shape

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 4


def list_limits(
    function: Function,
    own: Declaration,
    facts: SourceFacts,
    launch: tuple[Sequence[str], Sequence[str]],
    types: Sequence[str] = (),
) -> tuple[SizeLimit, ...]:
    """Return the largest sizes, in elements, for which one thread is there for each.

    Of ``k<<<rows, 256>>>`` and ``if (threadIdx.x < n)``: ``n`` is at most 256. ``launch`` holds
    statements and configuration of a kernel's; a launcher has its own.
    """
    found = [*_iter_needs(function, own, facts), *_iter_divided(function, own, facts)]
    found += iter_branch_limits(function, own, facts, types)
    if function.is_kernel:
        texts = dict(_iter_values(launch[0])) | dict(facts.constants)
        texts |= dict(zip(function.template, types, strict=False))
        texts |= {p.name: p.value for p in function.parameters if p.role == "number"}
        found += _limit_block(launch[1], texts, function)
        found += _limit_shared(own, launch[1], texts, {n: n for n in texts}, facts)
        return (*found, *_iter_limits(own, launch[1], texts, {}))
    for site in facts.sites:
        kernel = next((d for d in facts.declarations if d.name == site.kernel and d.body), None)
        if site.host == own and kernel is not None:
            names = [p.name for p in build_function(kernel).parameters]
            values = _iter_values(collect_locals(own, site.line).values())
            texts = dict(facts.constants) | dict(values)
            given = zip([each.name for each in kernel.template], site.template, strict=False)
            texts |= {name: texts.get(value, value) for name, value in given}
            bound = bind_arguments(site.arguments, names)
            found += _iter_limits(kernel, site.configuration, texts, bound)
            found += _limit_block(site.configuration, texts, function)
            found += _limit_shared(kernel, site.configuration, texts, bound, facts)
    return tuple(found)


_DOUBLED = r"<=?\s*{0}\s*;\s*(?:\w+\s*(?:<<=\s*1|\*=\s*2)|(\w+)\s*=\s*(?:\1\s*(?:\*\s*2|<<\s*1)))"
"""A loop over the powers of two up to a size."""
_LEFT_OUT = re.compile(r"\b(\w+)\s*%\s*(\w+)\s*\)*\s*!=\s*0\b")
"""A size that is not taken unless it is a multiple of a number."""
_SHIFT = re.compile(r"\b1[uUlL]*\s*<<|\b(?:std::)?(?:pow|exp2|ldexp)f?\s*\(\s*2\b")


def _iter_needs(function: Function, own: Declaration, facts: SourceFacts) -> Iterator[SizeLimit]:
    """Yield the sizes that are powers of two, and those that have to be multiples of a number.

    Of arrays whose elements a kernel pairs by ``i ^ step``, as a bitonic sort does; those that a
    loop doubles an index up to, and that a caller shifts.
    """
    inner = {site.kernel: site.arguments for site in facts.sites if site.host == own}
    names = [p.name for p in function.parameters]
    for each in facts.declarations:
        if each != own and (function.is_kernel or each.name not in {*inner, *function.launches}):
            continue
        given = [p.name for p in build_function(each).parameters]
        bound = bind_arguments(inner.get(each.name, ()), given) if each != own else {}
        for array in _list_exchanged(each, given):
            yield SizeLimit((f"{bound.get(array, array)}.shape[0]",))
    hosts = [site for site in facts.sites if function.is_kernel and site.kernel == function.name]
    for site in hosts:
        for name, text in zip(names, site.arguments, strict=False):
            bare = strip_casts(text)
            value = find_local_value(bare, site.host) if bare.isidentifier() else bare
            doubled = bare.isidentifier() and _is_doubled(bare, site.host)
            if _SHIFT.search(value) or doubled:
                yield SizeLimit((name,))
    yield from (SizeLimit((p.name,)) for p in function.parameters if _is_doubled(p.name, own))
    for one, number in _LEFT_OUT.findall(get_text(own.body)):
        step = facts.constants.get(number, number)
        if one in names and step.isdecimal():
            yield SizeLimit((one,), int(step))


def _is_doubled(size: str, own: Declaration) -> bool:
    return re.search(_DOUBLED.format(re.escape(size)), get_text(own.body)) is not None


def _list_exchanged(own: Declaration, arrays: Sequence[str]) -> list[str]:
    """List the arrays of a kernel that are indexed by an index with some of its bits changed."""
    values = dict(iter_values(own.body))
    changed = {get_text(name) for name, value in values.items() if _XOR.search(get_text(value))}
    found = dict[str, None]()
    for node in iter_nodes(own.body) if own.body else ():
        text = get_text(node.child_by_field_name("indices"))
        words = set(re.findall(r"\w+", text))
        if node.type == "subscript_expression" and (words & changed or _XOR.search(text)):
            found[get_part(node, "argument")] = None
    return [name for name in found if name in arrays]


_XOR = re.compile(r"\b[A-Za-z_]\w*\s*\^\s*[A-Za-z_(]")


def _iter_values(statements: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what each statement that declares one variable sets it to."""
    for each in statements:
        match = re.match(r"(?:const |constexpr )*[\w:]+ (\w+)\s*(?:=\s*([^;]+)|([({][^;]+));", each)
        if match:
            yield match[1], (match[2] or match[3]).strip()


def _iter_limits(
    kernel: Declaration,
    configuration: Sequence[str],
    texts: Mapping[str, str],
    bound: Mapping[str, str],
) -> Iterator[SizeLimit]:
    """Yield the limits of a kernel's sizes; ``bound`` maps them to those of its launcher."""
    if len(configuration) < 2 or kernel.body is None:
        return
    sizes = [p.name for p in build_function(kernel).parameters if p.role == "size"]
    numbers = {n: number for n in texts if (number := _read_number(texts[n], texts))}
    steps = [*list_tile_steps(kernel, sizes, numbers, _read_extents(configuration[1], texts))]
    yield from (SizeLimit((bound.get(size, size),), step) for size, step in steps)
    divided = list_grid_steps(configuration[0], texts, numbers)
    yield from (SizeLimit((size,), step) for size, step in divided)
    grid, block = (_read_extents(each, texts) for each in configuration[:2])
    indices = read_indices(kernel.body, sizes)
    for index, size in indices.exact.items():
        value = indices.values.get(index)
        text = re.sub(r"[\s()]", "", get_text(value) if value is not None else index)
        parts = [part for part in text.split("+") if part]
        threads = [m[1] for m in (re.fullmatch(r"threadIdx\.([xyz])", p) for p in parts) if m]
        if size not in sizes or index in indices.moved or len(threads) != 1:
            continue
        at = "xyz".index(threads[0])
        pattern = r"(?:blockIdx\.{0}\*blockDim\.{0}|blockDim\.{0}\*blockIdx\.{0})"
        blocks = [p for p in parts if re.fullmatch(pattern.format(threads[0]), p)]
        if len(parts) == 1 + len(blocks):
            factors = [block[at], *[grid[at]] * len(blocks)]
            if all(factors):
                yield SizeLimit((bound.get(size, size),), 1, prod(factors))


def ask_edges(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    """Return a function whose sizes that are edges of a block are to be said.

    Of ``k<<<m, dim3(n, n, n)>>>`` and ``__shared__ float t[4][4][4]``: the guess for ``n`` is 4.
    """
    guesses, lines = dict[str, str](), dict[str, str]()
    for kernel, site in _list_starts(function, own, facts):
        texts = dict(_iter_values(collect_locals(site.host, site.line).values()))
        edges = list_extents(site.configuration[1], texts)
        held = _FIXED.findall(get_text(kernel.body))
        extents = {facts.constants.get(n, n) for each in held for n in re.findall(r"\w+", each)}
        guess = next(iter(extents)) if len(extents) == 1 else ""
        names = [p.name for p in build_function(kernel).parameters]
        own_names = {text: n for n, text in bind_arguments(site.arguments, names).items()}
        for edge in edges:
            name = own_names.get(edge, "") if function.is_kernel else edge
            guesses[name] = guess if guess.isdecimal() else ""
            lines[name] = f"line {site.line}: <<<{', '.join(site.configuration)}>>>"
    parameters = [
        p._replace(role="number", value=FILL_IN_MARK, guess=guesses[p.name], use=lines[p.name])
        if p.role == "size" and p.name in guesses
        else p
        for p in function.parameters
    ]
    return function._replace(parameters=tuple(parameters))


_WINDOW = (
    r"[=(]\s*-\s*\(?(?:int\)\s*)?{0}\s*;|\b2\s*\*\s*{0}\s*\+\s*1\b|\b{0}\s*\*\s*2\s*\+\s*1\b"
    r"|\+\s*2\s*\*\s*{0}\b(?!\s*[*\[(])|(?:threadIdx\.[xyz]|\btid\w*|\blocal\w*) \+ {0}\s*[\];]"
)
"""How a kernel names what it reads to both sides of an element."""


def ask_radii(function: Function, own: Declaration, facts: SourceFacts) -> Function:
    """Return a function whose sizes that a block in shared memory is wider by are to be said.

    Of a kernel that reads ``-r`` to ``r`` around an element, of which shared memory holds
    ``blockDim.x + 2 * r``. One that an array's shape proves is an axis, and a small one.
    """
    lines = dict[str, str]()
    for kernel, bound in _list_bodies(function, own, facts):
        names = [p.name for p in build_function(kernel).parameters if p.role == "size"]
        uses = [n for n in iter_nodes(kernel.body) if n.type == "identifier"]
        for name in names if "__shared__" in get_text(kernel.body) else ():
            if re.search(_WINDOW.format(name), get_text(kernel.body)):
                first = next(node for node in uses if get_text(node) == name)
                lines.setdefault(bound.get(name, name), show_line(first))
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    proved = {axis for each in arrays for axis in list_axes(each.shape)}
    parameters = []
    for each in function.parameters:
        if each.name in lines and each.role == "size" and each.name not in proved:
            each = each._replace(role="number", value=FILL_IN_MARK, use=lines[each.name])
        if each.guess and {*lines} & {*split_shape(each.guess)}:
            each = each._replace(guess="")
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _list_bodies(
    function: Function, own: Declaration, facts: SourceFacts
) -> list[tuple[Declaration, Mapping[str, str]]]:
    """List a kernel, or those of a launcher, each with what its sizes are in the function."""
    if function.is_kernel:
        return [(own, {})]
    bodies = {d.name: d for d in facts.declarations if d.body is not None}
    found: list[tuple[Declaration, Mapping[str, str]]] = []
    for site in facts.sites:
        if site.host == own and site.kernel in bodies:
            names = [p.name for p in build_function(bodies[site.kernel]).parameters]
            found.append((bodies[site.kernel], bind_arguments(site.arguments, names)))
    return found


_FIXED = re.compile(r"__shared__\s[^;()=]*?\w((?:\s*\[\s*\w+\s*\]){2,3})\s*;")
"""A block's array of fixed extents, of which there are several."""


def _list_starts(
    function: Function, own: Declaration, facts: SourceFacts
) -> list[tuple[Declaration, LaunchSite]]:
    """List the launches of a kernel, or of a launcher, each with its kernel."""
    bodies = {d.name: d for d in facts.declarations if d.body is not None}
    return [
        (bodies[site.kernel], site)
        for site in facts.sites
        if (site.kernel == function.name if function.is_kernel else site.host == own)
        if site.kernel in bodies and len(site.configuration) > 1
    ]


def warn_of_exchange(function: Function, own: Declaration, facts: SourceFacts) -> tuple[str, ...]:
    """Return a sentence for each launch whose grid has the sizes of a kernel in another order.

    Of a grid that counts the rows along x, and a kernel whose ``blockIdx.x`` counts columns.
    """
    found = dict[str, None]()
    for kernel, site in _list_starts(function, own, facts):
        names = [p.name for p in build_function(kernel).parameters]
        bound = bind_arguments(site.arguments, names)
        texts = dict(_iter_values(collect_locals(site.host, site.line).values()))
        extents = list_extents(site.configuration[0], texts)
        along = _read_block_sizes(kernel, names)
        used = [_list_words(each, {n: {text} for n, text in texts.items()}) for each in extents]
        taken = [{n for n, text in bound.items() if text in words} for words in used]
        pairs = [taken[at] & (along[1 - at] - along[at]) for at in (0, 1)] if len(taken) > 1 else []
        if pairs and all(pairs) and not any(taken[at] & along[at] for at in (0, 1)):
            shown = " and ".join(sorted(set.union(*pairs)))
            found[
                f"{kernel.name} counts {shown} along the other axis of its grid than its launch, "
                f"line {site.line}: where they differ a part is not computed; make them equal, or "
                "correct the grid"
            ] = None
    return (*found,)


def _read_block_sizes(kernel: Declaration, names: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the sizes that indices of ``blockIdx.x``, and those of ``blockIdx.y``, stay below."""
    along = set[str](), set[str]()
    if kernel.body is None:
        return along
    indices = read_indices(kernel.body, names)
    values: dict[str, set[str]] = {}
    for name, value in indices.values.items():
        values.setdefault(name.partition("@")[0], set()).add(get_text(value))
    for index, size in indices.bounds.items():
        words = _list_words(re.sub(r"@\d+", "", index), values)
        axes = [at for at in (0, 1) if f"blockIdx.{'xy'[at]}" in words]
        if len(axes) == 1 and size in names:
            along[axes[0]].add(size)
    return along


def _list_words(text: str, values: Mapping[str, set[str]]) -> set[str]:
    """Return the names of an expression, and of what its variables are set to."""
    words = {*re.findall(r"[A-Za-z_][\w.]*", text)}
    for _ in range(_MAX_DEPTH):
        inner = " ".join(each for word in words & values.keys() for each in values[word])
        words |= {*re.findall(r"[A-Za-z_][\w.]*", inner)}
    return words


def _limit_block(
    configuration: Sequence[str], texts: Mapping[str, str], function: Function
) -> list[SizeLimit]:
    """Return the limits of the sizes that are extents of a block: all threads are at most 1024."""
    edges = list_extents(configuration[1], texts) if len(configuration) > 1 else []
    sizes = [p.name for p in function.parameters if p.role == "size"]
    return _limit_room(" * ".join(f"({edge})" for edge in edges), MAX_THREADS, texts, sizes)


_ELEMENT = re.compile(r"\bsizeof\s*\(\s*([\w: ]+?)\s*\)")
_CAST = re.compile(
    r"\((?:unsigned|int|long|size_t|u?int\d+_t)(?: (?:int|long))*\)|\bstatic_cast<[^<>]*>|std::"
)


def _limit_room(
    text: str, room: int, texts: Mapping[str, str], sizes: Sequence[str]
) -> list[SizeLimit]:
    """Return the limits of the sizes of an expression, all alike, that is at most ``room``.

    What it names besides counts as 1.
    """
    for _ in range(_MAX_DEPTH):
        words = [w for w in re.findall(r"[A-Za-z_]\w*", text) if w in texts and w not in sizes]
        for word in dict.fromkeys(words):
            text = re.sub(rf"(?<![.\w]){word}\b", f"({texts[word]})".replace("\\", ""), text)
    text = _ELEMENT.sub(lambda m: str(int(re.sub(r"\D", "", find_dtype(m[1]) or "32")) // 8), text)
    text = re.sub(r"/+", "//", re.sub(r"\b(\d+)[uUlL]+\b", r"\1", _CAST.sub("", text)))
    left = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text))
    named = [word for word in left if word in sizes]
    others = {word: 1 for word in left if word not in ("min", "max")}

    def holds(size: int) -> bool:
        return evaluate_axis_expression(text, others | dict.fromkeys(named, size)) <= room

    least, most = 1, _MOST_SIZE
    try:
        if not named or holds(most) or not holds(least):
            return []
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if holds(middle) else (least, middle)
    except ValueError:
        return []
    return [SizeLimit((name,), 1, least) for name in named]


_MOST_SIZE = 2**24
_SHARED_BYTES, _ASKED_BYTES = 48 * 1024, 96 * 1024
"""Shared memory of a block: without asking for more, and where a host asks."""
_STATIC = re.compile(r"(?<!extern )__shared__\s[^;()={}]*?(\w+)\s*((?:\[[^\];]+\]\s*)+);")


def _limit_shared(
    kernel: Declaration,
    configuration: Sequence[str],
    texts: Mapping[str, str],
    bound: Mapping[str, str],
    facts: SourceFacts,
) -> Iterator[SizeLimit]:
    """Yield the limits of the sizes for which a block's shared memory has room.

    Of the dynamic one, as its launch says; and those that bound a subscript of a static one.
    """
    own = build_function(kernel).parameters
    names = [p.name for p in own if p.role == "size"]
    if len(configuration) > 2:
        sizes = [bound.get(name, name) for name in names]
        asks = any("MaxDynamicSharedMemorySize" in get_text(d.body) for d in facts.declarations)
        room = _ASKED_BYTES if asks else _SHARED_BYTES
        yield from _limit_room(configuration[2], room, texts, sizes)
    indices = read_indices(kernel.body, names) if kernel.body else None
    held = {
        m[1]: re.findall(r"\[([^\]]+)\]", m[2]) for m in _STATIC.finditer(get_text(kernel.body))
    }
    for base, places in _iter_places(kernel.body) if indices else ():
        for place, extent in zip(places, held.get(base, ()), strict=False):
            size = indices.exact.get(place, "") if indices and place.isidentifier() else ""
            less = re.match(r"(\w+)\s*-", place)
            size = less[1] if less and less[1] in names else size
            room = _read_number(extent.strip(), texts)
            if size in names and room:
                yield SizeLimit((bound.get(size, size),), 1, room)


def _iter_places(body: Node | None) -> Iterator[tuple[str, list[str]]]:
    """Yield the array and the subscripts, outermost first, of each element that a body names."""
    for node in iter_nodes(body):
        places, base = list[str](), node
        while base.type == "subscript_expression":
            places.insert(0, get_part(base, "indices").strip("[] "))
            base = base.child_by_field_name("argument") or node
            if base == node:
                break
        if places:
            yield get_text(base), places


_DIVISION = re.compile(r"(?<![\w.)\]/*%])\s*\b([A-Za-z_]\w*)\s*/\s*([A-Za-z_]\w*)\b(?!\s*[.(\[])")
"""One name that is divided by another, without the rest."""


def _iter_divided(function: Function, own: Declaration, facts: SourceFacts) -> Iterator[SizeLimit]:
    """Yield the sizes that are divided by another one: groups that have as many elements each."""
    names = {p.name for p in function.parameters if p.role in ("size", "number")}
    found = dict[tuple[str, str], None]()
    hosts = [s for s in facts.sites if function.is_kernel and s.kernel == function.name]
    texts: list[tuple[str, Mapping[str, str]]] = [(drop_comments(get_text(own.body)), {})]
    for site in hosts:
        given = bind_arguments(site.arguments, [p.name for p in function.parameters])
        text = drop_comments(get_text(site.host.body))
        texts.append((text, {text: name for name, text in given.items()}))
    for body, bound in _list_bodies(function, own, facts):
        texts.append((drop_comments(get_text(body.body)), bound))
    numbers = [p.value or p.guess for p in function.parameters if p.role == "number"]
    texts += [(text.replace("//", "/"), {}) for text in numbers]
    for text, bound in texts:
        for pair in _DIVISION.findall(text):
            one, by = (bound.get(name, "" if bound else name) for name in pair)
            found |= {(one, by): None} if {one, by} <= names and one != by else {}
    for one, by in found:
        if (by, one) not in found:
            yield SizeLimit((one,), 1, of=(by,))


def list_extents(text: str, texts: Mapping[str, str]) -> list[str]:
    """List what stands for each extent of a grid or a block, following what names stand for."""
    for _ in range(_MAX_DEPTH):
        bare = strip_casts(text)
        text = texts.get(bare, bare)
    bare = re.sub(r"^(?:dim3)?\s*[({](.*)[)}]$", r"\1", text.strip())
    return [strip_casts(part.strip()) for part in bare.split(",")]


def _read_extents(text: str, texts: Mapping[str, str]) -> tuple[int, int, int]:
    """Return the three extents of a grid or a block; 0 for one that is no number."""
    x, y, z, *_ = *(_read_number(part, texts) for part in list_extents(text, texts)), 1, 1
    return x, y, z


def _read_number(text: str, texts: Mapping[str, str]) -> int:
    for _ in range(_MAX_DEPTH):
        text = re.sub(r"^[({]\s*(.*?)\s*[)}]$", r"\1", texts.get(text, text))
    return int(text) if text.isdecimal() else 0
