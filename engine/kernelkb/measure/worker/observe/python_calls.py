"""Observes calls of Python functions, by the interpreter's profiling hook."""

from __future__ import annotations

import inspect
import sys
import threading
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from kernelkb.measure.worker.observe.aliases import find_alias
from kernelkb.measure.worker.observe.names import OperationName, is_installed, name_module
from kernelkb.measure.worker.observe.recorder import Recorder, make_function
from kernelkb.measure.worker.observe.surroundings import write_plain_globals
from kernelkb.measure.worker.shared.messages.observed import ObservedFunction


def observe_python_functions(operation: OperationName, recorder: Recorder) -> None:
    """Observe calls in this thread, and in those that are started from here on.

    By the interpreter's profiling hook: a wrapper would miss functions of the main script, which
    are defined and called without an import.
    """
    profiler = _CallProfiler(operation, recorder)
    threading.setprofile(profiler)
    sys.setprofile(profiler)
    recorder.at_end(_end_profiling)


def _end_profiling() -> None:
    threading.setprofile(None)
    sys.setprofile(None)


class _CallProfiler:
    """Called by the interpreter at each call and return."""

    def __init__(self, operation: OperationName, recorder: Recorder) -> None:
        self._operation, self._recorder = operation, recorder
        self._records: dict[CodeType, ObservedFunction | None] = {}
        self._open: dict[int, Any] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Begin the record of a call that is asked for, or end it."""
        if event == "call":
            if not self._recorder.is_inside:  # nor ended
                self._handle_call(frame)
        elif event == "return" and id(frame) in self._open:
            begun = self._open.pop(id(frame))
            # Of a call that raised it is None, too: a function that returns None changes something.
            self._recorder.end(begun, argument)

    def _handle_call(self, frame: FrameType) -> None:
        code = frame.f_code
        if code not in self._records:
            found = None
            with suppress(Exception):  # the user's program is not to fail by ours
                found = self._find_record(frame)
            self._records[code] = found
        record = self._records[code]
        if record is not None:
            positional, named = _list_arguments(frame)
            self._open[id(frame)] = self._recorder.begin(record, positional, named)

    def _find_record(self, frame: FrameType) -> ObservedFunction | None:
        """Return the record of a function that is asked for; count the others as seen."""
        code = frame.f_code
        qualname = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
        module = name_module(str(frame.f_globals.get("__name__", "")))
        is_installed_file = is_installed(code.co_filename)
        if module.partition(".")[0] == "kernelkb":
            return None
        if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            return None
        if not self._is_meant(module, qualname):
            if not is_installed_file and not code.co_name.startswith("<"):
                self._recorder.note_seen(f"{module}:{qualname}")
            alias = find_alias(self._operation, code)
            if not alias:
                return None
            if "<" in getattr(code, "co_qualname", code.co_name):  # known by the variable alone
                module, _, qualname = alias.partition(":")
        is_module = isinstance(frame.f_locals.get("self"), sys.modules["torch"].nn.Module)
        return make_function(
            "python",
            module,
            qualname,
            source_file=code.co_filename,
            is_library=is_installed_file,
            is_method=code.co_varnames[:1] == ("self",) and not is_module,
            values={} if is_installed_file else write_plain_globals(frame.f_globals),
        )

    def _is_meant(self, module: str, qualname: str) -> bool:
        """Return whether a function is asked for; the name of a class stands for its forward."""
        owner = qualname.removesuffix(".forward")
        return any(self._operation.matches_function(module, name) for name in (qualname, owner))


def _list_arguments(frame: FrameType) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
    """Return the arguments by position and those by name, at the start of a call."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount
    positional = [(name, values.get(name)) for name in code.co_varnames[:count]]
    by_name = code.co_varnames[count : count + code.co_kwonlyargcount]
    named = {name: values.get(name) for name in by_name}
    at = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        name = code.co_varnames[at]
        positional += [(f"{name}_{n}", value) for n, value in enumerate(values.get(name) or ())]
        at += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        named |= values.get(code.co_varnames[at]) or {}
    return positional, named
