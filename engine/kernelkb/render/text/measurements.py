"""Text of what was measured: builds, checks, benches, sweeps, a history, and the device's peaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import shorten, wrap
from typing import TYPE_CHECKING

from kernelkb.model.kernels.foreign import ProblemResult
from kernelkb.model.records.history import (
    Measurement,
    PairwiseComparison,
    PromotionScope,
    RegressionResult,
)
from kernelkb.model.records.measurement import (
    Bench,
    Build,
    Check,
    Environment,
    InputData,
    PracticalPeaks,
    Profile,
    ResourceUse,
    Sweep,
    SweepLane,
    SweepRow,
    may_be_noise,
)
from kernelkb.safety.untrusted_text import quote_excerpt
from kernelkb.units import format_duration, format_size

if TYPE_CHECKING:
    from kernelkb.model.answers.triage import BundleSplit, ChangeTable, TimedChange

_MEMORY_GROWTH, _MIN_GROWTH_BYTES = 1.1, 2**20
"""Ratio and difference of peak memory from which the regression gate shows it."""

_CONFIDENCE_GAP = 0.05
"""Chance that so many correct calls are drawn although more than the stated share is wrong."""


_DATA_WIDTH, _NO_BREAK = 96, "\u00a0"
_MAX_SHAPE = 480
"""Characters of how outputs are wrong."""


def describe_verdict(timed: Bench | Measurement) -> str | None:
    """Return the verdict; marked where other work or heat disturbed the bench."""
    is_noisy = timed.disturbed_by is not None and may_be_noise(timed.verdict)
    return f"{timed.verdict} (noisy)" if is_noisy else timed.verdict


def describe_resource_use(use: ResourceUse, seconds: float) -> Iterator[str]:
    """Yield a line each on memory, on energy, and on the judge's own time.

    Args:
        use: Of one bench.
        seconds: What the whole bench took.
    """
    if use.peak_bytes is not None and use.baseline_peak_bytes is not None:
        peak, other = format_size(use.peak_bytes), format_size(use.baseline_peak_bytes)
        text = f"peak memory of a call {peak}, baseline {other}"
        if use.held_bytes is not None and use.baseline_held_bytes is not None:
            held, other = format_size(use.held_bytes), format_size(use.baseline_held_bytes)
            text += f"; kept between calls {held}, baseline {other}"
        yield text
    if use.joules is not None:
        baseline = (
            f", baseline {_format_joules(use.baseline_joules)}" if use.baseline_joules else ""
        )
        yield f"energy of a call {_format_joules(use.joules)}{baseline}"
    if use.step_seconds:
        steps = ", ".join(f"{name} {took:.1f}" for name, took in use.step_seconds.items())
        yield f"judged in {seconds:.1f} s: {steps}"


def describe_own_use(use: ResourceUse | None) -> str:
    """Return peak memory and energy of one call as the end of a line; empty where unknown."""
    told = []
    if use is not None and use.peak_bytes is not None:
        told.append(f"{format_size(use.peak_bytes)} at peak")
        if use.baseline_peak_bytes:
            told[0] += f" ({use.peak_bytes / use.baseline_peak_bytes:.3g}x)"
    if use is not None and use.joules is not None:
        told.append(_format_joules(use.joules))
    return "".join(f", {one}" for one in told)


def describe_compared_use(comparison: PairwiseComparison) -> Iterator[str]:
    """Yield a line on peak memory and one on energy of two measurements, where both are known."""
    if comparison.peak_bytes:
        a, b = comparison.peak_bytes
        ratio = f" ({b / a:.3g}x)" if a else ""
        yield f"peak memory of a call: a {format_size(a)}, b {format_size(b)}{ratio}"
    if comparison.joules:
        first, second = comparison.joules
        ratio = f" ({second / first:.3g}x)" if first else ""
        yield f"energy of a call: a {_format_joules(first)}, b {_format_joules(second)}{ratio}"


def describe_memory_growth(comparison: PairwiseComparison | None) -> str | None:
    """Return that ``b`` needs at least 1.1 times the memory of ``a``; None if it does not."""
    if comparison is None or comparison.peak_bytes is None:
        return None
    a, b = comparison.peak_bytes
    if b < max(_MEMORY_GROWTH * a, a + _MIN_GROWTH_BYTES):
        return None
    return f"peak memory of a call grew from {format_size(a)} to {format_size(b)}"


def _format_joules(joules: float) -> str:
    for unit, factor in (("J", 1.0), ("mJ", 1e3)):
        if joules * factor >= 1:
            return f"{joules * factor:.3g} {unit}"
    return f"{joules * 1e6:.3g} uJ"


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


def _quote_detail(detail: str | None, max_length: int = 160) -> str:
    """Return the detail quoted: parts of it are untrusted text from kernels and profilers."""
    return quote_excerpt(detail, max_length) if detail else "no detail"


def describe_check(check: Check) -> str:
    """Return whether the outputs are correct, the largest error, and the judge's own self-test."""
    if check.status != "correct":
        return f"{check.variant} is {check.status}: {_quote_detail(check.detail, _MAX_SHAPE)}"
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
        detail = _quote_detail(bench.detail, _MAX_SHAPE)
        return f"{bench.variant} was not timed ({bench.verdict}): {detail}"
    low, high = bench.interval
    text = (
        f"{bench.variant} {format_duration(bench.candidate_us)}, {bench.baseline} "
        f"{format_duration(bench.baseline_us or 0.0)} on {bench.workload}: "
        f"{bench.speedup:.3g}x [{low:.3g}, {high:.3g}] of {bench.pair_count} pairs, "
        f"{describe_verdict(bench)}"
    )
    return f"{text}: {bench.detail}" if bench.detail else text


def describe_change_table(table: ChangeTable) -> str:
    """Return in one line what each of several changes gave against the base."""
    told = (f"{one.variant} {_describe_gain(one)}" for one in table.changes)
    return f"changes of {table.base} on {table.workload}: {'; '.join(told)}"


def _describe_gain(change: TimedChange) -> str:
    words = change.verdict.replace("-", " ")
    if change.ratio is None or change.interval is None:
        return words
    return f"{_format_interval((change.ratio, *change.interval))} {words}"


def _format_interval(ratio: tuple[float, float, float]) -> str:
    point, low, high = ratio
    return f"{point:.3g}x [{low:.3g}, {high:.3g}]"


def format_change_table(table: ChangeTable) -> Iterator[str]:
    """Yield a row for each change, then what the parts of a bundle explain."""
    base = f", {format_duration(table.base_us)}" if table.base_us else ""
    yield f"{table.kernel} on {table.workload}: each change alone against {table.base}{base}"
    width = max(len(one.variant) for one in table.changes)
    for one in table.changes:
        applies = f"  {' + '.join(one.applies)}" if one.applies else ""
        yield f"  {one.variant:{width}}  {_describe_gain(one)}{applies}"
        if one.detail:
            told = one.detail if one.ratio else _quote_detail(one.detail, _MAX_SHAPE)
            yield f"    {told}"
        if one.cure:
            yield f"    cure: {one.cure}"
    for bundle in table.bundles:
        yield from _format_bundle(bundle)
    notes = [one.unrecorded for one in table.changes if one.unrecorded]
    yield from (f"  not recorded: {note}" for note in dict.fromkeys(notes))
    yield from (f"  {note}" for note in table.warnings)


def _format_bundle(bundle: BundleSplit) -> Iterator[str]:
    parts = " + ".join(bundle.parts)
    yield f"{bundle.variant} is {parts}: {_format_interval(bundle.bundle)}"
    _, low, high = bundle.only_together
    only = _format_interval(bundle.only_together)
    if low > 1:
        told = f"only together they give {only} more"
    elif high < 1:
        told = f"together they give less: {only} of that"
    else:
        told = f"the parts explain it, {only} is left"
    yield f"  the parts alone multiply to {_format_interval(bundle.product)}; {told}"


def format_bench_lines(bench: Bench) -> list[str]:
    """Return the full result: verdict, floor, timing, rivals, SM clock, memory and warnings."""
    lines = [describe_bench(bench)]
    if bench.cure:
        lines.append(f"  cure: {bench.cure}")
    if bench.floor_us is not None and bench.attainable_speedup is not None:
        floor = format_duration(bench.floor_us)
        lines.append(f"  floor {floor}: it takes {bench.attainable_speedup:.3g}x that")
    if bench.eager_us is not None and bench.warm_us is not None:
        how = "in a CUDA graph" if bench.timing == "graph" else "call by call"
        eager, warm = format_duration(bench.eager_us), format_duration(bench.warm_us)
        lines.append(f"  timed {how}, cold; call by call {eager}; data in the cache {warm}")
    if bench.judged_count:
        lines.append(f"  {_describe_compared_calls(bench.judged_count)}")
    if bench.hidden_inputs:
        count, words = len(bench.hidden_inputs), "; ".join(bench.hidden_inputs)
        lines.append(f"  between timed calls correct on {count} hidden inputs: {words}")
    lines += [
        f"  data {shorten(one.says, _DATA_WIDTH - 7, placeholder=' …')}" for one in bench.data
    ]
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


def format_data_lines(data: Sequence[InputData]) -> list[str]:
    """Return what is said of each input on whose values the speed may depend, under a title."""
    told = [one.says.replace(" %", f"{_NO_BREAK}%") for one in data]
    lines = [line for says in told for line in wrap(says, _DATA_WIDTH, subsequent_indent="  ")]
    return ["data", *(f"  {line.replace(_NO_BREAK, ' ')}" for line in lines)] if lines else []


def format_history_lines(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield one line for each measurement: id, time, kind, variant, workload, result, device."""
    for one in measurements:
        subject = one.subject
        what = f"{one.kind:7} {subject.variant:16} {subject.workload:10}"
        result = _describe_result(one)
        yield f"{one.id[:8]}  {one.at:%Y-%m-%d %H:%M}  {what} {result}  on {subject.device}"


def format_best_lines(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield one line for each measurement: the best of its kernel, workload and device."""
    for one in measurements:
        what = f"{one.subject.kernel:16} {one.subject.workload:10} {one.subject.variant:16}"
        yield f"{one.id[:8]}  {what} {_describe_result(one)}  on {one.subject.device}"


def describe_choice(name: str, how: str, one: Measurement) -> str:
    """Return one line: the selected measurement, and ``how`` it was selected."""
    subject = one.subject
    what = f"{subject.variant} of {subject.kernel} on {subject.workload}, {subject.device}"
    return f"{name}: {one.id[:8]} ({how}), {what}, {one.at:%Y-%m-%d %H:%M}: {_describe_result(one)}"


def describe_comparison(comparison: PairwiseComparison) -> str:
    """Return the speedup of b over a with its interval, or the reason why there is none."""
    if comparison.ratio is None or comparison.interval is None:
        return f"no ratio: {comparison.because}"
    return f"b is {_format_ratio(comparison)} as fast as a; {comparison.because}"


def format_regression_lines(results: Sequence[RegressionResult], *, verbose: bool) -> Iterator[str]:
    """Yield regressed and promoted variants (``verbose``: all), then a count of each verdict.

    A variant that needs more memory than the promoted measurement is shown, too.
    """
    for one in results:
        found = one.comparison
        growth = describe_memory_growth(found)
        if verbose or growth or one.verdict in ("regressed", "promoted"):
            ratio = f" {_format_ratio(found)}" if found and found.ratio is not None else ""
            place = _describe_place(one.place)
            because = f"{one.because}; {growth}" if growth else one.because
            yield f"{one.verdict:12} {place} {one.variant}{ratio}: {because}"
            if one.verdict == "incomparable" and found and found.command:
                yield f"  $ {found.command}"
    counts = Counter(one.verdict for one in results)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    yield f"newest benches that are not the promoted ones: {told or 'none'}"


def _describe_place(place: PromotionScope) -> str:
    return f"{place.kernel} {place.workload} on {place.device}:"


def _format_ratio(found: PairwiseComparison) -> str:
    low, high = found.interval or (0.0, 0.0)
    return f"{found.ratio:.3g}x [{low:.3g}, {high:.3g}]"


def _describe_result(one: Measurement) -> str:
    text = _describe_own_result(one)
    return f"{text}, imported" if one.imported else text


def _describe_own_result(one: Measurement) -> str:
    if one.candidate_us is None:
        word = one.verdict or one.status or "nothing"
        return f"{word}: {one.detail}" if one.detail else word
    told = [format_duration(one.candidate_us)]
    if one.speedup is not None and one.interval is not None:
        low, high = one.interval
        told.append(f"{one.speedup:.3g}x of {one.baseline} [{low:.3g}, {high:.3g}]")
    verdict = one.status or describe_verdict(one) or "not judged"
    return f"{', '.join(told)}{describe_own_use(one.resource_use)}, {verdict}"


def format_peaks_lines(peaks: PracticalPeaks) -> Iterator[str]:
    """Yield a line for each peak, latency and rate."""
    yield f"{peaks.title}, driver {peaks.driver or 'unknown'}, {peaks.measured_at:%Y-%m-%d %H:%M}"
    rows = {
        "copy": f"{peaks.copy_gbps:.4g} GB/s{_format_share(peaks.dram_share, 'memory')}",
        "reads of L2": f"{peaks.l2_read_gbps:.4g} GB/s{_format_share(peaks.l2_share, 'L2')}",
        "memory, by share read": _format_rates(peaks.mix_gbps, lambda share: f"{share:.0%}"),
        "gathers, by size to L2": _format_rates(peaks.gather_gbps, lambda size: f"{size:.3g}x"),
        "copies, bytes a lane": _format_rates(peaks.narrow_gbps, lambda size: f"{size:.0f}"),
        "L2, by share read": _format_rates(peaks.l2_mix_gbps, lambda share: f"{share:.0%}"),
        "random pieces": _format_pieces(peaks.random_gbps),
        "empty kernel": f"{peaks.empty_us:.3g} us{_format_profiled(peaks.profiled_empty_us)}",
        "latency of L2": f"{peaks.l2_latency_ns:.4g} ns",
        "latency of memory": f"{peaks.dram_latency_ns:.4g} ns; "
        f"{peaks.dram_loaded_latency_ns:.4g} ns while the other SMs read",
        "atomics, one address": f"{peaks.atomic_rate_address:.3g} per ns",
        "atomics, one sector": f"{peaks.atomic_rate_sector:.3g} per ns",
        "atomics, spread": f"{peaks.atomic_rate_random:.3g} per ns",
        "atomics, by words": _format_counts(peaks.atomic_rates),
        "in shared memory": _format_counts(peaks.shared_atomic_rates),
        "16-bit CAS, spread": f"{peaks.cas_rate_random:.3g} per ns",
        "operations": _format_pipes(peaks),
    }
    yield from (f"  {name:24}{text}" for name, text in rows.items() if text)
    if peaks.problem:
        yield f"  shares of the peaks stay the catalogue's: {peaks.problem}"


def _format_rates(rows: Sequence[tuple[float, float]], name: Callable[[float], str]) -> str:
    """Return bandwidths with what they are of; empty where none was measured."""
    told = ", ".join(f"{name(at)} {rate:.4g}" for at, rate in rows)
    return f"{told} GB/s" if told else ""


def _format_pieces(rows: Sequence[tuple[float, float, float]]) -> str:
    """Return the bandwidth in the smallest and the largest buffer, by the bytes of a piece."""
    if not rows:
        return ""
    sizes = sorted({size for size, _, _ in rows})
    told = [
        _format_rates([(piece, rate) for at, piece, rate in rows if at == size], "{:.0f} B".format)
        + f" at {size:.3g}x L2"
        for size in (sizes[0], sizes[-1])
    ]
    return "; ".join(told)


def _format_counts(rows: Sequence[tuple[float, float]]) -> str:
    told = ", ".join(f"{words:.0f}: {rate:.3g}" for words, rate in rows)
    return f"{told} per ns" if told else ""


def _format_pipes(peaks: PracticalPeaks) -> str:
    """Return what the pipes of all SMs reach; empty where it was not measured."""
    rates = {"fp32 FMA": peaks.fma_rate, "fp64": peaks.fp64_rate, "integer": peaks.integer_rate,
             "special": peaks.special_rate}  # fmt: skip
    told = [f"{name} {rate:,.0f}" for name, rate in rates.items() if rate]
    shared = f"; shared memory {peaks.shared_gbps:,.0f} GB/s" if peaks.shared_gbps else ""
    return f"{', '.join(told)} per ns{shared}" if told else ""


def _format_share(share: float | None, unit: str) -> str:
    return "" if share is None else f", {100 * share:.3g} % of the {unit} peak"


def _format_profiled(profiled_us: float | None) -> str:
    return "" if profiled_us is None else f"; {profiled_us:.3g} us under the profiler"


def format_row(row: SweepRow) -> str:
    """Return one line: what was judged, where, the verdict, and the time or why there is none."""
    where = f" on {row.lane}" if row.lane else ""
    return f"{_name(row)}{where}: {_describe_verdict(row)}; {_describe_found(row)}"


def format_sweep(sweep: Sweep) -> list[str]:
    """Return the table, sorted by name, what was left out, the counts and the lanes."""
    rows = [
        (_name(row), _describe_verdict(row), _format_time(row.bench), _describe_found(row))
        for row in sweep.rows
    ]
    lines = _align([("kernel", "verdict", "time", "found"), *rows])
    lines += [f"{name}: left out, {reason}" for name, reason in sorted(sweep.left_out.items())]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sweep.counts.items())
    left = f"; {sweep.not_judged_count} not judged" if sweep.not_judged_count else ""
    lines.append(f"{len(sweep.rows)} in {sweep.seconds:.0f} s: {counts or 'none'}{left}")
    return [*lines, *map(_format_lane, sweep.lanes)]


def _name(row: SweepRow) -> str:
    parts = (row.kernel, row.variant, row.target and f"({row.target})")
    return " ".join(part for part in parts if part)


def _describe_verdict(row: SweepRow) -> str:
    return (describe_verdict(row.bench) if row.bench else None) or row.verdict


def _describe_found(row: SweepRow) -> str:
    bench = row.bench
    if bench is not None and bench.candidate_us is not None and bench.interval is not None:
        low, high = bench.interval
        ratio = f"{bench.speedup:.3g}x [{low:.3g}, {high:.3g}] of {bench.baseline}"
        return f"{ratio} on {bench.workload}, {row.device}"
    if row.check is not None and row.verdict == "correct":
        largest = max(case.max_abs_error or 0.0 for case in row.check.cases)
        count = len(row.check.cases) + len(row.check.hidden_inputs)
        return f"largest error {largest:.1e}, {count} cases, {row.device}"
    return quote_excerpt(row.detail) if row.detail else "no detail"


def _format_time(bench: Bench | None) -> str:
    return format_duration(bench.candidate_us) if bench and bench.candidate_us else "-"


def _format_lane(lane: SweepLane) -> str:
    share = "" if lane.busy_share is None else f", busy {lane.busy_share:.0%} of the time"
    return f"{lane.lane} ({lane.model}): {lane.judged_count} judged{share}"


def _align(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return rows as lines, with columns of one width but the last."""
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)][:-1]
    return [
        "  ".join([*(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in listed
    ]


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
