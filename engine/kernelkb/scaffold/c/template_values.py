"""Template arguments to call a kernel or launcher with, and the types that follow from them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelkb.scaffold.c.c_functions import find_dtype, is_size_type
from kernelkb.scaffold.c.launch_values import find_local_value
from kernelkb.scaffold.c.source_facts import SourceFacts
from kernelkb.scaffold.c.syntax import Declaration, LaunchSite, TemplateParameter, get_text
from kernelkb.scaffold.draft.call_signature import Function
from kernelkb.scaffold.draft.default_values import FUNCTOR, choose_template_value

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
    return choose_template_value(parameter.type, parameter.name)


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
        each.name: passed.get(each.name, choose_template_value(each.type, each.name))
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
