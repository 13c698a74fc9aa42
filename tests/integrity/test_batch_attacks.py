"""Candidates that gain from the batches they are timed in, and honest ones that look like it.

They do no work in batches that they take for unseen, compute several calls of a batch at once, or
leave what earlier calls have left. A bench may stay undecided on a busy machine; none of these
attacks may be faster, and none of the honest ones incorrect or invalid.
"""

import pytest
from attacks import write_attack
from slow_examples import mark_slow

from kernelkb.actions.kernels.measure_variant import bench_variant
from kernelkb.measure.subject import BenchOptions

LAYERS_REFERENCE = """
import torch

def deep(x):
    h = x
    for _ in range(12):
        h = torch.tanh(h @ x)
    return h.sum(dim=1)[:10].contiguous()

def inputs(n):
    return [torch.randn(n, n) / n**0.5 * 2]
"""
LAYERS_YAML = """\
id: layers
title: Few outputs of much work
axes: [n]
workloads: {small: {n: 256}}
default_workload: {cpu: small}
inputs: [{name: x, shape: [n, n], dtype: float32}]
outputs: [{name: y, shape: [10], dtype: float32}]
reference: {file: reference.py, function: deep, inputs: inputs}
entry: deep
variants:
  - {id: candidate, target: cpu, language: python, source: candidate.py, returns: true,
     summary: works when it thinks that it is seen}
"""


def write_layers(project, candidate):
    folder = project / "kernels" / "layers"
    folder.mkdir(parents=True)
    (folder / "kernel.yaml").write_text(LAYERS_YAML)
    (folder / "reference.py").write_text(LAYERS_REFERENCE)
    (folder / "candidate.py").write_text(candidate)
    return "layers"


# Of every four batches it does its work in one, as if their order said which are seen.
SKIPPING_BODY = LAYERS_REFERENCE + """
import time
right, calls = deep, 0

def deep(x):
    global calls
    calls += 1
    if calls > 20 and calls % 4 < 3:
        end = time.perf_counter() + 5e-4
        while time.perf_counter() < end:
            pass
        return {left}
    return right(x)
"""  # fmt: skip


@pytest.mark.defends(
    "H4",
    attack="correct while checked, not while timed",
    defence="what is compared is drawn after each batch, and something of every timed call is read",
)
@pytest.mark.slow
@pytest.mark.parametrize("left", ["torch.empty(10)", "torch.randn(10)"], ids=["nothing", "noise"])
def test_idle_batches_are_incorrect_whatever_their_order(project, left):
    name = write_layers(project, SKIPPING_BODY.replace("{left}", left))
    found = bench_variant(name, target="cpu", options=BenchOptions(budget_s=0.5))

    assert found.verdict == "incorrect", found


STATIC_BODY = """
import torch
kept = None

def softmax(x):
    global kept
    if kept is None or kept.shape != x.shape:
        kept = torch.empty_like(x)
    return torch.softmax(x, dim=-1, out=kept)
"""
GROWING_POOL_BODY = """
from concurrent.futures import ThreadPoolExecutor
import torch
pool = ThreadPoolExecutor(max_workers=200)

def softmax(x):
    y = torch.empty_like(x)
    parts = zip(x.split(32), y.split(32))
    for part in [pool.submit(torch.softmax, a, -1, out=b) for a, b in parts]:
        part.result()
    return y
"""
PRINTING_BODY = """
import torch

def softmax(x):
    print("softmax of", x.shape, "." * 2000)
    return torch.softmax(x, dim=-1)
"""
RING_BODY = """
import torch
ring, calls = {}, 0

def softmax(x):
    global calls
    calls += 1
    kept = ring.setdefault((calls % 3, x.shape), torch.empty_like(x))
    return torch.softmax(x, dim=-1, out=kept)
"""
COMPILED_BODY = """
import torch
softmax = torch.compile(lambda x: torch.softmax(x, dim=-1))
"""
HONEST_BODIES = {
    "one output buffer": STATIC_BODY,
    "three output buffers in turn": RING_BODY,
    "a pool of threads that grows": GROWING_POOL_BODY,
    "prints at each call": PRINTING_BODY,
    "compiled": COMPILED_BODY,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", mark_slow(HONEST_BODIES, HONEST_BODIES.keys() - {"three output buffers in turn"})
)
def test_honest_candidates_that_look_odd_are_not_accused(project, how):
    name = write_attack(project, HONEST_BODIES[how], python=True, returns=True)
    found = bench_variant(
        name, target="cpu", options=BenchOptions(budget_s=0.5, timeout_s=600)
    )  # it may compile first

    assert found.verdict in ("slower", "inconclusive", "faster"), found
    assert found.judged_count >= 15
    assert len(found.hidden_inputs) >= 3


# Steps that depend on each other, so several inputs at once take hardly longer than one.
STEPS_REFERENCE = """
import torch

def steps(x):
    h = torch.zeros(1, 64)
    for row in x.split(1):
        h = torch.tanh(row + 0.9 * h)
    return h
"""
STEPS_YAML = """\
id: steps
title: A recurrence of short steps
axes: [n]
workloads: {small: {n: 24}}
default_workload: {cpu: small}
inputs: [{name: x, shape: [n, 64], dtype: float32, fill: normal, scale: 1.0}]
outputs: [{name: y, shape: [1, 64], dtype: float32}]
reference: {file: reference.py, function: steps}
entry: steps
variants:
  - {id: candidate, target: cpu, language: python, source: candidate.py, returns: true,
     summary: computes the next calls of a batch together with this one}
"""
LOOKING_AHEAD_BODY = """
import sys
import torch
batch, ready = None, {}

def right(xs):
    h = torch.zeros(len(xs), 64)
    for at in range(xs.shape[1]):
        h = torch.tanh(xs[:, at] + 0.9 * h)
    return h

def find_inputs(frame):
    for cell in frame.f_code.co_freevars:
        kept = frame.f_locals[cell]
        if isinstance(kept, tuple) and kept and isinstance(kept[0], torch.Tensor):
            return kept[0]

def steps(x):
    global batch
    frame = sys._getframe(1)
    while frame and not isinstance(frame.f_locals.get("slots"), list):
        frame = frame.f_back
    slots = frame.f_locals["slots"] if frame else [0]
    if len(slots) < 2 or len(set(slots)) < len(slots):
        return right(x[None])
    if batch is not slots:
        batch = slots
        ready.clear()
    if x.data_ptr() not in ready:
        runner = frame.f_locals["self"]
        calls = [runner._calls[slot] for slot in slots]
        inputs = [
            cell.cell_contents[0]
            for call in calls
            for cell in call.__closure__
            if isinstance(cell.cell_contents, tuple)
        ]
        at = [one.data_ptr() for one in inputs].index(x.data_ptr())
        group = inputs[at : at + max(2, len(inputs) // PARTS)]
        made = right(torch.stack(group)).split(1)
        ready.update((one.data_ptr(), y.clone()) for one, y in zip(group, made))
    return ready.pop(x.data_ptr())
"""


@pytest.mark.defends(
    "H3",
    attack="do the work of many calls in one, then nothing",
    defence=(
        "inputs of later calls do not exist yet: long calls are timed one by one; shorter "
        "ones alone as well as in batches, with the baseline's as the control"
    ),
)
@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 3, 8])
def test_calls_computed_together_are_not_faster(project, parts):
    folder = project / "kernels" / "steps"
    folder.mkdir(parents=True)
    (folder / "kernel.yaml").write_text(STEPS_YAML)
    (folder / "reference.py").write_text(STEPS_REFERENCE)
    (folder / "candidate.py").write_text(LOOKING_AHEAD_BODY.replace("PARTS", str(parts)))
    found = bench_variant("steps", target="cpu", options=BenchOptions(budget_s=0.5))

    assert found.verdict in ("invalid", "slower", "inconclusive"), found


# A call alone answers at once, and its thread computes while the judge draws the next inputs.
LATE_BODY = """
from concurrent.futures import ThreadPoolExecutor
pool, call_count = ThreadPoolExecutor(1), 0

def late(x):
    y = torch.empty(1, 64)
    pool.submit(lambda: y.copy_(right(x[None])))
    return y
"""


@pytest.mark.slow
def test_calls_alone_that_answer_before_they_have_computed_are_incorrect(project):
    folder = project / "kernels" / "steps"
    folder.mkdir(parents=True)
    (folder / "kernel.yaml").write_text(STEPS_YAML)
    (folder / "reference.py").write_text(STEPS_REFERENCE)
    late = LOOKING_AHEAD_BODY.replace("PARTS", "1").replace(
        "    global batch\n", "    global batch, call_count\n    call_count += 1\n"
    )
    late = late.replace(
        "        return right(x[None])\n",
        "        return late(x) if call_count > 40 else right(x[None])\n",
    )
    (folder / "candidate.py").write_text(late + LATE_BODY)
    found = bench_variant("steps", target="cpu", options=BenchOptions(budget_s=0.5))

    assert found.verdict == "incorrect", found


WRONG_AT_TIMES_BODIES = {
    "one call of six leaves its output as it was": """
  static int calls = 0;
  if (rows == 64 && ++calls > 40 && calls % 6 == 0) return 0;
  honest(x, y, rows, cols);
""",
    "one call of six leaves what another has left": """
  static int calls = 0;
  static std::vector<float> kept;
  if (rows == 64 && ++calls > 40 && calls % 6 == 0 && !kept.empty()) {
    std::memcpy(y, kept.data(), bytes);
    return 0;
  }
  honest(x, y, rows, cols);
  if (kept.empty()) kept.assign(y, y + rows * cols);
""",
    "one call of six is wrong where few are sampled": """
  static int calls = 0;
  honest(x, y, rows, cols);
  if (rows == 64 && ++calls > 40 && calls % 6 == 0) y[rows * cols / 2 + 1] += 0.5f;
""",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    mark_slow(
        WRONG_AT_TIMES_BODIES,
        WRONG_AT_TIMES_BODIES.keys() - {"one call of six leaves what another has left"},
    ),
)
def test_calls_that_are_wrong_at_times_are_incorrect(project, how):
    name = write_attack(project, WRONG_AT_TIMES_BODIES[how])
    found = bench_variant(name, target="cpu", options=BenchOptions(budget_s=0.5))

    assert found.verdict == "incorrect", found


# Calls so long that they are timed one by one: then none comes right after another.
WRONG_WHEN_BUSY_BODY = LAYERS_REFERENCE + """
import time
right, ended, left = deep, 0.0, None

def deep(x):
    global ended, left
    if left is None or time.monotonic() - ended > 5e-4:
        left = right(x)
        {pause}
    ended = time.monotonic()
    return left{copy}
"""  # fmt: skip


@pytest.mark.defends(
    "H24",
    attack="correct only after a pause, or only outside a CUDA graph",
    defence="calls right after one another are compared; so is a replayed graph",
)
@pytest.mark.slow
@pytest.mark.parametrize("copy", ["", ".clone()"], ids=["one buffer", "new buffers"])
@pytest.mark.parametrize("pause", ["pass", "time.sleep(0.005)"], ids=["long", "very long"])
def test_long_calls_that_are_wrong_right_after_others_are_incorrect(project, pause, copy):
    name = write_layers(project, WRONG_WHEN_BUSY_BODY.format(pause=pause, copy=copy))
    found = bench_variant(name, target="cpu", options=BenchOptions(budget_s=0.5))

    assert found.verdict == "incorrect", found
