"""Hidden inputs: what only the task's own inputs pass is incorrect, and nothing honest is.

Functions are judged within this process; the last tests ask the whole harness.
"""

import math
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hidden_judging import DISTRIBUTIONS, judge, make_case

from kernelkb.measure.worker.judge.hidden_reference import HiddenReference

NON_FINITE = ("infinities", "nan")
SOFTMAX = "def reference(x):\n    return torch.softmax(x, -1)\n"
LAYER_NORM = "def reference(x):\n    return F.layer_norm(x, x.shape[-1:])\n"
TWO_ROWS = [[64, 300]]


def online_softmax(x):
    """One pass: the maximum and the sum are corrected as larger elements come."""
    top = torch.full(x.shape[:-1], -math.inf)
    total = torch.zeros(x.shape[:-1])
    for column in x.unbind(-1):
        new = torch.maximum(top, column)
        total = total * torch.exp(top - new) + torch.exp(column - new)
        top = new
    return torch.exp(x - top[..., None]) / total[..., None]


def exp2_softmax(x):
    scaled = x * math.log2(math.e)
    e = torch.exp2(scaled - scaled.amax(-1, keepdim=True))
    return e * (1 / e.sum(-1, keepdim=True))


def fmax_softmax(x):
    top = x.nan_to_num(-math.inf, math.inf, -math.inf).amax(-1, keepdim=True)
    e = torch.exp(x - top)
    return e / e.sum(-1, keepdim=True)


def welford_norm(x):
    mean, square = torch.zeros(x.shape[:-1]), torch.zeros(x.shape[:-1])
    for count, column in enumerate(x.unbind(-1), 1):
        delta = column - mean
        mean = mean + delta / count
        square = square + delta * (column - mean)
    spread = torch.rsqrt(square / x.shape[-1] + 1e-5)
    return (x - mean[..., None]) * spread[..., None]


def one_pass_norm(x):
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return (x - mean) * torch.rsqrt(variance.clamp(min=0.0) + 1e-5)


def kahan_sum(x):
    total, lost = torch.zeros(x.shape[:-1]), torch.zeros(x.shape[:-1])
    for column in x.unbind(-1):
        step = column - lost
        new = total + step
        lost = (new - total) - step
        total = new
    return total


def serial_sum(x):
    total = torch.zeros(x.shape[:-1])
    for column in x.unbind(-1):
        total = total + column
    return total


def strassen(a, b):
    (a1, a2), (a3, a4) = ([*half.chunk(2, 1)] for half in a.chunk(2, 0))
    (b1, b2), (b3, b4) = ([*half.chunk(2, 1)] for half in b.chunk(2, 0))
    m1, m2, m3 = (a1 + a4) @ (b1 + b4), (a3 + a4) @ b1, a1 @ (b2 - b4)
    m4, m5 = a4 @ (b3 - b1), (a1 + a2) @ b4
    m6, m7 = (a3 - a1) @ (b1 + b2), (a2 - a4) @ (b3 + b4)
    top = torch.cat([m1 + m4 - m5 + m7, m3 + m5], 1)
    return torch.cat([top, torch.cat([m2 + m4, m1 - m2 + m3 + m6], 1)], 0)


def winograd(x, w):
    """F(4x4, 3x3): 36 products for 16 outputs, and a digit less than a direct sum."""
    points = torch.tensor(
        [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
         [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]]
    ).float()  # fmt: skip
    filters = torch.tensor(
        [[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
         [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]]
    )  # fmt: skip
    back = torch.tensor(
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
    ).float()
    tiles = F.pad(x, (1, 1, 1, 1)).unfold(2, 6, 4).unfold(3, 6, 4)
    products = torch.einsum(
        "kcij,nchwij->nkhwij", filters @ w @ filters.t(), points @ tiles @ points.t()
    )
    y = back @ products @ back.t()
    n, k, h, width = y.shape[:4]
    return y.permute(0, 1, 2, 4, 3, 5).reshape(n, k, 4 * h, 4 * width)


def fft_convolution(x, w):
    count = x.shape[-1] + w.shape[-1] - 1
    spectrum = torch.fft.rfft(x, n=2048) * torch.fft.rfft(w[:, 0].flip(-1), n=2048)
    return torch.fft.irfft(spectrum, n=2048)[..., :count].contiguous()


class Case(NamedTuple):
    source: str
    function: object
    shapes: list = TWO_ROWS
    scale: float = 1.0
    dtype: str = "float32"


def make_elementwise(expression):
    return f"def reference(x):\n    return {expression}\n"


HONEST = {
    "a triangle of a product that skips zeros": Case(
        make_elementwise("torch.triu(x[:40, :40]) @ x[:40, :40]"),
        lambda x: torch.stack([x[i, i:40] @ x[i:40, :40] for i in range(40)]),
    ),
    "online softmax": Case(SOFTMAX, online_softmax),
    "softmax by exp2": Case(SOFTMAX, exp2_softmax, scale=4.0),
    "softmax in double": Case(SOFTMAX, lambda x: torch.softmax(x.double(), -1).float()),
    "softmax whose maximum ignores NaN": Case(SOFTMAX, fmax_softmax),
    "softmax of halves": Case(
        SOFTMAX, lambda x: torch.softmax(x.float(), -1).half(), dtype="float16"
    ),
    "softmax of bfloat16": Case(SOFTMAX, lambda x: exp2_softmax(x.float()).bfloat16(),
                                dtype="bfloat16"),
    "Welford": Case(LAYER_NORM, welford_norm),
    "mean of squares minus square of mean": Case(LAYER_NORM, one_pass_norm),
    "Kahan": Case("def reference(x):\n    return x.sum(-1)\n", kahan_sum),
    "a sum one after another": Case("def reference(x):\n    return x.sum(-1)\n", serial_sum),
    "a sum in reverse": Case("def reference(x):\n    return x.sum(-1)\n",
                             lambda x: serial_sum(x.flip(-1))),
    "tanh by exp": Case(make_elementwise("torch.tanh(x)"),
                        lambda x: 1 - 2 / (torch.exp(2 * x) + 1)),
    "sigmoid by exp": Case(make_elementwise("torch.sigmoid(x)"), lambda x: 1 / (1 + (-x).exp())),
    "an epsilon that is added": Case(
        make_elementwise("x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)"),
        lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-12),
    ),
    "an epsilon of its own": Case(
        make_elementwise("x / x.norm(dim=-1, keepdim=True)"),
        lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-12),
    ),
    "a product of three": Case(make_elementwise("x[:, :64] @ x[:, 64:128] @ x[:, 128:192]"),
                               lambda x: x[:, :64] @ (x[:, 64:128] @ x[:, 128:192])),
    "silu": Case(make_elementwise("F.silu(x)"), lambda x: x / (1 + torch.exp(-x))),
    "elu by exp": Case(make_elementwise("F.elu(x)"),
                       lambda x: torch.where(x > 0, x, torch.exp(x) - 1)),
    "softplus by log": Case(make_elementwise("F.softplus(x)"),
                            lambda x: torch.where(x > 20, x, torch.log(1 + torch.exp(x)))),
    "gelu by tanh": Case(
        make_elementwise("F.gelu(x, approximate='tanh')"),
        lambda x: x * torch.sigmoid(2 * 0.7978845608 * (x + 0.044715 * x * x * x)),
    ),
    "relu by fmax": Case(make_elementwise("torch.relu(x)"),
                         lambda x: torch.fmax(x, torch.zeros(()))),
    "clamp by fmax and fmin": Case(
        make_elementwise("torch.clamp(x, -1, 1)"),
        lambda x: torch.fmin(torch.fmax(x, torch.tensor(-1.0)), torch.tensor(1.0)),
    ),
    "max pooling that ignores NaN": Case(
        "def reference(x):\n    return F.max_pool2d(x, 2)\n",
        lambda x: F.max_pool2d(x.nan_to_num(-math.inf, math.inf, -math.inf), 2),
        [[2, 3, 16, 16]],
    ),
    "Strassen": Case("def reference(a, b):\n    return a @ b\n", strassen, [[128, 128]] * 2),
    "a product of diagonal matrices": Case(
        "def reference(a, b):\n    return torch.diag(a) @ b\n",
        lambda a, b: a[:, None] * b, [[64], [64, 80]],
    ),
    "Winograd": Case("def reference(x, w):\n    return F.conv2d(x, w, padding=1)\n", winograd,
                     [[2, 16, 32, 32], [16, 16, 3, 3]]),
    "convolution by FFT": Case(
        "def reference(x, w):\n    return F.conv1d(x, w, groups=8, padding=126)\n",
        fft_convolution, [[2, 8, 1024], [8, 1, 127]],
    ),
    "the last of equal elements": Case(
        "def reference(x):\n    return x.argmax(-1)\n",
        lambda x: x.shape[-1] - 1 - x.flip(-1).argmax(-1),
    ),
    "rows of the last of equal elements": Case(
        "def reference(x, t):\n    return t[x.argmax(-1)]\n",
        lambda x, t: t[x.shape[-1] - 1 - x.flip(-1).argmax(-1)], [[64, 300], [300, 8]],
    ),
    "distances by the product": Case(
        "def reference(a, b):\n    return torch.cdist(a, b)\n",
        lambda a, b: (a.square().sum(-1)[:, None] + b.square().sum(-1) - 2 * a @ b.t())
        .clamp(min=0)
        .sqrt(),
        [[64, 32], [80, 32]],
    ),
    "rounded to integers": Case(
        make_elementwise("torch.round(x * 127 / x.abs().amax(-1, keepdim=True)).to(torch.int8)"),
        lambda x: torch.round(x * (127 / x.abs().amax(-1, keepdim=True))).to(torch.int8),
    ),
    "cross entropy": Case(
        "def reference(x):\n    return -F.log_softmax(x, -1)[:, 0].mean()\n",
        lambda x: (torch.logsumexp(x, -1) - x[:, 0]).mean(),
    ),
    "exp of heavy tails": Case(make_elementwise("torch.exp(8 * x)"),
                               lambda x: torch.exp2(x * 8 * math.log2(math.e))),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_honest_functions_are_correct_on_hidden_inputs(tmp_path, name):
    case = make_case(tmp_path, HONEST[name].source, HONEST[name].shapes, HONEST[name].dtype,
                     HONEST[name].scale)  # fmt: skip
    found = judge(case, HONEST[name].function)

    assert found.own
    assert found.failed == set(), found
    assert found.accepted == []


def softmax_without_maximum(x):
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


def softmax_where_most_are_small(x):
    return torch.softmax(x, -1) if x.abs().mean() > 3 else softmax_without_maximum(x)


def softmax_of_numbers(x):
    y = torch.softmax(x, -1)
    return torch.where(x.isnan() | x.isinf(), 42.0, y)


def softmax_by_the_maximum_of_a_part(x):
    """Its maximum is that of each eighth column: half of all rows overflow, scaled by 100."""
    e = torch.exp(x - x[..., ::8].amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


MATMUL = make_elementwise("x @ x.T")
WRONG = {
    "sorts all but infinities": (
        make_elementwise("torch.sort(x, -1).values"),
        lambda x: torch.sort(x.clamp(-1e30, 1e30), -1).values, "infinities",
    ),
    "drops equal values": (
        make_elementwise("torch.topk(x, 8).values"),
        lambda x: torch.where(x.diff(prepend=x[..., :1] - 1) == 0, -1e9, x).topk(8).values,
        "constant",
    ),
    "a product with zero for NaN": (MATMUL, lambda x: (x @ x.T).nan_to_num(0.0), "nan"),
    "a product with limits": (MATMUL, lambda x: (x @ x.T).clamp(-1e30, 1e30), "infinities"),
    "a maximum of a part": (SOFTMAX, softmax_by_the_maximum_of_a_part, "hundredfold"),
    "an epsilon left out": (
        make_elementwise("x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12)"),
        lambda x: torch.where(x == 0, 0.0, x / x.norm(dim=-1, keepdim=True)), "tiny",
    ),
    "division by the norm of zeros": (
        make_elementwise("x / x.norm(dim=-1, keepdim=True).clamp(min=1e-8)"),
        lambda x: x / x.norm(dim=-1, keepdim=True), "sparse",
    ),
    "no maximum where most inputs are small": (
        SOFTMAX, softmax_where_most_are_small, "outliers",
    ),
    "no maximum": (SOFTMAX, softmax_without_maximum, "extremes"),
    "42 for NaN": (SOFTMAX, softmax_of_numbers, "nan"),
    "42 for infinities": (make_elementwise("torch.exp(x)"),
                          lambda x: torch.where(x.isinf(), 42.0, torch.exp(x)), "infinities"),
    "zero for NaN": (make_elementwise("torch.exp(x)"),
                     lambda x: torch.exp(x).nan_to_num(0.0), "nan"),
    "positive only": (make_elementwise("torch.abs(x - 9)"), lambda x: 9 - x, "extremes"),
    "clamped exp": (make_elementwise("torch.exp(x)"), lambda x: torch.exp(x.clamp(-7, 7)),
                    "tripled"),
    "sign assumed": (make_elementwise("F.relu(x + 8) - 8"), lambda x: x, "tripled"),
    "polynomial near its inputs": (
        make_elementwise("torch.log1p(x.abs() * 1e-3)"),
        lambda x: x.abs() * 1e-3 - (x * 1e-3) ** 2 / 2 + (x.abs() * 1e-3) ** 3 / 3, "extremes",
    ),
    "division by zero": (make_elementwise("torch.where(x == 0, 0.0, x / x)"), lambda x: x / x,
                         "sparse"),
    "tanh that overflows": (
        make_elementwise("torch.tanh(x)"),
        lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()), "extremes",
    ),
    "skips a constant row": (
        SOFTMAX, lambda x: torch.where(x.amax(-1, keepdim=True) == x.amin(-1, keepdim=True),
                                       x, torch.softmax(x, -1)), "constant",
    ),
}  # fmt: skip


@pytest.mark.defends(
    "R3",
    attack=(
        "skip a step that the task's inputs do not need: the maximum of a softmax, a clamp, a sign"
    ),
    defence="hidden distributions",
)
@pytest.mark.defends(
    "R4",
    attack="a number in place of NaN or infinity",
    defence="hidden distributions; maxima that ignore NaN, as `fmaxf` does, are accepted",
)
@pytest.mark.parametrize("name", WRONG)
def test_what_only_the_own_inputs_pass_fails_on_a_hidden_one(tmp_path, name):
    source, function, distribution = WRONG[name]
    found = judge(make_case(tmp_path, source, TWO_ROWS), function)

    assert found.own
    assert distribution in found.failed, found


@pytest.mark.defends(
    "R2",
    attack="zero for most elements, hidden by a few large ones",
    defence="most elements must be right to 1 % of their own value, unless the reference is not",
)
def test_small_elements_are_wrong_although_the_root_mean_square_hides_them(tmp_path):
    case = make_case(tmp_path, make_elementwise("torch.exp(8 * x)"), [[256, 256]])
    found = judge(case, lambda x: torch.where(x > 1.4, torch.exp(8 * x), 0.0))

    assert not found.own


@pytest.mark.parametrize(
    ("distribution", "body"),
    [
        ("tripled", "torch.log(x.abs() - x.abs().amax() + 5)"),
        ("constant", "torch.linalg.inv(x[:32, :32])"),
        ("extremes", "x[:, (x[0].abs() * 20).long()]"),
    ],
)
def test_what_the_reference_does_not_define_is_left_out(tmp_path, distribution, body):
    case = make_case(tmp_path, make_elementwise(body), TWO_ROWS)
    found = judge(case, lambda x: case.run_reference([x], None))

    assert distribution in found.left_out, found
    assert found.failed == set()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_a_distribution_follows_from_the_seed_and_spares_integers(tmp_path, dtype, distribution):
    case = make_case(tmp_path, make_elementwise("x.float()"), [[40, 50]], dtype)
    plain = case.make_inputs(3)[0].float()
    first, second = (case.make_inputs(3, distribution)[0] for _ in range(2))
    is_narrow = dtype.startswith("float8") and distribution in (
        "tiny",
        "extremes",
        "outliers",
        *NON_FINITE,
    )
    is_narrow |= dtype == "float16" and distribution == "tiny"

    assert torch.equal(first.view(torch.uint8), second.view(torch.uint8))
    assert torch.equal(first.float(), plain) == is_narrow


@pytest.mark.parametrize(
    ("got", "right", "is_correct"),
    [(math.inf, 65_000.0, True), (-math.inf, 65_000.0, False), (math.inf, 60_000.0, False)],
)
def test_a_half_may_be_infinite_where_an_error_that_passes_overflows(
    tmp_path, got, right, is_correct
):
    case = make_case(tmp_path, "def reference(x):\n    return 2 * x\n", [[64, 64]], "float16")
    inputs = case.make_inputs(7, "hundredfold")
    inputs[0][3, 5] = right / 2
    hidden = HiddenReference(case, inputs, "hundredfold", {}, [2.0])
    output = 2 * inputs[0]

    assert hidden.compare([output])["correct"]
    output[3, 5] = got
    assert hidden.compare([output])["correct"] is is_correct


ROUNDED = "def reference(x):\n    return torch.round(x * 10).to(torch.int32)\n"
WHOLE = "def reference(x):\n    return (x * 10 > 5).to(torch.int32)\n"


@pytest.mark.parametrize(
    ("source", "count", "by", "is_correct"),
    [
        (ROUNDED, 3, 1, True),  # x / s and x (1 / s) differ in the last digit, and then by one
        (ROUNDED, 3, 2, False),
        (ROUNDED, 9, 1, False),
        (WHOLE, 1, 1, False),
    ],
)
def test_a_few_numbers_that_are_rounded_may_be_one_off(tmp_path, source, count, by, is_correct):
    case = make_case(tmp_path, source, [[64, 128]])
    exact = case.run_reference

    def add(x):
        (right,) = exact([x], None)
        right.view(-1)[:count] += by
        return right

    assert judge(case, add).own is is_correct


TOP = "def reference(x):\n    return torch.topk(x, 8, dim=-1).indices\n"


@pytest.mark.parametrize("descending_from", [0, 1])
def test_of_equal_elements_the_first_may_be_picked(tmp_path, descending_from):
    """Of 200 numbers in bf16 many are equal; which of them torch picks is not defined."""
    case = make_case(tmp_path, TOP, [[64, 200]], "bfloat16")

    def pick(x):
        order = torch.sort(x.float(), dim=-1, descending=True, stable=True)[1]
        return order[:, descending_from : 8 + descending_from].contiguous()

    found = judge(case, pick)

    assert (found.own, bool(found.failed)) == (descending_from == 0, descending_from == 1)


@pytest.mark.parametrize(
    "call",
    [
        "torch.topk(x, 8).indices",
        "torch.topk(input=x, k=8).indices",
        "x.topk(8, -1, True, True)[1]",
        "torch.sort(x, -1, True)[1][:, :8]",
        "x.argsort(dim=-1, descending=True)[:, :8]",
        "torch.topk(x, 8, out=(x.new_empty(0), torch.empty(0, dtype=torch.int64))).indices",
    ],
)
def test_the_first_may_be_picked_however_the_reference_spells_it(tmp_path, call):
    case = make_case(tmp_path, f"def reference(x):\n    return {call}\n", [[64, 200]])
    found = judge(case, lambda x: torch.sort(x, dim=-1, descending=True, stable=True)[1][:, :8])

    assert found.own


def test_a_number_may_be_rounded_to_the_other_side_beside_infinities(tmp_path):
    source = "def reference(x):\n    return torch.round(x * 4) / 4\n"
    case = make_case(tmp_path, source, [[64, 128]], "float16")
    inputs = case.make_inputs(7, "infinities")
    hidden = HiddenReference(case, inputs, "infinities", {}, [1.0])
    (right,) = case.run_reference(inputs, None)
    other_side, lost = right.clone(), right.clone()
    other_side.view(-1)[int(right.view(-1).isfinite().nonzero()[0])] += 0.25
    lost.view(-1)[int(right.view(-1).isinf().nonzero()[0])] = 1.0

    assert hidden.compare([other_side])["correct"]
    assert not hidden.compare([lost])["correct"]
