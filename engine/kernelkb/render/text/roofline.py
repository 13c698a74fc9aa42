"""Formats a roofline answer as text: the floor, every roof, and the attainable speedup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernelkb.units import format_duration

RooflineDict = Mapping[str, Any]
"""The result of ``kernelkb.actions.advice.roofline.analyze_roofline``."""


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
    yield f"  {took}: {1 / left:.2g} of the roof, at most {left:.3g}x faster"
