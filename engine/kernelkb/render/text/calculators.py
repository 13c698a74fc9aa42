"""Text of the calculators: roofline, occupancy, both after a change; and a log's diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelkb.profiles.launch import simplify_kernel_name
from kernelkb.units import format_duration, format_size

if TYPE_CHECKING:
    from kernelkb.decide.symptoms import FirstError, LogExtent, PossibleEntry, SymptomMatch

RooflineDict = Mapping[str, Any]
"""The result of ``kernelkb.actions.advice.calculators.analyze_roofline``."""

OccupancyDict = Mapping[str, Any]
"""The result of ``kernelkb.actions.advice.calculators.analyze_occupancy``."""

WhatIfDict = Mapping[str, Any]
"""The result of ``kernelkb.actions.advice.recommend_report.predict_report_change``."""

_VERDICTS = {
    "faster": "faster",
    "slower": "slower",
    "same": "no difference that can be measured",
}
_OPEN = {"faster": ": faster", "slower": ": slower", "unknown": ""}
"""After an interval of a time that is not told."""
_MAX_NAME_CHARS = 60
_LIMITER_NAMES = {
    "warps": "warps",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "block slots",
    "barriers": "barriers",
}
_FIELD_NAMES = {
    "threads": "threads per block",
    "registers": "registers per thread",
    "static_bytes": "bytes of static shared memory",
    "shared_bytes": "bytes of shared memory per block",
    "carveout_bytes": "bytes of carve-out",
    "barriers": "barriers per block",
}


def format_roofline_lines(answer: RooflineDict) -> Iterator[str]:
    """Yield the whole answer, a line at a time."""
    if answer["floor_us"] is None:
        yield f"no floor on {answer['title']}: what fits a cache may beat the memory's roof"
    else:
        floor = format_duration(answer["floor_us"])
        yield f"at least {floor} on {answer['title']}: {_BOUND_TEXT[answer['binds']]}"
    for roof in answer["roofs"]:
        words = _ROOF_DESCRIBERS[roof["name"]](roof, answer)
        yield f"  {roof['name']:8}{format_duration(roof['floor_us']):>11}  {words}"
    yield from _format_intensity(answer)
    yield from _format_measured(answer)


_BOUND_TEXT = {
    "memory": "memory bandwidth binds",
    "compute": "arithmetic binds",
    "launch": "the launch binds, so a faster kernel changes nothing",
}


def _describe_memory_roof(roof: RooflineDict, answer: RooflineDict) -> str:
    sheet = answer["data_sheet_gbps"]
    share = f"{roof['rate'] / sheet:.2g} of the data sheet's {sheet:,.0f}"
    origin = "measured" if roof["origin"] == "measured" else "what a copy reaches"
    text = f"{answer['bytes']:,} B at {roof['rate']:,.0f} GB/s, {origin}, {share}"
    if roof["counts"]:
        return text
    cache = f"{(answer['l2_bytes'] or 0) / 2**20:.0f} MiB"
    return f"{text}; does not count: the {cache} of L2 may hold much of it; --cold counts it"


def _describe_compute_roof(roof: RooflineDict, answer: RooflineDict) -> str:
    unit = _describe_unit(answer["pipe"])
    why = "" if answer["dtype"] else "; the fastest unit, as no --dtype says which"
    text = f"{answer['flop']:.4g} FLOP at {roof['rate']:,.4g} TFLOPS of {unit}{why}"
    usual = roof["sustained_us"]
    return f"{text}; a library takes about {format_duration(usual)}" if usual else text


def _describe_launch_roof(roof: RooflineDict, answer: RooflineDict) -> str:
    del answer
    return f"an empty kernel, {_LAUNCH_ORIGIN_TEXT[roof['origin']]}"


_LAUNCH_ORIGIN_TEXT = {"measured": "measured", "judgement": "by judgement; kb bench measures it"}
_ROOF_DESCRIBERS = {
    "memory": _describe_memory_roof,
    "compute": _describe_compute_roof,
    "launch": _describe_launch_roof,
}


def _describe_unit(pipe: str) -> str:
    kind = pipe.partition("_")[0]
    return f"dense {kind} tensor cores" if "tensor" in pipe else f"{kind} units"


def _format_intensity(answer: RooflineDict) -> Iterator[str]:
    ridge = answer["ridge_flop_per_byte"]
    if ridge is None:
        return
    sheet = f"{answer['ridge_data_sheet_flop_per_byte']:.3g} with the data sheet's bandwidth"
    point = f"ridge of {_describe_unit(answer['pipe'])} {ridge:.3g} ({sheet})"
    intensity = answer["intensity_flop_per_byte"]
    if intensity is None:
        yield f"  {point}"
        return
    side = "below" if intensity < ridge else "above"
    yield f"  {intensity:.4g} FLOP per byte, {side} the {point}"


def _format_measured(answer: RooflineDict) -> Iterator[str]:
    left = answer["attainable_speedup"]
    if left is None:
        return
    took = f"measured {format_duration(answer['measured_us'])}"
    if left < 1:
        yield (
            f"  {took}: faster than the floor; the work is overstated, the data came from a cache, "
            "or the timing is wrong"
        )
        return
    yield f"  {took}: {1 / left:.2g} of the roof, {left:.3g}x its floor"


def format_occupancy_lines(answer: OccupancyDict) -> Iterator[str]:
    """Yield the whole answer, a line at a time."""
    yield _describe_verdict(answer)
    yield from (f"  {text}" for text in _format_failures(answer))
    yield from _format_block_limits(answer)
    yield from _format_shared_memory(answer)
    yield from _format_waves(answer["waves"])
    yield from _format_next_step(answer)
    yield from _format_wanted_blocks(answer["wanted"])
    yield from _format_register_steps(answer)


def format_what_if_lines(answer: WhatIfDict) -> Iterator[str]:
    """Yield a launch before and after a change, and the predicted time, a line at a time."""
    before, after = answer["before"], answer["after"]
    name = simplify_kernel_name(answer["kernel"])[:_MAX_NAME_CHARS]
    yield f"{name} on {answer['device']}: {', '.join(map(_describe_new_value, answer['changes']))}"
    if answer["obstacles"]:
        yield from (
            f"  this launch fails: {_describe_obstacle(x, after)}" for x in answer["obstacles"]
        )
        return
    yield from _format_what_if_residency(before, after)
    if answer["cluster"]:
        yield f"  clusters        {answer['cluster']}"
    if answer["registers"]:
        yield f"  registers       {_describe_pressure(answer['registers'])}"
    yield from _format_what_if_time(answer["time"])
    yield from (f"  assumed         {text}" for text in answer["assumed"])
    yield from (f"  note            {text}" for text in answer["notes"])


def _describe_new_value(change: Mapping[str, Any]) -> str:
    return f"{change['name']} {change['now']:,.6g} -> {change['to']:,.6g}"


def _describe_obstacle(name: str, launch: Mapping[str, Any]) -> str:
    sizes = f"{launch['shared_bytes']:,} B of shared memory a block"
    return {
        "registers_block": f"{launch['registers']} registers x {launch['threads']} threads are "
        f"more than an SM has; at most {launch['register_cap']} a thread",
        "static_bytes": "so much shared memory cannot be declared; make it dynamic",
        "shared_bytes": f"{sizes}, of which {launch['shared_limit']:,} are allowed",
    }.get(name, f"too many {name.replace('_', ' ')}")


def _format_what_if_residency(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for title, key in (("blocks an SM", "blocks_per_sm"), ("warps an SM", "warps_per_sm")):
        more = f" of {after['warps_max']}" if key == "warps_per_sm" else ""
        if key == "blocks_per_sm":
            limits = [
                " and ".join(_LIMITER_NAMES[n] for n in x["limited_by"]) for x in (before, after)
            ]
            more = f", limited by {_join_values(*limits)}"
        yield f"  {title:15} {_join_values(before[key], after[key])}{more}"
    waves = [f"{one['waves']:.3g} ({one['last_wave_share']:.0%})" for one in (before, after)]
    idle = f", {after['idle_sms']} SMs without a block" if after["idle_sms"] else ""
    yield f"  waves (last)    {_join_values(*waves)}{idle}"
    shared = [format_size(one["shared_bytes"]) for one in (before, after)]
    yield f"  shared memory   {_join_values(*shared)} a block"
    if after["l1_bytes"]:
        left = [_format_range(*one["l1_bytes"]) for one in (before, after)]
        open_ = after["l1_bytes"][0] != after["l1_bytes"][1]
        more = "; the driver chooses" if open_ else ""
        yield f"  L1 that is left {_join_values(*left)}{more}"


def _join_values(before: object, after: object) -> str:
    return f"{before}" if before == after else f"{before} -> {after}"


def _format_range(low: int, high: int) -> str:
    return format_size(low) if low == high else f"{format_size(low)} to {format_size(high)}"


def _describe_pressure(found: Mapping[str, Any]) -> str:
    if found["end_spills"]:
        return "its spilled values may find registers; kb build tells what ptxas still spills"
    if found["live"] is None:
        return "without its code it is not known whether fewer hold its values; kb build tells"
    live = f"its code has {found['live']} live at once"
    if not found["missing"]:
        return f"{live}, which fit"
    share = found["local_instruction_share"]
    return f"{live}: up to {found['missing']} spill, {share:.0%} more instructions; kb build tells"


def _format_what_if_time(time: Mapping[str, Any] | None) -> Iterator[str]:
    if time is None:
        yield "  time            not predicted: the report lacks what is busy; ncu --set full"
        return
    if time["factor"] is None:
        ends, words = f"x{time['low']:.2g} to x{time['high']:.2g} of now", _OPEN[time["verdict"]]
        yield f"  time            not known: measure; {ends}{words}"
        yield f"    hangs on      {time['because']}"
        yield from _format_unspilled(time)
        return
    open_ = time["verdict"] != "same" and time["low"] < 1 < time["high"]
    yield (
        f"  time            x{time['factor']:.3g} of now [{time['low']:.3g}, {time['high']:.3g}]: "
        f"{'probably ' if open_ else ''}{_VERDICTS[time['verdict']]}"
    )
    yield f"    because       {time['because']}"
    yield from _format_unspilled(time)


def _format_unspilled(time: Mapping[str, Any]) -> Iterator[str]:
    if one := time["unspilled"]:
        ends = f"[{one['low']:.3g}, {one['high']:.3g}]"
        yield f"    none spilled  x{one['factor']:.3g} of now {ends}, as kb recommend supposes"


def _describe_verdict(answer: OccupancyDict) -> str:
    where = f"on {answer['title']} (sm_{answer['architecture'].replace('.', '')})"
    if not answer["possible"]:
        return f"This launch fails {where}"
    names = " and ".join(_LIMITER_NAMES[name] for name in answer["limited_by"])
    blocks = answer["blocks_per_sm"]
    return (
        f"{blocks} {_pluralize('block', blocks)} per SM: {answer['warps_per_sm']} of "
        f"{answer['warps_max']} warps, occupancy {answer['occupancy']:.3g}, "
        f"limited by {names}, {where}"
    )


def _format_failures(answer: OccupancyDict) -> Iterator[str]:
    launch, shared = answer["launch"], answer["shared_memory"]
    cap = answer["register_cap"]
    said = {
        "threads": f"{launch['threads']} threads are more than a block may have",
        "registers_thread": f"{launch['registers']} registers are more than a thread may have",
        "registers_block": (
            f"{launch['registers']} registers x {launch['threads']} threads: a block of this size "
            f"may use {cap} per thread; __launch_bounds__({launch['threads']}) makes ptxas keep it"
        ),
        "static_bytes": (
            f"{launch['static_bytes']:,} B of static shared memory are above the "
            f"{shared['static_limit']:,} B that a kernel may declare; make them dynamic"
        ),
        "shared_bytes": (
            f"{shared['asked']:,} B of shared memory are above the {shared['opt_in_limit']:,} B "
            f"that a block may have, by {-shared['left']:,} B"
        ),
        "barriers": f"{launch['barriers']} barriers are more than a block has",
    }
    yield from (said[name] for name in answer["obstacles"])


def _format_block_limits(answer: OccupancyDict) -> Iterator[str]:
    rows = {
        _LIMITER_NAMES[name]: value for name, value in answer["limits"].items() if value is not None
    }
    room = ", ".join(f"{name} {value}" for name, value in rows.items())
    yield f"  blocks that fit, by each: {room}"
    registers, launch = answer["registers"], answer["launch"]
    spare = registers["spare_per_thread"]
    more = f"; {spare} more per thread cost no block" if spare else ""
    yield (
        f"  a block takes {registers['block']:,} of {registers['sm']:,} registers "
        f"at {launch['registers']} per thread{more}"
    )
    idle = -launch["threads"] % 32
    if idle:
        yield f"  {idle} lanes of each block's last warp never run: use a multiple of 32 threads"


def _format_shared_memory(answer: OccupancyDict) -> Iterator[str]:
    shared = answer["shared_memory"]
    held = f", {shared['reserved']:,} of them the driver's" if shared["reserved"] else ""
    spare = shared["spare_per_block"]
    more = f"; {spare:,} B more per block cost no block" if spare else ""
    yield (
        f"  a block takes {shared['allocated']:,} of {shared['carveout']:,} B of shared memory"
        f"{held}{more}"
    )
    if shared["opt_in_bytes"] is not None:
        yield (
            f"  {shared['asked']:,} B are above {shared['static_limit']:,}: before the launch call "
            f"cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, "
            f"{shared['opt_in_bytes']})"
        )


def _format_waves(found: Mapping[str, Any] | None) -> Iterator[str]:
    if not found:
        return
    yield (
        f"  {found['waves']:.3g} waves on {found['sm_count']} SMs ({found['slots']:,} slots): "
        f"the last of {found['rounds']} fills {found['tail_blocks']:,}, "
        f"so a share of {found['loss']:.2g} of the slots stays empty"
    )
    if found["idle_sms"]:
        yield f"  {found['idle_sms']} SMs get no block at all"


def _format_next_step(answer: OccupancyDict) -> Iterator[str]:
    yield ""
    yield "Next step" if answer["possible"] else "To make it run"
    step, other = answer["next_step"], answer["better_block_size"]
    if step:
        changes = " and ".join(_describe_change(change) for change in step["changes"])
        yield f"  {_describe_gain(step)}: {changes}"
    if other:
        threads = other["changes"][0]["to"]
        gain = _describe_gain(other)
        yield f"  {gain}: {threads} threads per block, if it needs no more shared memory"
    if not step and not other:
        full = answer["occupancy"] == 1
        yield f"  none: {'the SM is full' if full else 'no single change puts more warps on an SM'}"
    elif answer["possible"]:
        yield "  More warps help only a kernel that waits: see eligible_warps and issue_rate first."


def _describe_gain(step: Mapping[str, Any]) -> str:
    blocks = step["blocks_per_sm"]
    return f"{blocks} {_pluralize('block', blocks)}, occupancy {step['occupancy']:.3g}"


def _describe_change(change: Mapping[str, Any]) -> str:
    bound = "at least" if change["field"] == "carveout_bytes" else "at most"
    return f"{bound} {change['to']:,} {_FIELD_NAMES[change['field']]} (now {change['now']:,})"


def _format_wanted_blocks(wanted: Mapping[str, Any] | None) -> Iterator[str]:
    if wanted:
        size = wanted["shared_bytes"]
        room = f"{size:,} B of shared memory" if size is not None else "no shared memory at all"
        yield ""
        yield (
            f"For {wanted['blocks_per_sm']} {_pluralize('block', wanted['blocks_per_sm'])} per SM: "
            f"at most {wanted['registers']} registers per thread and {room} per block"
        )


def _format_register_steps(answer: OccupancyDict) -> Iterator[str]:
    rows = answer["register_steps"]
    if rows:
        yield ""
        cap = answer["register_cap"]
        yield f"Registers per thread at {answer['launch']['threads']} threads, at most {cap}"
        yield from (
            f"  up to {row['registers']:3}: {row['blocks']:2} "
            f"{_pluralize('block', row['blocks']):6}  occupancy {row['share']:.3g}"
            for row in rows
        )


def _pluralize(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def format_diagnosis_lines(
    matches: list[SymptomMatch],
    error: FirstError | None,
    read: LogExtent,
    source: str,
    perhaps: Sequence[PossibleEntry] = (),
) -> Iterator[str]:
    """Yield the symptoms; where none is an error the first error line; then what was read.

    Args:
        matches: The symptoms in the log.
        error: Its first error line.
        read: How much of it was read.
        source: The file, or ``stdin``.
        perhaps: Entries that share words with the error line.
    """
    yield from format_symptom_lines(matches)
    if error and not any(row["severity"] == "error" for row in matches):
        yield f"first error (line {error['line']}): {error['said']}"
    elif not matches:
        yield "no line reports an error"
    for entry in perhaps:
        yield f"perhaps {entry['id']}: {entry['title']} (by its words only; kb show {entry['id']})"
    yield _format_extent(read, source)


def format_symptom_lines(matches: list[SymptomMatch]) -> Iterator[str]:
    """Yield one block of lines for each symptom, with an empty line in between."""
    for position, row in enumerate(matches):
        if position:
            yield ""
        times = f", {row['times']} times" if row["times"] > 1 else ""
        warning = "" if row["severity"] == "error" else "warning, "
        yield f"{row['symptom']}: {row['title']} ({warning}line {row['line']}{times})"
        yield f"  said: {row['said']}"
        yield from (f"  {name}: {value}" for name, value in row["captured"].items())
        yield f"  cause: {row['cause']}"
        if row["note"]:
            yield f"  note: {row['note']}"
        yield f"  cure: {row['cure']}"
        yield f"  check: {row['check']}"
        if row["fixes"]:
            yield f"  fixes: {', '.join(row['fixes'])}"
        if row["pattern"]:
            yield f"  pattern: {row['pattern']}"
    if not matches:
        yield "no known symptom; kb show symptoms lists the known ones"


def _format_extent(read: LogExtent, source: str) -> str:
    lines = f"{read['lines']:,} line{'' if read['lines'] == 1 else 's'}"
    if skipped := read["skipped_characters"]:
        return f"read {source}: {lines}, without {skipped:,} characters in the middle"
    return f"read {source}: {lines}"
