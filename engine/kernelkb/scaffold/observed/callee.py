"""Writes the code of a draft from observed calls: the called function, and how to call it again."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kernelkb.scaffold.observed.calls import (
    ENTRY,
    ArrayPlan,
    NumberPlan,
    ObservedPlan,
)
from kernelkb.scaffold.observed.slices import FileContext, NotSliceable, slice_function

Function = Mapping[str, Any]
"""One observed function, as the observer writes it."""
_NO_TORCH = "it is compiled code, so that its recorded outputs are the reference"
_TRITON = "it launches Triton kernels, so that its recorded outputs are the reference"
_LOAD_EXTENSION = """\
def _load_extension(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""

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


class Places(NamedTuple):
    """Where a kernel's folder finds what the program has: paths from that folder."""

    files: Mapping[str, str]
    """By absolute path of a library or of the function's own file."""
    root: str = ""
    """The folder from which the program imports the function's module."""
    modules: Mapping[str, str] = {}
    """The program's modules and packages, each with the folder from which it is imported."""
    extensions: frozenset[str] = frozenset()
    """Those of them that are compiled."""
    own_file: str = ""
    """The function's own file, script or not."""
    folder: str = ""
    """Where the program started."""


class Callee(NamedTuple):
    """What is called."""

    head: str
    """The lines before the call."""
    code: str
    """The expression that is called."""
    reason: str
    """Why it is no reference; empty if it is one."""


class UnwritableCall(Exception):
    """A call that no file can repeat; the text says why and what to name instead."""


def draft_callee(function: Function, plan: ObservedPlan, text: str, places: Places) -> Callee:
    """Return the code of what was called.

    Args:
        function: What was called.
        plan: Its calls.
        text: Source of the function's own file; empty where it has none.
        places: Of its files.

    Raises:
        UnwritableCall: It cannot be copied out of its file, and not loaded from it.
    """
    kind, module, qualname = function["kind"], function["module"], function["qualname"]
    if kind == "torch-function":
        return Callee("", f"{module}.{qualname}", "")
    if kind == "torch-operation":
        return _draft_operation(function, text, places)
    if kind == "extension":
        path = places.files[function["source_file"]]
        name = module.rpartition(".")[2]
        place = f"Path(__file__).parent / {json.dumps(path)}"
        head = f'{_LOAD_EXTENSION}\n\n_extension = _load_extension("{name}", {place})\n'
        return Callee(head, f"_extension.{qualname}", _NO_TORCH)
    if kind == "triton":
        constants = _list_constant_names(plan, text)
        return Callee(
            _slice(function, text, qualname, places, constants, is_launched=True), qualname, _TRITON
        )
    return _draft_python(function, plan, text, places)


def _draft_operation(function: Function, text: str, places: Places) -> Callee:
    """Return an operation of torch's dispatcher: torch's own, made in Python, or compiled."""
    called = f"torch.ops.{function['module']}.{function['qualname']}.{function['overload']}"
    if function["is_library"]:
        return Callee("", called, "")
    if function["source_file"]:
        name = function["source_file"].rpartition(":")[2]
        reason = _TRITON if function["kernels"] else ""
        return Callee(_slice(function, text, name, places), name, reason)
    loads = [
        f"torch.ops.load_library(Path(__file__).parent / {json.dumps(path)})"
        for path in places.files.values()
    ]
    return Callee("\n".join(loads) + "\n", called, _NO_TORCH)


def _draft_python(function: Function, plan: ObservedPlan, text: str, places: Places) -> Callee:
    module, qualname = function["module"], function["qualname"]
    reason = _TRITON if function["kernels"] else ""
    imports, own = _list_classes(function, plan)
    called = qualname
    if is_autograd(plan):
        called = f"{qualname.rpartition('.')[0]}.apply"
    if function["is_library"]:
        lines = "".join(f"import {name}\n" for name in sorted({module, *imports}))
        return Callee(lines, f"{module}.{called}", reason)
    owner, _, inner = qualname.partition(".")
    try:
        if inner and not re.search(rf"^class {owner}\b", text, re.MULTILINE):
            raise UnwritableCall(_explain_place(function, "it is defined inside of another one"))
        head = slice_function(text, owner, own, context=_make_context(function, places))
    except NotSliceable as error:
        return _import_own_file(function, places, called, str(error))
    used = [*_iter_imported(head), *(name.partition(".")[0] for name in imports)]
    is_built = "_run_in_folder(" in head
    is_compiled = is_built or bool(places.extensions.intersection(used))
    reason = reason or (_NO_TORCH if is_compiled else "")
    others = "".join(f"import {name}\n" for name in imports)
    folders = [places.modules[name] for name in used if name in places.modules]
    if folders:
        others = f"{_extend_path(folders)}\n{others}"
    return Callee(f"{others}\n{head}", called, reason)


def _make_context(function: Function, places: Places) -> FileContext:
    return FileContext(function.get("values", {}), places.own_file, places.folder)


def is_autograd(plan: ObservedPlan) -> bool:
    """Return whether the calls are of an autograd function's ``forward``, with its context."""
    return any("context" in value for value in plan.calls[0]["arguments"]["positional"][:1])


def _list_classes(function: Function, plan: ObservedPlan) -> tuple[list[str], list[str]]:
    """Return the modules to import for the classes of the arguments, and own classes to copy."""
    imports, own = [], []
    for name in dict.fromkeys(_iter_classes(plan.calls[0]["arguments"])):
        module, _, qualname = name.partition(":")
        if module == function["module"]:
            own.append(qualname)
        elif not module.startswith("torch."):
            imports.append(module)
    return list(dict.fromkeys(imports)), own


def write_class(name: str, function: Function) -> str:
    """Return the expression of a class that was recorded as ``module:name``."""
    module, _, qualname = name.partition(":")
    is_copied = module == function["module"] and not function["is_library"]
    return qualname if is_copied else f"{module}.{qualname}"


def _iter_classes(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict) and "class" in tree and "fields" in tree:
        yield tree["class"]
        for value in tree["fields"].values():
            yield from _iter_classes(value)
    elif isinstance(tree, (dict, list)):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _iter_classes(value)


def _iter_imported(text: str) -> Iterator[str]:
    """Yield the first part of each module that a source imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def _extend_path(folders: Iterable[str]) -> str:
    return "".join(
        f"sys.path.append(str(Path(__file__).parent / {json.dumps(folder)}))\n"
        for folder in dict.fromkeys(folders)
    )


def _import_own_file(function: Function, places: Places, called: str, why: str) -> Callee:
    """Call a function of the module that the program imports, which must be no script.

    Raises:
        UnwritableCall: The function is in the program's main script, or inside of another one.
    """
    module = function["module"]
    if function["source_file"] not in places.files:
        raise UnwritableCall(_explain_place(function, why))
    head = f"{_extend_path([places.root])}\nimport {module}\n"
    reason = f"{why}, so that it cannot be copied; its recorded outputs are the reference"
    return Callee(head, f"{module}.{called}", reason)


def _list_constant_names(plan: ObservedPlan, text: str) -> list[str]:
    """Return the functions of the file that a launch passes as constants."""
    codes = {code for call in plan.calls for code in call["launch"]["constants"].values()}
    return sorted(code for code in codes if code.isidentifier() and f"def {code}(" in text)


def _slice(
    function: Function,
    text: str,
    name: str,
    places: Places,
    also: list[str] | None = None,
    *,
    is_launched: bool = False,
) -> str:
    context = _make_context(function, places)
    try:
        return slice_function(text, name, also or (), is_launched=is_launched, context=context)
    except NotSliceable as error:
        raise UnwritableCall(_explain_place(function, str(error))) from error


def _explain_place(function: Function, why: str) -> str:
    return (
        f"{function['name']} cannot be copied out of its file: {why}; move it, with what it "
        "needs, to the top level of a file that the program imports, or name a function that it "
        "calls"
    )


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
        "import os": "os.chdir(" in code,
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
        lines += draft_launch(plan)
        passed.append("**options")
        called += "[grid]"
    indent = "    "
    if autocast := plan.calls[0].get("autocast"):
        states = [f"torch.autocast({kind!r}, dtype=torch.{own})" for kind, own in autocast.items()]
        lines.append(f"    with {', '.join(states)}:")
        indent *= 2
    lines.append(f"{indent}result = {called}({', '.join(passed)})")
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


def draft_launch(plan: ObservedPlan) -> list[str]:
    """Return the lines that set ``grid`` and ``options`` as the program did for these sizes."""
    grids = [tuple(call["launch"]["grid"]) for call in plan.calls]
    options = [_write_options(call["launch"]) for call in plan.calls]
    rows = [f"({grid!r}, {option})" for grid, option in zip(grids, options, strict=True)]
    if len(set(rows)) == 1:
        return [f"    grid, options = {grids[0]!r}, {options[0]}"]
    numbers = [(at, each) for at, each in enumerate(plan.numbers) if each.value in plan.axes]
    keys = [
        (
            *(tuple(call["tensors"][at]["shape"]) for at in plan.input_places),
            *(call["numbers"][at]["value"] for at, _ in numbers),
        )
        for call in plan.calls
    ]
    names = [f"tuple({array.name}.shape)" for array in plan.inputs]
    names += [number.name for _, number in numbers]
    return [
        "    launches = {  # as observed; other sizes need their own",
        *(f"        {key!r}: {row}," for key, row in zip(keys, rows, strict=True)),
        "    }",
        f"    grid, options = launches[{', '.join(names)},]",
    ]


def _write_options(launch: Mapping[str, Any]) -> str:
    """Return the code of a launch's constants, which are code, and options, which are values."""
    options = {name: repr(value) for name, value in launch["options"].items() if value is not None}
    rows = {**launch["constants"], **options}.items()
    return "{" + ", ".join(f"{name!r}: {code}" for name, code in rows) + "}"
