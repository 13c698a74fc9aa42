"""Decides how to call a kernel or launcher of pointers: shapes, scalars, templates, the grid."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.c.array_shapes import ROWS, fill_arrays, list_parts
from kernelkb.scaffold.c.c_functions import SourceFacts, find_dtype, is_size_type
from kernelkb.scaffold.c.launch_values import LaunchContext, collect_configuration, find_local_value
from kernelkb.scaffold.c.syntax import (
    Declaration,
    LaunchSite,
    TemplateParameter,
    bind_arguments,
    get_text,
    iter_nodes,
)
from kernelkb.scaffold.draft import (
    FUNCTOR,
    Function,
    Parameter,
    choose_number,
    choose_template_value,
    is_option,
)

_MOST_AXES = 6
"""Axes whose product still gives arrays that fit: the drafted sizes are smaller for more axes."""
_DEFAULT_THREADS = 256
"""Threads per block of an elementwise kernel: allowed on every GPU."""
_INDEX = re.compile(r"\b(?:blockIdx|threadIdx|blockDim|gridDim)\.[xyz]")
_MAX_SHOWN = 80
"""Characters of a line that is shown beside a mark."""
_FEW = "256"
"""Elements of arrays of a kernel of one block, without a size."""


class CallPlan(NamedTuple):
    """A function with what its call needs."""

    function: Function
    axes: tuple[str, ...]
    """Names of the sizes, in the order of the call; ``rows`` where no parameter has it."""
    template: tuple[str, ...]
    """Template arguments to call it with."""
    statements: tuple[str, ...]
    """Of the host function that launches it: what the grid depends on."""
    configuration: tuple[str, ...]
    """Grid, block and shared memory; empty for a launcher, and where none is known."""
    launch_hint: str
    """What the text shows of a launch that is not known."""
    notes: tuple[str, ...]
    """What was assumed, one sentence each."""


def plan_call(function: Function, facts: SourceFacts) -> CallPlan:
    """Return shapes, numbers, template arguments and launch of a function of pointers."""
    own = _find_declaration(function, facts)
    notes: list[str] = []
    site = _find_site(function, facts)
    types = choose_template(function, own, site, facts, notes)
    function = apply_template(function, types, facts)
    function = fill_arrays(function, own, facts)
    function = fill_numbers(function, site, facts, notes)
    shaped = {dim for p in function.parameters for dim in p.shape}
    sizes = [p.name for p in function.parameters if p.role == "size"]
    if len(sizes) > 1:
        function = fix_unused_sizes(function, own, shaped, notes)
    axes = [p.name for p in function.parameters if p.role == "size"]
    axes += [ROWS] if ROWS in shaped and ROWS not in axes else []
    if not axes and not shaped:
        axes = _add_axis(own)
    function = _fill_unknown_shapes(function, own, axes, facts)
    marked = [
        p._replace(use=_find_use(p.name, own)) if p.value == FILL_IN_MARK else p
        for p in function.parameters
    ]
    function = function._replace(parameters=tuple(marked))
    statements: list[str] = []
    configuration: list[str] = []
    if function.is_kernel:
        statements, configuration = _plan_launch(function, own, site, facts, (axes, types), notes)
    return CallPlan(
        function,
        tuple(axes),
        types,
        tuple(statements),
        tuple(configuration),
        _describe_launch(function, own, site),
        tuple(dict.fromkeys(notes)),
    )


def _find_declaration(function: Function, facts: SourceFacts) -> Declaration:
    return next(
        each
        for each in facts.declarations
        if each.name == function.name and (each.line == function.line or not function.line)
    )


def _find_site(function: Function, facts: SourceFacts) -> LaunchSite | None:
    if not function.is_kernel:
        return None
    return next((site for site in facts.sites if site.kernel == function.name), None)


def _fill_unknown_shapes(
    function: Function, own: Declaration, axes: list[str], facts: SourceFacts
) -> Function:
    """Give arrays of unknown shape the only axis; where there are several, a candidate.

    The candidate is the largest known shape, or that of all sizes.
    """
    known = [p.shape for p in function.parameters if p.shape]
    largest = max(known, key=len, default=())
    is_all_used = all(axis in {dim for shape in known for dim in shape} for axis in axes)
    if not (largest and is_all_used) and len(axes) <= _MOST_AXES:
        largest = tuple(axes) or (_FEW,)
    parameters = []
    for each in function.parameters:
        if each.role in ("input", "output") and not each.shape and largest:
            shape = largest + list_parts(each.type, facts)
            if len(axes) > 1 or len(largest) > 1:
                each = each._replace(candidate=shape, use=_find_use(each.name, own))
            else:
                each = each._replace(shape=shape)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _find_use(name: str, own: Declaration) -> str:
    """Return the first line of a body that uses an array, with its number; empty without one."""
    for node in iter_nodes(own.body) if own.body is not None else ():
        if node.type == "identifier" and get_text(node) == name:
            while node.parent is not None and not node.type.endswith(("statement", "declaration")):
                node = node.parent
            first = get_text(node).splitlines()[0].strip()
            return f"line {node.start_point[0] + 1}: {first[:_MAX_SHOWN]}"
    return ""


def _add_axis(own: Declaration) -> list[str]:
    """Return an axis for a kernel without sizes, which takes one element for each thread."""
    text = get_text(own.body)
    return ["n"] if "blockIdx.x" in text and "blockDim.x" in text else []


def _plan_launch(
    function: Function,
    own: Declaration,
    site: LaunchSite | None,
    facts: SourceFacts,
    chosen: tuple[Sequence[str], Sequence[str]],
    notes: list[str],
) -> tuple[list[str], list[str]]:
    axes, types = chosen
    threads = _choose_threads(function)
    if site is not None:
        names = [p.name for p in function.parameters]
        known = {p.name: p.name for p in function.parameters if p.role in ("size", "number")}
        known |= {text: name for name, text in bind_arguments(site.arguments, names).items()}
        known |= name_host_template(site, types)
        known |= facts.outer_constants if site.is_of_caller else {}
        constants = {**facts.constants, **{each.name: "" for each in facts.declarations}}
        context = LaunchContext(known, constants)
        found = collect_configuration(site, context, notes)
        if found is not None:
            return found
    elif function.is_flat and len(axes) == 1 and "__shared__" not in get_text(own.body):
        notes.append(f"the block of {threads} was chosen by kb init: it takes one thread for each")
        blocks = f"static_cast<unsigned>(({axes[0]} + {threads} - 1) / {threads})"
        return [], [f"dim3({blocks}, 1, 1)", f"dim3({threads}, 1, 1)", "0"]
    return [], []


def _choose_threads(function: Function) -> str:
    """Return threads per block, where any number will do: at most the launch bound."""
    bound = function.max_threads or ""
    return str(min(int(bound), _DEFAULT_THREADS)) if bound.isdecimal() else str(_DEFAULT_THREADS)


def _describe_launch(function: Function, own: Declaration, site: LaunchSite | None) -> str:
    """Return what shows how a kernel is launched: its launch as written, else its indices."""
    if site is not None:
        where = "of a file that includes it, line" if site.is_of_caller else "line"
        return f"{where} {site.line}: <<<{', '.join(site.configuration)}>>>".replace("\n", " ")
    used = sorted(set(_INDEX.findall(get_text(own.body))))
    bound = f", __launch_bounds__({function.max_threads})" if function.max_threads else ""
    return f"line {own.line}: no launch is in sight; it uses {', '.join(used) or 'no index'}{bound}"


_LITERAL = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*|true|false")
_LEADING_NAME = re.compile(r"(?:ld|\w*stride|\w*pitch|\w*step)(?:_?\w)?", re.IGNORECASE)


def fill_numbers(
    function: Function, site: LaunchSite | None, facts: SourceFacts, notes: list[str]
) -> Function:
    """Give each number the launch's literal or constant, a default, or a mark.

    Args:
        function: What is called.
        site: Its launch, if the file has one.
        facts: The rest of the file.
        notes: Takes what was assumed.
    """
    parameters = []
    for index, each in enumerate(function.parameters):
        if each.role == "number" and not each.value:
            given = site.arguments[index] if site and index < len(site.arguments) else ""
            value = _find_given(given, site, facts)
            if not value:
                value = choose_number(each) or _choose_enumerator(each, facts)
                if value not in ("", FILL_IN_MARK):
                    notes.append(f"{each.name} = {value} was chosen by kb init")
            each = each._replace(value=value)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _find_given(given: str, site: LaunchSite | None, facts: SourceFacts) -> str:
    if _LITERAL.fullmatch(given) or given in facts.constants:
        return given
    value = find_local_value(given, site.host) if site is not None and given.isidentifier() else ""
    return value if _LITERAL.fullmatch(value) else ""


def _choose_enumerator(parameter: Parameter, facts: SourceFacts) -> str:
    return f"static_cast<{parameter.type}>(0)" if parameter.type in facts.enumerations else ""


def fix_unused_sizes(
    function: Function, own: Declaration, shaped: Collection[str], notes: list[str]
) -> Function:
    """Turn integers that are the size of no array into numbers.

    A leading dimension becomes the innermost axis, the end of a loop the first; others have to be
    filled in. Where arrays have no known shape, only those that are options by their names: others
    may be its sizes.
    """
    axes = [p.name for p in function.parameters if p.role == "size" and p.name in shaped]
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    is_whole = bool(axes) and all(p.shape for p in arrays)
    parameters = []
    for each in function.parameters:
        is_leading = _LEADING_NAME.fullmatch(each.name)
        known = is_whole or is_leading or is_option(each.name)
        if each.role == "size" and each.name not in shaped and known:
            value = FILL_IN_MARK
            if is_leading and len(axes) > 1:
                value = axes[-1]
            elif len(axes) == 1 and not is_option(each.name) and _is_loop_end(each.name, own):
                value = axes[0]
            if value != FILL_IN_MARK:
                notes.append(f"{each.name} = {value} was chosen by kb init: no array has this size")
            each = each._replace(role="number", value=value)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _is_loop_end(name: str, own: Declaration) -> bool:
    loops = [n for n in iter_nodes(own.body) if n.type == "for_statement"] if own.body else []
    ends = [get_text(loop.child_by_field_name("condition")) for loop in loops]
    return any(re.search(rf"<=?\s*{name}\b", end) for end in ends)


_TYPE_WORDS = frozenset(
    (
        *("float", "double", "half", "__half", "int", "unsigned", "long", "short", "char", "bool"),
        *("float2", "float4", "half2", "__half2", "int2", "int4", "uint4", "__nv_bfloat16"),
        *("nv_bfloat16", "__nv_bfloat162", "int8_t", "uint8_t", "int32_t", "uint32_t", "int64_t"),
        *("size_t", "std", "true", "false", "const", "sizeof"),
    )
)


def choose_template(
    function: Function,
    own: Declaration,
    site: LaunchSite | None,
    facts: SourceFacts,
    notes: list[str],
) -> tuple[str, ...]:
    """Return the arguments of a function's template: instantiated, launched with, or by name.

    Args:
        function: What is called.
        own: Its declaration.
        site: Its launch, if the file has one.
        facts: The rest of the file.
        notes: Takes what was assumed.
    """
    if not own.template:
        return ()
    explicit = facts.instantiations.get(function.name)
    if explicit and all(is_known(text, facts) for text in explicit):
        return explicit
    given = [] if site is None else [_resolve(text, site, facts) for text in site.template]
    values, is_certain = [], True
    for index, parameter in enumerate(own.template):
        if index < len(given) and given[index]:
            values.append(given[index])
        elif "..." not in parameter.type:
            values.append(_choose_value(parameter, own, facts))
            is_certain = False
    if not is_certain:
        text = ", ".join(f"{p.name} = {v}" for p, v in zip(own.template, values, strict=False))
        notes.append(f"template arguments were chosen by kb init: {text}")
    return tuple(values)


def _resolve(text: str, site: LaunchSite, facts: SourceFacts) -> str:
    """Return a template argument of a launch, with the host's constants; empty if unknown."""
    outer = {each.name for each in site.host.template}
    words = re.findall(r"[A-Za-z_]\w*", text)
    for word in dict.fromkeys(words):
        value = "" if word in outer or is_known(word, facts) else find_local_value(word, site.host)
        if value:
            text = re.sub(rf"\b{word}\b", f"({value})".replace("\\", r"\\"), text)
    text = re.sub(r"^\((\w+)\)$", r"\1", text)
    return text if is_known(text, facts) and not outer.intersection(words) else ""


def is_known(text: str, facts: SourceFacts) -> bool:
    """Whether an expression names only types and constants of the language and the file."""
    words = set(re.findall(r"(?<![\d.])[A-Za-z_]\w*", text))
    return not words - _TYPE_WORDS - set(facts.constants) - {d.name for d in facts.declarations}


def _choose_value(parameter: TemplateParameter, own: Declaration, facts: SourceFacts) -> str:
    if parameter.default and is_known(parameter.default, facts):
        return parameter.default
    kind = parameter.type
    if kind.startswith(("typename", "class")):
        if _is_called(parameter.name, own):
            return FUNCTOR
        if _is_index_type(parameter.name, own):
            return "int"
    is_own_kind = kind.isidentifier() and not is_size_type(kind)
    if is_own_kind and kind not in ("typename", "class", "bool", "auto"):
        return f"static_cast<{kind}>(0)"  # an enumeration
    return choose_template_value(parameter.type)


def _is_called(name: str, own: Declaration) -> bool:
    """Whether the body calls a parameter of a template's type: it is a function object."""
    for node in own.parameters:
        match = re.search(rf"\b{name}\s*(?:const\s*)?&*\s*(\w+)$", get_text(node))
        if match and re.search(rf"\b{match[1]}\s*\(", get_text(own.body)):
            return True
    return False


def _is_index_type(name: str, own: Declaration) -> bool:
    """Whether a type of a template is one of integers, by its name or its parameters' names."""
    if re.search(r"ind(?:ex|ices)|idx|int|size|offset", name, re.IGNORECASE):
        return True
    texts = [get_text(node) for node in own.parameters]
    scalars = [t for t in texts if re.search(rf"\b{name}\b", t) and "*" not in t]
    sizes = [t for t in scalars if re.search(r"\b(?:n|num\w*|\w*size|\w*len(?:gth)?|\w*dim)$", t)]
    return bool(sizes) and not any("*" in t for t in texts if re.search(rf"\b{name}\b", t))


def name_host_template(site: LaunchSite, types: Sequence[str]) -> dict[str, str]:
    """Map the template parameters of the host function to the values chosen for them."""
    passed = dict(zip(site.template, types, strict=False))
    return {
        each.name: passed.get(each.name, choose_template_value(each.type))
        for each in site.host.template
    }


def apply_template(function: Function, types: Sequence[str], facts: SourceFacts) -> Function:
    """Replace the template's parameters and the file's aliases in the types of a function."""
    chosen = {
        **{name: kind for name, kind in facts.aliases.items() if find_dtype(kind)},
        **dict(zip(function.template, types, strict=False)),
    }
    if not chosen and not facts.records:
        return function
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, chosen)) or '(?!)'})\b")
    parameters = []
    for each in function.parameters:
        kind = pattern.sub(lambda match: chosen[match[0]], each.type)
        element = facts.records.get(kind, (kind, 1))[0]
        dtype = each.dtype or (find_dtype(element) if each.role in ("input", "output") else None)
        is_size = each.role == "number" and kind != each.type and is_size_type(kind)
        each = each._replace(type=kind, dtype=dtype)
        parameters.append(each._replace(role="size") if is_size else each)
    return function._replace(parameters=tuple(parameters))
