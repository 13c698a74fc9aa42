"""Formats a picture of a decision graph as Mermaid or DOT."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kernelkb.graph.picture import Box, Picture

_MERMAID_SHAPES = {
    "question": '{{"%s"}}',
    "leaf": '(["%s"])',
    "fix": '("%s")',
    "metric": '[/"%s"/]',
}
_DOT_SHAPES = {"question": "hexagon", "leaf": "oval", "fix": "note", "metric": "parallelogram"}


def format_mermaid_lines(picture: Picture) -> Iterator[str]:
    """Yield a Mermaid flowchart; nodes and edges on the taken path are drawn thick."""
    names = {box["id"]: f"n{at}" for at, box in enumerate(picture["nodes"])}
    yield "flowchart TD"
    yield from (f"    {names[box['id']]}{_format_mermaid_node(box)}" for box in picture["nodes"])
    for arrow in picture["edges"]:
        line = "==>" if arrow["taken"] else "-->"
        label = f'|"{_escape_mermaid(arrow["label"])}"|' if arrow["label"] else ""
        yield f"    {names[arrow['source']]} {line}{label} {names[arrow['target']]}"
    taken = [names[box["id"]] for box in picture["nodes"] if box["taken"]]
    if taken:
        yield "    classDef taken stroke-width:4px"
        yield f"    class {','.join(taken)} taken"


def format_dot_lines(picture: Picture) -> Iterator[str]:
    """Yield a DOT digraph; nodes and edges on the taken path are drawn thick."""
    yield "digraph {"
    yield f"    label={json.dumps(picture['title'], ensure_ascii=False)};"
    for box in picture["nodes"]:
        width = ", penwidth=4" if box["taken"] else ""
        shape = _DOT_SHAPES.get(box["kind"], "box")
        label = _quote_json(box["label"])
        yield f"    {json.dumps(box['id'])} [label={label}, shape={shape}{width}];"
    for arrow in picture["edges"]:
        width = ", penwidth=4" if arrow["taken"] else ""
        ends = f"{json.dumps(arrow['source'])} -> {json.dumps(arrow['target'])}"
        yield f"    {ends} [label={_quote_json(arrow['label'])}{width}];"
    yield "}"


def _format_mermaid_node(box: Box) -> str:
    shape = _MERMAID_SHAPES.get(box["kind"], '["%s"]')
    return shape.replace("%s", _escape_mermaid(box["label"]))


def _escape_mermaid(text: str) -> str:
    """Escape characters that have a meaning in Mermaid as entities."""
    for mark, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(mark, entity)
    return text.replace("\n", "<br/>")


def _quote_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
