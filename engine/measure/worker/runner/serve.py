"""The process in which a candidate runs. It does what the judge asks, and knows no answer.

Inputs, outputs, order of calls and the clock that counts are the judge's; what this process says
about time is compared with that clock, not believed.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelkb.measure.worker.runner import load_candidate
from kernelkb.measure.worker.shared.channel import Message, receive_with_files, send
from kernelkb.measure.worker.shared.memory import Arena, release_torch_cache

Job = dict[str, Any]


def serve(job: Job, _folder: Path) -> Job:
    """Answer the judge until it hangs up. See ``Runner`` for what can be asked."""
    torch.set_grad_enabled(False)
    channel = socket.socket(fileno=job["channel"])
    runner = Runner(job)
    while True:
        try:
            message, files = receive_with_files(channel)
        except EOFError:
            return {}
        answer: Message = {"seq": message["seq"]}
        try:
            answer |= runner.handlers[message["do"]](message, files)
        except load_candidate.KernelError as error:
            answer["error"] = str(error)
        except Exception as error:  # the candidate's, whatever it is; the judge names it
            answer["raised"] = f"{type(error).__name__}: {error}"[:2000]
        send(channel, answer)


class Runner:
    """Binds loaded code to slots of shared memory and calls it."""

    def __init__(self, job: Job) -> None:
        self.target: str = job["target"]
        self._code_spec: Job = job["what"]
        self._binder: load_candidate.Binder | None = None
        self._calls: list[load_candidate.BoundCall] = []
        self._outputs: list[list[torch.Tensor]] = []
        self._graphs: dict[int, tuple[Any, dict[int, Any]]] = {}
        self._arena: Arena | None = None
        self._live_tensors: list[torch.Tensor] = []
        self._pointer_table = memoryview(b"")
        self.handlers: dict[str, Callable[[Message, list[int]], Message]] = {
            "ready": self._handle_ready,
            "load": self._handle_load,
            "open": self._handle_open,
            "close": self._handle_close,
            "bind": self._handle_bind,
            "call": self._handle_call,
            "behind": self._handle_delayed_call,
            "finish": self._handle_finish,
            "plan": self._handle_capture,
            "go": self._handle_run_batch,
        }

    def _handle_ready(self, _message: Message, _files: list[int]) -> Message:
        """Say that the walls stand and the device works; none of the code behind them has run."""
        if self.target == "cuda":
            torch.zeros(1, device="cuda")
        return {}

    def _handle_load(self, _message: Message, _files: list[int]) -> Message:
        self._binder = load_candidate.load_code(self._code_spec, self.target)
        return {}

    def _handle_open(self, message: Message, files: list[int]) -> Message:
        self._release_arena()
        handle = message["handle"] if self.target == "cuda" else files[0]
        self._arena = Arena(message["bytes"], self.target, owner_handle=handle)
        self._pointer_table = self._arena.pointer_table(message["places"])
        return {}

    def _handle_close(self, _message: Message, _files: list[int]) -> Message:
        self._release_arena()
        self._arena = None
        return {}

    def _release_arena(self) -> None:
        """Drop everything that points into the arena, then the arena."""
        self._calls, self._outputs, self._graphs = [], [], {}
        self._live_tensors, self._pointer_table = [], memoryview(b"")
        if self._arena is not None:
            self._arena.close()

    def _handle_bind(self, message: Message, _files: list[int]) -> Message:
        """Tie code to the slots' arrays: ``offsets`` has a row for each slot."""
        arena, bind = self._arena, self._binder
        if arena is None or bind is None:
            raise RuntimeError("bind before load and open")
        count = message["input_count"]
        self._calls, self._outputs, self._graphs = [], [], {}
        for row in message["offsets"]:
            arrays = [arena.view(o, s) for o, s in zip(row, message["specs"], strict=True)]
            inputs: list[Any] = list(arrays[:count])
            for at, value in message["scalars"]:
                inputs.insert(at, value)
            self._outputs.append(arrays[count:])
            self._calls.append(bind(inputs, arrays[count:], message["axes"]))
        return {}

    def _handle_call(self, message: Message, _files: list[int]) -> Message:
        self._copy_to_outputs(self._call_slots([message["slot"]]))
        self._synchronize()
        release_torch_cache()
        return {}

    def _handle_delayed_call(self, message: Message, _files: list[int]) -> Message:
        """Call on a slot after something that takes some cycles, and answer before it is over."""
        torch.cuda._sleep(message["cycles"])
        self._call_slots([message["slot"]])
        return {}

    def _handle_finish(self, _message: Message, _files: list[int]) -> Message:
        self._synchronize()
        return {}

    def _call_slots(self, slots: list[int]) -> dict[int, Any]:
        """Call slot after slot; return what a returning function returned for each."""
        stream = torch.cuda.current_stream().cuda_stream if self.target == "cuda" else 0
        returned: dict[int, Any] = {}
        for slot in slots:
            result = self._calls[slot](stream)
            if isinstance(result, int):
                if result:
                    what = f" ({_cuda_error_text(result)})" if self.target == "cuda" else ""
                    raise load_candidate.KernelError(f"the entry point returned {result}{what}")
            elif result is not None:
                returned[slot] = result
        return returned

    def _synchronize(self) -> None:
        if self.target == "cuda":
            torch.cuda.synchronize()

    def _handle_capture(self, message: Message, _files: list[int]) -> Message:
        """Make one CUDA graph of calls on some slots, in their order; or say why not."""
        slots, why = message["slots"], None
        self._graphs.pop(message["id"], None)  # a graph keeps what it allocated
        home = torch.cuda.current_stream()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                returned = self._call_slots(slots)
            self._graphs[message["id"]] = (graph, returned)
        except Exception as error:  # not every kernel can be captured
            why = f"{type(error).__name__}: {error}"[:300]
            torch.cuda.set_stream(home)  # a failed capture leaves its own stream behind
        return {"why": why}

    def _handle_run_batch(self, message: Message, _files: list[int]) -> Message:
        """Make the calls of a plan or on slots, and leave what they returned to be found.

        When this is answered everything is done: the judge stops this process at the answer.
        """
        if self.target == "cpu":
            self._live_tensors.clear()
            start = time.perf_counter_ns()
            self._publish_addresses(self._call_slots(message["slots"]))
            return {"inner_ns": time.perf_counter_ns() - start, "copy_ns": 0}
        begin, called_at, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        begin.record()
        if "slots" in message:
            returned = self._call_slots(message["slots"])
        else:
            graph, returned = self._graphs[message["plan"]]
            graph.replay()
        called_at.record()
        self._copy_to_outputs(returned)
        end.record()
        torch.cuda.synchronize()
        return {
            "inner_ns": begin.elapsed_time(called_at) * 1e6,
            "copy_ns": called_at.elapsed_time(end) * 1e6,
        }

    def _publish_addresses(self, results: dict[int, Any]) -> None:
        """Note where lies what was returned for each slot: the judge looks there itself.

        It stays there until the next calls.
        """
        for slot, result in results.items():
            for at, one in enumerate(load_candidate.validate_outputs(result, self._outputs[slot])):
                whole = one.contiguous()
                self._live_tensors.append(whole)
                self._pointer_table[slot * len(self._outputs[slot]) + at] = whole.data_ptr()

    def _copy_to_outputs(self, results: dict[int, Any]) -> None:
        """Copy what a returning function returned for each slot into that slot's outputs."""
        for slot, result in results.items():
            outputs = self._outputs[slot]
            for one, want in zip(
                load_candidate.validate_outputs(result, outputs), outputs, strict=True
            ):
                if one.data_ptr() == want.data_ptr() and want.numel():
                    raise load_candidate.KernelError(
                        "it returned memory of the judge's, not its own"
                    )
                want.copy_(one)


def _cuda_error_text(code: int) -> str:
    try:
        return str(torch.cuda.cudart().cudaGetErrorString(torch.cuda.cudart().cudaError(code)))
    except (RuntimeError, TypeError, ValueError):
        return "no CUDA error of that number"
