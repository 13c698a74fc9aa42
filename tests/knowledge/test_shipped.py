"""The shipped knowledge and kernels, held against arithmetic and against themselves."""

import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from fix_examples import find_broken_examples
from shipped_rules import bottleneck_rows, compare_metrics, guards, knowledge, program

from kernelkb.cli import build_parser
from kernelkb.decide.conditions import judge_condition
from kernelkb.decide.diagnose import judge_bottleneck, walk_gate_tree
from kernelkb.decide.headroom import PRODUCT_LIKELY
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.model.entries.bottleneck import iter_comparisons
from kernelkb.record.sessions import list_session_ids, read_session
from kernelkb.safety.paths import shipped_folder

HEADER = ["kernel", "shapes", "launch", "shared", "work", "roof", "tolerance", "measured"]


def iter_cases():
    """Yield each bottleneck with each of its cases."""
    return ((b, case) for b in knowledge().bottlenecks for case in b.cases)


@cache
def list_variants():
    """Return each variant of a shipped kernel, behind the folder of its kernel."""
    files = sorted(Path(shipped_folder("kernels")).glob("*/kernel.yaml"))
    folders = [load_kernel_folder(file.parent) for file in files]
    return [(source, variant) for source in folders for variant in source.kernel.variants]


def name_variant(source, variant):
    return f"{source.kernel.id}-{variant.id}-{variant.target}"


def test_each_bottleneck_case_has_its_verdict():
    rows = {row["id"]: row for row in bottleneck_rows()}
    wrong = [
        f"{b.id}: {case.name}"
        for b, case in iter_cases()
        if judge_bottleneck(rows[b.id], compare_metrics(case.metrics).truth) != case.verdict
    ]

    assert not wrong


def list_devices():
    return knowledge().devices.devices


def find_architecture(device):
    (found,) = [one for one in knowledge().devices.architectures if one.cc == device.cc]
    return found


GEFORCE_TENSOR_FMA = 256  # GeForce parts run fp16 with fp32 accumulation at half the rate
FP32_TENSOR_CLOCK = {
    "h100-pcie": 1620, "h100-sxm": 1830, "h200": 1830,
    "b200": 1856, "b300": 1856, "gb200": 2008, "gb300": 2008,
}  # fmt: skip
PRO_TENSOR_FMA = (
    512  # RTX PRO boards run it at the full rate, unlike the GeForce part of their chip
)


def list_wrong_peaks(peaks):
    """Return the devices whose stated peak is not what units and clock give.

    Args:
        peaks: Of each device its id, the computed peaks, the stated one and the tolerance.
    """
    return [
        (name, computed, stated)
        for name, computed, stated, tolerance in peaks
        if min(abs(peak / stated - 1) for peak in computed) > tolerance
    ]


def test_fp32_peak_follows_from_lanes_and_clock():
    wrong = list_wrong_peaks(
        (
            d.id,
            [d.sm_count * find_architecture(d).fp32_lanes * 2 * d.sm_clock_mhz / 1e6],
            d.fp32_tflops,
            0.03 if d.id == "b300" else 0.015,  # quoted at 1.98 of at most 2.03 GHz
        )
        for d in list_devices()
        if d.fp32_tflops and d.sm_clock_mhz
    )

    assert not wrong


def compute_tensor_peaks(device):
    full = find_architecture(device).tc_fp16_fma
    rates = {full, PRO_TENSOR_FMA if device.id == "rtx-pro-6000" else GEFORCE_TENSOR_FMA}
    clocks = {device.sm_clock_mhz, FP32_TENSOR_CLOCK.get(device.id, 1830)} - {None}
    return [device.sm_count * fma * 2 * clock / 1e6 for fma in rates for clock in clocks]


def test_tensor_peak_is_dense_and_follows_from_the_units():
    wrong = list_wrong_peaks(
        (d.id, compute_tensor_peaks(d), d.fp16_tensor_tflops, 0.015)
        for d in list_devices()
        if d.fp16_tensor_tflops
    )

    assert not wrong


def test_double_precision_follows_from_lanes_and_clock():
    wrong = list_wrong_peaks(
        (
            d.id,
            [d.sm_count * find_architecture(d).fp64_lanes * 2 * d.sm_clock_mhz / 1e6],
            d.fp64_tflops,
            0.04,
        )
        for d in list_devices()
        if d.fp64_tflops and d.sm_clock_mhz and find_architecture(d).fp64_lanes
    )

    assert not wrong


def test_narrower_types_are_at_least_twice_as_fast_on_tensor_cores():
    for device in list_devices():
        peaks = [
            device.tf32_tensor_tflops, device.fp16_tensor_tflops, device.fp8_tensor_tflops,
            device.fp4_tensor_tflops,
        ]  # fmt: skip
        known = [peak for peak in peaks if peak]

        assert all(b / a > 1.9 for a, b in pairwise(known)), device.id


def test_the_gpus_that_people_name_are_known():
    names = ["v100", "rtx-3080", "rtx-a6000", "rtx-4080", "rtx-6000-ada", "gb200", "b300", "gb300"]
    names += ["rtx-5080", "rtx-pro-6000", "jetson-agx-orin", "jetson-agx-thor", "dgx-spark"]

    assert set(names) <= {device.id for device in list_devices()}


def test_every_threshold_says_why_and_where_from():
    assert all(t.why and t.sources for t in knowledge().thresholds.thresholds)


def read_header(source, variant):
    lines = (source.folder / variant.source).read_text().splitlines()
    return [re.match(r"(?://|#) (\w+): (.+)", line).groups() for line in lines[: len(HEADER)]]


def test_a_kernel_file_opens_with_its_header():
    for source, variant in list_variants():
        found = read_header(source, variant)

        assert [key for key, _ in found] == HEADER, name_variant(source, variant)
        kernels, name, target = dict(found)["kernel"].split("/")
        assert source.kernel.id in kernels.split(", ")  # kernels of other dtypes share a file
        assert (name, target) == (variant.id, variant.target)


def test_a_header_states_the_tolerance_of_kernel_yaml():
    for source, variant in list_variants():
        said = dict(read_header(source, variant))["tolerance"]
        numbers = [float(n) for n in re.findall(r"\d\.\d+(?:e-\d+)?", said)]
        one = source.kernel.tolerances.get("float32")
        stated = [one.atol, one.rtol, one.matched_ratio, one.max_error] if one else []

        assert numbers == stated, name_variant(source, variant)


SESSIONS = Path(shipped_folder("kernels")).parent / "sessions"


def test_every_recorded_session_can_be_read():
    for name in list_session_ids(SESSIONS):
        assert all(entry.session == name for entry in read_session(name, SESSIONS).entries)


MEASURED = re.compile(r"(\S+ (?:us|ms)) at (\S+), session (\S+)")


@cache
def list_benches(name):
    """Return kernel, variant, target, workload and time of every bench of a session."""
    return list(iter_benches(name))


def iter_benches(name):
    for entry in read_session(name, SESSIONS).entries:
        for step in entry.steps:
            if step.name == "bench" and step.status != "failure":
                took, workload = re.match(
                    r"\S+ (\S+ (?:us|ms)), .+ on (\S+): ", step.found
                ).groups()
                yield (entry.kernel, step.variant, entry.target, workload), took


def is_rounded_value(said, took):
    """Say whether a number is another one, rounded."""
    (number, unit), (full, of) = said.split(), took.split()
    digits = len(number.partition(".")[2])
    return unit == of and abs(float(number) - float(full)) <= 0.5 / 10**digits + 1e-9


@pytest.mark.parametrize(
    ("said", "took", "same"),
    [
        ("382 us", "382.45 us", True),
        ("66.8 ms", "66.77 ms", True),
        ("66.7 ms", "66.77 ms", False),
        ("382 ms", "382.45 us", False),
    ],
)
def test_rounded_values_are_recognised(said, took, same):
    assert is_rounded_value(said, took) is same


def test_a_header_states_the_time_measured_in_its_session():
    for source, variant in list_variants():
        header = dict(read_header(source, variant))
        if header["measured"] == "not yet":
            continue
        number, workload, session = MEASURED.fullmatch(header["measured"]).groups()
        kernels = header["kernel"].partition("/")[0].split(", ")  # that share the source
        asked = [(kernel, variant.id, variant.target, workload) for kernel in kernels]
        times = [took for names, took in list_benches(session) if names in asked]

        assert any(is_rounded_value(number, took) for took in times), (asked, times)


def compute_ridges():
    """Return of each GPU its FLOP per byte where memory and arithmetic take as long."""
    return {d.id: d.fp32_tflops * 1e3 / d.dram_gbps for d in list_devices() if d.fp32_tflops}


def read_roofs():
    return {
        name_variant(source, variant): dict(read_header(source, variant))["roof"]
        for source, variant in list_variants()
    }


def test_a_roof_that_names_no_gpu_is_far_from_the_ridge_of_every_gpu():
    ridges = compute_ridges().values()
    far = {name: roof for name, roof in read_roofs().items() if "is far" in roof}

    assert far
    for name, roof in far.items():
        intensity, side = re.search(r"([\d.]+) FLOP/B.* is far (left|right)", roof).groups()
        if side == "right":
            assert float(intensity) > 2 * max(ridges), name
        else:
            assert float(intensity) < min(ridges) / 2, name


def test_the_ridges_that_attention_names_are_those_of_these_gpus():
    ridges, roof = compute_ridges(), read_roofs()["attention-tiled-cuda"]
    named = re.findall(r"seq (\d+) on ([a-z0-9-]+) \((\d+) FLOP/B\)", roof)
    boards = {d.id for d in list_devices() if "LPDDR" not in d.title}  # not those that share memory

    assert len(named) == 2
    assert max(ridges.keys() & boards, key=ridges.get) in {gpu for _, gpu, _ in named}
    for seq, gpu, ridge in named:
        assert float(ridge) == pytest.approx(ridges[gpu], abs=0.5)
        assert int(seq) == 4 * int(ridge)  # seq / 4 FLOP/B


def test_a_variant_applies_only_fixes_that_exist():
    fixes = {fix for b in knowledge().bottlenecks for fix in b.fixes}

    for source, variant in list_variants():
        assert set(variant.applies) <= fixes, name_variant(source, variant)


# Both sides of every limit that only the gate or a guard asks: metrics, what they must lead to.
GATE = [
    ({"correct": 1, "speedup": 1.5}, "validate-and-document"),
    ({"correct": 0, "speedup": 1.5}, "incorrect"),
    ({"attainable_speedup": 0.79, "speedup": 1.5}, "impossible-time"),
    ({"attainable_speedup": 0.81, "speedup": 1.5}, "at-roof"),
    ({"attainable_speedup": 1.11, "speedup": 1.5}, "at-roof"),
    ({"attainable_speedup": 1.12, "speedup": 1.5}, "validate-and-document"),
    ({"speedup": 0.49}, "stop-and-profile"),
    ({"speedup": 0.5}, "close-the-gap"),
    ({"speedup": 0.99}, "close-the-gap"),
    ({"speedup": 1.0}, "validate-and-document"),
    ({"speedup": 2.0}, "validate-and-document"),
    ({"speedup": 2.01}, "audit-the-baseline"),
]
GUARD_LIMITS = {
    "incorrect-result": ({"correct": 0}, {"correct": 1}),
    "incorrect-result-cpu": ({"correct": 0}, {"correct": 1}),
    "profile-of-another-run": ({"profile_ratio": 2.01}, {"profile_ratio": 2.0}),
    "dram-saturated": ({"dram_utilization": 0.85}, {"dram_utilization": 0.84}),
    "debug-build": ({"debug_build": 1}, {"debug_build": 0}),
    "tensor-cores-busy": ({"tensor_utilization": 0.6}, {"tensor_utilization": 0.59}),
    "warpgroup-roles": (
        {"warpgroup_utilization": 0.01, "tensor_utilization": 0.05},
        {"warpgroup_utilization": 0.0, "tensor_utilization": 0.05},
    ),
    "bulk-operands": (
        {"warpgroup_utilization": 0.01, "tma_read_bytes": 1e6},
        {"warpgroup_utilization": 0.0, "tma_read_bytes": 1e6},
    ),
    "bulk-operands-are-the-traffic": (
        {"warpgroup_utilization": 0.01, "tma_read_bytes": 1e6, "l2_input_utilization": 0.79},
        {"warpgroup_utilization": 0.01, "tma_read_bytes": 1e6, "l2_input_utilization": 0.8},
    ),
    "enough-warps": ({"occupancy": 0.6}, {"occupancy": 0.59}),
    "too-short-to-profile": ({"profiled_us": 19.9}, {"profiled_us": 20.0, "kernel_us": 20.0}),
    "issue-saturated": ({"issue_rate": 0.8}, {"issue_rate": 0.79}),
    "idle-sms": (
        {"grid_fill": 0.94, "dram_utilization": 0.79},
        {"grid_fill": 0.94, "dram_utilization": 0.8},
    ),
    "foreign-profile": ({"foreign_profile": 1}, {"foreign_profile": 0}),
    "hot-address": (
        {"l2_busiest_atomic_utilization": 0.25},
        {"l2_busiest_atomic_utilization": 0.24},
    ),
    "empty-sms": ({"grid_fill": 0.09}, {"grid_fill": 0.1}),
    "cache-resident": ({"cache_ratio": 0.99}, {"cache_ratio": 1.0}),
    "spills-not-executed": ({"local_instruction_share": 0.02}, {"local_instruction_share": 0.021}),
    "too-short-for-threads": ({"kernel_us": 19.9}, {"kernel_us": 20.0}),
}
GUARD_CASES = [(name, *sides) for name, sides in GUARD_LIMITS.items()] + [
    ("idle-sms", {"waves": 0.029, "dram_utilization": 0.1}, {"waves": 0.03}),
    (
        "neighbours-update-different-rows",
        {"warp_update_count": 16.1, "lanes_per_update_sector": 16},
        {"warp_update_count": 16, "lanes_per_update_sector": 16},
    ),
    (
        "one-row-outlasts-the-rest",
        {"longest_row_share": 0.011, "sm_count": 100},
        {"longest_row_share": 0.01, "sm_count": 100},
    ),
    ("ids-in-good-order", {"gather_sorting_ratio": 1.24}, {"gather_sorting_ratio": 1.25}),
    (
        "warpgroup-roles",
        {"warpgroup_utilization": 0.01, "tensor_utilization": 0.05},
        {"warpgroup_utilization": 0.01, "tensor_utilization": 0.049},
    ),
    (
        "bulk-operands",
        {"warpgroup_utilization": 0.01, "tma_read_bytes": 1.0},
        {"warpgroup_utilization": 0.01, "tma_read_bytes": 0.0},
    ),
    (
        "bulk-operands-are-the-traffic",
        {"warpgroup_utilization": 0.01, "tma_read_bytes": 1.0, "l2_input_utilization": 0.5},
        {"warpgroup_utilization": 0.01, "tma_read_bytes": 0.0, "l2_input_utilization": 0.5},
    ),
    (
        "bulk-operands-are-the-traffic",
        {"warpgroup_utilization": 0.01, "tma_read_bytes": 1.0, "l2_input_utilization": 0.5},
        {"warpgroup_utilization": 0.0, "tma_read_bytes": 1.0, "l2_input_utilization": 0.5},
    ),
    ("idle-sms", {"grid_fill": 0.94, "dram_utilization": 0.1}, {"grid_fill": 0.95}),
    ("profile-of-another-run", {"profile_ratio": 0.49}, {"profile_ratio": 0.5}),
    (
        "too-short-to-profile",
        {"kernel_us": 19.9, "sm_utilization": 0.1},
        {"kernel_us": 20.0, "sm_utilization": 0.1},
    ),
    ("too-short-to-profile", {"profiled_us": 19.9}, {"kernel_us": 19.9}),
    *(
        ("contradictory-counters", {f"{unit}_utilization": 1.06}, {f"{unit}_utilization": 1.05})
        for unit in ("dram", "sm", "memory", "l2")
    ),
]


def is_guard_active(one, name, measured):
    (guard,) = [guard for guard in guards(one) if guard["id"] == name]
    return judge_condition(guard["when"], compare_metrics(measured, rules=one).truth) is True


@pytest.mark.parametrize(("measured", "leaf"), GATE)
def test_the_gate_changes_exactly_at_its_limits(measured, leaf):
    assert (
        walk_gate_tree(program()["trees"]["performance-gate"], compare_metrics(measured)).gate["id"]
        == leaf
    )


@pytest.mark.parametrize(("name", "inside", "outside"), GUARD_CASES)
def test_a_guard_wakes_exactly_at_its_limit(name, inside, outside):
    assert is_guard_active(program(), name, inside)
    assert not is_guard_active(program(), name, outside)


def test_every_guard_has_both_sides():
    assert {name for name, _, _ in GUARD_CASES} == {guard["id"] for guard in guards()}


def find_broken_cases(one, threshold=None):
    """Yield each case, gate and guard that another program gets wrong.

    Args:
        one: The other program.
        threshold: Bottlenecks that ask it come before the others.
    """
    for measured, leaf in GATE:
        if (
            walk_gate_tree(
                one["trees"]["performance-gate"], compare_metrics(measured, rules=one)
            ).gate["id"]
            != leaf
        ):
            yield f"gate: {measured}"
    for tree, case in [(t, c) for t in knowledge().trees for c in t.cases]:
        found_leaf = walk_gate_tree(
            one["trees"][tree.id], compare_metrics(case.metrics, rules=one)
        ).gate["id"]
        if found_leaf != case.leaf:
            yield f"{tree.id}: {case.metrics}"
    for name, inside, outside in GUARD_CASES:
        if not is_guard_active(one, name, inside) or is_guard_active(one, name, outside):
            yield f"guard: {name}"
    yield from find_broken_examples(one)
    found = {row["id"]: row for row in bottleneck_rows(one)}
    others_last = sorted(iter_cases(), key=lambda pair: not is_asked(pair[0], threshold))
    for bottleneck, case in others_last:
        about = compare_metrics(case.metrics, rules=one)
        if judge_bottleneck(found[bottleneck.id], about.truth) != case.verdict:
            yield f"{bottleneck.id}: {case.name}"


def is_asked(record, threshold):
    conditions = (record.when, *(o.when for o in getattr(record, "unless", ())))
    return any(c.threshold == threshold for when in conditions for c in iter_comparisons(when))


def move_threshold(name, factor):
    """Return the compiled rules with one threshold multiplied."""
    compared, limits = program()["comparisons"], dict(program()["limits"])
    rows = list(compared["rows"])
    for index, row in enumerate(rows):
        if not row.source.startswith(f"threshold {name} ("):
            continue
        if isinstance(row.limit, str):  # some devices have their own
            limits[row.limit] = {**limits[row.limit], "": limits[row.limit][""] * factor}
        else:
            rows[index] = row._replace(limit=row.limit * factor)
    return {**program(), "limits": limits, "comparisons": {**compared, "rows": rows}}


def test_a_threshold_is_moved_as_if_it_had_been_written_so():
    """Compiling takes 0.3 s, and there are some 300 moves to try."""
    catalogue = knowledge().thresholds
    of_a_device = [name.removeprefix("limit.") for name in program()["limits"]]
    for name in (catalogue.thresholds[0].id, *of_a_device):
        written = tuple(
            one.model_copy(update={"value": 2 * one.value}) if one.id == name else one
            for one in catalogue.thresholds
        )
        edited = catalogue.model_copy(update={"thresholds": written})
        compiled = compile_rules(knowledge().model_copy(update={"thresholds": edited}))
        moved = move_threshold(name, 2.0)

        assert moved["limits"] == compiled["limits"]
        assert moved["comparisons"]["rows"] == compiled["comparisons"]["rows"]


@pytest.mark.parametrize("factor", [2.0, pytest.param(0.5, marks=pytest.mark.slow)])
def test_a_threshold_that_is_twice_or_half_as_large_is_noticed(factor):
    unnoticed = [
        one.id
        for one in knowledge().thresholds.thresholds
        if next(find_broken_cases(move_threshold(one.id, factor), one.id), None) is None
    ]

    assert not unnoticed


def test_the_shipped_rules_break_no_case():
    assert list(find_broken_cases(program())) == []


def test_a_threshold_is_compared_with_its_own_metric():
    limits = {t.id: t.metric for t in knowledge().thresholds.thresholds}
    leaves = [
        leaf
        for record in (*knowledge().bottlenecks, *knowledge().guards.guards)
        for condition in (record.when, *(o.when for o in getattr(record, "unless", ())))
        for leaf in iter_comparisons(condition)
    ] + [
        leaf
        for tree in knowledge().trees
        for q in tree.questions
        for leaf in iter_comparisons(q.when)
    ]

    assert all(limits[leaf.threshold] == leaf.metric for leaf in leaves if leaf.threshold)


def test_no_two_gpus_share_a_name():
    names = [
        name.lower()
        for device in knowledge().devices.devices
        for name in {device.id, device.title.lower(), *map(str.lower, device.aliases)}
    ]

    assert len(names) == len(set(names))


def test_a_case_holds_only_values_that_its_metrics_can_have():
    rows = program()["metrics"]
    wrong = [
        (f"{bottleneck.id}: {case.name}", name, value)
        for bottleneck, case in iter_cases()
        for name, value in case.metrics.items()
        if not is_possible(rows.get(name, {"low": 0.0, "high": None}), value)
    ]

    assert not wrong


def is_possible(row, value):
    return row["low"] <= value <= (math.inf if row["high"] is None else row["high"])


def test_every_recipe_names_a_command_that_exists():
    for recipe in knowledge().catalogue.recipes:
        assert re.split("[ (]", recipe.command)[0] in {
            "kb",
            "ncu",
            "nsys",
            "cuobjdump",
            "nvidia-smi",
            "torch.profiler.profile",
            "TORCH_LOGS=graph_breaks,recompiles",
            "all_reduce_perf",
        }


def test_a_header_names_the_shapes_of_kernel_yaml():
    for source, variant in list_variants():
        shapes = dict(read_header(source, variant))["shapes"]
        for array in (*source.kernel.inputs, *source.kernel.outputs):
            if array.shape:
                size = f"{array.name} ({', '.join(map(str, array.shape))})"
                # A file that kernels of several dtypes share names them once.
                assert f"{size} {array.dtype}" in shapes or (
                    size in shapes and array.dtype in shapes
                ), name_variant(source, variant)


def test_the_engine_has_the_threshold_of_a_likely_product():
    thresholds = knowledge().thresholds.thresholds
    (threshold,) = (one for one in thresholds if one.id == "product-likely")
    assert threshold.value == PRODUCT_LIKELY


def list_workflow_commands():
    workflow = knowledge().workflow
    steps = [*(gate for phase in workflow.phases for gate in phase.gates), *workflow.preflight]
    return sorted({one.command for one in steps if one.command and one.command.startswith("kb ")})


def test_every_command_of_the_workflow_is_one_that_kb_takes():
    """Placeholders get values; only the parser decides, and nothing runs."""
    values = {"NAME": "l4", "N": "64", "SIZE": "48KiB", "KERNEL": "k", "FILE": "f", "X": "0.3"}
    for command in list_workflow_commands():
        _, name, *words = command.replace("kb lab ", "kb ").split()
        parser = build_parser([name])
        given = [name, *(values.get(word, word) for word in words)]
        if name != "session":
            assert parser.parse_args(given), command
            continue
        with pytest.raises(SystemExit) as ended:  # its verbs take arguments that are left open
            parser.parse_args([*given, "--help"])
        assert ended.value.code == 0, command
