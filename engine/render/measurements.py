"""One sentence for each result."""

from __future__ import annotations

from engine.model.measurement import Bench, Build, Check, Environment, Profile
from engine.render.units import duration


def environment_line(found: Environment) -> str:
    """Say what the machine is, or the first thing that it lacks."""
    for line in found.lines:
        if line.status == "failure":
            return f"{line.name}: {line.found}"
    machine = found.machine
    if machine is None:
        return "incomplete"
    what = machine.title if machine.target == "cuda" else f"{machine.title} x {machine.core_count}"
    return f"{what}; {machine.compiler_version}; torch {machine.torch}"


def build_line(built: Build) -> str:
    """Say what came out of the compiler."""
    if built.error is not None:
        return f"{built.variant} does not compile: {built.error}"
    parts = [f"{built.variant} for {built.target} {built.status}"]
    scalar = [loop.line for loop in built.loops if not loop.vectorized]
    if built.loops:
        where = f", scalar at line {', '.join(map(str, scalar))}" if scalar else ""
        parts.append(f"{len(built.loops) - len(scalar)} of {len(built.loops)} loops in SIMD{where}")
    if built.resources:
        spills = sum(r.spill_store_bytes for r in built.resources)
        most = max(r.registers for r in built.resources)
        parts.append(f"at most {most} registers, {spills} B spilled")
    return "; ".join(parts)


def check_line(checked: Check) -> str:
    """Say whether the answers are right, and how the judge was tested."""
    if checked.status != "correct":
        return f"{checked.variant} is {checked.status}: {checked.detail or 'no detail'}"
    worst = max(case.max_abs_error or 0.0 for case in checked.cases)
    own = max(case.reference_error for case in checked.cases)
    return (
        f"{checked.variant} is right on {len(checked.cases)} workloads; worst error {worst:.1e}, "
        f"torch's own {own:.1e}; the judge refused {len(checked.selftest)} wrong answers first"
    )


def bench_line(timed: Bench) -> str:
    """Say how fast, next to what, how sure."""
    if timed.candidate_us is None or timed.interval is None:
        return f"{timed.variant} was not timed ({timed.verdict}): {timed.detail or 'no detail'}"
    low, high = timed.interval
    text = (
        f"{timed.variant} {duration(timed.candidate_us)}, {timed.baseline} "
        f"{duration(timed.baseline_us or 0.0)} on {timed.workload}: "
        f"{timed.speedup:.3g}x [{low:.3g}, {high:.3g}] of {timed.pair_count} pairs, {timed.verdict}"
    )
    return f"{text}: {timed.detail}" if timed.detail else text


def profile_line(seen: Profile) -> str:
    """Say what was collected, by what; the shares that say most first."""
    shown = [
        f"{name} {seen.metrics[name]:.2f}"
        for name in (
            "algorithmic_bandwidth",
            "core_occupancy",
            "scalar_loop_count",
            "dram_utilization",
            "occupancy",
            "issue_rate",
            "waves",
            "sector_load_useful_bytes",
        )
        if name in seen.metrics
    ]
    text = f"{len(seen.metrics)} metrics by {seen.tool}: {', '.join(shown)}"
    return f"{text}; {seen.detail}" if seen.detail else text
