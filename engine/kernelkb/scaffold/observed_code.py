"""Python source of an observed call: as a reference, and as the first variant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kernelkb.scaffold.observed_callee import (
    Function,
    Places,
    UnwritableCall,
    draft_callee,
    is_autograd,
    write_class,
)
from kernelkb.scaffold.observed_shapes import (
    ArrayPlan,
    NumberPlan,
    ObservedPlan,
    draft_launch,
)

ENTRY = "observed_call"
_LIST_TENSORS = """\
def _list_tensors(result):
    if isinstance(result, torch.Tensor):
        return [result]
    values = result.values() if isinstance(result, dict) else result
    if not isinstance(result, (list, tuple, dict)):
        return []
    return [tensor for value in values for tensor in _list_tensors(value)]
"""
_BUILD_MODULE = '''\
def _build_module(module_class, fields):
    """Make a module with the attributes that the program's had, without its own __init__."""
    module = module_class.__new__(module_class)
    torch.nn.Module.__init__(module)
    for name, value in fields.items():
        if isinstance(value, torch.nn.Module):
            module.add_module(name, value)
        else:
            setattr(module, name, value)
    return module
'''


class CallSource(NamedTuple):
    """The code that makes one observed call."""

    text: str
    """A Python file with the function ``observed_call``."""
    reason: str
    """Why it is no reference; empty if it is one: torch code, and nothing that is to be judged."""

    @property
    def is_reference(self) -> bool:
        """Whether it can say what is right."""
        return not self.reason


def draft_call(function: Function, plan: ObservedPlan, text: str, places: Places) -> CallSource:
    """Return the source that repeats a call.

    Args:
        function: What was called.
        plan: Its calls.
        text: Source of the function's own file; empty where it has none.
        places: Of the program's files.

    Raises:
        UnwritableCall: An argument is neither tensor, number nor option, or the function cannot be
            copied out of its file.
    """
    _require_writable(function, plan)
    callee = draft_callee(function, plan, text, places)
    body = _draft_entry(function, plan, callee.code)
    helpers = [_BUILD_MODULE] if "_build_module(" in body else []
    parts = [callee.head, _LIST_TENSORS, *helpers, body]
    joined = "\n\n".join(part.strip("\n") + "\n" for part in parts if part.strip())
    title = f"{function['name']}, as the program called it. Written by kb init."
    return CallSource(write_file(title, joined), callee.reason)


def write_file(title: str, code: str) -> str:
    """Return a Python file: a title, the imports that the code needs, and the code."""
    needed = {
        "import importlib.util": "importlib.util." in code,
        "import sys": "sys.path" in code,
        "import types": "types.SimpleNamespace(" in code,
        "from pathlib import Path": "Path(" in code,
    }
    standard = [line for line, is_needed in needed.items() if is_needed]
    own = [line for line in standard if not re.search(rf"^{re.escape(line)}$", code, re.MULTILINE)]
    has_torch = re.search(r"^import torch$", code, re.MULTILINE)
    imports = [*own, *([""] if own else []), *([] if has_torch else ["import torch"])]
    return "\n".join([f'"""{title}"""', "", *imports, "", code])


def _require_writable(function: Function, plan: ObservedPlan) -> None:
    objects = _list_objects(plan.calls[0]["arguments"])
    if function["is_method"] or objects:
        what = "a method" if function["is_method"] else f"called with a {objects[0]} object"
        raise UnwritableCall(
            f"{function['name']} is {what}, and only tensors, numbers, options, objects of plain "
            "attributes and small torch modules can be recorded; name a function that it calls "
            "with those"
        )


def _list_objects(tree: Any) -> list[str]:
    """Return the types of what cannot be written; parts of an object may be left out."""
    if isinstance(tree, dict) and ("module" in tree or "namespace" in tree):
        return []
    if isinstance(tree, dict):
        own = [tree["object"]] if "object" in tree else []
        return own + [name for value in tree.values() for name in _list_objects(value)]
    return (
        [name for value in tree for name in _list_objects(value)] if isinstance(tree, list) else []
    )


def _draft_entry(function: Function, plan: ObservedPlan, called: str) -> str:
    arguments = [array.name for array in plan.inputs]
    arguments += [number.name for number in plan.numbers if not number.is_baked]
    lines = [f"def {ENTRY}({', '.join(arguments)}):"]
    for at in plan.changed:
        array = plan.tensors[at]
        code = _make_array(array, plan) if at in plan.made else f"{array.name}.clone()"
        lines.append(f"    {array.name} = {code}")
    writer = _Writer(plan, function)
    tree = plan.calls[0]["arguments"]
    positional = tree["positional"][1:] if is_autograd(plan) else tree["positional"]
    passed = [writer.write(value) for value in positional]
    passed += [f"{name}={writer.write(value)}" for name, value in tree["named"].items()]
    if plan.calls[0]["launch"]:
        lines += draft_launch(plan.calls, [t.name for t in plan.tensors], plan.made)
        passed.append("**options")
        called += "[grid]"
    lines.append(f"    result = {called}({', '.join(passed)})")
    return "\n".join([*lines, _draft_return(plan)]) + "\n"


def _draft_return(plan: ObservedPlan) -> str:
    outputs = [plan.tensors[at].name for at in plan.changed]
    if not outputs and len(plan.outputs) == 1:
        return "    return _list_tensors(result)[0]"
    returned = []
    if len(plan.outputs) > len(outputs):
        returned = ["*_list_tensors(result)"]
        if outputs:  # what is changed may be returned, too
            own = f"[{', '.join(outputs)}]"
            returned = [
                f"*(t for t in _list_tensors(result) if not any(t is own for own in {own}))"
            ]
    comma = "," if len(returned) + len(outputs) == 1 else ""
    return f"    return ({', '.join([*returned, *outputs])}{comma})"


def _make_array(array: ArrayPlan, plan: ObservedPlan) -> str:
    """Return the expression of a tensor that the call writes: sizes as those of the inputs."""
    first = plan.inputs[0].name
    sizes = {
        axis: f"{each.name}.shape[{at}]"
        for each in reversed(plan.inputs)
        for at, axis in enumerate(each.shape)
        if isinstance(axis, str)
    }
    numbers = {number.name for number in plan.numbers if not number.is_baked}
    codes = [axis if axis in numbers else sizes.get(str(axis), str(axis)) for axis in array.shape]
    shape = f"({', '.join(map(str, codes))}{',' * (len(codes) == 1)})"
    return f"torch.empty({shape}, dtype=torch.{array.dtype}, device={first}.device)"


class _Writer:
    """Writes the arguments of a call."""

    def __init__(self, plan: ObservedPlan, function: Function) -> None:
        self._plan, self._function = plan, function

    def write(self, value: Mapping[str, Any]) -> str:
        """Return the expression of one argument."""
        if "tensor" in value:
            return str(self._plan.tensors[value["tensor"]].name)
        if "number" in value:
            number: NumberPlan = self._plan.numbers[value["number"]]
            own = repr(number.value) if number.is_baked else number.name
            return number.code or own
        if "code" in value:
            return str(value["code"])
        if "module" in value:
            module = value["module"]
            owner = write_class(module["class"], self._function)
            return f"_build_module({owner}, {self._write_fields(module['fields'])})"
        if "namespace" in value:
            return f"types.SimpleNamespace(**{self._write_fields(value['namespace'])})"
        return self._write_items(value)

    def _write_fields(self, fields: Mapping[str, Any]) -> str:
        written = [
            f"{name!r}: {self.write(value)}"
            for name, value in fields.items()
            if not _list_objects(value)
        ]
        return f"{{{', '.join(written)}}}"

    def _write_items(self, value: Mapping[str, Any]) -> str:
        items: Sequence[Mapping[str, Any]] = value.get("list") or value.get("tuple") or ()
        text = ", ".join(map(self.write, items))
        return f"[{text}]" if "list" in value else f"({text}{',' * (len(items) == 1)})"
