"""Binds a candidate or rival to torch tensors in shared memory, and calls it."""

from __future__ import annotations

import time
import warnings
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch

from kernelkb.measure.worker.runner import load_candidate
from kernelkb.measure.worker.runner.library_runner import OwnClock, filled_heap, trim_heap
from kernelkb.measure.worker.shared.failures import KernelError, UnsupportedHost
from kernelkb.measure.worker.shared.memory import Arena, CudaMemory, is_dense, release_torch_cache
from kernelkb.measure.worker.shared.messages.runner_commands import (
    MAX_MISSING_PARAMETERS,
    BareCommand,
    BatchAnswer,
    BindCommand,
    CallAnswer,
    CallCommand,
    CallSlotsCommand,
    CaptureAnswer,
    CaptureCommand,
    DelayedCallCommand,
    EmptyAnswer,
    ExportAnswer,
    ExportCommand,
    Handler,
    LoadAnswer,
    OpenCommand,
    OrderedCallCommand,
    RepeatCommand,
    RunBatchCommand,
    ServeJob,
)
from kernelkb.measure.worker.shared.messages.specs import Target

_ROW_ELEMENTS = 11 * 1024
"""Of float32. torch's softmax keeps rows of this length in shared memory, 44 KiB for each block of
threads; shorter ones in registers (ATen/native/cuda/SoftMax.cu)."""
_ROWS_PER_PROCESSOR = 4
"""Two blocks run on a multiprocessor at once."""
_BLOCK_BYTES = (1 << 20, 1 << 20, 16 << 20, 64 << 20)
"""The first two are of the pool that torch's allocator keeps for small arrays."""
_MIN_FREE_BYTES = 1 << 30
"""Nothing is filled where memory is short."""

_OVERWRITTEN = 0xA5
_MAX_REASON_CHARS = 300


class TensorRunner:
    """Binds loaded code to the slots of shared memory and calls it.

    Attributes:
        target: ``cpu`` or ``cuda``.
        handlers: By command.
    """

    def __init__(self, job: ServeJob) -> None:
        torch.set_grad_enabled(False)
        self.target = job["target"]
        self._code = job["code"]
        self._clock = OwnClock()
        self._binder: load_candidate.Binder | None = None
        self._calls: list[load_candidate.BoundCall] = []
        self._inputs: list[list[torch.Tensor]] = []
        self._outputs: list[list[torch.Tensor]] = []
        self._graphs: dict[int, _CapturedCalls] = {}
        self._arena: Arena | None = None
        self._live_tensors: list[torch.Tensor] = []
        self._pointer_table = memoryview(b"")
        self.handlers: dict[str, Handler] = {
            "ready": self._handle_ready,
            "load": self._handle_load,
            "open": self._handle_open,
            "close": self._handle_close,
            "bind": self._handle_bind,
            "call": self._handle_call,
            "call-delayed": self._handle_delayed_call,
            "call-slots": self._handle_call_slots,
            "call-ordered": self._handle_ordered_call,
            "synchronize": self._handle_synchronize,
            "capture": self._handle_capture,
            "run-batch": self._handle_run_batch,
            "export": self._handle_export,
            "repeat": self._handle_repeat,
            "release": self._handle_release,
        }

    def _handle_ready(self, _command: BareCommand, _files: list[int]) -> EmptyAnswer:
        """Answer once the sandbox is up and the device works; no candidate code has run."""
        if self.target == "cuda":
            self._cuda = CudaMemory()
        return {}

    def _handle_load(self, _command: BareCommand, _files: list[int]) -> LoadAnswer:
        self._binder, missing = load_candidate.load_code_and_compare(self._code, self.target)
        return {"missing_parameters": missing[:MAX_MISSING_PARAMETERS]}

    def _handle_open(self, command: OpenCommand, files: list[int]) -> EmptyAnswer:
        self._release_arena()
        handle = command["handle"] if self.target == "cuda" else files[0]
        self._arena = Arena(command["bytes"], self.target, owner_handle=handle)
        self._pointer_table = self._arena.pointer_table(command["pointer_table_offset"])
        return {}

    def _handle_close(self, _command: BareCommand, _files: list[int]) -> EmptyAnswer:
        self._release_arena()
        self._arena = None
        return {}

    def _release_arena(self) -> None:
        """Drop everything that points into the arena, then the arena."""
        self._calls, self._inputs, self._outputs, self._graphs = [], [], [], {}
        self._live_tensors, self._pointer_table = [], memoryview(b"")
        if self._arena is not None:
            self._arena.close()

    def _handle_bind(self, command: BindCommand, _files: list[int]) -> EmptyAnswer:
        """Bind the code to each slot's arrays."""
        arena, bind = self._arena, self._binder
        if arena is None or bind is None:
            raise RuntimeError("bind before load and open")
        input_count = command["input_count"]
        self._calls, self._inputs, self._outputs, self._graphs = [], [], [], {}
        for row in command["offsets"]:
            arrays = [
                arena.view(offset, spec) for offset, spec in zip(row, command["specs"], strict=True)
            ]
            inputs: list[Any] = list(arrays[:input_count])
            for position, value in command["scalars"]:
                inputs.insert(position, value)
            outputs = arrays[input_count:]
            self._inputs.append(arrays[:input_count])
            self._outputs.append(outputs)
            self._calls.append(bind(inputs, outputs, command["axes"]))
        return {}

    def _handle_call(self, command: CallCommand, _files: list[int]) -> CallAnswer:
        with filled_memory(self.target, command):
            results = self._call_slots([command["slot"]])
        self._copy_to_outputs(results)
        self._synchronize()
        returned = bool(results)
        results.clear()
        release_torch_cache()
        return {"returned": returned}

    def _handle_delayed_call(self, command: DelayedCallCommand, _files: list[int]) -> EmptyAnswer:
        """Call on a slot behind a spinning kernel; answer while that still runs."""
        torch.cuda._sleep(command["cycles"])
        self._call_slots([command["slot"]])
        return {}

    def _handle_call_slots(self, command: CallSlotsCommand, _files: list[int]) -> EmptyAnswer:
        self._call_slots(command["slots"], copies_each=True)
        self._synchronize()
        return {}

    def _handle_ordered_call(self, command: OrderedCallCommand, _files: list[int]) -> EmptyAnswer:
        inputs, others = self._inputs[command["slot"]], self._inputs[command["other_slot"]]
        contents = [tensor.clone() for tensor in inputs]
        for tensor, other in zip(inputs, others, strict=True):
            tensor.copy_(other)
        self._synchronize()
        torch.cuda._sleep(command["cycles"])
        for tensor, content in zip(inputs, contents, strict=True):
            tensor.copy_(content)
        self._copy_to_outputs(self._call_slots([command["slot"]]))
        self._synchronize()
        return {}

    def _handle_synchronize(self, _command: BareCommand, _files: list[int]) -> EmptyAnswer:
        self._synchronize()
        return {}

    def _call_slots(self, slots: list[int], *, copies_each: bool = False) -> dict[int, Any]:
        """Call slot after slot; return the results of code that returns its outputs, by slot.

        Args:
            slots: In the order of the calls.
            copies_each: Copy the results of a call to the slot's outputs before the next call.
        """
        stream = torch.cuda.current_stream().cuda_stream if self.target == "cuda" else 0
        results: dict[int, Any] = {}
        for slot in slots:
            result = self._calls[slot](stream)
            if isinstance(result, int):
                if result:
                    text = f" ({_cuda_error_text(result)})" if self.target == "cuda" else ""
                    raise KernelError(f"the entry point returned {result}{text}")
            elif result is not None:
                results[slot] = result
                if copies_each:
                    self._copy_to_outputs({slot: result})
        return results

    def _synchronize(self) -> None:
        if self.target == "cuda":
            torch.cuda.synchronize()

    def _handle_capture(self, command: CaptureCommand, _files: list[int]) -> CaptureAnswer:
        """Capture one CUDA graph of calls on some slots, in their order; or report why not.

        Then copy what is where results would be: correct where all work ran beside the capture.
        """
        reason, results, returned = None, {}, ""
        self._graphs.pop(command["graph_id"], None)  # a graph keeps what it allocated
        home_stream = torch.cuda.current_stream()
        try:
            graph = torch.cuda.CUDAGraph()
            with warnings.catch_warnings(record=True) as told, torch.cuda.graph(graph):
                warnings.simplefilter("always")
                results = self._call_slots(command["slots"])
            self._copy_to_outputs(results)
            if any("CUDA Graph is empty" in str(each) for each in told):
                self._overwrite(results)
            places = self._find_places(results, command["slots"])
            self._graphs[command["graph_id"]] = _CapturedCalls(graph, results, places)
            returned = places.packed
            self._synchronize()
        except Exception as error:  # not every kernel can be captured
            reason = f"{type(error).__name__}: {error}"[:_MAX_REASON_CHARS]
            torch.cuda.set_stream(home_stream)  # a failed capture leaves its own stream current
        shares = _share_memory(results)
        return {"reason": reason, "shares_memory": shares, "returned": returned}

    def _overwrite(self, results: dict[int, Any]) -> None:
        """Overwrite what calls returned beside an empty graph: no replay computes it again."""
        slots = (*self._inputs, *self._outputs)
        judges = {tensor.untyped_storage().data_ptr() for slot in slots for tensor in slot}
        for tensor in _iter_tensors(results):
            if tensor.untyped_storage().data_ptr() not in judges:
                tensor.untyped_storage().fill_(_OVERWRITTEN)

    def _handle_run_batch(self, command: RunBatchCommand, _files: list[int]) -> BatchAnswer:
        """Replay a graph or call on slots; all work is done when this answers.

        The judge stops this process at the answer.
        """
        return self._run_on_gpu(command) if self.target == "cuda" else self._run_on_cpu(command)

    def _run_on_cpu(self, command: RunBatchCommand) -> BatchAnswer:
        if "graph_id" in command:
            raise RuntimeError("there are no CUDA graphs on a CPU")
        self._live_tensors.clear()
        self._clock.start()
        results = self._call_slots(command["slots"])
        self._publish_addresses(results)
        times, shares = self._clock.stop(), _share_memory(results)
        return _make_batch_answer(times.runner_ns, 0, times.wait_ns, shares=shares)

    def _run_on_gpu(self, command: RunBatchCommand) -> BatchAnswer:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        if "graph_id" in command:
            captured = self._graphs[command["graph_id"]]
            captured.graph.replay()
            end.record()
            return self._answer_batch((begin, end), captured.places, 0.0, command)
        results = self._call_slots(command["slots"])
        end.record()
        shares = _share_memory(results)
        torch.cuda.synchronize()
        start_ns = time.perf_counter_ns()
        places = self._find_places(results, command["slots"])
        find_ns = float(time.perf_counter_ns() - start_ns)
        answer = self._answer_batch((begin, end), places, find_ns, command)
        returned = "" if command.get("copies") else places.packed
        return {**answer, "shares_memory": shares, "returned": returned}

    def _answer_batch(
        self,
        events: tuple[torch.cuda.Event, torch.cuda.Event],
        places: _Places,
        find_ns: float,
        command: RunBatchCommand,
    ) -> BatchAnswer:
        """Wait for a batch, copy what has to be, and return its times; of a graph that is all."""
        torch.cuda.synchronize()
        call_ns, copies = 1e6 * events[0].elapsed_time(events[1]), command.get("copies", False)
        copy_ns = _copy_pairs(places.all_pairs if copies else places.borrowed_pairs)
        own_ns, other_ns = (0.0, copy_ns) if copies else (copy_ns, 0.0)
        return _make_batch_answer(call_ns + own_ns, find_ns + other_ns, 0, shares=False)

    def _handle_export(self, command: ExportCommand, _files: list[int]) -> ExportAnswer:
        cuda, allocations = self._cuda, []
        for address in command["addresses"]:
            start, handle = cuda.find_allocation(address).start, ""
            with suppress(UnsupportedHost):
                handle = cuda.export(start)
            allocations.append((cuda.read_allocation_id(address), start, handle))
        return {"allocations": allocations}

    def _handle_repeat(self, command: RepeatCommand, _files: list[int]) -> EmptyAnswer:
        """Run one batch many times over, for the energy counter; outputs are not copied."""
        for _ in range(command["count"]):
            if "slots" in command:
                self._call_slots(command["slots"])
            else:
                self._graphs[command["graph_id"]].graph.replay()
        self._synchronize()
        return {}

    def _handle_release(self, _command: BareCommand, _files: list[int]) -> EmptyAnswer:
        self._live_tensors.clear()
        if self.target == "cuda":
            torch.cuda.empty_cache()
        trim_heap()
        return {}

    def _publish_addresses(self, results: dict[int, Any]) -> None:
        """Write where the returned tensors are (CPU), so that the judge reads them there itself.

        They are kept alive until the next batch.
        """
        for slot, result in results.items():
            outputs = self._outputs[slot]
            for index, tensor in enumerate(load_candidate.validate_outputs(result, outputs)):
                contiguous = tensor.contiguous()
                self._live_tensors.append(contiguous)
                self._pointer_table[slot * len(outputs) + index] = contiguous.data_ptr()

    def _find_places(self, results: dict[int, Any], slots: list[int]) -> _Places:
        """Return where results are on a GPU, and which of them the judge cannot read there.

        To copy memory of the judge's, or elements that overlap, is work of the call.
        """
        numbers, all_pairs, borrowed_pairs = array("q"), [], []
        for slot in slots if results else ():
            outputs = self._outputs[slot]
            if slot not in results:
                numbers.extend([0] * sum(2 + output.dim() for output in outputs))
                continue
            tensors = load_candidate.validate_outputs(results[slot], outputs)
            for pair in zip(tensors, outputs, strict=True):
                tensor, _ = pair
                all_pairs.append(pair)
                if self._is_own(tensor):
                    address = tensor.data_ptr()
                    numbers.extend((self._cuda.read_allocation_id(address), address))
                    numbers.extend(tensor.stride())
                else:
                    borrowed_pairs.append(pair)
                    numbers.extend([0] * (2 + tensor.dim()))
        return _Places(numbers.tobytes().hex(), all_pairs, borrowed_pairs)

    def _is_own(self, tensor: torch.Tensor) -> bool:
        """Return whether a result is memory of its own, each element in a place of its own."""
        return (
            tensor.numel() > 0
            and not (self._arena is not None and self._arena.holds(tensor.data_ptr()))
            and (tensor.is_contiguous() or is_dense(tensor.shape, tensor.stride()))
            and not (tensor.is_conj() or tensor.is_neg())
        )

    def _copy_to_outputs(self, results: dict[int, Any]) -> None:
        """Copy the tensors that a returning function returned into the judge's output buffers."""
        for slot, result in results.items():
            outputs = self._outputs[slot]
            tensors = load_candidate.validate_outputs(result, outputs)
            for pair in zip(tensors, outputs, strict=True):
                _copy_pair(*pair)


class _Places(NamedTuple):
    """Where the results of some calls are."""

    packed: str
    """As in a ``BatchAnswer``."""
    all_pairs: list[tuple[torch.Tensor, torch.Tensor]]
    """Each tensor, and the judge's for it."""
    borrowed_pairs: list[tuple[torch.Tensor, torch.Tensor]]
    """Of those that the judge cannot read where they are."""


class _CapturedCalls(NamedTuple):
    """Calls in a CUDA graph, and where each replay leaves their results."""

    graph: torch.cuda.CUDAGraph
    results: dict[int, Any]
    places: _Places


def _copy_pairs(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Copy tensors to the judge's on a GPU; return how many nanoseconds that took."""
    start_ns = time.perf_counter_ns()
    for pair in pairs:
        _copy_pair(*pair)
    if pairs:
        torch.cuda.synchronize()
    return float(time.perf_counter_ns() - start_ns) if pairs else 0.0


def _copy_pair(tensor: torch.Tensor, output: torch.Tensor) -> None:
    if tensor.data_ptr() == output.data_ptr() and output.numel():
        raise KernelError("it returned memory of the judge's, not its own")
    output.copy_(tensor)


def _make_batch_answer(
    runner_ns: float, copy_ns: float, wait_ns: float, *, shares: bool
) -> BatchAnswer:
    return {
        "runner_ns": runner_ns,
        "copy_ns": copy_ns,
        "wait_ns": wait_ns,
        "shares_memory": shares,
    }


def _iter_tensors(results: dict[int, Any]) -> Iterator[torch.Tensor]:
    for result in results.values():
        listed = result if isinstance(result, tuple | list) else (result,)
        yield from (each for each in listed if isinstance(each, torch.Tensor))


def _share_memory(results: dict[int, Any]) -> bool:
    """Return whether two calls returned the same memory, so that the later overwrote the earlier.

    The results are alive, so an allocator has not given their memory out twice.
    """
    addresses: list[int] = []
    for slot, result in results.items():
        addresses += {t.data_ptr() for t in _iter_tensors({slot: result}) if t.numel()}
    return len(set(addresses)) < len(addresses)


def _cuda_error_text(code: int) -> str:
    try:
        return str(torch.cuda.cudart().cudaGetErrorString(torch.cuda.cudart().cudaError(code)))
    except (RuntimeError, TypeError, ValueError):
        return "no CUDA error of that number"


@contextmanager
def filled_memory(target: Target, command: CallCommand) -> Iterator[None]:
    """Have new memory filled during a call whose command asks for it."""
    if target == "cuda" and command["fills_memory"]:
        _fill_device_memory()
    with filled_heap(is_filled=command["fills_memory"]):
        yield


def _fill_device_memory() -> None:
    """Leave NaN in the shared memory of all multiprocessors, and in new memory of torch.

    A kernel that reads either before it writes is right only as long as they happen to hold zeros.
    """
    if torch.cuda.mem_get_info()[0] < _MIN_FREE_BYTES:
        return
    processors = torch.cuda.get_device_properties().multi_processor_count
    shape = (processors * _ROWS_PER_PROCESSOR, _ROW_ELEMENTS)
    torch.softmax(torch.full(shape, torch.nan, device="cuda"), 1)
    blocks = [torch.full((size // 4,), torch.nan, device="cuda") for size in _BLOCK_BYTES]
    del blocks  # to torch's cache, all at once: each is memory of its own
