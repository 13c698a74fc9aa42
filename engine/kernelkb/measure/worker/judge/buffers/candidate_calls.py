"""One checked call of a candidate, and what the judge saw of it."""

from __future__ import annotations

from kernelkb.measure.worker.judge.buffers.buffers import CaseBuffers
from kernelkb.measure.worker.judge.inputs.inputs import Tensors
from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess
from kernelkb.measure.worker.shared.failures import RunnerError
from kernelkb.measure.worker.shared.messages.judge_jobs import CaseResult, OutputComparison
from kernelkb.measure.worker.shared.messages.runner_commands import CallCommand

_MIN_REQUEST_S = 0.1


def remaining_s(candidate: RunnerProcess, timeout_s: float) -> float:
    """Return what is left of the candidate's time; the judge's own time does not count."""
    return max(_MIN_REQUEST_S, timeout_s - candidate.total_request_s)


def call_once(
    buffers: CaseBuffers, candidate: RunnerProcess, slot: int, timeout_s: float
) -> tuple[Tensors, str | None]:
    """Return copies of a slot's outputs after one call, and the error that was reported."""
    buffers.reset_outputs(slot)
    command: CallCommand = {"command": "call", "slot": slot, "fills_memory": True}
    try:
        candidate.ask(command, remaining_s(candidate, timeout_s))
    except RunnerError as error:
        return buffers.copy_outputs(slot), str(error)
    return buffers.copy_outputs(slot), None


def build_result(
    buffers: CaseBuffers, slot: int, comparison: OutputComparison, kernel_error: str | None
) -> CaseResult:
    """Return the result of one call, with what the candidate wrote besides its outputs."""
    return {
        **comparison,
        "name": buffers.case.case_spec["name"],
        "kernel_error": kernel_error,
        "tampering": buffers.find_tampering(slot),
        "is_deterministic": True,
        "has_tf32_error": False,
    }


def is_passing(result: CaseResult) -> bool:
    """Return whether the outputs are correct and nothing else was wrong."""
    return result["correct"] and not result["kernel_error"] and not result["tampering"]
