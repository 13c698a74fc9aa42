"""Formats results of environment checks, builds, checks, benches and profiles as sentences."""

from __future__ import annotations

from kernelkb.model.records.measurement import Bench, Build, Check, Environment, Profile
from kernelkb.render.text.resource_use import describe_resource_use, describe_verdict
from kernelkb.safety.untrusted_text import quote_excerpt
from kernelkb.units import format_duration

_CONFIDENCE_GAP = 0.05
"""Chance that so many correct calls are drawn although more than the stated share is wrong."""


def describe_environment(environment: Environment) -> str:
    """Return the machine, compiler and torch version, or the first failed requirement."""
    for line in environment.lines:
        if line.status == "failure":
            return f"{line.name}: {line.found}"
    machine = environment.machine
    if machine is None:
        return "incomplete"
    what = machine.title if machine.target == "cuda" else f"{machine.title} x {machine.core_count}"
    return f"{what}; {machine.compiler_version}; torch {machine.torch}"


def describe_build(build: Build) -> str:
    """Return the compiler's error, or SIMD loops, registers and spilled bytes of the build.

    What the history knows of it follows.
    """
    if build.error is not None:
        return f"{build.variant} does not compile; the compiler said {quote_excerpt(build.error)}"
    parts = [f"{build.variant} for {build.target} {build.status}"]
    scalar = [loop.line for loop in build.loops if not loop.vectorized]
    if build.loops:
        where = f", scalar at line {', '.join(map(str, scalar))}" if scalar else ""
        parts.append(f"{len(build.loops) - len(scalar)} of {len(build.loops)} loops in SIMD{where}")
    if build.resources:
        spills = sum(r.spill_store_bytes for r in build.resources)
        most = max(r.registers for r in build.resources)
        parts.append(f"at most {most} registers, {spills} B spilled")
    return "; ".join([*parts, *filter(None, [build.same_code]), *build.warnings])


def _quote_detail(detail: str | None) -> str:
    """Return the detail quoted: parts of it are untrusted text from kernels and profilers."""
    return quote_excerpt(detail) if detail else "no detail"


def describe_check(check: Check) -> str:
    """Return whether the outputs are correct, the largest error, and the judge's own self-test."""
    if check.status != "correct":
        return f"{check.variant} is {check.status}: {_quote_detail(check.detail)}"
    largest = max(case.max_abs_error or 0.0 for case in check.cases)
    own = max(case.reference_error for case in check.cases)
    return (
        f"{check.variant} is correct on {len(check.cases)} workloads; largest error {largest:.1e}, "
        f"torch's own {own:.1e}; the judge rejected {len(check.selftest)} wrong answers first; "
        f"also correct on {len(check.hidden_inputs)} hidden inputs"
    )


def describe_bench(bench: Bench) -> str:
    """Return the time, the baseline's time, and the speedup with its interval and verdict."""
    if bench.candidate_us is None or bench.interval is None:
        return f"{bench.variant} was not timed ({bench.verdict}): {_quote_detail(bench.detail)}"
    low, high = bench.interval
    text = (
        f"{bench.variant} {format_duration(bench.candidate_us)}, {bench.baseline} "
        f"{format_duration(bench.baseline_us or 0.0)} on {bench.workload}: "
        f"{bench.speedup:.3g}x [{low:.3g}, {high:.3g}] of {bench.pair_count} pairs, "
        f"{describe_verdict(bench)}"
    )
    return f"{text}: {bench.detail}" if bench.detail else text


def format_bench_lines(bench: Bench) -> list[str]:
    """Return the full result: verdict, floor, timing, rivals, SM clock, memory and warnings."""
    lines = [describe_bench(bench)]
    if bench.cure:
        lines.append(f"  cure: {bench.cure}")
    if bench.floor_us is not None and bench.attainable_speedup is not None:
        floor = format_duration(bench.floor_us)
        lines.append(f"  floor {floor}: at most {bench.attainable_speedup:.3g}x to gain")
    if bench.eager_us is not None and bench.warm_us is not None:
        how = "in a CUDA graph" if bench.timing == "graph" else "call by call"
        eager, warm = format_duration(bench.eager_us), format_duration(bench.warm_us)
        lines.append(f"  timed {how}, cold; call by call {eager}; data in the cache {warm}")
    if bench.judged_count:
        lines.append(f"  {_describe_compared_calls(bench.judged_count)}")
    for rival in bench.rivals:
        took = rival.graph_us if bench.timing == "graph" else rival.eager_us
        lines.append(
            f"  {rival.name}: {rival.rejected or format_duration(took or rival.eager_us or 0.0)}"
        )
    if bench.clocks is not None:
        low, high = bench.clocks.sm_mhz
        found = f"  SM clock {low:.0f} to {high:.0f} of {bench.clocks.sm_max_mhz:.0f} MHz"
        lines.append(f"{found}, {bench.clocks.temperature_c:.0f} C, {bench.clocks.power_w:.0f} W")
    if bench.resource_use is not None:
        lines += [f"  {line}" for line in describe_resource_use(bench.resource_use, bench.seconds)]
    lines += [f"  note: {warning}" for warning in bench.warnings]
    return [*lines, *_format_record_id(bench)]


def _describe_compared_calls(count: int) -> str:
    """Return what correct calls, drawn by chance, say of those that were not compared."""
    share = 1 - _CONFIDENCE_GAP ** (1 / count)
    return (
        f"{count} timed calls compared, all correct: at most {share:.2g} of all can be wrong (95 %)"
    )


def _format_record_id(result: Bench | Profile) -> list[str]:
    if result.unrecorded:
        return [f"  not recorded: {result.unrecorded}"]
    return [f"  recorded as {result.measurement[:12]}"] if result.measurement else []


def describe_profile(profile: Profile) -> str:
    """Return the number of metrics, the tool, and the values of the most telling metrics."""
    shown = [
        f"{name} {profile.metrics[name]:.2f}"
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
        if name in profile.metrics
    ]
    text = f"{len(profile.metrics)} metrics by {profile.tool}: {', '.join(shown)}"
    return f"{text}; {_quote_detail(profile.detail)}" if profile.detail else text
