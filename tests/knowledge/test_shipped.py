"""The shipped knowledge and kernels, held against arithmetic and against themselves."""

import re
from pathlib import Path

import pytest
from programs import knowledge, program

from engine.decide.derive import complete
from engine.decide.diagnose import verdict
from engine.loading.kernels import load_kernel
from engine.loading.paths import shipped
from engine.record.sessions import read, sessions

CASES = [(b, case) for b in knowledge().bottlenecks for case in b.cases]
ROWS = {row["id"]: row for row in program()["bottlenecks"]}
KERNEL = load_kernel("row_softmax", Path(shipped("kernels")).parent)
HEADER = ["kernel", "shapes", "launch", "shared", "work", "roof", "tolerance", "measured"]


@pytest.mark.parametrize(
    ("bottleneck", "case"), CASES, ids=[f"{b.id}: {case.name}" for b, case in CASES]
)
def test_case(bottleneck, case):
    known = complete(program(), case.metrics, None)

    assert verdict(ROWS[bottleneck.id], known) == case.verdict


ARCHITECTURES = {a.cc: a for a in knowledge().devices.architectures}
GEFORCE_TENSOR_FMA = 256  # GeForce parts run fp16 with fp32 accumulation at half the rate
FP32_TENSOR_CLOCK = {"h100-pcie": 1620, "b200": 1856, "h100-sxm": 1830, "h200": 1830}


@pytest.mark.parametrize("device", knowledge().devices.devices, ids=lambda d: d.id)
def test_fp32_peak_follows_from_lanes_and_clock(device):
    lanes = ARCHITECTURES[device.cc].fp32_lanes
    peak = device.sm_count * lanes * 2 * device.sm_clock_mhz / 1e6

    assert peak == pytest.approx(device.fp32_tflops, rel=0.015)


@pytest.mark.parametrize("device", knowledge().devices.devices, ids=lambda d: d.id)
def test_tensor_peak_is_dense_and_follows_from_the_units(device):
    full = ARCHITECTURES[device.cc].tc_fp16_fma
    rates = {full, GEFORCE_TENSOR_FMA}
    clocks = {device.sm_clock_mhz, FP32_TENSOR_CLOCK.get(device.id, 1830)}
    peaks = [device.sm_count * fma * 2 * clock / 1e6 for fma in rates for clock in clocks]

    assert min(abs(p / device.fp16_tensor_tflops - 1) for p in peaks) < 0.015


def test_sixteen_gpus_are_known():
    assert len(knowledge().devices.devices) == 16


def test_every_threshold_says_why_and_where_from():
    assert all(t.why and t.sources for t in knowledge().thresholds.thresholds)


def header(variant):
    lines = (KERNEL.folder / variant.source).read_text().splitlines()
    return [re.match(r"// (\w+): (.+)", line).groups() for line in lines[: len(HEADER)]]


@pytest.mark.parametrize("variant", KERNEL.kernel.variants, ids=lambda v: f"{v.id}-{v.target}")
def test_a_kernel_file_opens_with_its_header(variant):
    found = header(variant)

    assert [key for key, _ in found] == HEADER
    assert dict(found)["kernel"] == f"row_softmax/{variant.id}/{variant.target}"


@pytest.mark.parametrize("variant", KERNEL.kernel.variants, ids=lambda v: f"{v.id}-{v.target}")
def test_a_header_states_the_tolerance_of_kernel_yaml(variant):
    said = dict(header(variant))["tolerance"]
    numbers = [float(n) for n in re.findall(r"\d\.\d+(?:e-\d+)?", said)]
    tolerance = KERNEL.kernel.tolerances["float32"]

    assert numbers == [
        tolerance.atol, tolerance.rtol, tolerance.matched_ratio, tolerance.max_error
    ]  # fmt: skip


SESSIONS = Path(shipped("kernels")).parent / "sessions"


@pytest.mark.parametrize("name", sessions(SESSIONS))
def test_a_recorded_session_can_be_read(name):
    assert all(entry.session == name for entry in read(name, SESSIONS))


@pytest.mark.parametrize("variant", KERNEL.kernel.variants, ids=lambda v: f"{v.id}-{v.target}")
def test_a_header_names_a_session_that_measured_that_variant(variant):
    name = dict(header(variant))["measured"].rpartition("session ")[2]
    steps = [step for entry in read(name, SESSIONS) for step in entry.steps]

    assert any((s.name, s.variant, s.status) == ("bench", variant.id, "ok") for s in steps)


FIXES = {fix for b in knowledge().bottlenecks for fix in b.fixes}


@pytest.mark.parametrize("variant", KERNEL.kernel.variants, ids=lambda v: f"{v.id}-{v.target}")
def test_a_variant_applies_only_fixes_that_exist(variant):
    assert set(variant.applies) <= FIXES
