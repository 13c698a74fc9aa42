"""Python source of an observed call: as a reference, and as the first variant."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kernelkb.scaffold.observed_shapes import NumberPlan, ObservedPlan
from kernelkb.scaffold.python_slice import NotSliceable, slice_function

Function = Mapping[str, Any]
"""One observed function, as the observer writes it."""
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
_LOAD_EXTENSION = """\
def _load_extension(name, path):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""


class CallSource(NamedTuple):
    """The code that makes one observed call."""

    text: str
    """A Python file with the function ``observed_call``."""
    is_reference: bool
    """Whether it can say what is right: torch code, and nothing that is to be judged."""
    reason: str
    """Why it is no reference; empty if it is one."""


class UnwritableCall(Exception):
    """A call that no file can repeat; the text says why and what to name instead."""


def draft_call(
    function: Function, plan: ObservedPlan, text: str, paths: Mapping[str, str]
) -> CallSource:
    """Return the source that repeats a call.

    Args:
        function: What was called.
        plan: Its calls.
        text: Source of the function's own file; empty where it has none.
        paths: By absolute path of a library: its path from the kernel's folder.

    Raises:
        UnwritableCall: An argument is neither tensor, number nor option, or the function cannot be
            copied out of its file.
    """
    _require_writable(function, plan)
    head, called, reason = _draft_callee(function, text, paths)
    imports = [] if "\nimport torch\n" in f"\n{head}" else ["import torch"]
    if "Path(" in head:
        system = ["import sys"] if "sys.path" in head else []
        imports = ["import importlib.util", *system, "from pathlib import Path", "", *imports]
    body = _draft_entry(plan, called)
    parts = ["\n".join(imports), head, _LIST_TENSORS, body]
    joined = "\n\n".join(part.strip("\n") + "\n" for part in parts if part)
    title = f'"""{function["name"]}, as the program called it. Written by kb init."""\n\n'
    return CallSource(title + joined, not reason, reason)


def _require_writable(function: Function, plan: ObservedPlan) -> None:
    objects = _list_objects(plan.calls[0]["arguments"])
    if function["is_method"] or objects:
        what = "a method" if function["is_method"] else f"called with a {objects[0]} object"
        raise UnwritableCall(
            f"{function['name']} is {what}, and only tensors, numbers and options can be recorded; "
            "name a function that it calls with tensors"
        )


def _list_objects(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        own = [tree["object"]] if "object" in tree else []
        return own + [name for value in tree.values() for name in _list_objects(value)]
    return (
        [name for value in tree for name in _list_objects(value)] if isinstance(tree, list) else []
    )


def _draft_callee(function: Function, text: str, paths: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the lines before the call, what is called, and why it is no reference."""
    kind, module, qualname = function["kind"], function["module"], function["qualname"]
    if kind == "torch-function":
        return "", f"{module}.{qualname}", ""
    if kind == "torch-operation":
        if function["is_library"]:
            return "", f"torch.ops.{module}.{qualname}.{function['overload']}", ""
        if function["source_file"]:
            return _slice(function, text, qualname=function["source_file"].rpartition(":")[2])
        loads = [
            f"torch.ops.load_library(Path(__file__).parent / {json.dumps(p)})"
            for p in paths.values()
        ]
        head = "\n".join(loads) + "\n"
        return head, f"torch.ops.{module}.{qualname}.{function['overload']}", _NO_TORCH
    if kind == "extension":
        path = paths[function["source_file"]]
        name = module.rpartition(".")[2]
        head = f'{_LOAD_EXTENSION}\n\n_extension = _load_extension("{name}", {json.dumps(path)})\n'
        return head, f"_extension.{qualname}", _NO_TORCH
    if kind == "triton":
        head, called, _ = _slice(function, text, qualname=qualname, keep_decorators=True)
        return head, called, _NO_TORCH
    if function["is_library"]:
        return f"import {module}\n", f"{module}.{qualname}", ""
    try:
        return slice_function(text, qualname), qualname, ""
    except NotSliceable as error:
        return _import_own_file(function, paths, str(error))


_NO_TORCH = "it is compiled code, so that its recorded outputs are the reference"


def _import_own_file(
    function: Function, paths: Mapping[str, str], why: str
) -> tuple[str, str, str]:
    """Call a function in its own file, which must be no script: importing that would run it.

    Raises:
        UnwritableCall: The function is in the program's main script, or inside of another one.
    """
    file = function["source_file"]
    if "." in function["qualname"] or file not in paths:
        raise UnwritableCall(
            f"{function['name']} cannot be copied out of its file: {why}; move it, with what it "
            "needs, to the top level of a file that the program imports, or name a function that "
            "it calls"
        )
    path = json.dumps(paths[file])
    lines = f"sys.path.append(str((Path(__file__).parent / {path}).parent))\n"
    head = f'{_LOAD_EXTENSION}\n\n{lines}_own = _load_extension("{function["module"]}", {path})\n'
    reason = f"{why}, so that it cannot be copied; its recorded outputs are the reference"
    return head, f"_own.{function['qualname']}", reason


def _slice(
    function: Function, text: str, *, qualname: str, keep_decorators: bool = False
) -> tuple[str, str, str]:
    try:
        return slice_function(text, qualname, keep_decorators=keep_decorators), qualname, ""
    except NotSliceable as error:
        raise UnwritableCall(
            f"{function['name']} cannot be copied out of its file: {error}; move it, with what it "
            "needs, to the top level of a file, or name a function that it calls"
        ) from error


def _draft_entry(plan: ObservedPlan, called: str) -> str:
    arguments = [array.name for array in plan.inputs]
    arguments += [number.name for number in plan.numbers if not number.is_baked]
    lines = [f"def {ENTRY}({', '.join(arguments)}):"]
    lines += [f"    {plan.inputs[at].name} = {plan.inputs[at].name}.clone()" for at in plan.changed]
    tree = plan.calls[0]["arguments"]
    passed = [_write(value, plan) for value in tree["positional"]]
    passed += [f"{name}={_write(value, plan)}" for name, value in tree["named"].items()]
    if plan.calls[0]["launch"]:
        lines += _draft_launch(plan)
        options = plan.calls[0]["launch"]["options"].items()
        passed += [f"{name}={value!r}" for name, value in options]
        called += "[grid]"
    lines.append(f"    result = {called}({', '.join(passed)})")
    outputs = [f"{plan.inputs[at].name}" for at in plan.changed]
    if not outputs and len(plan.outputs) == 1:
        return "\n".join([*lines, "    return _list_tensors(result)[0]"]) + "\n"
    returned = ["*_list_tensors(result)"] if len(plan.outputs) > len(outputs) else []
    comma = "," if len(returned) + len(outputs) == 1 else ""
    return "\n".join([*lines, f"    return ({', '.join([*returned, *outputs])}{comma})"]) + "\n"


def _draft_launch(plan: ObservedPlan) -> list[str]:
    """Return the lines that choose the grid that the program used for the inputs' sizes."""
    first = f"tuple({plan.inputs[0].name}.shape)"
    grids = {tuple(c["tensors"][0]["shape"]): tuple(c["launch"]["grid"]) for c in plan.calls}
    if len(set(grids.values())) == 1:
        return [f"    grid = {next(iter(grids.values()))!r}"]
    return [f"    grids = {grids!r}", f"    grid = grids[{first}]"]


def _write(value: Mapping[str, Any], plan: ObservedPlan) -> str:
    if "tensor" in value:
        return str(plan.inputs[value["tensor"]].name)
    if "number" in value:
        number: NumberPlan = plan.numbers[value["number"]]
        return repr(number.value) if number.is_baked else number.name
    if "code" in value:
        return str(value["code"])
    items: Sequence[Mapping[str, Any]] = value.get("list") or value.get("tuple") or ()
    text = ", ".join(_write(item, plan) for item in items)
    if "list" in value:
        return f"[{text}]"
    return f"({text}{',' * (len(items) == 1)})"
