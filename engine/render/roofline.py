"""A roofline answer → text: the floor, every roof, and what is left to gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kernelkb.render.units import duration

Answer = Mapping[str, Any]
"""See ``kernelkb.actions.roofline.roofline_of``."""


def roofline_lines(answer: Answer) -> Iterator[str]:
    """Yield the whole answer, a line at a time."""
    if answer["floor_us"] is None:
        yield f"no floor on {answer['title']}: what fits a cache may beat the memory's roof"
    else:
        floor = duration(answer["floor_us"])
        yield f"at least {floor} on {answer['title']}: {_BINDS[answer['binds']]}"
    for roof in answer["roofs"]:
        words = _WORDS[roof["name"]](roof, answer)
        yield f"  {roof['name']:8}{duration(roof['floor_us']):>11}  {words}"
    yield from _intensity(answer)
    yield from _measured(answer)


_BINDS = {
    "memory": "memory bandwidth binds",
    "compute": "arithmetic binds",
    "launch": "the launch binds, so a faster kernel changes nothing",
}


def _memory(roof: Answer, answer: Answer) -> str:
    sheet = answer["data_sheet_gbps"]
    share = f"{roof['rate'] / sheet:.2g} of the data sheet's {sheet:,.0f}"
    origin = "measured" if roof["origin"] == "measured" else "what a copy reaches"
    text = f"{answer['bytes']:,} B at {roof['rate']:,.0f} GB/s, {origin}, {share}"
    if roof["counts"]:
        return text
    cache = f"{answer['l2_bytes'] / 2**20:.0f} MiB"
    return f"{text}; does not count: the {cache} of L2 may hold much of it; --cold counts it"


def _compute(roof: Answer, answer: Answer) -> str:
    unit = _unit(answer["pipe"])
    why = "" if answer["dtype"] else "; the fastest unit, as no --dtype says which"
    text = f"{answer['flop']:.4g} FLOP at {roof['rate']:,.4g} TFLOPS of {unit}{why}"
    usual = roof["sustained_us"]
    return f"{text}; a library takes about {duration(usual)}" if usual else text


def _launch(roof: Answer, answer: Answer) -> str:
    del answer
    return f"an empty kernel, {_LAUNCH[roof['origin']]}"


_LAUNCH = {"measured": "measured", "judgement": "by judgement; kb bench measures it"}
_WORDS = {"memory": _memory, "compute": _compute, "launch": _launch}


def _unit(pipe: str) -> str:
    kind = pipe.partition("_")[0]
    return f"dense {kind} tensor cores" if "tensor" in pipe else f"{kind} units"


def _intensity(answer: Answer) -> Iterator[str]:
    ridge = answer["ridge_flop_per_byte"]
    sheet = f"{answer['ridge_data_sheet_flop_per_byte']:.3g} with the data sheet's bandwidth"
    point = f"ridge of {_unit(answer['pipe'])} {ridge:.3g} ({sheet})"
    intensity = answer["intensity_flop_per_byte"]
    if intensity is None:
        yield f"  {point}"
        return
    side = "below" if intensity < ridge else "above"
    yield f"  {intensity:.4g} FLOP per byte, {side} the {point}"


def _measured(answer: Answer) -> Iterator[str]:
    left = answer["attainable_speedup"]
    if left is None:
        return
    took = f"measured {duration(answer['measured_us'])}"
    if left < 1:
        yield (
            f"  {took}: faster than the floor; the work is overstated, the data came from a cache, "
            "or the timing is wrong"
        )
        return
    yield f"  {took}: {1 / left:.2g} of the roof, at most {left:.3g}x faster"
