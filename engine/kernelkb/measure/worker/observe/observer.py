"""Hooks into a process of the user's program: its imports, and its calls of functions by name."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import functools
import importlib.machinery
import importlib.util
import inspect
import json
import math
import os
import sys
import threading
import time
import traceback
import types
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar, Literal, TextIO

from kernelkb.measure.worker.observe.names import (
    OperationName,
    is_installed,
    is_own,
    name_module,
    parse_operation,
)
from kernelkb.measure.worker.observe.python_calls import observe_python_functions
from kernelkb.measure.worker.observe.recorder import Recorder, make_function
from kernelkb.measure.worker.shared.messages.observed import TraceJob

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")

_FIRST_PARTY_EXTENSIONS = ("torch", "numpy", "triton", "scipy", "pandas")
"""Packages whose own extension modules hold nothing that a user would name."""

_POLL_S = 0.2
_QUIET_FACTOR = 4
"""A trace of a program that does little, as while it compiles, is so many times as long."""
_MANY_ALLOCATIONS = 20_000
_ENDED = "ended"
_JAX_LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_JAX_COMPILED = "/jax/core/compile/backend_compile_duration"
"""Events that jax.monitoring tells before and after a compilation; there is a device by then."""
_JAX_COMPILE_S = 60.0
"""So long one is waited for: it may also have ended with an error, or never have begun."""
_JAX_LIMIT = 40
"""Of a trace's length, for a program that compiles all the time."""
_JAX_SHARE = 0.5
"""Of a trace's length: JAX records 20 events a call, and takes longer to write them."""


def start_observer(job_file: Path) -> None:
    """Observe the operation that a job names, trace what torch and JAX do, or tell stacks."""
    job = json.loads(job_file.read_text(encoding="utf-8"))
    if "stack_signal" in job:
        write_stacks = functools.partial(_write_stacks, job["stack_signal"], job_file.parent)
        write_stacks()
        os.register_at_fork(after_in_child=write_stacks)
        return
    if "trace_s" in job:
        tracers = (_TorchTracer(job, job_file.parent), _JaxTracer(job, job_file.parent))
        hook = ImportHook({tracer.package: tracer.watch for tracer in tracers})
        sys.meta_path.insert(0, hook)
        return
    operation = parse_operation(job["operation"])
    recorder = Recorder(job, job_file.parent)
    sys.meta_path.insert(
        0,
        ImportHook(
            {
                "torch": lambda _: _observe_torch(operation, recorder),
                "triton": lambda module: _observe_triton(module, operation, recorder),
            }
        ),
    )
    _observe_extensions(operation, recorder)
    recorder.write()
    atexit.register(recorder.finish)


def _write_stacks(number: int, folder: Path) -> None:
    """Write where all threads of this process are on each signal of a number, and when it dies."""
    file = (folder / f"stack-{os.getpid()}.txt").open("w", encoding="utf-8")
    _STACK_FILES.append(file)
    faulthandler.register(number, file, all_threads=True)
    if not faulthandler.is_enabled():  # the user wants it elsewhere
        faulthandler.enable(file, all_threads=True)


_STACK_FILES: list[TextIO] = []
"""Open as long as the process is: faulthandler knows their numbers only."""


class ImportHook:
    """Runs an action after a module was imported, once each."""

    def __init__(self, actions: dict[str, Callable[[ModuleType], None]]) -> None:
        self._actions = actions

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        """Return the specification that others find, with our action at the end of its loading."""
        action = self._actions.pop(name, None)
        if action is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_act(module: ModuleType) -> None:
            load(module)
            action(module)

        spec.loader.exec_module = load_and_act  # type: ignore[method-assign]  # of this one loader
        return spec


class _Tracer(ABC):
    """Traces this process for some seconds with a package's profiler; one alone traces the GPU.

    Errors of it are noted and the program goes on; our trace ends when the program starts its own.
    """

    package: ClassVar[str]
    _running: ClassVar[list[_Tracer]] = []
    """The one that traces the GPU: CUPTI serves one of a process."""

    def __init__(self, job: TraceJob, folder: Path) -> None:
        self._job, self._folder, self._process = job, folder, os.getpid()
        self._is_ours = False

    def watch(self, package: ModuleType) -> None:
        """Begin as soon as there is something to record, and end with the process."""
        try:
            atexit.register(self.finish)
            self._prepare(package)
        except Exception:  # the user's program is not to fail by ours
            self._note_error()

    @abstractmethod
    def _prepare(self, package: ModuleType) -> None:
        """Have the trace begun when the package is used."""

    @abstractmethod
    def finish(self) -> None:
        """End the trace and write it; do nothing where that was done, and in forked processes."""

    def _claim(self) -> bool:
        """Return whether no other tracer has the GPU, and none will."""
        if not self._running:
            self._running.append(self)
        return self._running == [self]

    def _make_way(self, start: Callable[..., Any]) -> Callable[..., Any]:
        """Return what starts a profiler, with the end of ours before it: there can be but one."""

        @functools.wraps(start)
        def finish_and_start(*arguments: Any, **options: Any) -> Any:
            if not self._is_ours:
                for tracer in {self, *self._running}:
                    tracer.finish()
            return start(*arguments, **options)

        return finish_and_start

    def _note_error(self) -> None:
        with suppress(OSError):
            error_file = self._folder / f"error-{self._process}.txt"
            error_file.write_text(traceback.format_exc(), encoding="utf-8")


class _TorchTracer(_Tracer):
    """Traces from this process's first use of its GPU on; without CUDA from the import on."""

    package = "torch"

    def __init__(self, job: TraceJob, folder: Path) -> None:
        super().__init__(job, folder)
        self._profile: Any = None
        self._torch: Any = None
        self._request = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._answer)

    def _prepare(self, package: ModuleType) -> None:
        self._torch = package
        if self._torch.backends.cuda.is_built():
            self._torch.cuda._lazy_call(self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            self._ask()  # the thread that begins has to be there at the end
            return
        try:
            from torch.autograd import profiler

            profile = self._torch.profiler.profile
            for name in ("_prepare_profiler", "_enable_profiler"):
                setattr(profiler, name, self._make_way(getattr(profiler, name)))
            if self._torch.backends.cuda.is_built() and not self._claim():
                return
            self._process = os.getpid()
            os.register_at_fork(after_in_child=_leave_out_destructors)
            self._is_ours, self._profile = True, profile()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._profile.start()
            threading.Thread(target=self._wait, daemon=True).start()
        except Exception:  # as above
            self._note_error()
        self._is_ours = False

    def _wait(self) -> None:
        """Ask the main thread to end the trace when it is long enough."""
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < self._job["trace_s"] * _QUIET_FACTOR:
            time.sleep(_POLL_S)
            if passed >= self._job["trace_s"] and self._count_allocations() > _MANY_ALLOCATIONS:
                break
        self._ask()

    def _count_allocations(self) -> int:
        """Return how much the program has done: nearly every operation allocates its result."""
        if not self._torch.cuda.is_initialized():
            return 0
        return int(self._torch.cuda.memory_stats().get("allocation.all.allocated", 0))

    def _ask(self) -> None:
        ctypes.pythonapi.Py_AddPendingCall(self._request, None)

    def _answer(self, _: object) -> int:
        """Begin or end in the main thread, between two of its instructions."""
        if self._profile is None:
            self._begin()
        elif self._torch.cuda.is_initialized() and self._torch.cuda.is_current_stream_capturing():
            threading.Timer(_POLL_S, self._ask).start()  # the end waits for the GPU: not allowed
        else:
            self.finish()
        return 0

    def finish(self) -> None:
        """End the trace and write it, in the thread that began it."""
        profile, self._profile = self._profile, _ENDED
        if profile in (None, _ENDED) or os.getpid() != self._process:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                profile.stop()
            part = self._folder / f"trace-{self._process}.part"
            profile.export_chrome_trace(str(part))
            part.replace(part.with_suffix(".json"))
        except Exception:  # as above
            self._note_error()


class _JaxTracer(_Tracer):
    """Traces from the first compilation for a GPU on, until some time after the last."""

    package = "jax"

    def __init__(self, job: TraceJob, folder: Path) -> None:
        super().__init__(job, folder)
        self._jax: Any = None
        self._state: Literal["before", "runs", "ended"] = "before"
        self._lock = threading.RLock()
        self._lowered_at = self._compiled_at = -math.inf

    def _prepare(self, package: ModuleType) -> None:
        self._jax, monitoring = package, importlib.import_module("jax.monitoring")
        profiler = importlib.import_module("jax.profiler")
        start = profiler.start_trace
        for place in (profiler, sys.modules[start.__module__]):
            setattr(place, start.__name__, self._make_way(start))
        monitoring.register_event_duration_secs_listener(self._note_event)

    def _note_event(self, event: str, *_: Any, **__: Any) -> None:
        if event == _JAX_LOWERED:
            self._lowered_at = time.monotonic()
        elif event == _JAX_COMPILED:
            self._lowered_at, self._compiled_at = -math.inf, time.monotonic()
            if self._state == "before":
                self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._state != "before":
                return
            self._state, self._is_ours = "ended", True
            try:
                if self._jax.default_backend() == "gpu" and self._claim():
                    self._process = os.getpid()
                    options = self._choose_options()
                    self._jax.profiler.start_trace(str(self._place), **options)
                    self._state = "runs"
                    threading.Thread(target=self._wait, daemon=True).start()
            except Exception:  # as above
                self._note_error()
            self._is_ours = False

    @property
    def _place(self) -> Path:
        return self._folder / f"jax-{self._process}"

    def _choose_options(self) -> dict[str, Any]:
        """Leave out the functions of Python, which slow a program; older releases cannot."""
        if not hasattr(self._jax.profiler, "ProfileOptions"):
            return {}
        options = self._jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        return {"profiler_options": options}

    def _wait(self) -> None:
        """End the trace when it is long enough."""
        begun, length = time.monotonic(), self._job["trace_s"] * _JAX_SHARE
        while time.monotonic() - begun < length * _JAX_LIMIT:
            time.sleep(_POLL_S)
            now = time.monotonic()
            if now - self._lowered_at > _JAX_COMPILE_S and now - self._compiled_at >= length:
                break
        self.finish()

    def finish(self) -> None:
        """End the trace and write it; wait for another thread that does."""
        if os.getpid() != self._process:
            return
        with self._lock:
            was, self._state = self._state, "ended"
            if was != "runs":
                return
            try:
                self._jax.profiler.stop_trace()
                for trace in self._place.rglob("*.trace.json.gz"):
                    trace.replace(self._folder / f"trace-{self._process}.json.gz")
            except Exception:  # as above
                self._note_error()


def _leave_out_destructors() -> None:
    """Have a forked process end without the destructors of C++.

    That of torch's profiler waits for threads that the fork did not copy, and would never end.
    """
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)  # called with the exit status
    libc.__cxa_atexit(libc.fflush, None, None)  # before it


def _observe_torch(operation: OperationName, recorder: Recorder) -> None:
    from kernelkb.measure.worker.observe.torch_calls import observe_torch_calls

    recorder.watch_forks()
    observe_torch_calls(operation, recorder)
    if not operation.is_torch_operation:
        observe_python_functions(operation, recorder)


def _observe_triton(module: ModuleType, operation: OperationName, recorder: Recorder) -> None:
    observe_triton_kernels(module, operation, recorder)


def _observe_extensions(operation: OperationName, recorder: Recorder) -> None:
    """Wrap functions of extension modules, as they are loaded: nothing else sees their calls."""
    load = ExtensionFileLoader.exec_module

    def load_and_wrap(loader: ExtensionFileLoader, module: ModuleType) -> None:
        load(loader, module)
        if module.__name__.partition(".")[0] not in _FIRST_PARTY_EXTENSIONS:
            wrap_extension(module, operation, recorder)

    ExtensionFileLoader.exec_module = load_and_wrap  # type: ignore[method-assign, assignment]


def observe_triton_kernels(
    module: ModuleType, operation: OperationName, recorder: Recorder
) -> None:
    """Record the launches of a kernel from here on; not those by which an autotuner chooses."""
    _wrap_run(module.runtime.jit.JITFunction, operation, recorder)
    _wrap_trials(module.runtime.autotuner.Autotuner, operation, recorder)
    if os.environ.get("TRITON_INTERPRET") == "1":
        from triton.runtime.interpreter import InterpretedFunction

        _wrap_run(InterpretedFunction, operation, recorder)


def _wrap_trials(tuner_class: Any, operation: OperationName, recorder: Recorder) -> None:
    try_config, run = tuner_class._bench, tuner_class.run

    def try_unrecorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with recorder.pause():
            return try_config(self, *args, **kwargs)

    def run_with_copies(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not operation.path.endswith(self.base_fn.__name__):
            return run(self, *args, **kwargs)
        passed = (*args, *kwargs.values())
        with recorder.hold([value for value in passed if hasattr(value, "nbytes")]):
            return run(self, *args, **kwargs)

    tuner_class._bench, tuner_class.run = try_unrecorded, run_with_copies


def _wrap_run(jit_class: Any, operation: OperationName, recorder: Recorder) -> None:
    run = jit_class.run

    def run_and_record(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = self.fn
        module = name_module(function.__module__)
        if not kwargs.get("warmup", False):
            recorder.note_seen(f"{module}:{function.__name__}")
            recorder.note_kernel(function.__name__)
        is_meant = operation.matches_function(module, function.__qualname__)
        if recorder.is_inside or kwargs.get("warmup", False) or not is_meant:
            return run(self, *args, **kwargs)
        file = function.__code__.co_filename
        record = make_function(
            "triton",
            module,
            function.__qualname__,
            source_file=file,
            is_library=is_installed(file),
            kernels=[function.__name__],
        )
        values, launch = _describe_launch(self, args, kwargs)
        begun, has_failed = recorder.begin(record, [], values, launch), True
        try:
            result = run(self, *args, **kwargs)
            has_failed = False
        finally:
            recorder.end(begun, None, has_failed=has_failed)
        return result

    jit_class.run = run_and_record


def _describe_launch(
    kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments by name, and the launch: grid, options and constants."""
    names = list(getattr(kernel, "arg_names", ()))
    passed = dict(zip(names, args, strict=False))
    passed |= {name: value for name, value in kwargs.items() if name in names}
    grid = kwargs.get("grid", ())
    if callable(grid):
        grid = grid({**passed, **kwargs})
    grid = grid if isinstance(grid, (tuple, list)) else (grid,)
    kinds = inspect.get_annotations(kernel.fn)
    codes = {
        name: _write_constant(value)
        for name, value in passed.items()
        if "constexpr" in str(kinds.get(name, ""))
    }
    constants = {name: code for name, code in codes.items() if code}
    launch = {
        "grid": [int(size) for size in grid],
        "options": {name: kwargs[name] for name in _OPTIONS if name in kwargs},
        "constants": constants,
    }
    return {name: value for name, value in passed.items() if name not in constants}, launch


def _write_constant(value: Any) -> str:
    """Return a ``tl.constexpr`` argument as code; empty for an object that no code makes."""
    value = getattr(value, "value", value)  # of a tl.constexpr
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    if hasattr(value, "primitive_bitwidth"):  # a dtype of the language
        names = vars(sys.modules["triton.language"]).items()
        return next((f"triton.language.{name}" for name, own in names if own is value), "")
    if isinstance(getattr(value, "fn", None), FunctionType):  # a function for the device
        return str(value.fn.__name__)
    return ""


def wrap_extension(module: ModuleType, operation: OperationName, recorder: Recorder) -> None:
    """Replace the functions of a module that a name fits by ones that record their calls."""
    for name, value in list(vars(module).items()):
        is_function = callable(value) and not isinstance(value, (type, types.FunctionType))
        if is_function and operation.matches_function(module.__name__, name):
            setattr(module, name, _wrap(module, name, value, recorder))
        elif is_function and not name.startswith("_") and is_own(getattr(module, "__file__", "")):
            recorder.note_offered(f"{module.__name__}:{name}")


def _wrap(module: ModuleType, name: str, called: Any, recorder: Recorder) -> Any:
    file = getattr(module, "__file__", None) or ""
    fields = {"source_file": file, "is_library": is_installed(file)}
    record = make_function("extension", module.__name__, name, **fields)

    @functools.wraps(called)
    def call(*args: Any, **kwargs: Any) -> Any:
        if recorder.is_inside:
            return called(*args, **kwargs)

        def repeat(tensors: Mapping[int, Any]) -> object:
            words = {key: tensors.get(id(own), own) for key, own in kwargs.items()}
            return called(*(tensors.get(id(own), own) for own in args), **words)

        positional = [(f"arg{at}", value) for at, value in enumerate(args)]
        begun, result, has_failed = recorder.begin(record, positional, kwargs), None, True
        try:
            result, has_failed = called(*args, **kwargs), False
        finally:
            recorder.end(begun, result, has_failed=has_failed, repeat=repeat)
        return result

    return call
