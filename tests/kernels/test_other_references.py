"""A reference need not be torch: a C++ function, another variant, recorded outputs."""

import struct
from json import dumps

import pytest

from kernelkb.actions.kernels.measure_variant import bench_variant, check_variant
from kernelkb.errors import BadValueError, KbError, KnowledgeError
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.subject import BenchOptions

KERNEL = """
id: twice
title: twice the input
axes: [n]
workloads: {{small: {{n: 4096}}}}
default_workload: {{cpu: small}}
check_workloads: {odd}
inputs: [{{name: x, shape: [n], dtype: float32, fill: normal}}]
outputs: [{{name: y, shape: [n], dtype: float32}}]
reference: {reference}
entry: twice
variants:
  - {{id: plain, target: cpu, language: c++, source: plain.cpp, summary: a loop}}
  - {{id: mine, target: cpu, language: c++, source: mine.cpp, summary: a loop}}
"""
SOURCE = """
#include <cstdint>
extern "C" int ENTRY(const TYPE* x, TYPE* y, std::int64_t n, void*) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = VALUE;
  return 0;
}
"""
RIGHT, CLAMPED = "2 * x[i]", "x[i] > 3 ? 6 : 2 * x[i]"
BY_FUNCTION = '{function: "oracle.cpp:oracle", computes_in: float64}'
BY_VARIANT = "{variant: plain}"
RECORDED = "{recorded: recorded.safetensors}"


def make_source(value, entry="twice", dtype="float"):
    return SOURCE.replace("ENTRY", entry).replace("TYPE", dtype).replace("VALUE", value)


def write_kernel(project, reference, mine=RIGHT, odd="[{n: 33}]"):
    folder = project / "kernels" / "twice"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.yaml").write_text(KERNEL.format(reference=reference, odd=odd))
    (folder / "plain.cpp").write_text(make_source(RIGHT))
    (folder / "mine.cpp").write_text(make_source(mine) + "// mine\n")
    (folder / "oracle.cpp").write_text(make_source(RIGHT, "oracle", "double"))
    return folder


def write_recording(folder, name="small", count=4096):
    """Write inputs from -2 to 2 and twice these as a safetensors file."""
    values = [4 * at / count - 2 for at in range(count)]
    size = 4 * count
    entry = {"dtype": "F32", "shape": [count]}
    header = {
        f"{name}/x": {**entry, "data_offsets": [0, size]},
        f"{name}/y": {**entry, "data_offsets": [size, 2 * size]},
    }
    text = dumps(header).encode()
    body = struct.pack(f"<{2 * count}f", *values, *(2 * value for value in values))
    recording = len(text).to_bytes(8, "little") + text + body
    (folder / "recorded.safetensors").write_bytes(recording)


@pytest.mark.slow
@pytest.mark.parametrize(
    "reference", [BY_FUNCTION, pytest.param(BY_VARIANT, marks=pytest.mark.slow)]
)
def test_code_as_a_reference_finds_what_only_hidden_inputs_show(project, reference):
    write_kernel(project, reference)
    right = check_variant("twice", "mine", target="cpu")
    write_kernel(project, reference, mine=CLAMPED)
    wrong = check_variant("twice", "mine", target="cpu")

    assert (right.status, wrong.status) == ("correct", "incorrect")
    assert "inputs scaled by 100" in right.hidden_inputs
    assert any("drawn by the judge" in words for words in right.hidden_inputs) or right.notes
    assert right.selftest
    assert "is taken for right" in right.notes[0]


@pytest.mark.parametrize("reference", ['{function: "plain.cpp:twice"}', BY_VARIANT])
def test_the_reference_is_not_judged_by_itself(project, reference):
    write_kernel(project, reference)

    with pytest.raises(BadValueError, match="compared with itself; name another variant: mine"):
        check_variant("twice", "plain", target="cpu")


@pytest.mark.slow
def test_recorded_outputs_judge_the_recorded_inputs_only_and_the_verdict_says_so(project):
    write_recording(write_kernel(project, RECORDED, mine=CLAMPED, odd="[]"))
    beyond = check_variant("twice", "mine", target="cpu")  # 3 lies beyond what was recorded
    write_kernel(project, RECORDED, mine="x[i]", odd="[]")
    wrong = check_variant("twice", "mine", target="cpu")

    assert (beyond.status, wrong.status) == ("correct", "incorrect")
    assert beyond.hidden_inputs == ()
    assert "only the recorded inputs were checked" in beyond.notes[0]
    assert beyond.selftest


def test_a_recording_that_lacks_an_array_is_named(project):
    write_recording(write_kernel(project, RECORDED, odd="[]"), name="large")

    with pytest.raises(KbError, match=r"recorded\.safetensors has no array small/x"):
        check_variant("twice", "mine", target="cpu")


@pytest.mark.slow
def test_without_torch_code_a_candidate_is_timed_against_another_variant(project, monkeypatch):
    monkeypatch.setenv("KB_BUDGET", "0.2")
    write_recording(write_kernel(project, RECORDED, odd="[]"))

    with pytest.raises(BadValueError, match=r"nothing to time mine against.*--against plain"):
        bench_variant("twice", "mine", target="cpu")
    timed = bench_variant("twice", "mine", target="cpu", options=BenchOptions(against="plain"))

    assert timed.baseline == "variant plain"
    assert any("recorded output" in text for text in timed.warnings)


def test_a_reference_that_does_not_compile_is_no_fault_of_the_candidate(project):
    folder = write_kernel(project, BY_FUNCTION)
    (folder / "oracle.cpp").write_text(make_source("nothing", "oracle", "double"))

    with pytest.raises(KbError, match="the reference of twice does not compile"):
        check_variant("twice", "mine", target="cpu")


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("{variant: other}", "names the variant 'other', which is not defined"),
        ("{recorded: nothing.safetensors}", "no file 'nothing.safetensors' here"),
        ("{variant: plain, recorded: a.safetensors}", "give either a function or a module"),
        ("{function: twice}", "a function or a module has a file"),
        ("{file: r.py, function: f, computes_in: float64}", "is for a C\\+\\+ or CUDA function"),
    ],
)
def test_a_reference_of_no_kind_is_refused(project, reference, why):
    folder = write_kernel(project, reference)

    with pytest.raises(KnowledgeError, match=why):
        load_kernel_folder(folder)
