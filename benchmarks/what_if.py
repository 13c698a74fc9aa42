"""How right ``kb recommend --what-if`` is: single changes of recorded launches, told and measured.

    python -m benchmarks.what_if              half of the pairs, and the held-out half
    python -m benchmarks.what_if --cases      each of them
    python -m benchmarks.what_if --residency  (a GPU machine with nvcc: about a minute) blocks an SM
                                              and clusters on the GPU, told and as the driver says

A pair of the zoo whose sides differ by one such change gives two cases: the change, and undone.
The halves are told apart by a hash of the pair's name. What is told and what is not was decided on
one half; the other was seen meanwhile, and one of its cases guided a term. A launch is near its
floor where the faster side of its pair takes at least 1/1.5 of its time. Where the answer says that
the time is not known, the case counts as untold: its interval and direction are scored alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.actions.advice.code_location import read_all_counters
from kernelkb.actions.advice.recommend_report import find_pressure
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.device_facts import Pressure, build_limits, predict_launch_change
from kernelkb.decide.parse_metric import KNOWN_GROUPS
from kernelkb.device_math.occupancy import Launch, count_clusters, occupancy

RECORDED = Path(__file__).parent.parent / "kernels/zoo/measured"
REPORTS = Path(__file__).parent.parent / "tests/data/zoo"
NVCC, TARGET = "nvcc", ("-gencode", "arch=compute_90a,code=sm_90a")
GROUPS = KNOWN_GROUPS[132]
"""How the SMs of a card may be grouped: what another card says may be neither."""
SHOWN = 3
NEAR = 1.5
WITHIN = 1.25
SAME = 0.05
DIRECTIONS = {"faster": -1, "same": 0, "slower": 1}
FIELDS = {
    "threads": "block_thread_count",
    "grid": "grid_block_count",
    "registers": "register_count",
    "static_smem": "static_shared_bytes",
    "dynamic_smem": "dynamic_shared_bytes",
}

VECTOR = {
    "adam_step_4_bytes": "4:16",
    "add_arrays_4_bytes": "4:16",
    "beam_cache_reorder": "2:16",
    "bilinear_resize_rgba": "1:4",
    "brighten_bytes_few_warps": "1:16",
    "cache_lookup_8_way": "4:16",
    "chacha20_keystream": "4:16",
    "csv_delimiters_any_length": "1:16",
    "decode_scores_int8_bytes": "1:16",
    "harmonic_colors_of_points": "4:16",
    "image_contrast_bytes": "1:16",
    "interleave_color_planes": "4:16",
    "layer_scale_residual_half": "2:16",
    "max_magnitude_per_chunk_scalar": "4:16",
    "paged_append_value_per_thread": "2:16",
    "quantize_channels_int8": "2:16",
    "relaxation_small_batch": "4:16",
    "rgb_to_yuv_planes": "1:4",
    "rope_neighbouring_pairs": "2:16",
    "scale_pairs_4_bytes": "4:16",
    "silu_mul_bf16": "2:16",
    "swiglu_interleaved": "4:16",
}
UNROLL = {
    "exceedance_counts_reread": "4:8",
    "gemm_8x8_a_thread": "4:8",
    "integer_mixer_full_unroll": "8:1024",
    "kv_cache_fill": "1:4",
    "lattice_walk_endpoints": "1:4",
    "linked_nodes_one_list": "1:4",
    "mean_square_one_load": "1:8",
    "paged_kv_to_rows": "1:4",
    "polynomial_degree_511": "8:32",
    "segment_sum_rows": "1:16",
    "spmm_one_neighbour_at_a_time": "1:16",
}
STAGES = {
    "fp8_gemm_one_stage": "1:4",
    "gemm_eight_stages": "8:3",
    "gemm_tiles_through_registers": "1:2",
    "linear_silu_one_stage": "1:4",
    "row_sum_bulk_one_stage": "1:4",
    "scale_add_bulk_ring": "3:8",
    "skinny_projection_resident_weight": "1:2",
    "wgmma_gemm_one_stage": "1:4",
    "wmma_gemm_blocking_copies": "1:2",
}
REGISTERS = (
    "distance_matrix_capped_registers",
    "implicit_diffusion_columns",
    "implicit_steps_small_systems",
    "leaky_integrator_readout",
    "nearest_centroid_full_occupancy",
)
LAUNCH = (
    "avg_pool_block_per_plane",
    "batchnorm_planes_looped_batch",
    "charge_potential_block_1024",
    "column_sums_small_blocks",
    "decode_int8_cache_program_per_head",
    "duct_diffusion_marching",
    "edit_distance_short_reads",
    "embedding_bag_history",
    "follow_links_coarsened",
    "frame_companding_block_704",
    "gemm_140_tiles_one_per_sm",
    "int4_gemv_column_per_thread",
    "layernorm_weights_gradient_columns",
    "mandelbrot_film_tiles",
    "nbody_forces_wide_blocks",
    "nearest_codeword_140_blocks",
    "row_sums_block_256",
    "sensor_polynomial_block_1024",
    "softmax_64_one_warp_blocks",
    "softmax_eight_rows_staged",
    "softmax_one_program_an_sm",
    "table_lookup_float_copy",
    "weight_gradient_long_k",
)
TEMPTING = {
    ("charge_to_clustered_cells", "two-particles"): {"vector": "8:16", "grid": "0.5"},
    ("moe_combine_by_atomics", "warps"): {"threads": "256", "grid": "1"},
    ("page_sums_by_owner", "larger-blocks"): {"grid": "0.25"},
    ("sales_by_size_class", "vector-loads"): {"vector": "4:16"},
}
"""Changes that tempt and were timed; a grid is told as a factor."""


class Case(NamedTuple):
    """A launch and one change of it."""

    kernel: str
    kind: str
    device: str
    undone: bool
    metrics: Mapping[str, float]
    changes: Mapping[str, str]
    factor: float
    """Measured time after ÷ before."""
    is_near: bool
    is_held_out: bool
    pressure: Pressure | None = None
    """Of its code, where registers change and its report is kept."""
    spills_after: float | None = None
    """Share of the instructions after the change that access local memory; None: not recorded."""


def list_cases() -> Iterator[Case]:
    """Yield every change of the recorded pairs that is one change of a launch."""
    kinds = {"vector": VECTOR, "unroll": UNROLL, "stages": STAGES}
    ratios = {name: (kind, text) for kind, names in kinds.items() for name, text in names.items()}
    ratios |= dict.fromkeys(REGISTERS, ("registers", "")) | dict.fromkeys(LAUNCH, ("launch", ""))
    for file in sorted(RECORDED.glob("*.jsonl")):
        for row in map(json.loads, file.read_text().splitlines()):
            if row["kernel"] in ratios:
                yield from _build_pair(row, *ratios[row["kernel"]], is_held_out(row["kernel"]))
            yield from _build_tempting(row, is_held_out(row["kernel"]))


def is_held_out(name: str) -> bool:
    """Return whether a pair belongs to the half with which nothing was chosen."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 1


def _build_pair(row: Mapping[str, Any], kind: str, text: str, held_out: bool) -> Iterator[Case]:
    sides: list[dict[str, Any]] = [row["before"], row["after"]]
    times = [float(side["kernel_us"]) for side in sides]
    for undone in (False, True):
        now, then = (sides[int(undone)]["metrics"], sides[int(not undone)]["metrics"])
        if not {*FIELDS.values(), "waves"} <= now.keys() & then.keys():
            continue
        changes = {
            name: str(int(then[field]))
            for name, field in FIELDS.items()
            if now[field] != then[field]
        }
        if text:
            changes[kind] = ":".join(reversed(text.split(":"))) if undone else text
        us, other = times[int(undone)], times[int(not undone)]
        yield Case(
            str(row["kernel"]), kind, str(row["device"]), undone, now, changes, other / us,
            us <= NEAR * min(times), held_out,
            None if undone or kind != "registers" else _read_pressure(row), _count_spills(then),
        )  # fmt: skip


def _count_spills(metrics: Mapping[str, float]) -> float | None:
    return complete_metrics(load_compiled_rules(), metrics, None).get("local_instruction_share")


def _read_pressure(row: Mapping[str, Any]) -> Pressure | None:
    """Return what the code of a pair's first side needs of registers, from its report."""
    packed = REPORTS / row["device"] / str(row.get("report"))
    if not packed.is_file():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / packed.stem
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        return find_pressure(read_all_counters(path, [row["launch"]]))


def _build_tempting(row: Mapping[str, Any], held_out: bool) -> Iterator[Case]:
    found: Mapping[str, float] = row.get("tempting") or {}
    for variant, speedup in found.items():
        wanted = TEMPTING.get((str(row["kernel"]), variant))
        if wanted is None:
            continue
        now: Mapping[str, float] = row["before"]["metrics"]
        grid = round(now["grid_block_count"] * float(wanted.get("grid", 1)))
        yield Case(
            str(row["kernel"]), "tempting", str(row["device"]), False, now,
            {**wanted, "grid": str(grid)}, 1 / speedup, False, held_out,
        )  # fmt: skip


class Told(NamedTuple):
    """What was told of a case."""

    case: Case
    factor: float | None
    """None: the answer says that it is not known."""
    low: float
    high: float
    verdict: str
    because: str
    unspilled: float | None = None
    """What is told for the case that nothing spills, where that is asked and nothing did."""

    @property
    def error(self) -> float:
        """Told ÷ measured, or the reverse: at least 1; infinite where it is not told."""
        return math.exp(abs(math.log(self.factor / self.case.factor))) if self.factor else math.inf

    @property
    def has_direction(self) -> bool:
        """Whether faster, as fast or slower is told."""
        return self.verdict in DIRECTIONS

    @property
    def is_direction_right(self) -> bool:
        """Whether faster, as fast and slower are told as measured."""
        return DIRECTIONS.get(self.verdict) == classify(self.case.factor)

    @property
    def is_held(self) -> bool:
        """Whether the interval holds the measured time."""
        return self.low <= self.case.factor <= self.high


def classify(factor: float) -> int:
    """Return -1 for faster, 0 for as fast, 1 for slower."""
    return 0 if abs(math.log(factor)) < math.log(1 + SAME) else int(math.copysign(1, factor - 1))


def predict(case: Case) -> Told | None:
    """Return what is told of a case; None where no time is told."""
    rules = load_compiled_rules()
    known = complete_metrics(rules, case.metrics, case.device)
    found = predict_launch_change(rules, known, case.device, case.changes, case.pressure)
    time = found["time"]
    if time is None:
        return None
    fields = {name: value for name, value in time.items() if name != "unspilled"}
    kept = time["unspilled"] if case.spills_after == 0 else None
    return Told(case, **fields, unspilled=kept and kept["factor"])


def score(title: str, rows: Sequence[Told]) -> str:
    """Return a line of the table."""
    told, open_ = ([row for row in rows if (row.factor is None) == kind] for kind in (False, True))
    hurt = [row for row in told if classify(row.case.factor) > 0]

    def count(some: Iterable[bool]) -> str:
        found = list(some)
        return f"{sum(found):>3} of {len(found):<3}"

    error = statistics.median(row.error for row in told) if told else math.nan
    return (
        f"{title:<22} {count(row.error <= WITHIN for row in told)}  {error:5.2f}  "
        f"{count(row.is_direction_right for row in told)}  "
        f"{count(row.is_direction_right for row in hurt)}  "
        f"{count(row.is_held for row in told)}  | {count(row.is_held for row in open_)}  "
        f"{count(row.is_direction_right for row in open_ if row.has_direction)}"
    )


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", action="store_true")
    parser.add_argument("--residency", action="store_true")
    options = parser.parse_args()
    if options.residency:
        return compare_residency()
    told = [found for case in list_cases() if (found := predict(case))]
    if options.cases:
        for row in sorted(told, key=lambda row: (row.case.is_held_out, row.case.kind, -row.error)):
            _print_case(row)
    print(
        f"{'':<22} within 1.25 median direction  hurts       interval    "
        "| untold: interval, direction"
    )
    for held_out in (False, True):
        half = [row for row in told if row.case.is_held_out == held_out]
        for kind in sorted({row.case.kind for row in half}):
            print(score(kind, [row for row in half if row.case.kind == kind]))
        print(score("held out" if held_out else "the other half", half))
        print(score("  near its floor", [row for row in half if row.case.is_near]))
    kept = [row.unspilled / row.case.factor for row in told if row.unspilled]
    right = sum(1 / WITHIN <= ratio <= WITHIN for ratio in kept)
    print(f"untold, if nothing spills: {right} of {len(kept)} that did not within {WITHIN:g}x")
    print(score("all", told))
    print(score("  near its floor", [row for row in told if row.case.is_near]))
    return 0


def compare_residency() -> int:
    """Print how many answers of the driver, on the first GPU, are told; return 1 if not all."""
    limits = build_limits(load_compiled_rules()["hardware"], "9.0")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/what_if"
        source = str(Path(__file__).with_suffix(".cu"))
        subprocess.run([NVCC, "-O1", *TARGET, source, "-o", program], check=True)
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    right: dict[int, list[bool]] = {}
    for line in lines.splitlines():
        registers, static, threads, dynamic, size, found = map(int, line.split(","))
        blocks = occupancy(limits, Launch(threads, registers, static, dynamic)).blocks
        counts = [count_clusters(groups, blocks, size) for groups in GROUPS] if size else [blocks]
        told = counts if max(0, found) not in counts else max(0, found)
        right.setdefault(size, []).append(told == max(0, found))
        if not right[size][-1] and right[size].count(False) <= SHOWN:
            print(f"  {line}: told {told}")
    for size, rows in sorted(right.items()):
        print(f"{f'clusters of {size}' if size else 'blocks'}: {sum(rows)} of {len(rows)} as told")
    return int(not all(right[0]))


def _print_case(row: Told) -> None:
    case = row.case
    marks = ("held" if case.is_held_out else "    ", "near" if case.is_near else "    ")
    changes = " ".join(f"{name}={value}" for name, value in case.changes.items())
    print(
        *marks, f"{case.kind:<9} {case.kernel + (' undone' if case.undone else ''):<40}",
        f"told {row.factor or math.nan:6.2f} ({row.low:.2f}..{row.high:.2f})",
        f"measured {case.factor:6.2f}",
        f"{'WRONG' if row.has_direction > row.is_direction_right else ''} {changes}: {row.because}",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
