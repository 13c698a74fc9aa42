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
from kernelkb.measure.worker.shared.memory import Arena, give_back

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
            answer |= runner.answers[message["do"]](message, files)
        except load_candidate.KernelError as error:
            answer["error"] = str(error)
        except Exception as error:  # the candidate's, whatever it is; the judge names it
            answer["raised"] = f"{type(error).__name__}: {error}"[:2000]
        send(channel, answer)


class Runner:
    """Binds loaded code to slots of shared memory and calls it."""

    def __init__(self, job: Job) -> None:
        self.target: str = job["target"]
        self._what: Job = job["what"]
        self._code: load_candidate.Bind | None = None
        self._calls: list[load_candidate.Call] = []
        self._outputs: list[list[torch.Tensor]] = []
        self._plans: dict[int, tuple[Any, dict[int, Any]]] = {}
        self._arena: Arena | None = None
        self._kept: list[torch.Tensor] = []
        self._places = memoryview(b"")
        self.answers: dict[str, Callable[[Message, list[int]], Message]] = {
            "ready": self._ready,
            "load": self._load,
            "open": self._open,
            "close": self._close,
            "bind": self._bind,
            "call": self._call,
            "behind": self._behind,
            "finish": self._finished,
            "plan": self._plan,
            "go": self._go,
        }

    def _ready(self, _message: Message, _files: list[int]) -> Message:
        """Say that the walls stand and the device works; none of the code behind them has run."""
        if self.target == "cuda":
            torch.zeros(1, device="cuda")
        return {}

    def _load(self, _message: Message, _files: list[int]) -> Message:
        self._code = load_candidate.load(self._what, self.target)
        return {}

    def _open(self, message: Message, files: list[int]) -> Message:
        self._forget()
        handle = message["handle"] if self.target == "cuda" else files[0]
        self._arena = Arena(message["bytes"], self.target, opened=handle)
        self._places = self._arena.places(message["places"])
        return {}

    def _close(self, _message: Message, _files: list[int]) -> Message:
        self._forget()
        self._arena = None
        return {}

    def _forget(self) -> None:
        """Drop everything that points into the arena, then the arena."""
        self._calls, self._outputs, self._plans = [], [], {}
        self._kept, self._places = [], memoryview(b"")
        if self._arena is not None:
            self._arena.close()

    def _bind(self, message: Message, _files: list[int]) -> Message:
        """Tie code to the slots' arrays: ``offsets`` has a row for each slot."""
        arena, bind = self._arena, self._code
        if arena is None or bind is None:
            raise RuntimeError("bind before load and open")
        count = message["input_count"]
        self._calls, self._outputs, self._plans = [], [], {}
        for row in message["offsets"]:
            arrays = [arena.view(o, s) for o, s in zip(row, message["specs"], strict=True)]
            inputs: list[Any] = list(arrays[:count])
            for at, value in message["scalars"]:
                inputs.insert(at, value)
            self._outputs.append(arrays[count:])
            self._calls.append(bind(inputs, arrays[count:], message["axes"]))
        return {}

    def _call(self, message: Message, _files: list[int]) -> Message:
        self._put(self._run([message["slot"]]))
        self._finish()
        give_back()
        return {}

    def _behind(self, message: Message, _files: list[int]) -> Message:
        """Call on a slot after something that takes some cycles, and answer before it is over."""
        torch.cuda._sleep(message["cycles"])
        self._run([message["slot"]])
        return {}

    def _finished(self, _message: Message, _files: list[int]) -> Message:
        self._finish()
        return {}

    def _run(self, slots: list[int]) -> dict[int, Any]:
        """Call slot after slot; return what a returning function returned for each."""
        stream = torch.cuda.current_stream().cuda_stream if self.target == "cuda" else 0
        returned: dict[int, Any] = {}
        for slot in slots:
            result = self._calls[slot](stream)
            if isinstance(result, int):
                if result:
                    what = f" ({_cuda_name(result)})" if self.target == "cuda" else ""
                    raise load_candidate.KernelError(f"the entry point returned {result}{what}")
            elif result is not None:
                returned[slot] = result
        return returned

    def _finish(self) -> None:
        if self.target == "cuda":
            torch.cuda.synchronize()

    def _plan(self, message: Message, _files: list[int]) -> Message:
        """Make one CUDA graph of calls on some slots, in their order; or say why not."""
        slots, why = message["slots"], None
        self._plans.pop(message["id"], None)  # a graph keeps what it allocated
        home = torch.cuda.current_stream()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                returned = self._run(slots)
            self._plans[message["id"]] = (graph, returned)
        except Exception as error:  # not every kernel can be captured
            why = f"{type(error).__name__}: {error}"[:300]
            torch.cuda.set_stream(home)  # a failed capture leaves its own stream behind
        return {"why": why}

    def _go(self, message: Message, _files: list[int]) -> Message:
        """Make the calls of a plan or on slots, and leave what they returned to be found.

        When this is answered everything is done: the judge stops this process at the answer.
        """
        if self.target == "cpu":
            self._kept.clear()
            start = time.perf_counter_ns()
            self._tell(self._run(message["slots"]))
            return {"inner_ns": time.perf_counter_ns() - start, "copy_ns": 0}
        begin, called_at, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        begin.record()
        if "slots" in message:
            returned = self._run(message["slots"])
        else:
            graph, returned = self._plans[message["plan"]]
            graph.replay()
        called_at.record()
        self._put(returned)
        end.record()
        torch.cuda.synchronize()
        return {
            "inner_ns": begin.elapsed_time(called_at) * 1e6,
            "copy_ns": called_at.elapsed_time(end) * 1e6,
        }

    def _tell(self, returned: dict[int, Any]) -> None:
        """Note where lies what was returned for each slot: the judge looks there itself.

        It stays there until the next calls.
        """
        for slot, result in returned.items():
            for at, one in enumerate(load_candidate.plain(result, self._outputs[slot])):
                whole = one.contiguous()
                self._kept.append(whole)
                self._places[slot * len(self._outputs[slot]) + at] = whole.data_ptr()

    def _put(self, returned: dict[int, Any]) -> None:
        """Copy what a returning function returned for each slot into that slot's outputs."""
        for slot, result in returned.items():
            outputs = self._outputs[slot]
            for one, want in zip(load_candidate.plain(result, outputs), outputs, strict=True):
                if one.data_ptr() == want.data_ptr() and want.numel():
                    raise load_candidate.KernelError(
                        "it returned memory of the judge's, not its own"
                    )
                want.copy_(one)


def _cuda_name(code: int) -> str:
    try:
        return str(torch.cuda.cudart().cudaGetErrorString(torch.cuda.cudart().cudaError(code)))
    except (RuntimeError, TypeError, ValueError):
        return "no CUDA error of that number"
