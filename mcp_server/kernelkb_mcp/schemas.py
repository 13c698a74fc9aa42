"""Shrinks the JSON schemas of tools to what clients use of them."""

from __future__ import annotations

from typing import Any


def slim_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove what a model does not need in order to call a tool; the server checks it all the same.

    That is null among the types of an optional argument, since clients show ``string`` better than
    ``string or null``; the longest length and the pattern of a text, which no honest call breaks;
    the default, which stands in the description because some clients drop it; and the titles that
    pydantic generates.
    """
    slim: dict[str, Any] = _drop_titles(schema)
    for argument in slim["properties"].values():
        others = [one for one in argument.get("anyOf", ()) if one != {"type": "null"}]
        for one in (argument, *others):
            for key in ("maxLength", "pattern", "default"):
                one.pop(key, None)
        if len(others) == 1:
            del argument["anyOf"]
            argument.update({**others[0], **argument})
        elif others:
            argument["anyOf"] = others
    return slim


def outline_result(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the outermost fields of a result's schema, each with its types and its description.

    No client shows a model more of it, and some validate every result against it. A record inside
    is any object, so that a client that kept the list of tools takes a new field of a later server.
    """
    fields = {name: _outline_field(field, schema) for name, field in schema["properties"].items()}
    return {"type": "object", "properties": fields, "required": list(schema.get("required", ()))}


def _outline_field(field: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    types = list(dict.fromkeys(_iter_types(field, schema)))
    outline: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if "description" in field:
        outline["description"] = field["description"]
    return outline


def _iter_types(field: dict[str, Any], schema: dict[str, Any]) -> Any:
    """Yield the JSON types that a field may have."""
    if "$ref" in field:
        yield from _iter_types(schema["$defs"][field["$ref"].rpartition("/")[2]], schema)
    elif "anyOf" in field:
        for one in field["anyOf"]:
            yield from _iter_types(one, schema)
    else:
        yield field["type"]


def _drop_titles(schema: Any) -> Any:
    """Remove the titles that pydantic generates: a fifth of the bytes without information."""
    if isinstance(schema, list):
        return [_drop_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: (
            {name: _drop_titles(part) for name, part in value.items()}
            if key in ("properties", "$defs")
            else _drop_titles(value)
        )
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
