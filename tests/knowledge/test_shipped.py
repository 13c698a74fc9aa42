"""The shipped knowledge and kernels, held against arithmetic and against themselves."""

import math
import re
from itertools import pairwise
from pathlib import Path

import pytest
from shipped_rules import bottleneck_rows, compare_metrics, guards, knowledge, program

from kernelkb.cli import build_parser
from kernelkb.decide.conditions import judge_condition
from kernelkb.decide.diagnose import judge_bottleneck
from kernelkb.decide.gates import walk_gate_tree
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.model.entries.condition import iter_comparisons
from kernelkb.record.sessions import list_session_ids, read_session
from kernelkb.safety.paths import shipped_folder

CASES = [(b, case) for b in knowledge().bottlenecks for case in b.cases]
ROWS = {row["id"]: row for row in bottleneck_rows()}
KERNELS = [
    load_kernel_folder(file.parent)
    for file in sorted(Path(shipped_folder("kernels")).glob("*/kernel.yaml"))
]
VARIANTS = [(source, variant) for source in KERNELS for variant in source.kernel.variants]
HEADER = ["kernel", "shapes", "launch", "shared", "work", "roof", "tolerance", "measured"]


@pytest.mark.parametrize(
    ("bottleneck", "case"), CASES, ids=[f"{b.id}: {case.name}" for b, case in CASES]
)
def test_each_bottleneck_case_has_its_verdict(bottleneck, case):
    assert (
        judge_bottleneck(ROWS[bottleneck.id], compare_metrics(case.metrics).truth) == case.verdict
    )


ARCHITECTURES = {a.cc: a for a in knowledge().devices.architectures}
GEFORCE_TENSOR_FMA = 256  # GeForce parts run fp16 with fp32 accumulation at half the rate
FP32_TENSOR_CLOCK = {
    "h100-pcie": 1620, "h100-sxm": 1830, "h200": 1830,
    "b200": 1856, "b300": 1856, "gb200": 2008, "gb300": 2008,
}  # fmt: skip
PRO_TENSOR_FMA = (
    512  # RTX PRO boards run it at the full rate, unlike the GeForce part of their chip
)
DEVICES = knowledge().devices.devices


@pytest.mark.parametrize(
    "device", [d for d in DEVICES if d.fp32_tflops and d.sm_clock_mhz], ids=lambda d: d.id
)
def test_fp32_peak_follows_from_lanes_and_clock(device):
    lanes = ARCHITECTURES[device.cc].fp32_lanes
    peak = device.sm_count * lanes * 2 * device.sm_clock_mhz / 1e6
    tolerance = 0.03 if device.id == "b300" else 0.015  # quoted at 1.98 of at most 2.03 GHz

    assert peak == pytest.approx(device.fp32_tflops, rel=tolerance)


@pytest.mark.parametrize("device", [d for d in DEVICES if d.fp16_tensor_tflops], ids=lambda d: d.id)
def test_tensor_peak_is_dense_and_follows_from_the_units(device):
    full = ARCHITECTURES[device.cc].tc_fp16_fma
    rates = {full, PRO_TENSOR_FMA if device.id == "rtx-pro-6000" else GEFORCE_TENSOR_FMA}
    clocks = {device.sm_clock_mhz, FP32_TENSOR_CLOCK.get(device.id, 1830)} - {None}
    peaks = [device.sm_count * fma * 2 * clock / 1e6 for fma in rates for clock in clocks]

    assert min(abs(p / device.fp16_tensor_tflops - 1) for p in peaks) < 0.015


@pytest.mark.parametrize("device", DEVICES, ids=lambda d: d.id)
def test_narrower_types_are_at_least_twice_as_fast_on_tensor_cores(device):
    peaks = [
        device.tf32_tensor_tflops, device.fp16_tensor_tflops, device.fp8_tensor_tflops,
        device.fp4_tensor_tflops,
    ]  # fmt: skip
    known = [peak for peak in peaks if peak]

    assert all(b / a > 1.9 for a, b in pairwise(known))


def test_double_precision_follows_from_lanes_and_clock():
    for device in DEVICES:
        lanes = ARCHITECTURES[device.cc].fp64_lanes
        if device.fp64_tflops and device.sm_clock_mhz and lanes:
            peak = device.sm_count * lanes * 2 * device.sm_clock_mhz / 1e6

            assert peak == pytest.approx(device.fp64_tflops, rel=0.04), device.id


def test_the_gpus_that_people_name_are_known():
    names = ["v100", "rtx-3080", "rtx-a6000", "rtx-4080", "rtx-6000-ada", "gb200", "b300", "gb300"]
    names += ["rtx-5080", "rtx-pro-6000", "jetson-agx-orin", "jetson-agx-thor", "dgx-spark"]

    assert set(names) <= {device.id for device in DEVICES}
    assert len(DEVICES) == 29


def test_every_threshold_says_why_and_where_from():
    assert all(t.why and t.sources for t in knowledge().thresholds.thresholds)


every_variant = pytest.mark.parametrize(
    ("source", "variant"), VARIANTS, ids=[f"{s.kernel.id}-{v.id}-{v.target}" for s, v in VARIANTS]
)


def read_header(source, variant):
    lines = (source.folder / variant.source).read_text().splitlines()
    return [re.match(r"(?://|#) (\w+): (.+)", line).groups() for line in lines[: len(HEADER)]]


@every_variant
def test_a_kernel_file_opens_with_its_header(source, variant):
    found = read_header(source, variant)

    assert [key for key, _ in found] == HEADER
    kernels, name, target = dict(found)["kernel"].split("/")
    assert source.kernel.id in kernels.split(", ")  # kernels of other dtypes share a file
    assert (name, target) == (variant.id, variant.target)


@every_variant
def test_a_header_states_the_tolerance_of_kernel_yaml(source, variant):
    said = dict(read_header(source, variant))["tolerance"]
    numbers = [float(n) for n in re.findall(r"\d\.\d+(?:e-\d+)?", said)]
    tolerance = source.kernel.tolerances.get("float32")

    assert numbers == [] if tolerance is None else numbers == [
        tolerance.atol, tolerance.rtol, tolerance.matched_ratio, tolerance.max_error
    ]  # fmt: skip


SESSIONS = Path(shipped_folder("kernels")).parent / "sessions"


@pytest.mark.parametrize("name", list_session_ids(SESSIONS))
def test_a_recorded_session_can_be_read(name):
    assert all(entry.session == name for entry in read_session(name, SESSIONS).entries)


MEASURED = re.compile(r"(\S+ (?:us|ms)) at (\S+), session (\S+)")


def list_benches(name):
    """Yield kernel, variant, target, workload and time of every bench of a session."""
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


@every_variant
def test_a_header_states_the_time_measured_in_its_session(source, variant):
    header = dict(read_header(source, variant))
    if header["measured"] == "not yet":
        pytest.skip("not yet measured")
    number, workload, session = MEASURED.fullmatch(header["measured"]).groups()
    kernels = header["kernel"].partition("/")[0].split(", ")  # that share the source
    asked = [(kernel, variant.id, variant.target, workload) for kernel in kernels]
    times = [took for names, took in list_benches(session) if names in asked]

    assert any(is_rounded_value(number, took) for took in times), times


RIDGES = {d.id: d.fp32_tflops * 1e3 / d.dram_gbps for d in DEVICES if d.fp32_tflops}
ROOFS = {
    f"{source.kernel.id}-{variant.id}-{variant.target}": dict(read_header(source, variant))["roof"]
    for source, variant in VARIANTS
}


@pytest.mark.parametrize("name", [name for name, roof in ROOFS.items() if "is far" in roof])
def test_a_roof_that_names_no_gpu_is_far_from_the_ridge_of_every_gpu(name):
    intensity, side = re.search(r"([\d.]+) FLOP/B.* is far (left|right)", ROOFS[name]).groups()

    if side == "right":
        assert float(intensity) > 2 * max(RIDGES.values())
    else:
        assert float(intensity) < min(RIDGES.values()) / 2


def test_the_ridges_that_attention_names_are_those_of_these_gpus():
    named = re.findall(r"seq (\d+) on ([a-z0-9-]+) \((\d+) FLOP/B\)", ROOFS["attention-tiled-cuda"])

    boards = {d.id for d in DEVICES if "LPDDR" not in d.title}  # not those that share memory

    assert len(named) == 2
    assert max(RIDGES.keys() & boards, key=RIDGES.get) in {gpu for _, gpu, _ in named}
    for seq, gpu, ridge in named:
        assert float(ridge) == pytest.approx(RIDGES[gpu], abs=0.5)
        assert int(seq) == 4 * int(ridge)  # seq / 4 FLOP/B


FIXES = {fix for b in knowledge().bottlenecks for fix in b.fixes}


@every_variant
def test_a_variant_applies_only_fixes_that_exist(source, variant):
    assert set(variant.applies) <= FIXES


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
    "enough-warps": ({"occupancy": 0.6}, {"occupancy": 0.59}),
    "too-short-to-profile": ({"profiled_us": 19.9}, {"profiled_us": 20.0, "kernel_us": 20.0}),
    "issue-saturated": ({"issue_rate": 0.8}, {"issue_rate": 0.79}),
    "idle-sms": (
        {"grid_fill": 0.94, "dram_utilization": 0.79},
        {"grid_fill": 0.94, "dram_utilization": 0.8},
    ),
    "cache-resident": ({"cache_ratio": 0.99}, {"cache_ratio": 1.0}),
    "spills-not-executed": ({"local_instruction_share": 0.02}, {"local_instruction_share": 0.021}),
    "too-short-for-threads": ({"kernel_us": 19.9}, {"kernel_us": 20.0}),
}
GUARD_CASES = [(name, *sides) for name, sides in GUARD_LIMITS.items()] + [
    ("idle-sms", {"waves": 0.029, "dram_utilization": 0.1}, {"waves": 0.03}),
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


def find_broken_cases(one):
    """Yield each case, gate and guard that another program gets wrong."""
    found = {row["id"]: row for row in bottleneck_rows(one)}
    for bottleneck, case in CASES:
        about = compare_metrics(case.metrics, rules=one)
        if judge_bottleneck(found[bottleneck.id], about.truth) != case.verdict:
            yield f"{bottleneck.id}: {case.name}"
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


@pytest.mark.parametrize("factor", [2.0, 0.5])
@pytest.mark.parametrize("threshold", [t.id for t in knowledge().thresholds.thresholds])
def test_a_threshold_that_is_twice_or_half_as_large_is_noticed(threshold, factor):
    moved = tuple(
        t.model_copy(update={"value": t.value * factor}) if t.id == threshold else t
        for t in knowledge().thresholds.thresholds
    )
    catalogue = knowledge().thresholds.model_copy(update={"thresholds": moved})
    other = compile_rules(knowledge().model_copy(update={"thresholds": catalogue}))

    assert next(find_broken_cases(other), None)


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


@pytest.mark.parametrize(("bottleneck", "case"), CASES, ids=[f"{b.id}: {c.name}" for b, c in CASES])
def test_a_case_holds_only_values_that_its_metrics_can_have(bottleneck, case):
    for name, value in case.metrics.items():
        row = program()["metrics"].get(name, {"low": 0.0, "high": None})

        assert row["low"] <= value <= (math.inf if row["high"] is None else row["high"])


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


@every_variant
def test_a_header_names_the_shapes_of_kernel_yaml(source, variant):
    shapes = dict(read_header(source, variant))["shapes"]

    for array in (*source.kernel.inputs, *source.kernel.outputs):
        if array.shape:
            size = f"{array.name} ({', '.join(map(str, array.shape))})"
            # A file that kernels of several dtypes share names them once.
            assert (f"{size} {array.dtype}" in shapes) or (size in shapes and array.dtype in shapes)


def list_workflow_commands():
    workflow = knowledge().workflow
    steps = [*(gate for phase in workflow.phases for gate in phase.gates), *workflow.preflight]
    return sorted({one.command for one in steps if one.command and one.command.startswith("kb ")})


@pytest.mark.parametrize("command", list_workflow_commands())
def test_a_command_of_the_workflow_is_one_that_kb_takes(command):
    """Placeholders get values; only the parser decides, and nothing runs."""
    values = {"NAME": "l4", "N": "64", "SIZE": "48KiB", "KERNEL": "k", "FILE": "f", "X": "0.3"}
    _, name, *words = command.split()
    parser = build_parser([name])
    given = [name, *(values.get(word, word) for word in words)]

    if name != "session":
        assert parser.parse_args(given)
        return
    with pytest.raises(SystemExit) as ended:  # its verbs take arguments that the step leaves open
        parser.parse_args([*given, "--help"])
    assert ended.value.code == 0
