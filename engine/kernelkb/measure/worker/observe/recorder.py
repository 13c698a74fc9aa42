"""Collects the calls of the functions that a name fits, and writes them while the program runs."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kernelkb.measure.worker.observe.names import (
    find_main_file,
    is_own,
)
from kernelkb.measure.worker.shared.messages.observed import (
    ObservedCall,
    ObservedFunction,
    ObservedProcess,
    ObserveJob,
)
from kernelkb.measure.worker.shared.messages.specs import DataSummary

_MAX_SEEN = 4000
"""Distinct names of other operations that are counted."""
_WRITTEN_SEEN = 400
_WRITE_EVERY_S = 2.0
"""The program may be ended at any time, and tells nothing then."""


Repeat = Callable[[Mapping[int, Any]], object]
"""Makes a call again with other tensors, by the id of each of its own."""


class Recorder:
    """The calls that one process saw.

    Calls inside of a recorded call are not recorded. An error in here never reaches the program.

    Attributes:
        seen: Names of all operations that were called, and how often.
    """

    def __init__(self, job: ObserveJob, folder: Path) -> None:
        self._job, self._folder = job, folder
        self._functions: dict[str, ObservedFunction] = {}
        self._signatures: dict[str, dict[str, int]] = {}
        self.seen: Counter[str] = Counter()
        self._state = threading.local()
        self._written_s = 0.0
        self._start_folder = str(Path.cwd())
        self._is_ended, self._endings = False, list[Callable[[], None]]()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Start anew in a process that the program forked: its parent writes what it saw."""
        self._functions, self._signatures, self.seen = {}, {}, Counter()

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in a call that is recorded, or in the recorder itself.

        Also once the program ends: its last objects are cleaned up without us.
        """
        return self._is_ended or bool(getattr(self._state, "is_inside", False))

    def at_end(self, ending: Callable[[], None]) -> None:
        """Have a hook taken away before Python shuts down."""
        self._endings.append(ending)

    def watch_forks(self) -> None:
        """Have processes that multiprocessing forks write, too: they end without ``atexit``."""
        from multiprocessing import util

        util.register_after_fork(
            self, lambda recorder: util.Finalize(None, recorder.finish, exitpriority=0)
        )

    def finish(self) -> None:
        """Write what was seen, and observe nothing from here on."""
        with suppress(Exception):  # the user's program is not to fail by ours
            self.write()
        self._is_ended = True
        for ending in self._endings:
            with suppress(Exception):  # as above
                ending()

    def note_kernel(self, name: str) -> None:
        """Note that the call which is being recorded launched a Triton kernel."""
        function = getattr(self._state, "function", None)
        if function is not None and name not in function["kernels"]:
            function["kernels"].append(name)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Record nothing meanwhile: an autotuner's trials are no calls of the program."""
        was_inside, self._state.is_inside = self.is_inside, True
        try:
            yield
        finally:
            self._state.is_inside = was_inside

    @contextmanager
    def hold(self, tensors: Sequence[Any]) -> Iterator[None]:
        """Keep what tensors hold now, as their values before a call that is recorded meanwhile.

        An autotuner's trials have written the outputs before the call that counts.
        """
        if not self.is_inside and sum(t.nbytes for t in tensors) <= self._job["max_bytes"]:
            self._state.held = {id(tensor): _copy(tensor) for tensor in tensors}
        try:
            yield
        finally:
            self._state.held = {}

    def note_seen(self, name: str) -> None:
        """Count the call of an operation."""
        if name in self.seen or len(self.seen) < _MAX_SEEN:
            self.seen[name] += 1

    def note_offered(self, name: str) -> None:
        """Note a function that an extension has, and whose calls nothing else would show."""
        self.seen.setdefault(name, 0)

    def begin(
        self,
        function: ObservedFunction,
        positional: Sequence[tuple[str, Any]],
        named: Mapping[str, Any],
        launch: Any = None,
    ) -> Any:
        """Describe a call before it runs; return what ``end`` needs.

        Whatever happens, ``end`` is to be called after it.
        """
        self._state.is_inside = True
        function = self._functions.setdefault(function["name"], function)
        self._state.function = function
        try:
            find_main_file()
            return self._begin(function, positional, named, launch)
        except Exception as error:  # the user's program is not to fail by ours
            self._add_error(function, error)
            return None

    def _begin(
        self,
        function: ObservedFunction,
        positional: Sequence[tuple[str, Any]],
        named: Mapping[str, Any],
        launch: Any,
    ) -> Any:
        from kernelkb.measure.worker.observe.call_record import CallDescription

        description = CallDescription(positional, named, launch)
        known = self._signatures.setdefault(function["name"], {})
        at = known.get(description.signature)
        if at is not None:
            function["calls"][at]["count"] += 1
            return None
        if len(known) >= self._job["max_signatures"]:
            function["uncounted"] += 1
            return None
        call = description.make_call()
        size = sum(tensor.nbytes for tensor in description.tensors)
        copies = None
        if size <= self._job["max_bytes"]:
            held = getattr(self._state, "held", {})
            copies = [
                held[id(tensor)] if id(tensor) in held else _copy(tensor)
                for tensor in description.tensors
            ]
        else:
            description.sum_up()
        return function, description, call, copies

    def end(
        self, begun: Any, result: Any, *, has_failed: bool = False, repeat: Repeat | None = None
    ) -> None:
        """Record a call after it ran.

        Args:
            begun: What ``begin`` returned.
            result: What the call returned.
            has_failed: Whether it raised; it is not recorded then.
            repeat: Makes the call again, with other tensors in place of its own.
        """
        try:
            if begun is not None and not has_failed:
                function, description, call, copies = begun
                self._end(function, description, call, copies, result, repeat)
        except Exception as error:  # as above
            self._add_error(begun[0], error)
        finally:
            self._state.is_inside, self._state.function = False, None
        if time.monotonic() - self._written_s > _WRITE_EVERY_S:
            with suppress(Exception):  # as above
                self.write()

    def _end(
        self,
        function: ObservedFunction,
        description: Any,
        call: Any,
        copies: Any,
        result: Any,
        repeat: Repeat | None,
    ) -> None:
        from kernelkb.measure.worker.observe.call_record import describe_tensor, list_tensors

        changed = description.find_changed(copies)
        if not changed and not list_tensors(result) and repeat and copies is not None:
            changed = _find_overwritten(description.tensors, repeat)
        returned = [
            tensor
            for tensor in list_tensors(result)
            if not any(tensor is description.tensors[at] for at in changed)
        ]
        outputs = [*returned, *(description.tensors[at] for at in changed)]
        names = [f"out_{at}" if len(returned) > 1 else "out" for at in range(len(returned))]
        names += [f"{call['tensors'][at]['name']}_after" for at in changed]
        call["outputs"], call["changed"] = list(map(describe_tensor, names, outputs)), changed
        call["data"] = _describe_data(call, description.tensors)
        _keep_lengths(call, description.tensors)
        self._keep_values(call, copies, outputs)
        call["count"] = 1
        known = self._signatures[function["name"]]
        known[description.signature] = len(function["calls"])
        function["calls"].append(call)

    def _keep_values(self, call: Any, copies: Any, outputs: Sequence[Any]) -> None:
        from kernelkb.measure.worker.shared.array_values import write_tensors

        size = sum(tensor.nbytes for tensor in outputs)
        if copies is None or size > self._job["max_bytes"]:
            return
        count = sum(len(function["calls"]) for function in self._functions.values())
        file = f"values-{os.getpid()}-{count}.safetensors"
        tensors = {f"input.{at}": tensor for at, tensor in enumerate(copies)}
        tensors |= {f"output.{at}": tensor for at, tensor in enumerate(outputs)}
        write_tensors(self._folder / file, tensors)
        call["file"] = file

    def _add_error(self, function: ObservedFunction, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"[:300]
        if text not in function["errors"]:
            function["errors"].append(text)

    def write(self) -> None:
        """Write what this process saw so far; the file appears complete, by a rename."""
        self._written_s = time.monotonic()
        process: ObservedProcess = {
            "functions": list(self._functions.values()),
            "seen": dict(self.seen.most_common(_WRITTEN_SEEN)),
            "program": find_main_file(),
            "folder": self._start_folder,
            "has_torch": "torch" in sys.modules,
        }
        path = self._folder / f"calls-{os.getpid()}.json"
        scratch = path.with_suffix(".tmp")
        scratch.write_text(json.dumps(process), encoding="utf-8")
        scratch.replace(path)


def _find_overwritten(tensors: Sequence[Any], repeat: Repeat) -> list[int]:
    """Return which tensors a call fills with what they held before: another call had filled them.

    The call is made again with copies of the tensors, one of them cleared.
    """
    import torch

    found = []
    for at, tensor in enumerate(tensors):
        if not bool((tensor != 0).any()):
            continue
        copies = {id(each): each.detach().clone() for each in tensors}
        copies[id(tensor)].zero_()
        repeat(copies)
        if torch.equal(copies[id(tensor)], tensor):
            found.append(at)
    return found


def _describe_data(call: ObservedCall, tensors: Sequence[Any]) -> list[DataSummary]:
    """Describe what a call did not change among its ids, offsets, lengths and masks."""
    import torch

    from kernelkb.measure.worker.shared.array_values import describe_data, make_place

    named = [(row["name"], tensor) for row, tensor in zip(call["tensors"], tensors, strict=True)]
    return describe_data(
        [one for at, one in enumerate(named) if at not in call["changed"]],
        [
            make_place(row["name"], row["shape"], getattr(torch, row["dtype"]), is_output=True)
            for row in call["outputs"]
        ],
    )


def _keep_lengths(call: ObservedCall, tensors: Sequence[Any]) -> None:
    """Write the lengths of rows into the recipe of each tensor that holds offsets from 0 on."""
    from kernelkb.measure.worker.observe.call_record import describe_offsets

    names = {row["name"] for row in call["data"] if row["role"] == "offsets"}
    for row, tensor in zip(call["tensors"], tensors, strict=True):
        if row["name"] in names and row["recipe"].get("low") == 0 and tensor.dim() == 1:
            row["recipe"] = describe_offsets(tensor)


def _copy(tensor: Any) -> Any:
    return tensor.detach().cpu().clone()


def make_function(kind: str, module: str, qualname: str, **fields: Any) -> ObservedFunction:
    """Return the record of a function without calls."""
    libraries = [
        file
        for name, loaded in list(sys.modules.items())
        if (file := getattr(loaded, "__file__", None)) and file.endswith(".so") and is_own(file)
    ]
    torch = sys.modules.get("torch")
    loaded_libraries = getattr(getattr(torch, "ops", None), "loaded_libraries", ())
    made: dict[str, Any] = {
        "kind": kind,
        "name": f"{module}:{qualname}",
        "module": module,
        "qualname": qualname,
        "source_file": None,
        "is_library": False,
        "overload": "",
        "is_method": False,
        "kernels": [],
        "libraries": sorted({*libraries, *loaded_libraries}),
        "modules": _find_own_modules(),
        "values": {},
        "calls": [],
        "uncounted": 0,
        "errors": [],
        **fields,
    }
    function: ObservedFunction = made  # type: ignore[assignment]  # its keys are those above
    return function


def _find_own_modules() -> dict[str, str]:
    """Map the names of modules that belong to no installed package to where they are found."""
    found = {}
    for name, module in list(sys.modules.items()):
        own = getattr(module, "__dict__", {})
        file = next(iter(own.get("__path__", ())), own.get("__file__"))
        is_program = "." not in name and not name.startswith("__") and name != "kernelkb"
        if is_program and isinstance(file, str) and is_own(file):
            found[name] = str(Path(file).resolve().parent)
    return found
