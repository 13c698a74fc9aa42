"""What the judge lets pass: honest sums in any order, and nothing with fewer digits."""

import math
import random

import pytest
import torch

from kernelkb.measure.worker.judge.compare.compare import ReferenceOutputs, make_wrong_outputs
from kernelkb.measure.worker.judge.compare.error_limits import (
    ErrorLimits,
    OutputErrors,
    find_wrong,
)
from kernelkb.measure.worker.judge.inputs.inputs import (
    InputGenerator,
    KernelCase,
    RandomPool,
    same_bits,
)
from kernelkb.measure.worker.judge.inputs.memory_plan import MemoryPlan, root_mean_square
from kernelkb.measure.worker.judge.inputs.references import draw_seeded

REFERENCE = """\
import torch


def dot(a, b):
    return (a * b).sum(-1)


def count(a, b):
    return torch.round(a * 1e-3 + b * 1e-3 + 0.5)


def quantized(a, b):
    return torch.round((a + b) * 127 / (a + b).abs().amax(-1, keepdim=True)).to(torch.int8)


def hungry(a, b):
    if a.dtype == torch.float64:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return dot(a, b)


def cell(rows, columns):
    return torch.arange(64.0 * 64).reshape(64, 64)[rows, columns]


def large(a, b):
    return (a * 1000).to(torch.int64) + 2**60


def length(a, b, c):
    return a / (a * a + b * b + c * c + 1e-3).sqrt()


def half_product(a, b):
    return (64 * a.float() @ b.float().T).half()
"""
TERM_COUNT = 4096


@pytest.fixture
def expected(tmp_path):
    """Returns what is expected of a function for some inputs."""
    (tmp_path / "reference.py").write_text(REFERENCE)

    def make_expected(a, b, entry, outputs, dtype="float32", tolerances=None):
        arrays = {"a": a, "b": b}
        case = {
            "axis_names": [],
            "axes": [],
            "inputs": [
                {
                    "name": n,
                    "shape": list(t.shape),
                    "dtype": "float32",
                    "fill": "normal",
                    "scale": 1.0,
                }
                for n, t in arrays.items()
            ],
            "outputs": [{"name": "y", "shape": outputs, "dtype": dtype, "starts_as": None}],
        }
        file = str(tmp_path / "reference.py")
        reference = {"kind": "python", "file": file, "entry": entry, "inputs": None}
        return ReferenceOutputs(KernelCase("cpu", reference, case), [a, b], tolerances or {})

    return make_expected


def draw_inputs(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, TERM_COUNT, generator=generator) for _ in range(2)]


def sum_serially(a, b):
    """Sum in fp32, one after another, as a beginner's kernel does."""
    products = a * b
    total = torch.zeros(a.shape[0])
    for at in range(TERM_COUNT):
        total += products[:, at]
    return total


def round_to_tf32(a):
    """Round to the ten bits of TF32."""
    return ((a.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def test_where_memory_forbids_fp64_the_oracle_is_fp32(expected):
    a, b = draw_inputs(64, 0)
    found = expected(a, b, "hungry", [64])

    assert found.dtype == torch.float32
    assert found.compare([sum_serially(a, b)])["correct"]
    assert not found.compare([sum_serially(round_to_tf32(a), round_to_tf32(b))])["correct"]


@pytest.mark.defends(
    "M13",
    attack="relative error of elements near zero",
    defence=(
        "an element matches by atol + rtol·abs(reference), with a share that must match and a cap"
    ),
)
@pytest.mark.parametrize(
    ("rows", "count"),
    [
        pytest.param(1, 150, marks=pytest.mark.slow),
        (3, 60),
        pytest.param(64, 15, marks=pytest.mark.slow),
    ],
)
def test_few_sums_may_cancel_and_an_honest_one_still_passes(expected, rows, count):
    draws = [draw_inputs(rows, seed) for seed in range(count)]
    found = [
        expected(a, b, "dot", [rows]).compare([sum_serially(a, b)])["correct"] for a, b in draws
    ]

    assert all(found)


@pytest.mark.defends(
    "H19",
    attack="fewer digits than asked for",
    defence=(
        "the error is compared with the reference's own error in that type; where it is "
        "allowed, torch computes with as few digits"
    ),
)
@pytest.mark.parametrize(("rows", "count"), [(1, 60), (3, 40), (64, 20)])
def test_tf32_inputs_are_detected(expected, rows, count):
    seen = 0
    for seed in range(count):
        a, b = draw_inputs(rows, seed)
        made = (round_to_tf32(a).double() * round_to_tf32(b).double()).sum(-1).float()
        seen += not expected(a, b, "dot", [rows]).compare([made])["correct"]

    assert seen >= 0.95 * count


def test_quantised_outputs_may_differ_only_by_rounding(expected):
    a, b = draw_inputs(512, 3)
    judge = expected(a, b, "quantized", [512, TERM_COUNT], "int8")
    total = a + b
    own = torch.round(total * 127 / total.abs().amax(-1, keepdim=True)).to(torch.int8)
    other = torch.round(total * (127 / total.abs().amax(-1, keepdim=True))).to(torch.int8)
    truncated = (total * 127 / total.abs().amax(-1, keepdim=True)).to(torch.int8)

    assert judge.compare([own])["correct"]
    assert judge.compare([other])["correct"]
    assert not judge.compare([truncated])["correct"]
    assert not judge.compare([own + 2 * (own == own[0, 0])])["correct"]
    assert not judge.run_selftest()[0]


def test_a_tolerance_for_whole_numbers_is_kept(expected):
    a, b = draw_inputs(8, 3)
    given = {"int8": {"atol": 1.0, "rtol": 0.0, "matched_ratio": 1.0, "max_error": 1.0}}
    judge = expected(a, b, "quantized", [8, TERM_COUNT], "int8", given)
    total = a + b
    truncated = (total * 127 / total.abs().amax(-1, keepdim=True)).to(torch.int8)

    assert judge.compare([truncated])["correct"]
    assert not judge.compare([truncated - 2])["correct"]


def test_large_whole_numbers_are_equal_to_the_last_digit(expected):
    a, b = draw_inputs(4, 3)
    judge = expected(a, b, "large", [4, TERM_COUNT], "int64")
    right = (a * 1000).to(torch.int64) + 2**60

    assert judge.compare([right])["correct"]
    assert not judge.compare([right + 3])["correct"]


@pytest.mark.parametrize(
    ("draw", "steady"),
    [
        ("torch.randn(n)", True),
        ("torch.tensor([random.random() for _ in range(n)])", True),
        ("torch.tensor([random.SystemRandom().random() for _ in range(n)])", False),
    ],
)
def test_inputs_of_a_task_are_the_same_for_one_seed_or_it_says_so(tmp_path, draw, steady):
    made = f"import random\nimport torch\n\n\ndef made(n):\n    return [{draw}]\n"
    (tmp_path / "reference.py").write_text(made)
    file = str(tmp_path / "reference.py")
    reference = {"kind": "python", "file": file, "entry": "none", "inputs": "made"}
    inputs = [{"name": "x", "shape": [50], "dtype": "float32"}]
    case = {"axis_names": ["n"], "axes": [50], "inputs": inputs, "outputs": []}
    task = KernelCase("cpu", reference, case)

    if steady:
        assert same_bits(task.make_inputs(7)[0], task.make_inputs(7)[0])
    else:
        with pytest.raises(RuntimeError, match="differ between two draws"):
            task.make_inputs(7)


@pytest.mark.parametrize(("row_count", "exchanged"), [(8, False), (64, True)])
def test_indices_are_exchanged_only_within_their_range(tmp_path, row_count, exchanged):
    """An index outside of its range would end every later call on a GPU too."""
    (tmp_path / "reference.py").write_text(REFERENCE)
    case = {
        "axis_names": [],
        "axes": [],
        "inputs": [
            {"name": name, "shape": [4096], "dtype": "int32", "fill": "integers", "scale": scale}
            for name, scale in (("rows", row_count), ("columns", 64))
        ],
        "outputs": [{"name": "y", "shape": [4096], "dtype": "float32", "starts_as": None}],
    }
    file = str(tmp_path / "reference.py")
    reference = {"kind": "python", "file": file, "entry": "cell", "inputs": None}
    kernel = KernelCase("cpu", reference, case)
    _, rejected = ReferenceOutputs(kernel, kernel.make_inputs(1), {}).run_selftest()

    assert ("two inputs exchanged" in rejected) == exchanged


def test_inputs_whose_exchange_only_rounds_otherwise_make_no_wrong_output(tmp_path):
    """The last two of a length are alike but for rounding; the first one is not."""
    (tmp_path / "reference.py").write_text(REFERENCE)
    file = str(tmp_path / "reference.py")
    reference = {"kind": "python", "file": file, "entry": "length", "inputs": None}
    drawn = {"shape": [4096], "dtype": "float64", "fill": "normal", "scale": 1.0}
    inputs = [{"name": name, **drawn} for name in "abc"]
    output = {"name": "y", "shape": [4096], "dtype": "float64", "starts_as": None}
    case = {"axis_names": [], "axes": [], "inputs": inputs, "outputs": [output]}
    kernel = KernelCase("cpu", reference, case)
    a, b, c = own = kernel.make_inputs(1)
    right, turned = (kernel.run_reference(given, None)[0] for given in (own, [a, c, b]))
    accepted, rejected = ReferenceOutputs(kernel, own, {}).run_selftest()

    assert not torch.equal(right, turned)
    assert accepted == []
    assert "two inputs exchanged" in rejected


@pytest.mark.parametrize(
    ("dtype", "share", "is_wrong"),
    [
        (torch.float64, 1e-15, False),
        (torch.float64, 1e-12, True),
        (torch.float32, 1e-6, False),
        (torch.float32, 1e-4, True),
        (torch.float16, 2e-3, True),
        (torch.bfloat16, 2e-2, True),
    ],
)
def test_an_exchanged_output_is_wrong_where_it_differs_by_more_than_rounding(
    dtype, share, is_wrong
):
    right = torch.randn(4096, generator=torch.Generator().manual_seed(3)).to(dtype)
    turned = right.clone()
    turned[7] += share
    names = [name for name, _ in make_wrong_outputs(right, [], [turned], 0.0)]

    assert not torch.equal(right, turned)
    assert ("two inputs exchanged" in names) == is_wrong


def test_a_discontinuous_output_is_not_accepted_blindly(expected):
    a, b = (torch.full((1,), random.uniform(-1, 1)) for _ in range(2))
    fooled, _ = expected(a, b, "count", [1]).run_selftest()

    assert "NaN everywhere" not in fooled
    assert not expected(a, b, "count", [1]).compare([torch.tensor([0.3])])["correct"]


@pytest.mark.parametrize(
    ("dtype", "fill", "scale"),
    [("float32", "normal", 2.0), ("float16", "uniform", 3.0), ("int32", "integers", 1000)],
)
def test_consecutive_inputs_share_almost_no_values(dtype, fill, scale):
    spec = {"name": "x", "shape": [100, 300], "dtype": dtype, "fill": fill, "scale": scale}
    case = {"axis_names": [], "axes": [], "inputs": [spec], "outputs": []}
    reference = {"kind": "python", "file": "", "entry": "", "inputs": None}
    task = KernelCase("cpu", reference, case)
    contents = InputGenerator(task, random.Random(1))
    first, second = (torch.empty(100, 300, dtype=getattr(torch, dtype)) for _ in range(2))
    contents.refill(0, [first])
    contents.refill(0, [second])

    assert float((first == second).float().mean()) < 0.01
    assert same_bits(contents.regenerate(0)[0], second)
    assert 0.8 < float(first.double().std() / second.double().std()) < 1.25


@pytest.mark.parametrize(
    ("dtype", "fill", "scale", "mean", "deviation"),
    [
        ("float64", "normal", 2.0, 0.0, 2.0),
        ("float32", "normal", 0.5, 0.0, 0.5),
        ("bfloat16", "normal", 1.0, 0.0, 1.0),
        ("float8_e4m3fn", "normal", 1.0, 0.0, 1.0),
        ("float32", "uniform", 6.0, 3.0, 6.0 / 12**0.5),
        ("float16", "uniform", 6.0, 3.0, 6.0 / 12**0.5),
        ("int64", "integers", 1000, 499.5, 1000 / 12**0.5),
        ("int8", "integers", 100, 49.5, 100 / 12**0.5),
        ("uint8", "integers", 256, 127.5, 256 / 12**0.5),
        ("bool", "integers", 2, 0.5, 0.5),
        ("float32", "ones", 1.0, 1.0, 0.0),
        ("int32", "zeros", 1.0, 0.0, 0.0),
    ],
)
def test_inputs_are_spread_as_the_kernel_asks(dtype, fill, scale, mean, deviation):
    bank = RandomPool(
        {"shape": [200, 300], "dtype": dtype, "fill": fill, "scale": scale}, torch.device("cpu")
    )
    made = torch.empty(200, 300, dtype=getattr(torch, dtype))
    bank.fill(made, random.Random(1))
    values = made.double()

    assert float(values.mean()) == pytest.approx(mean, abs=0.03 * scale)
    assert float(values.std()) == pytest.approx(deviation, abs=0.03 * scale)
    assert fill not in ("uniform", "integers") or 0 <= values.min() <= values.max() <= scale
    assert fill != "integers" or values.max() == scale - 1


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_integers_are_drawn_from_the_smallest_on(dtype):
    spec = {"shape": [5000], "dtype": dtype, "fill": "integers", "scale": 123, "low": 97}
    made = torch.empty(5000, dtype=getattr(torch, dtype))
    RandomPool(spec, torch.device("cpu")).fill(made, random.Random(1))

    assert made.unique().tolist() == [*range(97, 123)]


@pytest.mark.parametrize(("dtype", "shape"), [("int32", [50, 100]), ("int64", [1]), ("int8", [90])])
def test_a_permutation_holds_each_place_once(dtype, shape):
    spec = {"shape": shape, "dtype": dtype, "fill": "permutation", "scale": 1.0}
    pool = RandomPool(spec, torch.device("cpu"))
    first, second = (torch.empty(shape, dtype=getattr(torch, dtype)) for _ in range(2))
    pool.fill(first, random.Random(1))
    pool.fill(second, random.Random(2))

    for made in (first, second):
        assert made.view(-1).sort().values.tolist() == [*range(made.numel())]
    assert shape == [1] or not torch.equal(first, second)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_small_inputs_differ_between_draws(count):
    bank = RandomPool(
        {"shape": [count], "dtype": "float32", "fill": "normal", "scale": 1.0}, torch.device("cpu")
    )
    draw, seen = random.Random(1), set()
    for _ in range(50):
        made = torch.empty(count)
        bank.fill(made, draw)
        seen.add(tuple(made.tolist()))

    assert len(seen) == (50 if count else 1)


def test_no_normal_value_comes_again():
    """So a table of a function's values for all of the pool's gains nothing."""
    spec = {"shape": [1000], "dtype": "float32", "fill": "normal", "scale": 1.0}
    bank, draw, sizes = RandomPool(spec, torch.device("cpu")), random.Random(1), []
    for _ in range(8):
        made = torch.empty(1000)
        bank.fill(made, draw)
        sizes += made.abs().tolist()

    assert len(set(sizes)) > 0.99 * len(sizes)


LOSS_REFERENCE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.nn.functional.smooth_l1_loss(a, b)


def get_inputs():
    return []


def get_init_inputs():
    return []
"""


@pytest.fixture
def loss(tmp_path):
    """Returns a task that makes one number out of two arrays of so many elements."""
    file = tmp_path / "loss.py"
    file.write_text(LOSS_REFERENCE)

    def make_task(count, target):
        specs = [{"name": name, "shape": [count], "dtype": "float32"} for name in "ab"]
        outputs = [{**specs[0], "shape": []}]
        case = {"axis_names": [], "axes": [], "inputs": specs, "outputs": outputs}
        reference = {"kind": "module", "file": str(file), "entry": "Model", "seed": 1}
        return KernelCase(target, reference, case)

    return make_task


def test_a_reference_output_owns_only_its_visible_memory(loss):
    (number,) = loss(4096, "cpu").run_reference([torch.rand(4096), torch.rand(4096)], None)
    assert number.untyped_storage().nbytes() == number.nbytes


@pytest.mark.gpu
def test_of_a_large_task_with_one_output_the_judge_keeps_few_copies(loss):
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch sees")
    task = loss(2**26, "cuda")
    task.plan = MemoryPlan(in_pieces=True, is_oracle_wide=False)
    inputs = [torch.rand(2**26, device="cuda") for _ in "ab"]
    torch.cuda.reset_peak_memory_stats()
    ReferenceOutputs(task, inputs, {})
    arrays = torch.cuda.max_memory_allocated() / inputs[0].nbytes
    assert arrays < 6.5, "the inputs, a copy of them that the task may change, and what it makes"


def test_a_reference_that_answers_in_half_is_no_reason_to_accept_all(expected):
    """Its squares are infinite in half; they were, and so was what an element might be off."""
    a, b = draw_inputs(48, 0)
    found = expected(a, b, "half_product", [48, 48], "float16")
    right = (64 * a @ b.T).half()

    assert found.dtype == torch.float64  # asked for, though its answers are halves
    assert 256 < float(right.float().square().mean().sqrt()) < math.inf
    assert found.run_selftest()[0] == []
    assert found.compare([right])["correct"]
    assert not found.compare([-right])["correct"]
    assert 0 < found.relative_errors([right + right.abs() / 64])[0] < 0.02
    assert not found.adds_to([right], [right])


@pytest.mark.parametrize(("dtype", "scale"), [(torch.float16, 1e3), (torch.bfloat16, 1e25)])
def test_the_size_of_narrow_numbers_is_finite(dtype, scale):
    values = (scale * torch.randn(64, 64)).to(dtype)

    assert root_mean_square(values) == pytest.approx(scale, rel=0.1)


@pytest.mark.parametrize("rtol", [0.0, 1e-5])
@pytest.mark.parametrize(("given", "is_right"), [("nan", True), ("inf", True), ("1", False)])
def test_what_is_not_finite_in_the_reference_is_right_in_a_candidate(rtol, given, is_right):
    right = torch.tensor([1.0, float("nan" if given == "nan" else "inf")], dtype=torch.float64)
    errors = OutputErrors(ErrorLimits(1e-6, rtol, 1.0, 1e-5, 1e-7))
    errors.add(torch.tensor([1.0, float(given)]), right)

    assert errors.make_comparison()["correct"] is is_right


def test_a_draw_that_is_the_first_to_use_cuda_is_seeded_too(monkeypatch):
    on_device = random.Random()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", on_device.seed)

    def draw():
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        return on_device.random(), torch.rand(3).tolist()

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    first = draw_seeded(5, draw)

    assert first == draw_seeded(5, draw)
    assert first != draw_seeded(6, draw)


@pytest.mark.parametrize(
    ("got", "right", "is_correct"),
    [
        (math.inf, 65_500.0, True),  # an error of 1e-3 reaches past 65,504
        (65_504.0, math.inf, True),
        (-math.inf, 65_500.0, False),
        (math.inf, 60_000.0, False),
        (60_000.0, math.inf, False),
        (math.nan, 65_500.0, False),
    ],
)
def test_a_half_may_overflow_where_an_allowed_error_does(got, right, is_correct):
    limits = ErrorLimits(1e-3, 1e-3, 1.0, 1e3, 1e-3)
    output = torch.tensor([1.0, got], dtype=torch.float16)
    oracle = torch.tensor([1.0, right], dtype=torch.float64)
    errors = OutputErrors(limits)
    errors.add(output, oracle)
    wrong = find_wrong(limits, output, oracle, None, is_relative=False)

    assert errors.make_comparison()["correct"] is is_correct
    assert wrong.tolist() == [False, not is_correct]
