"""Decides how to call a kernel or launcher of pointers: shapes, scalars, templates, the grid.

What the grid depends on comes from the host function that launches the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import FILL_IN_MARK
from kernelkb.scaffold.answers import (
    MAX_THREADS,
    apply_answers,
    count_threads,
    drop_alike,
    find_answer,
    read_launch_word,
)
from kernelkb.scaffold.cpp.array_shapes import fill_arrays
from kernelkb.scaffold.cpp.configuration import (
    LANGUAGE_WORDS,
    ask_computed_sizes,
    collect_configuration,
    mark_unused_sizes,
)
from kernelkb.scaffold.cpp.element_types import find_dtype, is_size_type
from kernelkb.scaffold.cpp.element_uses import list_races, show_line
from kernelkb.scaffold.cpp.functions import SourceFacts
from kernelkb.scaffold.cpp.index_bounds import warn_of_counts
from kernelkb.scaffold.cpp.launch_limits import ask_edges, ask_radii, list_limits, warn_of_exchange
from kernelkb.scaffold.cpp.objects import (
    define_variables,
    fill_memory,
    find_refusal,
    list_memory,
    refuse_memory,
    set_objects_apart,
)
from kernelkb.scaffold.cpp.size_branches import (
    choose_site,
    guess_tested,
    list_template_choices,
    warn_of_branches,
)
from kernelkb.scaffold.cpp.start_values import ask_needed_values, fill_starts
from kernelkb.scaffold.cpp.syntax import (
    Declaration,
    LaunchSite,
    Structure,
    bind_arguments,
    find_local_value,
    get_text,
    iter_nodes,
)
from kernelkb.scaffold.draft import (
    DraftQuestion,
    Function,
    Observed,
    Parameter,
    SizeLimit,
)
from kernelkb.scaffold.extents import list_axes

_INDEX = re.compile(r"\b(?:blockIdx|threadIdx|blockDim|gridDim)\.[xyz]")


class CallPlan(NamedTuple):
    """A function with what its call needs."""

    function: Function
    axes: tuple[str, ...]
    """Names of the sizes, in the order of the call."""
    template: tuple[str, ...]
    """Template arguments to call it with."""
    statements: tuple[str, ...]
    """Of the host function that launches it: what the grid depends on."""
    configuration: tuple[str, ...]
    """Grid, block and shared memory; empty for a launcher, and where none is known."""
    launch_hint: str
    """What the text shows of a launch that is not known."""
    questions: tuple[DraftQuestion, ...] = ()
    """What is not known of the template, the launch and the memory that it needs."""
    limits: tuple[SizeLimit, ...] = ()
    """The largest sizes that the launch reaches."""
    filled: tuple[str, ...] = ()
    """Variables of the device and the file that the function reads, and no text gives a value."""
    fills: tuple[str, ...] = ()
    """Statements that set them."""
    definitions: str = ""
    """Lines that define the host's variables that the texts only declare."""
    structures: tuple[Structure, ...] = ()
    """Those that the function takes, whose fields are its parameters here."""
    refusal: str = ""
    """Why no answer but an expression of C++ makes a kernel of it; empty where others do."""
    warnings: tuple[str, ...] = ()
    """What may go wrong with drawn values, one sentence each."""
    asks_shared: bool = False
    """Whether its host asks for more shared memory than a kernel has without that."""


def plan_call(
    function: Function,
    facts: SourceFacts,
    answers: Mapping[str, str] | None = None,
    structures: Sequence[Structure] = (),
    observed: Observed | None = None,
) -> CallPlan:
    """Return shapes, numbers, template arguments and launch of a function of pointers."""
    said = answers or {}
    own, site = _find_source(function, facts)
    choices = list_template_choices(function, facts)
    found = find_template(function, own, site, facts)
    names = [each.name for each in own.template if "..." not in each.type]
    types = _choose_types(function, names, found, said)
    site = choose_site(function, types, facts, site)
    function = apply_template(function, types, facts)
    function = _fill_parameters(function, own, site, facts, (said, observed or Observed()))
    launch = _find_launch(function, (own, site), facts, types, said)
    part = _find_inner_include(own, facts)
    function = _drop_unused(function, own, launch, structures, part)
    hint = _describe_launch(function, own, site)
    memory = list_memory(own, facts)
    asked = _list_questions(function, dict(zip(names, types, strict=False)), launch, own, hint)
    asked = [DraftQuestion(q.key, *choices.get(q.key, (q.guess, q.why))) for q in asked]
    lines = {**facts.variables, **facts.memory}
    asked += [DraftQuestion(n, "", lines[n]) for n in memory if not find_answer(said, n)]
    told = _list_warnings(function, own, part) + warn_of_exchange(function, own, facts)
    told += warn_of_branches(function, own, facts, types)
    sizes = tuple(p.name for p in function.parameters if p.role == "size")
    plan = CallPlan(function, sizes, types, *launch, hint, (*asked,))
    return plan._replace(
        limits=list_limits(function, own, facts, launch, types),
        filled=tuple(memory),
        fills=tuple(fill_memory(n, said, facts, (scope, function)) for n, scope in memory.items()),
        definitions=define_variables(facts, said, memory),
        structures=tuple(structures),
        refusal=find_refusal(function, own, facts),
        warnings=(*told, *_warn_of_shared(function, launch, own)),
        asks_shared=site is not None and "MaxDynamicSharedMemorySize" in get_text(site.host.body),
    )


def _choose_types(
    function: Function, names: Sequence[str], found: Sequence[str], said: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the arguments of a template: what was said of each, and of no parameter like it."""
    taken = [each.name for each in function.parameters]
    told = [find_answer(drop_alike(said, name, taken), name) for name in names]
    return tuple(own or value for own, value in zip(told, found, strict=False))


def _find_inner_include(own: Declaration, facts: SourceFacts) -> int:
    """Return the line of an ``#include`` inside a body, of which nothing is seen; 0 without one."""
    end = own.body.end_point[0] if own.body is not None else 0
    return next((line for line in facts.include_lines if own.line < line <= end), 0)


def _list_warnings(function: Function, own: Declaration, inner_include: int) -> tuple[str, ...]:
    arrays = [p for p in function.parameters if p.role in ("input", "output")]
    drawn = [p.name for p in arrays if p.role == "input" and not p.fill and not p.points_into]
    outputs = [p.name for p in arrays if p.role == "output"]
    if own.body is None or not function.is_kernel:
        return ()
    part = f"{own.name} includes a part of its body, line {inner_include}, which was not read"
    told = [*list_races(outputs, drawn, own.body), *warn_of_counts(arrays, own.body)]
    return (*([part] if inner_include else []), *told)


def _warn_of_shared(
    function: Function, launch: tuple[tuple[str, ...], tuple[str, ...]], own: Declaration
) -> list[str]:
    """Return a sentence where the shared memory of a launch grows with an axis."""
    text = launch[1][2] if len(launch[1]) > 2 else ""
    set_ = (re.match(rf"[^=(]*\b{re.escape(text)}\s*[=(]([^;]*);", each) for each in launch[0])
    shown = next((match[1].strip() for match in set_ if match and text), text)
    sizes = {p.name for p in function.parameters if p.role == "size"}
    named = sorted(sizes & set(re.findall(r"[A-Za-z_]\w*", shown)))
    head = f"shared memory of {own.name} grows with {' and '.join(named)}"
    most = "a block has 48 KiB unless its host asks for more: keep these sizes small"
    return [f"{head} ({' '.join(shown.split())}), and {most}"] if named else []


def _find_source(function: Function, facts: SourceFacts) -> tuple[Declaration, LaunchSite | None]:
    """Return where a function is defined, and the first launch of a kernel."""
    named = (each for each in facts.declarations if each.name == function.name)
    own = next(each for each in named if function.line in (each.line, 0))
    sites = (each for each in facts.sites if function.is_kernel and each.kernel == function.name)
    return own, next(sites, None)


def _fill_parameters(
    function: Function,
    own: Declaration,
    site: LaunchSite | None,
    facts: SourceFacts,
    told: tuple[Mapping[str, str], Observed],
) -> Function:
    """Return a function with shapes, roles and numbers: of the text, then as they were told."""
    said, _ = told
    function = ask_needed_values(fill_arrays(function, own, facts), own, facts)
    function = fill_starts(function, facts)
    function = fill_numbers(set_objects_apart(function, own, facts), site, facts)
    function = ask_computed_sizes(function, own, site, facts)
    function = ask_radii(ask_edges(function, own, facts), own, facts)
    function = guess_tested(function, own, facts)
    function = function._replace(
        parameters=apply_answers(function.parameters, *told, takes_pointers=True)
    )
    refuse_memory(function, facts)
    shaped = set(list_axes([dim for p in function.parameters for dim in p.shape]))
    sizes = [p.name for p in function.parameters if p.role == "size"]
    is_read = re.search(rf"\b(?:{'|'.join(sizes)})\b", get_text(own.body))
    if len(sizes) > 1 or said or not is_read:
        function = mark_unused_sizes(function, shaped, said)
    marked = [
        p._replace(use=_show_use(p, own)) if _is_unknown(p) else p for p in function.parameters
    ]
    return function._replace(parameters=tuple(marked))


def _drop_unused(
    function: Function,
    own: Declaration,
    launch: tuple[tuple[str, ...], tuple[str, ...]],
    structures: Sequence[Structure],
    inner_include: int,
) -> Function:
    """Return a kernel whose parameters that neither it nor its launch reads are zero.

    Of its arrays only those that are fields of structures: such a structure has many users.
    """
    if not function.is_kernel or own.body is None or inner_include:
        return function
    words = {get_text(n) for n in iter_nodes(own.body) if n.type.endswith("identifier")}
    words |= set(re.findall(r"\w+", " ".join((*launch[0], *launch[1]))))
    fields = {name for each in structures for _, name in each.fields}
    parameters = []
    for each in function.parameters:
        is_field = each.name in fields and each.role in ("input", "output")
        if each.name not in words and (is_field or each.value == FILL_IN_MARK):
            empty = "0" if find_dtype(each.type) or is_size_type(each.type) else "{}"
            kind, value = (f"{each.type}*", "nullptr") if is_field else (each.type, empty)
            each = each._replace(role="number", type=kind, value=value, dtype=None)
            each = each._replace(origin="the kernel does not read it", guess="")
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _find_launch(
    function: Function,
    source: tuple[Declaration, LaunchSite | None],
    facts: SourceFacts,
    types: Sequence[str],
    said: Mapping[str, str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the statements and the configuration of a launch: said, or as the file's own."""
    own, site = source
    if not function.is_kernel:
        return (), ()
    statements, configuration = _plan_launch(function, site, facts, types) if site else ((), ())
    is_none = _find_threads(site) > MAX_THREADS  # so that no launch can be as that of the text
    if is_none or (
        configuration and _is_of_one_size(function, own, [*statements, configuration[0]])
    ):
        statements, configuration = (), ()
    axes = {p.name for p in function.parameters if p.role == "size"}
    axes |= {*list_axes([dim for p in function.parameters for dim in p.shape])}
    filled = [text for each in statements if (text := _fill_statement(each, said, axes))]
    hidden = axes | facts.constants.keys()  # a macro cannot be declared
    filled, configuration = _rename_clashing(filled, configuration, hidden)
    given = [read_launch_word(key, said.get(key, "")) for key in _LAUNCH_KEYS]
    if all(given[:2]):
        used = " ".join(
            (*given, *(site.arguments if site else ()), *(site.template if site else ()))
        )
        return _keep_used(filled, used), tuple(filter(None, given))
    replaced = [told or text for told, text in zip(given, configuration, strict=False)]
    return tuple(filled), tuple(replaced)


def _keep_used(statements: Sequence[str], used: str) -> tuple[str, ...]:
    """Return a launch's statements but those of its configuration alone."""
    kept: list[str] = []
    for each in reversed(statements):
        name = re.match(r"(?:const |unsigned )*[\w:]+ (\w+)\s*[=({]", each)
        if not name or re.search(rf"\b{name[1]}\b", " ".join((used, *kept))):
            kept.insert(0, each)
    return tuple(kept)


def _rename_clashing(
    statements: Sequence[str], configuration: Sequence[str], axes: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return a launch whose variables have other names than the sizes that the launcher takes."""
    declared = (re.match(r"(?:const )?[\w:]+ (\w+)\s*[=({]", each) for each in statements)
    names = {match[1] for match in declared if match and match[1] in axes}
    pattern = re.compile(rf"(?<![.>\w])({'|'.join(names) or '(?!)'})\b")
    lines = [
        pattern.sub(r"kb_host_\1", code) + sign + comment
        for code, sign, comment in (
            each.partition("  // ") for each in (*statements, *configuration)
        )
    ]
    return lines[: len(statements)], lines[len(statements) :]


def _is_of_one_size(function: Function, own: Declaration, lines: Sequence[str]) -> bool:
    """Whether a launch's grid is the same for all sizes, and the kernel leaves out the rest."""
    named = set(re.findall(r"[A-Za-z_]\w*", " ".join(lines)))
    sizes = {p.name for p in function.parameters if p.role == "size"}
    shaped = set(list_axes([dim for p in function.parameters for dim in p.shape]))
    used = set(_INDEX.findall(get_text(own.body)))
    blocks = {each for each in used if each.startswith("blockIdx")}
    text = " ".join(lines).replace("dim3", "")
    is_fixed = not sizes & named and FILL_IN_MARK not in text
    is_fixed &= re.search(r"[2-9]|\d\d", text) is not None
    strides = any(each.startswith("gridDim") for each in used)
    return bool(blocks and sizes & shaped) and is_fixed and not strides


def _fill_statement(statement: str, said: Mapping[str, str], axes: Collection[str]) -> str:
    """Return a statement with what was said in place of its mark; none where it is that of an axis.

    Raises:
        BadValueError: It was said to be an axis, and is none of a shape.
    """
    match = re.match(rf"(?:const int|const auto|using) (\w+) = {FILL_IN_MARK};", statement)
    if match and match[1] in axes:
        return ""
    value = find_answer(said, match[1]).replace("//", "/") if match else ""
    if match and value == "axis":
        raise BadValueError(
            f"--set {match[1]}=axis: it is no parameter of the kernel; give a value"
        )
    return (
        f"{statement[: match.end() - len(FILL_IN_MARK) - 1]}{value};"
        if match and value
        else statement
    )


def _list_questions(
    function: Function,
    template: Mapping[str, str],
    launch: tuple[tuple[str, ...], tuple[str, ...]],
    own: Declaration,
    hint: str,
) -> list[DraftQuestion]:
    """Return what a call leaves open, besides its arrays and numbers."""
    line = f"line {own.line}: template parameter"
    asked = [
        DraftQuestion(name, "", line) for name, value in template.items() if value == FILL_IN_MARK
    ]
    asked += [
        DraftQuestion(name[1], "", statement.rpartition("// ")[2])
        for statement in launch[0]
        if FILL_IN_MARK in statement and (name := re.search(r"(\w+) =", statement))
        if name[1] not in template
    ]
    if function.is_kernel and not launch[1]:
        asked += [DraftQuestion(key, "", hint) for key in _LAUNCH_KEYS[:2]]
        if function.takes_shared_memory:
            asked.append(DraftQuestion("shared", "", "bytes of dynamic shared memory"))
    return asked


_LAUNCH_KEYS = ("grid", "block", "shared")
"""What is said of a launch."""


def _is_unknown(parameter: Parameter) -> bool:
    if parameter.role in ("input", "output"):
        return not (parameter.shape and parameter.dtype and parameter.is_certain)
    return parameter.value == FILL_IN_MARK


def _show_use(each: Parameter, own: Declaration) -> str:
    """Return what shows why something is not known: what a call passes, or the line of a use."""
    if each.role == "number" and each.use:
        return each.use
    return (f"{each.rows}, " if each.rows else "") + (_find_use(each.name, own) or each.use)


def _find_use(name: str, own: Declaration) -> str:
    """Return the first line of a body that uses an array, with its number; empty without one."""
    for node in iter_nodes(own.body):
        if node.type in ("identifier", "type_identifier") and get_text(node) == name:
            return show_line(node)
    return ""


def _plan_launch(
    function: Function, site: LaunchSite, facts: SourceFacts, types: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    names = [p.name for p in function.parameters]
    known = {p.name: p.name for p in function.parameters if p.role in ("size", "number")}
    bound = {text: name for name, text in bind_arguments(site.arguments, names).items()}
    held = {find_local_value(text, site.host): name for text, name in bound.items()}
    same = {text: name for text, name in held.items() if find_local_value(text, site.host)}
    known |= {text: name for text, name in same.items() if text.isidentifier()} | bound
    passed = dict(zip(site.template, types, strict=False))
    known |= {each.name: passed.get(each.name, FILL_IN_MARK) for each in site.host.template}
    known |= {name: value for name, value in passed.items() if name.isidentifier()}
    known |= facts.outer_constants if site.is_of_caller else {}
    constants = {*facts.constants, *(each.name for each in facts.declarations)}
    return collect_configuration(site, known, constants) or ([], [])


def _describe_launch(function: Function, own: Declaration, site: LaunchSite | None) -> str:
    """Return what shows how a kernel is launched: its launch as written, else its indices."""
    if site is not None:
        where = "of a file that includes it, line" if site.is_of_caller else "line"
        count = _find_threads(site)
        more = f": {count} threads, and a block has at most {MAX_THREADS}" if count > 1024 else ""
        shown = f"{where} {site.line}: <<<{', '.join(site.configuration)}>>>{more}"
        return shown.replace("\n", " ")
    used = sorted(set(_INDEX.findall(get_text(own.body))))
    bound = f", __launch_bounds__({function.max_threads})" if function.max_threads else ""
    return f"line {own.line}: no launch is in sight; it uses {', '.join(used) or 'no index'}{bound}"


def _find_threads(site: LaunchSite | None) -> int:
    """Return the threads of a launch's block; 0 where its text does not say a number."""
    if site is None or len(site.configuration) < 2:
        return 0
    block = site.configuration[1]
    declared = rf"\b{re.escape(block)}\s*(?:=\s*)?((?:dim3\s*)?[({{][\d,\s]+[)}}]|\d+)\s*;"
    found = re.findall(declared, get_text(site.host.body)) if block.isidentifier() else ()
    return count_threads(found[0]) if len(found) == 1 else count_threads(block)


_LITERAL = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*|true|false")


def fill_numbers(function: Function, site: LaunchSite | None, facts: SourceFacts) -> Function:
    """Give each number the literal or constant that its launch passes, else a mark."""
    parameters = []
    for index, each in enumerate(function.parameters):
        if each.role == "number" and not each.value:
            given = site.arguments[index] if site and index < len(site.arguments) else ""
            each = each._replace(value=_find_given(given, site, facts) or FILL_IN_MARK)
        parameters.append(each)
    return function._replace(parameters=tuple(parameters))


def _find_given(given: str, site: LaunchSite | None, facts: SourceFacts) -> str:
    if _LITERAL.fullmatch(given) or given in facts.constants:
        return given
    value = find_local_value(given, site.host) if site is not None and given.isidentifier() else ""
    return value if _LITERAL.fullmatch(value) else ""


def find_template(
    function: Function, own: Declaration, site: LaunchSite | None, facts: SourceFacts
) -> tuple[str, ...]:
    """Return the arguments of a function's template: instantiated, launched with, or marks."""
    explicit = facts.instantiations.get(function.name)
    if explicit and all(is_known(text, facts) for text in explicit):
        named = [each for each in own.template if "..." not in each.type]
        return (*explicit, *[FILL_IN_MARK] * (len(named) - len(explicit)))
    given = [] if site is None else [_resolve(text, site, facts) for text in site.template]
    values = []
    chosen = list_template_choices(function, facts)
    for index, parameter in enumerate(own.template):
        if parameter.name in chosen:
            values.append(FILL_IN_MARK)
        elif index < len(given) and given[index]:
            values.append(given[index])
        elif "..." not in parameter.type:
            is_default = parameter.default and is_known(parameter.default, facts)
            values.append(parameter.default if is_default else FILL_IN_MARK)
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
    return not words - LANGUAGE_WORDS - set(facts.constants) - {d.name for d in facts.declarations}


def apply_template(function: Function, types: Sequence[str], facts: SourceFacts) -> Function:
    """Replace the template's parameters and the file's aliases in the types of a function."""
    chosen = {
        **{name: kind for name, kind in facts.aliases.items() if find_dtype(kind)},
        **dict(zip(function.template, types, strict=False)),
    }
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, chosen)) or '(?!)'})\b")
    parameters = []
    for each in function.parameters:
        kind = pattern.sub(lambda match: chosen[match[0]], each.type)
        element = facts.records.get(kind, (kind, 1))[0]
        dtype = each.dtype or (find_dtype(element) if each.role in ("input", "output") else None)
        is_size = each.role == "number" and kind != each.type and is_size_type(kind)
        rows = pattern.sub(lambda match: chosen[match[0]], each.rows)
        each = each._replace(type=kind, dtype=dtype, rows=rows)
        parameters.append(each._replace(role="size") if is_size else each)
    return function._replace(parameters=tuple(parameters))
