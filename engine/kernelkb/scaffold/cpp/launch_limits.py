"""The largest sizes that a launch of a fixed block, or grid, reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from kernelkb.scaffold.answers import MAX_THREADS
from kernelkb.scaffold.cpp.functions import SourceFacts, build_function
from kernelkb.scaffold.cpp.index_bounds import read_indices
from kernelkb.scaffold.cpp.syntax import (
    Declaration,
    bind_arguments,
    collect_locals,
    find_local_value,
    get_part,
    get_text,
    iter_nodes,
    iter_values,
    strip_casts,
)
from kernelkb.scaffold.cpp.tiles import list_grid_steps, list_tile_steps
from kernelkb.scaffold.draft import Function, SizeLimit

_MAX_DEPTH = 4


def list_limits(
    function: Function,
    own: Declaration,
    facts: SourceFacts,
    launch: tuple[Sequence[str], Sequence[str]],
    types: Sequence[str] = (),
) -> tuple[SizeLimit, ...]:
    """Return the largest sizes, in elements, for which one thread is there for each.

    Of ``k<<<rows, 256>>>`` and ``if (threadIdx.x < n)``: ``n`` is at most 256.

    Args:
        function: What is called.
        own: Its declaration.
        facts: Its file.
        launch: Statements and configuration of a kernel's launch; a launcher has its own.
        types: Arguments of a kernel's template.
    """
    found = [*_iter_needs(function, own, facts)]
    if function.is_kernel:
        texts = dict(_iter_values(launch[0])) | dict(facts.constants)
        texts |= dict(zip(function.template, types, strict=False))
        texts |= {p.name: p.value for p in function.parameters if p.role == "number"}
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
    own = [bound.get(size, size) for size in sizes]
    if configuration[1] in own:
        yield SizeLimit((configuration[1],), 1, MAX_THREADS)
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


def _read_extents(text: str, texts: Mapping[str, str], depth: int = 0) -> tuple[int, int, int]:
    """Return the three extents of a grid or a block; 0 for one that is no number."""
    bare = strip_casts(text)
    if bare in texts and depth < _MAX_DEPTH:
        return _read_extents(texts[bare], texts, depth + 1)
    parts = re.sub(r"^(?:dim3)?\s*[({](.*)[)}]$", r"\1", bare).split(",")
    x, y, z, *_ = *(_read_number(part.strip(), texts) for part in parts), 1, 1
    return x, y, z


def _read_number(text: str, texts: Mapping[str, str]) -> int:
    for _ in range(_MAX_DEPTH):
        text = re.sub(r"^[({]\s*(.*?)\s*[)}]$", r"\1", texts.get(text, text))
    return int(text) if text.isdecimal() else 0
