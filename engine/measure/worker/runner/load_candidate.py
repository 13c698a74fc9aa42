"""What can be timed: a candidate in any of its languages, and what it is compared with.

Everything here runs in a runner, next to the candidate's code; nothing here judges.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]
Call = Callable[[int], Any]
"""Takes a stream; gives an error code (0 or None is none) or, returning, the outputs."""
Bind = Callable[[Sequence[Any], Sequence[torch.Tensor], Sequence[int]], Call]
"""Takes inputs, outputs and axes; gives the call that is timed."""


class KernelError(Exception):
    """The candidate reported an error, or returned what no kernel may return."""


def load(what: dict[str, Any], target: str) -> Bind:
    """Return what a job names, ready to be bound to arrays.

    Args:
        what: ``{"kind", …}``; see the functions below for what each kind needs.
        target: ``cpu`` or ``cuda``.
    """
    kinds: dict[str, Callable[[dict[str, Any], str], Bind]] = {
        "c": _c_entry,
        "tvm-ffi": _tvm_ffi,
        "torch-extension": _torch_extension,
        "python": _python,
        "module": _module,
    }
    return kinds[what["kind"]](what, target)


def _c_entry(what: dict[str, Any], _target: str) -> Bind:
    """``{"library", "entry"}``: pointers of inputs and outputs, the axes, a stream; returns int."""
    function = getattr(ctypes.CDLL(what["library"]), what["entry"])
    function.restype = ctypes.c_int

    def bind(inputs: Sequence[Any], outputs: Sequence[torch.Tensor], axes: Sequence[int]) -> Call:
        fixed = [_c_value(value) for value in (*inputs, *outputs)]
        fixed += [ctypes.c_int64(size) for size in axes]
        kept = (*inputs, *outputs)

        def call(stream: int) -> int:
            _ = kept
            code: int = function(*fixed, ctypes.c_void_p(stream))
            return code

        return call

    return bind


def _c_value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)


def _tvm_ffi(what: dict[str, Any], _target: str) -> Bind:
    """``{"library", "entry"}``: a packed function of tensors; the stream is torch's current one."""
    import tvm_ffi

    return _of_tensors(tvm_ffi.load_module(what["library"])[what["entry"]], returns=False)


def _torch_extension(what: dict[str, Any], _target: str) -> Bind:
    """``{"library", "module", "entry", "returns"}``: a Python extension module."""
    spec = importlib.util.spec_from_file_location(what["module"], what["library"])
    return _of_tensors(getattr(_loaded(spec), what["entry"]), returns=what["returns"])


def _python(what: dict[str, Any], _target: str) -> Bind:
    """``{"file", "entry", "returns", "compile", "out"}``: a function in a Python file."""
    function = getattr(python_module(what["file"]), what["entry"])
    if what.get("compile"):
        function = torch.compile(function)
    elif what.get("out") and "out" in _parameters(function):
        return _with_out(function)  # allocating is not its work where it is not its rival's
    return _of_tensors(function, returns=what["returns"])


def _module(what: dict[str, Any], target: str) -> Bind:
    """``{"file", "entry", "task", "seed", "compile"}``: a ``torch.nn.Module`` of a task.

    The seed makes the weights those of the reference, as long as both draw them in one order.
    """
    module = module_of(what["file"], what["entry"], what["task"], what["seed"]).to(target)
    return _of_tensors(torch.compile(module) if what.get("compile") else module, returns=True)


def module_of(file: str, entry: str, task: str, seed: int) -> Any:
    """Return a task's ``torch.nn.Module``, in the mode that it is made in.

    Args:
        file: Where the class is.
        entry: Its name.
        task: The file whose ``get_init_inputs`` gives its arguments.
        seed: Draws its weights.
    """
    arguments = python_module(task).get_init_inputs()
    named: dict[str, Any] = {}
    if len(arguments) == 2 and isinstance(arguments[0], list) and isinstance(arguments[1], dict):
        arguments, named = arguments
    torch.manual_seed(seed)
    return getattr(python_module(file), entry)(*arguments, **named)


@cache
def python_module(path: str) -> ModuleType:
    """Run a Python file and return its module; its folder's other files can be imported.

    Triton needs to find the source again later, so the module is a registered one.
    """
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(f"kernel_{Path(path).stem}", path)
    return _loaded(spec)


def _loaded(spec: Any) -> ModuleType:
    if spec is None or spec.loader is None:
        raise ImportError("no such module")
    sys.dont_write_bytecode = True  # nothing is left in somebody's folder, to be stale later
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _parameters(function: Any) -> Sequence[str]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _with_out(function: Any) -> Bind:
    def bind(inputs: Sequence[Any], outputs: Sequence[torch.Tensor], _axes: Sequence[int]) -> Call:
        out = outputs[0] if len(outputs) == 1 else tuple(outputs)

        def call(_stream: int) -> None:
            function(*inputs, out=out)

        return call

    return bind


def _of_tensors(function: Any, *, returns: bool) -> Bind:
    def bind(inputs: Sequence[Any], outputs: Sequence[torch.Tensor], _axes: Sequence[int]) -> Call:
        given = tuple(inputs) if returns else (*inputs, *outputs)

        def call(_stream: int) -> Any:
            result = function(*given)
            return result if returns else None

        return call

    return bind


def plain(result: Any, outputs: Sequence[torch.Tensor]) -> Tensors:
    """Return what was returned as a tuple of ordinary tensors.

    Raises:
        KernelError: It is lazy, or not as many or not of the shape and type that were asked for.
    """
    made = tuple(result) if isinstance(result, tuple | list) else (result,)
    if len(made) != len(outputs):
        raise KernelError(f"it returned {len(made)} outputs, the kernel has {len(outputs)}")
    for one, want in zip(made, outputs, strict=True):
        if type(one) not in (torch.Tensor, torch.nn.Parameter):
            raise KernelError(f"it returned a {type(one).__name__}, not a torch.Tensor")
        for what in ("shape", "dtype", "device"):
            if getattr(one, what) != getattr(want, what):
                found, wanted = getattr(one, what), getattr(want, what)
                raise KernelError(f"it returned {what} {_short(found)}, not {_short(wanted)}")
    return made


def _short(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value).removeprefix("torch.")
