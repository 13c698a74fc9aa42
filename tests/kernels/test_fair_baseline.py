"""A candidate is compared with torch at the precision that its own error allows."""

import contextlib
import json

import pytest
import torch
from task_checks import check_task, make_module, make_task

from kernelkb.actions.kernels.foreign_tasks import TASK_OPTIONS, bench_task
from kernelkb.actions.kernels.measure_variant import bench_variant
from kernelkb.actions.project.bench_target import prepare, validate_machine
from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.measure.bench.bench_verdict import describe_fair_baseline
from kernelkb.measure.bench.statistics import Speedup
from kernelkb.measure.job_specs import make_reduced_rival_specs, make_rival_specs
from kernelkb.measure.worker.judge.compare.compare import (
    ReferenceOutputs,
    RelativeError,
    choose_precisions,
    is_as_exact,
    is_less_exact,
    mean_errors,
    worst_errors,
)
from kernelkb.measure.worker.judge.hidden_reference import HiddenReference
from kernelkb.measure.worker.judge.inputs.hidden_inputs import transform_inputs
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase
from kernelkb.measure.worker.judge.timing.rival_precision import RivalPrecision
from kernelkb.measure.worker.runner.load_candidate import convert_tensors, copy_to_out
from kernelkb.measure.worker.shared.fp32_precision import fp32_precision
from kernelkb.model.records.measurement import Accuracy

SIZE = 96
# One thread each: threads of one product wait for each other where other tests use the cores.
ROUND_TO_TF32 = """\
import torch

torch.set_num_threads(1)


def round_to_tf32(a):
    return ((a.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
"""
# On a CPU torch has no TF32, so this product has: as on a GPU, it takes a fraction of the time.
SIMULATED_PRODUCT = """\
    def forward(self, a, b):
        if a.dtype != torch.float32:
            return a @ b
        if torch.get_float32_matmul_precision() != "highest":
            return round_to_tf32(a) @ round_to_tf32(b)
        for _ in range(40):
            product = a @ b
        return product
"""
TASK = f"""\
{ROUND_TO_TF32}

class Model(torch.nn.Module):
{SIMULATED_PRODUCT}

def get_inputs():
    return [torch.randn({SIZE}, {SIZE}), torch.randn({SIZE}, {SIZE})]


def get_init_inputs():
    return []
"""
CANDIDATE = f"""\
{ROUND_TO_TF32}

class ModelNew(torch.nn.Module):
    calls = 0

    def forward(self, a, b):
        self.calls += 1
        return PRODUCT
"""
IN_TF32 = "round_to_tf32(a) @ round_to_tf32(b)"
IN_FP32 = "a @ b"
KERNEL = f"""\
id: product
title: A product of matrices with a tolerance of its own
workloads: {{tiny: {{}}}}
default_workload: {{cpu: tiny}}
inputs:
  - {{name: a, shape: [{SIZE}, {SIZE}], dtype: float32}}
  - {{name: b, shape: [{SIZE}, {SIZE}], dtype: float32}}
outputs: [{{name: y, shape: [{SIZE}, {SIZE}], dtype: float32}}]
reference: {{file: reference.py, function: product}}
tolerances:
  float32: {{atol: 1.0, rtol: 1.0e-2, matched_ratio: 0.9, max_error: 2.0}}
entry: product
variants:
  - {{id: short, target: cpu, language: python, source: short.py, returns: true, summary: bf16}}
  - {{id: exact, target: cpu, language: python, source: exact.py, returns: true, summary: fp32}}
"""


def round_to_tf32(a):
    return ((a.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def truncate_to_tf32(a):
    return (a.view(torch.int32) & ~0x1FFF).view(torch.float32)


def relative_rms(output, oracle):
    """Return the relative error of an output in one chunk."""
    errors = RelativeError()
    errors.add(output, oracle)
    return errors.ratio()


def product_errors(change, seed=0):
    """Return the error of a product whose factors are changed first."""
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(512, 512, generator=generator) for _ in range(2))
    return (relative_rms((change(a) @ change(b)).float(), a.double() @ b.double()),)


EXACT = product_errors(lambda a: a)
TF32 = product_errors(round_to_tf32)
TRUNCATED = product_errors(truncate_to_tf32)
FP16 = product_errors(lambda a: a.half().float())
BF16 = product_errors(lambda a: a.bfloat16().float())
ON_A_GPU = {"tf32": TF32, "fp16": FP16, "bf16": BF16}


def write_task(tmp_path, product, task=TASK):
    (tmp_path / "product.py").write_text(task)
    (tmp_path / "new.py").write_text(CANDIDATE.replace("PRODUCT", product))
    return str(tmp_path / "product.py"), str(tmp_path / "new.py")


@pytest.mark.parametrize(
    ("candidate", "admitted"),
    [
        (EXACT, None),
        (TF32, ["tf32"]),
        (TRUNCATED, ["tf32"]),
        (FP16, ["tf32"]),  # as exact as TF32, whose range is larger
        (BF16, ["tf32", "fp16"]),
    ],
)
def test_the_errors_of_products_admit_these_precisions(candidate, admitted):
    is_reduced = is_less_exact(candidate, EXACT)
    found = choose_precisions(candidate, ON_A_GPU, ("fp16", "bf16")) if is_reduced else None

    assert found == admitted


def test_where_fp16_overflows_bf16_stands_for_the_16_bit_types():
    errors = {**ON_A_GPU, "fp16": (float("inf"),)}

    assert choose_precisions(BF16, errors, ("fp16", "bf16")) == ["tf32", "bf16"]


def test_where_products_are_the_same_in_tf32_the_16_bit_types_are_considered():
    errors = {"fp16": FP16, "bf16": BF16}

    assert choose_precisions(FP16, errors, ("fp16", "bf16")) == ["fp16"]


def test_a_processor_with_products_in_bf16_admits_bf16_as_well():
    """As one with AMX has: there, torch's fp32 products may be rounded to bf16 on request."""
    errors = {"tf32": TF32, "bf16-products": BF16, "fp16": FP16, "bf16": BF16}

    assert choose_precisions(BF16, errors, ("bf16", "fp16")) == ["tf32", "bf16-products", "bf16"]
    assert choose_precisions(TF32, errors, ("bf16", "fp16")) == ["tf32"]


def test_every_output_has_to_be_as_exact():
    assert is_as_exact((1e-4, 1e-4), (1e-4, 1e-4))
    assert not is_as_exact((1e-4, 1e-4), (1e-4, 1e-6))
    assert is_less_exact((1e-7, 1e-4), (1e-7, 1e-7))


def test_errors_of_calls_are_summed_up_as_worst_and_mean():
    calls = [(3e-4, 0.0), (4e-4, 1e-7)]

    assert worst_errors(calls) == (4e-4, 1e-7)
    assert mean_errors(calls)[0] == pytest.approx(3.5355e-4, rel=1e-3)


def test_an_output_that_is_not_finite_has_an_infinite_error():
    oracle = torch.tensor([1.0, 2.0, float("inf")], dtype=torch.float64)

    assert relative_rms(torch.tensor([1.0, 2.0, float("inf")]), oracle) == 0.0
    assert relative_rms(torch.tensor([1.0, float("nan"), float("inf")]), oracle) == float("inf")
    assert relative_rms(torch.tensor([1]), torch.tensor([2])) == 0.0


@pytest.mark.parametrize("task_sets", ["nothing", "older", "newer"])
def test_the_precision_is_set_for_a_block_and_then_as_the_task_had_set_it(task_sets):
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        if task_sets == "older":
            torch.set_float32_matmul_precision("high")
        elif task_sets == "newer":
            matmul.fp32_precision = "tf32"
        had = matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision
        for precision, expected in (("tf32", "tf32"), ("fp32", "ieee")):
            with fp32_precision(precision):
                assert matmul.fp32_precision == expected
                assert torch.backends.cudnn.conv.fp32_precision == expected

            assert (matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision) == had
    finally:
        torch.set_float32_matmul_precision("highest")
        matmul.fp32_precision = before


def test_a_function_in_16_bits_takes_and_returns_fp32():
    seen = []

    def product(a, b, count):
        seen.append((a.dtype, count))
        return a @ b, count

    a, b = torch.randn(8, 8), torch.randn(8, 8)
    result, count = convert_tensors(product, torch.bfloat16)(a, b, 3)
    out = torch.zeros(8, 8)
    copy_to_out(lambda a, b: a @ b)(a, b, out=out)

    assert seen == [(torch.bfloat16, 3)]
    assert (result.dtype, count) == (torch.float32, 3)
    assert torch.equal(out, a @ b)


class ObservedBuffers:
    """What a log of errors needs of the judge's buffers."""

    observer = None


@pytest.fixture
def make_reference(tmp_path):
    """Returns correct outputs of the simulated product, under a stated precision."""
    text = TASK.replace("    def forward(self, a, b)", "def product(a, b)").replace("class", "#")
    (tmp_path / "reference.py").write_text("\n".join(
        line[4:] if line.startswith("        ") else line for line in text.splitlines()
    ))  # fmt: skip

    def make(inputs, stated):
        spec = {"shape": list(inputs[0].shape), "dtype": "float32"}
        case = {
            "axis_names": [],
            "axes": [],
            "inputs": [{**spec, "name": n, "fill": "normal", "scale": 1.0} for n in "ab"],
            "outputs": [{**spec, "name": "y", "starts_as": None}],
            **({"precision": stated} if stated else {}),
        }
        file = str(tmp_path / "reference.py")
        reference = {"kind": "python", "file": file, "entry": "product", "inputs": None}
        return ReferenceOutputs(KernelCase("cpu", reference, case), inputs, {})

    return make


def draw_inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(SIZE, SIZE, generator=generator) for _ in range(2)]


@pytest.mark.parametrize(("stated", "is_correct"), [(None, False), ("fp32", False), ("open", True)])
def test_a_tf32_product_is_correct_where_the_task_leaves_precision_open(
    make_reference, stated, is_correct
):
    a, b = draw_inputs(1)
    judge = make_reference([a, b], stated)

    assert judge.compare([round_to_tf32(a) @ round_to_tf32(b)])["correct"] is is_correct
    assert judge.compare([a @ b])["correct"]
    assert not judge.compare([(a.bfloat16() @ b.bfloat16()).float()])["correct"]


@pytest.mark.parametrize(("stated", "is_correct"), [(None, False), ("open", True)])
@pytest.mark.parametrize("cut", [1, 2])
def test_a_product_that_cuts_digits_off_is_correct_where_precision_is_open(
    make_reference, stated, is_correct, cut
):
    """As Triton's ``dot`` does in TF32: it does not round, and the errors of a sum add up."""
    a, b = (tensor.abs() for tensor in draw_inputs(1))
    judge = make_reference([a, b], stated)
    left = truncate_to_tf32(a)
    right = truncate_to_tf32(b) if cut == 2 else b

    assert judge.compare([left @ right])["correct"] is is_correct
    assert judge.compare([a @ b])["correct"]
    assert not judge.compare([1.003 * (a @ b)])["correct"]


@pytest.mark.parametrize("stated", ["tf32", "open"])
@pytest.mark.parametrize("distribution", ["nan", "infinities"])
def test_a_tf32_product_is_right_on_hidden_inputs_where_the_task_has_tf32(
    make_reference, stated, distribution
):
    """Few elements are finite there, so a larger share of them has an unlucky sum."""
    for seed in range(20):
        a, b = inputs = draw_inputs(seed)
        case = make_reference(inputs, stated)._case
        transform_inputs(distribution, inputs, seed)
        judge = HiddenReference(case, inputs, distribution, {}, [SIZE**0.5])

        assert judge.compare([round_to_tf32(a) @ round_to_tf32(b)])["correct"], seed
        assert not judge.compare([1.05 * (a @ b)])["correct"], seed


def test_calls_that_lose_digits_only_when_timed_admit_more_rivals(make_reference):
    spec = {"code": {"kind": "python"}}
    job = {
        "target": "cpu",
        "cases": [{"precision": "open"}],
        "reduced_rivals": {"tf32": {"torch (TF32)": spec}},
    }
    log, buffers = RivalPrecision(job), ObservedBuffers()
    seen = []
    for seed, change in enumerate([torch.clone, torch.clone, torch.clone, round_to_tf32]):
        a, b = draw_inputs(seed)
        reference = make_reference([a, b], "open")
        with log.observe(buffers):
            reference.observer = buffers.observer
            reference.compare([change(a) @ change(b)])
        seen.append(log.has_new_rivals())

    assert seen == [False, False, False, True]
    assert buffers.observer is None
    assert log.make_report()["candidate_error"] == pytest.approx(TF32[0], rel=0.1)
    assert log.make_report()["base_error"] == pytest.approx(EXACT[0], rel=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "product",
    [
        IN_TF32,
        pytest.param(f"{IN_FP32} if self.calls < 30 else {IN_TF32}", marks=pytest.mark.slow),
    ],
)
def test_a_tf32_candidate_is_not_faster_than_tf32_torch(project, tmp_path, product):
    paths = write_task(tmp_path, product)
    found = bench_task(
        *paths, target="cpu", precision="open", options=TASK_OPTIONS._replace(budget_s=0.5)
    )

    assert found.verdict in ("inconclusive", "slower"), found.detail
    assert found.baseline == "torch (TF32)"
    assert found.accuracy.baseline_precision == "tf32"
    assert found.accuracy.exact_baseline == "torch"
    assert found.accuracy.exact_speedup > 1.2
    assert "x of torch (fp32), " in found.detail
    assert "x of torch (TF32), whose error is the same" in found.detail


@pytest.mark.slow
def test_a_candidate_as_exact_as_fp32_is_compared_with_fp32_alone(project, tmp_path):
    paths = write_task(tmp_path, IN_FP32)
    found = bench_task(
        *paths, target="cpu", precision="open", options=TASK_OPTIONS._replace(budget_s=0.5)
    )

    assert found.baseline == "torch"
    assert [rival.name for rival in found.rivals] == ["torch"]
    assert found.accuracy.admitted == ()
    assert found.accuracy.task_precision == "fp32"
    assert found.accuracy.candidate_error < 1e-6
    assert found.speedup > 1.2  # the simulated fp32 product is slow
    assert found.detail is None


@pytest.mark.slow
@pytest.mark.parametrize("stated", [None, "fp32"])
def test_a_task_of_fp32_refuses_tf32(project, tmp_path, stated):
    paths = write_task(tmp_path, IN_TF32)
    found = bench_task(
        *paths, target="cpu", precision=stated, options=TASK_OPTIONS._replace(budget_s=0.2)
    )

    assert found.verdict == "incorrect"


@pytest.mark.slow
def test_a_product_that_cuts_digits_off_passes_hidden_inputs_where_precision_is_open(
    project, tmp_path
):
    task = make_task(
        "return torch.relu(a @ b)",
        "[torch.rand(96, 256), torch.rand(256, 80)]",
        arguments="a, b",
    )
    cut = CANDIDATE.replace("round_to_tf32(a):", "cut(a):").replace(" + 0x1000", "")
    (tmp_path / "task.py").write_text(task)
    (tmp_path / "new.py").write_text(cut.replace("PRODUCT", "torch.relu(cut(a) @ cut(b))"))
    paths = str(tmp_path / "task.py"), str(tmp_path / "new.py")
    found = bench_task(
        *paths, target="cpu", precision="open", options=TASK_OPTIONS._replace(budget_s=0.2)
    )

    assert found.verdict in ("slower", "inconclusive"), found.detail


@pytest.mark.slow
def test_a_task_of_tf32_holds_the_baseline_to_it_too(project, tmp_path):
    paths = write_task(tmp_path, IN_TF32)
    found = bench_task(
        *paths, target="cpu", precision="tf32", options=TASK_OPTIONS._replace(budget_s=0.5)
    )

    assert found.verdict in ("inconclusive", "slower"), found.detail
    assert found.baseline == "torch"
    assert found.accuracy.task_precision == "tf32"
    assert found.accuracy.baseline_precision == "tf32"


def write_kernel(project):
    folder = project / "kernels" / "product"
    folder.mkdir(parents=True)
    (folder / "kernel.yaml").write_text(KERNEL)
    (folder / "reference.py").write_text("def product(a, b):\n    return a @ b\n")
    (folder / "exact.py").write_text("def product(a, b):\n    return a @ b\n")
    (folder / "short.py").write_text(
        "def product(a, b):\n    return (a.bfloat16() @ b.bfloat16()).float()\n"
    )


@pytest.mark.slow
def test_a_tolerance_that_admits_bf16_admits_it_for_torch_too(project):
    write_kernel(project)
    found = bench_variant("product", "short", "cpu")

    assert "bf16" in found.accuracy.admitted
    assert "torch (bf16)" in [rival.name for rival in found.rivals]
    assert found.verdict != "incorrect"
    assert found.accuracy.candidate_error > 1e-3


@pytest.mark.slow
def test_under_a_tolerance_that_admits_bf16_an_exact_candidate_meets_fp32_alone(project):
    write_kernel(project)
    found = bench_variant("product", "exact", "cpu")

    assert [rival.name for rival in found.rivals] == ["torch"]
    assert found.accuracy.admitted == ()


def test_a_kernel_without_fp32_has_no_rivals_at_lower_precision(project):
    write_kernel(project)
    path = project / "kernels" / "product" / "kernel.yaml"
    path.write_text(path.read_text().replace("float32", "float16"))

    assert make_reduced_rival_specs(prepare("product", "short", "cpu").subject, True) == {}


def test_where_precision_is_open_the_first_rivals_compute_in_fp32(project):
    write_kernel(project)
    path = project / "kernels" / "product" / "kernel.yaml"
    as_it_is = make_rival_specs(prepare("product", "short", "cpu").subject, True)
    path.write_text(path.read_text() + "precision: open\n")
    opened = make_rival_specs(prepare("product", "short", "cpu").subject, True)

    assert "precision" not in as_it_is["torch"]["code"]
    assert opened["torch"]["code"]["precision"] == "fp32"


def test_the_verdict_names_both_speedups_and_both_errors():
    fields = {
        "candidate_error": 2e-4,
        "task_precision": "fp32",
        "exact_baseline": "torch.compile",
        "exact_speedup": 1.43,
    }
    same = Accuracy(**fields, baseline_error=2.2e-4)
    other = Accuracy(**fields, baseline_error=3.9e-4)
    speedup = Speedup(0.88, 0.87, 0.89)

    assert describe_fair_baseline(same, speedup, "torch (TF32)") == (
        "about 1.43x of torch.compile (fp32), 0.88x of torch (TF32), whose error is the same"
    )
    assert describe_fair_baseline(other, speedup, "torch (TF32)").endswith(
        "whose error is 3.9e-04, the candidate's 2.0e-04"
    )
    assert describe_fair_baseline(Accuracy(candidate_error=1e-7), speedup, "torch") is None


@pytest.mark.slow
def test_a_task_that_sets_the_precision_itself_is_not_given_another(project, tmp_path):
    text = TASK.replace("import torch\n", "import torch\ntorch.backends.cudnn.allow_tf32 = True\n")
    paths = write_task(tmp_path, IN_FP32, text)

    with pytest.raises(BadValueError, match="sets allow_tf32 itself; leave --precision out"):
        bench_task(*paths, target="cpu", precision="open")


def test_the_precision_of_a_kernel_is_not_an_option(project, capsys):
    with contextlib.suppress(SystemExit):
        assert main(["bench", "row_softmax", "--precision", "open"]) == 2

    assert "set precision in the kernel.yaml" in capsys.readouterr().err


@pytest.mark.slow
def test_the_answer_in_json_holds_the_accuracy(project, tmp_path, capsys):
    task, candidate = write_task(tmp_path, IN_TF32)
    main(["bench", "--task", task, "--candidate", candidate, "--target", "cpu",
          "--precision", "open", "--budget", "0.3", "--json"])  # fmt: skip
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]

    assert accuracy["admitted"] == ["tf32"]
    assert accuracy["baseline_error"] == pytest.approx(accuracy["candidate_error"], rel=0.25)


GPU_TASK = TASK.replace(SIMULATED_PRODUCT, "    def forward(self, a, b):\n        return a @ b\n")
GPU_CANDIDATE = """\
import torch

torch.backends.cuda.matmul.allow_tf32 = True


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
"""


@pytest.mark.gpu
@pytest.mark.parametrize("stated", ["open", "fp32", None])
def test_a_gpus_tf32_is_compared_with_tf32_or_refused(project, tmp_path, stated):
    if validate_machine("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    (tmp_path / "product.py").write_text(GPU_TASK.replace(str(SIZE), "4096"))
    (tmp_path / "new.py").write_text(GPU_CANDIDATE)
    paths = str(tmp_path / "product.py"), str(tmp_path / "new.py")
    found = bench_task(
        *paths, target="cuda", precision=stated, options=TASK_OPTIONS._replace(budget_s=1.0)
    )

    if stated != "open":
        assert found.verdict == "incorrect"
        return
    assert found.verdict in ("inconclusive", "slower"), found.detail
    assert found.accuracy.baseline_precision == "tf32"
    assert found.accuracy.exact_speedup > 1.5


CONVOLUTION_TASK = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(16, 64, 3, padding=1){layout}

    def forward(self, x):
        return torch.relu(self.layer(x{layout}))


def get_inputs():
    return [torch.rand(8, 16, 112, 112)]


def get_init_inputs():
    return []
"""


@pytest.mark.gpu
def test_a_convolution_is_as_exact_as_cudnn_may_choose_for_any_size(project, tmp_path):
    """Over one image its choice differs by layout: fp32 as the task has it, TF32 otherwise."""
    if validate_machine("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    candidate = CONVOLUTION_TASK.replace("Model(", "ModelNew(")
    (tmp_path / "task.py").write_text(CONVOLUTION_TASK.format(layout=""))
    layout = ".to(memory_format=torch.channels_last)"
    (tmp_path / "new.py").write_text(candidate.format(layout=layout))
    paths = str(tmp_path / "task.py"), str(tmp_path / "new.py")
    found = bench_task(*paths, target="cuda", options=TASK_OPTIONS._replace(budget_s=0.5))

    assert found.verdict in ("faster", "inconclusive", "slower"), found.detail
    assert not [one for one in found.warnings if "own size only" in one]


@pytest.mark.parametrize(
    ("precision", "target", "operations", "admits"),
    [
        (None, "cuda", {"convolution"}, True),
        (None, "cuda", {"mm"}, False),
        (None, "cpu", {"convolution"}, False),
        ("fp32", "cuda", {"convolution"}, False),
        ("open", "cpu", {"mm"}, True),
        ("open", "cuda", {"add"}, False),
    ],
)
def test_tf32_is_admitted_where_torch_may_take_it(precision, target, operations, admits):
    case = KernelCase.__new__(KernelCase)
    case.target, case.case_spec = target, {"precision": precision}

    assert case.admits_tf32(frozenset(operations)) is admits


PRODUCT_TASK = make_task("return a @ b", "[torch.randn(64, 96), torch.randn(96, 48)]",
                         arguments="a, b")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "is_told"),
    [
        ("return self.shorten(a) @ self.shorten(b)", True),
        pytest.param("return (a @ b) * 1.02", False, marks=pytest.mark.slow),
        pytest.param("return a @ b + torch.eye(64, 48)", False, marks=pytest.mark.slow),
    ],
)
def test_a_candidate_that_is_as_far_off_as_tf32_is_told_so(project, body, is_told):
    candidate = make_module("ModelNew", body, arguments="a, b") + (
        "\n    def shorten(self, a):\n"
        "        return ((a.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)\n"
    )
    found = check_task(project, PRODUCT_TASK, candidate)

    assert found.status == "incorrect"
    assert ("--precision open" in found.cure) == is_told, found.cure
