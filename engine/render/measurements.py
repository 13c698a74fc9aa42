"""One sentence for each result."""

from __future__ import annotations

from kernelkb.model.measurement import Bench, Build, Check, Environment, Profile
from kernelkb.render.units import duration
from kernelkb.safety.untrusted_text import quoted


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
        return f"{built.variant} does not compile; the compiler said {quoted(built.error)}"
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


def _said(detail: str | None) -> str:
    """Return what stands in a sentence of ours; kernels and profilers worded some of it."""
    return quoted(detail) if detail else "no detail"


def check_line(checked: Check) -> str:
    """Say whether the answers are right, and how the judge was tested."""
    if checked.status != "correct":
        return f"{checked.variant} is {checked.status}: {_said(checked.detail)}"
    worst = max(case.max_abs_error or 0.0 for case in checked.cases)
    own = max(case.reference_error for case in checked.cases)
    return (
        f"{checked.variant} is right on {len(checked.cases)} workloads; worst error {worst:.1e}, "
        f"torch's own {own:.1e}; the judge refused {len(checked.selftest)} wrong answers first"
    )


def bench_line(timed: Bench) -> str:
    """Say how fast, next to what, how sure."""
    if timed.candidate_us is None or timed.interval is None:
        return f"{timed.variant} was not timed ({timed.verdict}): {_said(timed.detail)}"
    low, high = timed.interval
    text = (
        f"{timed.variant} {duration(timed.candidate_us)}, {timed.baseline} "
        f"{duration(timed.baseline_us or 0.0)} on {timed.workload}: "
        f"{timed.speedup:.3g}x [{low:.3g}, {high:.3g}] of {timed.pair_count} pairs, {timed.verdict}"
    )
    return f"{text}: {timed.detail}" if timed.detail else text


def bench_lines(timed: Bench) -> list[str]:
    """Say it in full: the verdict, the floor, the rivals, and what a reader should know."""
    lines = [bench_line(timed)]
    if timed.cure:
        lines.append(f"  cure: {timed.cure}")
    if timed.floor_us is not None and timed.attainable_speedup is not None:
        lines.append(
            f"  floor {duration(timed.floor_us)}: at most {timed.attainable_speedup:.3g}x to gain"
        )
    if timed.eager_us is not None and timed.warm_us is not None:
        how = "in a CUDA graph" if timed.timing == "graph" else "call by call"
        eager, warm = duration(timed.eager_us), duration(timed.warm_us)
        lines.append(f"  timed {how}, cold; call by call {eager}; data in the cache {warm}")
    for rival in timed.rivals:
        took = rival.graph_us if timed.timing == "graph" else rival.eager_us
        lines.append(f"  {rival.name}: {rival.rejected or duration(took or rival.eager_us or 0.0)}")
    if timed.clocks is not None:
        low, high = timed.clocks.sm_mhz
        found = f"  SM clock {low:.0f} to {high:.0f} of {timed.clocks.sm_max_mhz:.0f} MHz"
        lines.append(f"{found}, {timed.clocks.temperature_c:.0f} C, {timed.clocks.power_w:.0f} W")
    lines += [f"  note: {warning}" for warning in timed.warnings]
    return [*lines, *_kept(timed)]


def _kept(result: Bench | Profile) -> list[str]:
    if result.unrecorded:
        return [f"  not recorded: {result.unrecorded}"]
    return [f"  recorded as {result.measurement[:12]}"] if result.measurement else []


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
    return f"{text}; {_said(seen.detail)}" if seen.detail else text
