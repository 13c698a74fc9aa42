"""Formats what kb found about a candidate for a problem of ComputeEval."""

from __future__ import annotations

from kernelkb.model.kernels.foreign import ProblemResult
from kernelkb.safety.untrusted_text import quote_excerpt


def format_problem_lines(result: ProblemResult) -> list[str]:
    """Return status, cure, the times that the programs reported, and the warnings."""
    lines = [f"{result.candidate} for {result.problem}: {result.status}; {result.detail}"]
    if result.status in ("failed", "not-built"):
        head = f"{result.candidate} for {result.problem}: {result.status}"
        lines = [f"{head}: {quote_excerpt(result.detail, 400)}"]
    if result.cure:
        lines.append(f"  cure: {result.cure}")
    if result.candidate_ms is not None:
        text = f"  by its own timer {result.candidate_ms:.4g} ms"
        if result.baseline_ms is not None:
            ratio = result.baseline_ms / result.candidate_ms
            text += f", the problem's baseline {result.baseline_ms:.4g} ms: {ratio:.3g}x"
        lines.append(text)
    return [*lines, *(f"  note: {warning}" for warning in result.warnings)]
