"""Mistakes in one step of a computation: the step is named, and its entry comes first."""

import math
import re

import pytest
import torch
from shipped_rules import program
from torch.nn import functional

from kernelkb.decide.symptoms import find_symptoms
from kernelkb.measure.worker.judge.compare import steps
from kernelkb.measure.worker.judge.compare.error_shape import describe_error_shape
from kernelkb.measure.worker.judge.compare.wrong_values import SearchLimit, WrongOutput

LIMIT = 1e-5


@pytest.fixture(autouse=True)
def has_time(monkeypatch):
    """Let a search end on a busy machine, too."""
    monkeypatch.setattr(SearchLimit, "cpu_s", 60.0)
    monkeypatch.setattr(SearchLimit, "wall_s", 120.0)


def draw(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def draw_whole(limit, *shape, least=0, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(least, limit, shape, generator=generator, dtype=torch.int32)


def widen(inputs):
    return [own.double() if own.is_floating_point() else own for own in inputs]


def describe(reference, mistaken, *inputs, limit=LIMIT):
    """Return the sentences on what the mistaken computation gives in fp32."""
    oracle = reference(*widen(inputs))
    output = mistaken(*inputs)
    output = output.float() if oracle.is_floating_point() else output
    wrong = ~((output.double() - oracle).abs() <= limit + limit * oracle.abs())
    names = list(zip("abcdef", inputs, strict=False))
    given = WrongOutput(
        output, oracle, wrong, limit, limit, names, lambda own: reference(*widen(own))
    )
    return describe_error_shape(given)


def find_first(told):
    rows = find_symptoms(program(), "; ".join(told))
    return next(
        (row["symptom"] for row in rows if row["kind"] in ("error-shape", "changed-steps")), None
    )


# Normalisations.


def layer_norm(x, weight, bias):
    return functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)


def own_norm(x, weight, bias, *, mean=None, variance=None, epsilon=1e-5):
    m = x.mean(-1, keepdim=True) if mean is None else mean(x)
    v = (x - m).square().mean(-1, keepdim=True) if variance is None else variance(x, m)
    return (x - m) * torch.rsqrt(v + epsilon) * weight + bias


def late_mean(x):
    return x.mean(-1, keepdim=True).roll(1, 0)


def padded_mean(x):
    return x.sum(-1, keepdim=True) / 104


def unbiased(x, m):
    return (x - m).square().sum(-1, keepdim=True) / (x.shape[-1] - 1)


def uneven(x, m):
    share = 0.8 + 0.2 * torch.rand(len(x), 1, generator=torch.Generator().manual_seed(4))
    return (x - m).square().mean(-1, keepdim=True) * share


def outside(x, weight, bias):
    deviation = x.var(-1, keepdim=True, correction=0).sqrt()
    return (x - x.mean(-1, keepdim=True)) / (deviation + 1e-5) * weight + bias


def group_norm(x, weight, bias):
    mean = x.mean((2, 3), keepdim=True)
    variance = ((x - mean) ** 2).mean((2, 3), keepdim=True)
    normal = (x - mean) * torch.rsqrt(variance + 1e-3)
    return normal * weight[None, :, :, None] + bias[None, :, :, None]


def stale_groups(x, weight, bias):
    mean = x.mean((2, 3), keepdim=True)
    variance = ((x - mean) ** 2).mean((2, 3), keepdim=True)[:1]
    normal = (x - mean[:1]) * torch.rsqrt(variance + 1e-3)
    return normal * weight[None, :, :, None] + bias[None, :, :, None]


def first_parameters(x, weight, bias):
    return group_norm(x, weight[:1].expand_as(weight), bias[:1].expand_as(bias))


ROWS = draw(64, 100), draw(100, seed=1), draw(100, seed=2)
GROUPS = draw(4, 8, 8, 64, scale=0.05), draw(8, 8, seed=1), draw(8, 8, seed=2)
NORMS = {
    ("statistic-of-another-row", "mean before"): (
        layer_norm,
        lambda *own: own_norm(*own, mean=late_mean),
        ROWS,
    ),
    ("divisor-wrong", "padded"): (
        layer_norm,
        lambda *own: own_norm(*own, mean=padded_mean),
        ROWS,
    ),
    ("divisor-wrong", "unbiased"): (
        layer_norm,
        lambda *own: own_norm(*own, variance=unbiased),
        ROWS,
    ),
    ("step-left-out", "not centred"): (
        layer_norm,
        lambda *own: own_norm(*own, variance=lambda x, _: (x * x).mean(-1, keepdim=True)),
        (ROWS[0] + 1, *ROWS[1:]),
    ),
    ("statistic-wrong", "lanes merged"): (
        layer_norm,
        lambda *own: own_norm(*own, variance=uneven),
        ROWS,
    ),
    ("epsilon-misplaced", "outside"): (layer_norm, outside, (0.01 * ROWS[0], *ROWS[1:])),
    ("epsilon-forgotten", "small rows"): (
        layer_norm,
        lambda *own: own_norm(*own, epsilon=0.0),
        (0.01 * ROWS[0], *ROWS[1:]),
    ),
    ("statistic-of-another-row", "both of the first batch"): (group_norm, stale_groups, GROUPS),
    ("broadcast-wrong-axis", "both of the first group"): (group_norm, first_parameters, GROUPS),
}


# Softmax and attention.


def softmax(x):
    return torch.softmax(x, -1)


def own_softmax(x, *, total=None):
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / (powers.sum(-1, keepdim=True) if total is None else total(x, powers))


def stale_sums(x, _):
    return torch.exp(x - torch.cummax(x, -1).values).sum(-1, keepdim=True)


def attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def own_attention(q, k, v, *, hidden=-math.inf, shift=0, tile=1):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    at = torch.arange(scores.shape[-1]) // tile
    return torch.softmax(scores.masked_fill(at[:, None] + shift < at, hidden), -1) @ v


def stale_accumulator(q, k, v, tile=16):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    size = scores.shape[-1]
    scores = scores.masked_fill(~torch.ones(size, size, dtype=torch.bool).tril(), -math.inf)
    highest = torch.full((*scores.shape[:-1], 1), -1e30)
    total, result = torch.zeros_like(highest), torch.zeros_like(q)
    for at in range(0, size, tile):
        own = scores[..., at : at + tile]
        higher = torch.maximum(highest, own.amax(-1, keepdim=True))
        powers = torch.exp(own - higher)
        total = total * torch.exp(highest - higher) + powers.sum(-1, keepdim=True)
        result, highest = result + powers @ v[:, at : at + tile], higher
    return result / total


def grouped(q, k, v, *, keys=None, window=None):
    """Attention of (batch, heads, repeats, length, width) on (batch, heads, length, width)."""
    at = torch.arange(q.shape[3])
    older = at[None] > at[:, None] - 24
    keep = (at[None] <= at[:, None]) & (older if window is None else window(older))
    k, v = (own[:, :, None] if keys is None else keys(own, q.shape[2]) for own in (k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[4] ** 0.5
    return torch.softmax(scores.masked_fill(~keep, -math.inf), -1) @ v


def modulo(own, repeats):
    heads = own.shape[1]
    return own[:, torch.arange(heads * repeats) % heads].unflatten(1, (heads, repeats))


def whole_tiles(older):
    cut = functional.pad(older.double(), (0, -older.shape[1] % 16)).unflatten(1, (-1, 16))
    return cut.amax(-1, keepdim=True).expand_as(cut).flatten(1)[:, : older.shape[1]] > 0


QUERIES = draw(2, 64, 32), draw(2, 64, 32, seed=1), draw(2, 64, 32, seed=2)
HEADS = draw(1, 3, 2, 50, 16), draw(1, 3, 50, 16, seed=1), draw(1, 3, 50, 16, seed=2)
SOFTMAX = {
    ("maximum-not-subtracted", "large"): (
        softmax,
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
        (60 * draw(64, 128),),
    ),
    ("online-softmax-not-rescaled", "sum"): (
        softmax,
        lambda x: own_softmax(x, total=stale_sums),
        (2 * ROWS[0],),
    ),
    ("k-tail-lost", "of the sum"): (
        softmax,
        lambda x: own_softmax(x, total=lambda _, own: own[:, :96].sum(-1, keepdim=True)),
        (ROWS[0],),
    ),
    ("accumulator-not-reset", "sum of rows"): (
        softmax,
        lambda x: own_softmax(x, total=lambda _, own: own.sum(-1, keepdim=True).cumsum(0)),
        (ROWS[0],),
    ),
    ("diagonal-mask-wrong", "shifted"): (
        attention,
        lambda *own: own_attention(*own, shift=1),
        QUERIES,
    ),
    ("diagonal-mask-wrong", "by tiles"): (
        attention,
        lambda *own: own_attention(*own, tile=16),
        QUERIES,
    ),
    ("mask-missing", "no mask"): (
        attention,
        lambda *own: functional.scaled_dot_product_attention(*own),
        QUERIES,
    ),
    ("masked-with-zero", "zero"): (
        attention,
        lambda *own: own_attention(*own, hidden=0.0),
        QUERIES,
    ),
    ("online-softmax-not-rescaled", "accumulator"): (attention, stale_accumulator, QUERIES),
    ("head-mapping-wrong", "modulo"): (grouped, lambda *own: grouped(*own, keys=modulo), HEADS),
    ("diagonal-mask-wrong", "window by tiles"): (
        grouped,
        lambda *own: grouped(*own, window=whole_tiles),
        HEADS,
    ),
}


# Scans, indices, windows.


def scan(x):
    return torch.cumsum(x, -1)


def scan_in_tiles(x, carry, tile=64):
    size = x.shape[-1]
    cut = functional.pad(x, (0, -size % tile)).unflatten(-1, (-1, tile))
    return (cut.cumsum(-1) + carry(cut)[..., None]).flatten(-2)[..., :size]


def shift(own):
    return functional.pad(own, (1, 0))[..., :-1]


def gather(table, index):
    return table[index.long()]


def embed(table, index, weight):
    inside = (index >= 0) & (index < len(table))
    own = table[index.long().clamp(0, len(table) - 1)] * (weight * inside)[:, :, None]
    return own.sum(1) / inside.sum(1).clamp(min=1)[:, None]


def correlate(x, weight):
    return functional.conv2d(x[None, None], weight[None, None], padding=1)[0, 0]


def replicate(x, weight):
    around = functional.pad(x[None, None], (1, 1, 1, 1), mode="replicate")
    return functional.conv2d(around, weight[None, None])[0, 0]


def spread(x, weight, *, dilation=(2, 2), padding=(2, 2)):
    return functional.conv2d(x, weight, padding=padding, dilation=dilation)


def pool(x):
    return functional.max_pool2d(x, 3, 2, 1)


def late_pool(x):
    return functional.max_pool2d(functional.pad(x, (0, 1, 0, 1), value=-math.inf), 3, 2)


TABLE, INDEX = draw(700, 33), draw_whole(700, 500)
BAGS = draw(500, 16), draw_whole(600, 40, 42, least=-100), draw(40, 42, seed=3)
IMAGES = draw(3, 8, 20, 24), draw(4, 8, 3, 3, seed=1)
LATE = torch.where(torch.arange(42) < 16, torch.arange(42), torch.arange(42) - 16)
PLACES = {
    ("scan-carry-wrong", "lost"): (
        scan,
        lambda x: scan_in_tiles(x, lambda cut: 0 * cut[..., 0]),
        (draw(29, 333),),
    ),
    ("scan-carry-wrong", "of one tile"): (
        scan,
        lambda x: scan_in_tiles(x, lambda cut: shift(cut.sum(-1))),
        (draw(29, 333),),
    ),
    ("scan-carry-wrong", "last element"): (
        scan,
        lambda x: scan_in_tiles(x, lambda cut: shift(cut[..., -1]).cumsum(-1)),
        (draw(29, 333),),
    ),
    ("accumulator-not-reset", "rows of a scan"): (
        scan,
        lambda x: x.reshape(-1).cumsum(0).view(x.shape),
        (draw(29, 333),),
    ),
    ("index-truncated", "8 bits"): (
        gather,
        lambda table, index: table[index.long() & 255],
        (TABLE, INDEX),
    ),
    ("index-ignored", "in order"): (gather, lambda table, _: table[:500], (TABLE, INDEX)),
    ("k-tail-lost", "of both sums"): (
        embed,
        lambda table, index, weight: embed(table, index[:, :40], weight[:, :40]),
        BAGS,
    ),
    ("stale-ring-stage", "indices"): (
        embed,
        lambda table, index, weight: embed(table, index[:, LATE], weight),
        BAGS,
    ),
    ("comparison-at-limit", "index 0"): (
        embed,
        lambda table, index, weight: embed(table, torch.where(index == 0, -1, index), weight),
        (BAGS[0], draw_whole(40, 40, 42, least=-4), BAGS[2]),
    ),
    ("weights-reversed", "both axes"): (
        correlate,
        lambda x, weight: correlate(x, weight.flip(0, 1)),
        (draw(30, 100), draw(3, 3)),
    ),
    ("border-wrong", "replicate"): (correlate, replicate, (draw(30, 100), draw(3, 3))),
    ("window-wrong", "dilation"): (
        spread,
        lambda *own: spread(*own, dilation=(2, 1), padding=(2, 1)),
        IMAGES,
    ),
    ("window-wrong", "pool"): (pool, late_pool, (draw(4, 28, 36),)),
    ("operand-transposed", "channels last"): (
        spread,
        lambda x, weight: spread(x, weight.reshape(4, 3, 3, 8).permute(0, 3, 1, 2)),
        IMAGES,
    ),
}


# Formulas and types.


def gelu(x):
    return functional.gelu(x, approximate="tanh")


def gelu_of(x, factor):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + factor * x**3)))


def affine(a, b, bias):
    return a @ b + bias


def narrow_sums(a, b, bias):
    total = torch.zeros(len(a), b.shape[1])
    for at in range(0, a.shape[1], 16):
        total = (total + a[:, at : at + 16] @ b[at : at + 16]).half().float()
    return total + bias


def cut_off(x):
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


def rotate(x, place, *, sign=1, width=1, type_=torch.float64, overwrites=False):
    at = torch.arange(x.shape[-1], dtype=torch.float64)
    angle = place.double()[:, None] * 10000.0 ** (-at / (width * x.shape[-1]))
    angle = angle.to(type_).double()
    cosine, sine = angle.cos()[:, None].to(x.dtype), sign * angle.sin()[:, None].to(x.dtype)
    left, right = x[:, :, 0], x[:, :, 1]
    first = left * cosine - right * sine
    second = right * cosine + (first if overwrites else left) * sine
    return torch.stack((first, second), 2)


def plain_rotate(x, place):
    return rotate(x, place)


def gate(x, weights):
    return functional.silu(x @ weights[0]) * (x @ weights[1])


def scaled(a, b, scale, *, wraps=False, keeps_sign=True):
    left, right = a.to(torch.int8).double(), b.to(torch.int8).double()
    right = right if keeps_sign else torch.where(right < 0, right + 256, right)
    total = left @ right.t()
    total = (total + 32768) % 65536 - 32768 if wraps else total
    return (total * scale.double()[None]).to(scale.dtype)


def plain_scaled(a, b, scale):
    return scaled(a, b, scale)


def log_sum(x):
    return torch.logsumexp(x, -1)[:, None] - 0.1 * x


def log2_sum(x):
    highest = x.amax(-1, keepdim=True)
    return highest + torch.log2(torch.exp(x - highest).sum(-1, keepdim=True)) - 0.1 * x


TURNED = draw(64, 4, 2, 16), draw_whole(128, 64)
BYTES = draw_whole(127, 40, 200, least=-127), draw_whole(127, 48, 200, least=-127, seed=2)
PRODUCT = draw(64, 80), draw(80, 96, seed=1), draw(96, seed=2)
FORMULAS = {
    ("wrong-constant", "ten times"): (gelu, lambda x: gelu_of(x, 0.44715), (draw(4000, scale=2),)),
    ("another-formula", "erf"): (gelu, functional.gelu, (draw(4000, scale=2),)),
    ("narrow-accumulator", "float16"): (affine, narrow_sums, PRODUCT),
    ("inputs-rounded", "TF32 by truncation"): (
        affine,
        lambda a, b, bias: cut_off(a) @ cut_off(b) + bias,
        PRODUCT,
    ),
    ("broadcast-wrong-axis", "index in the tile"): (
        affine,
        lambda a, b, bias: a @ b + bias[torch.arange(96) % 32],
        PRODUCT,
    ),
    ("accumulator-not-reset", "batches"): (
        torch.bmm,
        lambda a, b: torch.bmm(a, b).cumsum(0),
        (draw(7, 32, 40), draw(7, 40, 48, seed=1)),
    ),
    ("vector-parts-swapped", "pairs"): (
        affine,
        lambda a, b, bias: affine(a[:, torch.arange(80) ^ 1], b, bias),
        PRODUCT,
    ),
    ("operand-permuted", "gate and up"): (
        gate,
        lambda x, weights: gate(x, weights.flip(0)),
        (draw(40, 64, scale=0.2), draw(2, 64, 48, seed=1)),
    ),
    ("sign-wrong", "of the sine"): (plain_rotate, lambda *own: rotate(*own, sign=-1), TURNED),
    ("wrong-constant", "width"): (plain_rotate, lambda *own: rotate(*own, width=2), TURNED),
    ("intermediate-rounded", "angle"): (
        plain_rotate,
        lambda *own: rotate(*own, type_=torch.float16),
        TURNED,
    ),
    ("index-ignored", "places"): (
        plain_rotate,
        lambda x, _: rotate(x, torch.arange(64)),
        TURNED,
    ),
    ("wrong-operand", "overwritten"): (
        plain_rotate,
        lambda *own: rotate(*own, overwrites=True),
        TURNED,
    ),
    ("counter-wraps", "16 bits"): (
        plain_scaled,
        lambda *own: scaled(*own, wraps=True),
        (*BYTES, draw(48)),
    ),
    ("sign-extension-missing", "int8"): (
        plain_scaled,
        lambda *own: scaled(*own, keeps_sign=False),
        (*BYTES, draw(48)),
    ),
    ("exp2-without-log2e", "log2"): (log_sum, log2_sum, (draw(40, 50, scale=4),)),
    ("maximum-starts-at-zero", "argmax"): (
        lambda x: x.argmax(-1),
        lambda x: torch.where(x.amax(-1) > 0, x.argmax(-1), 0),
        (draw(256, 3),),
    ),
    ("off-by-multiples", "argmax in the tile"): (
        lambda x: x.argmax(-1),
        lambda x: x.argmax(-1) % 32,
        (draw(256, 300),),
    ),
}
ALL = {**NORMS, **SOFTMAX, **PLACES, **FORMULAS}


@pytest.mark.parametrize("kind", ALL, ids=": ".join)
def test_the_step_that_is_wrong_is_named_first(kind):
    reference, mistaken, inputs = ALL[kind]
    told = describe(reference, mistaken, *inputs)

    assert find_first(told) == kind[0], told


def test_the_line_of_the_reference_is_told():
    told = describe(*NORMS["divisor-wrong", "padded"][:2], *ROWS)

    line = layer_norm.__code__.co_firstlineno + 1
    text = f"as if mean (reference line {line}) were divided by 104 instead of 100"
    assert told[0].startswith(text)


def test_noise_is_no_step():
    generator = torch.Generator().manual_seed(8)

    def mistaken(x, weight, bias):
        right = layer_norm(x, weight, bias)
        return right + 0.3 * torch.randn(right.shape, generator=generator)

    told = describe(layer_norm, mistaken, *ROWS)

    assert not any("as if" in sentence for sentence in told), told


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_a_statistic_of_few_elements_each_explains_nothing(share):
    generator = torch.Generator().manual_seed(9)

    def total(x):
        return x.square().sum(-1).sqrt()

    def mistaken(x):
        hits = torch.rand(len(x), generator=generator) < share
        return total(x) * (1 + 0.3 * hits * torch.rand(len(x), generator=generator))

    told = describe(total, mistaken, draw(200, 50))

    assert not any("as if" in sentence for sentence in told), told


def test_small_errors_are_set_beside_those_of_narrower_types():
    generator = torch.Generator().manual_seed(8)

    def mistaken(x):
        right = softmax(x)
        return right * (1 + 1e-3 * torch.randn(right.shape, generator=generator))

    told = describe(softmax, mistaken, draw(64, 100))

    sentence = next(one for one in told if one.startswith("allowed is "))
    assert re.fullmatch(
        r"allowed is 0.0003; with each step in float32 \de-08, in float16 0.000\d, "
        r"in bfloat16 0.00\d",
        sentence,
    )


def cover(x, rows, value):
    x = x.clone()
    x[rows] = value
    return x


@pytest.mark.parametrize(
    ("reference", "inputs"),
    [
        (softmax, (draw(64, 100),)),
        (layer_norm, ROWS),
        (functional.gelu, (draw(64, 100),)),
        (lambda x: torch.where(x > 0, 3 * x, 0.0), (draw(64, 100),)),
        (lambda x: x.argmax(-1), (draw(256, 300),)),
        (lambda x: (3 * x > 0.1).int(), (draw(64, 100),)),
    ],
)
def test_rows_that_stay_zero_are_no_step(reference, inputs):
    def mistaken(*own):
        return cover(reference(*own), slice(-16, None), 0)

    told = describe(reference, mistaken, *inputs)

    assert not any("as if" in sentence for sentence in told), told


def test_a_few_large_errors_do_not_explain_the_small_ones():
    weight = draw(64, 100)

    def reference(x):
        return (3 * x).exp() * weight.to(x.dtype)

    def mistaken(x):
        right = reference(x)
        noise = right + 0.5 * draw(64, 100, seed=7)
        return torch.where(right.abs() > 200, x.exp() * weight, noise)

    told = describe(reference, mistaken, draw(64, 100, seed=3))

    assert not any("as if" in sentence for sentence in told), told


def test_two_infinite_elements_are_no_overflow_of_all():
    def mistaken(x):
        noise = softmax(x) * (1 + 0.2 * draw(*x.shape, seed=7))
        noise[3, 4] = noise[9, 9] = math.inf
        return noise

    told = describe(softmax, mistaken, draw(64, 100))

    assert not any("overflows" in sentence for sentence in told), told


def test_a_random_reference_is_not_searched():
    def reference(x):
        return x + torch.rand_like(x)

    told = describe(reference, lambda x: x, draw(64, 100))

    assert not any("as if" in sentence for sentence in told), told


def test_a_search_that_was_cut_says_so(monkeypatch):
    inputs = draw(64, 100)
    told = describe(lambda x: x.cumsum(1), lambda x: x.sin(), inputs)
    monkeypatch.setattr(SearchLimit, "wall_s", 0.0)
    cut = describe(lambda x: x.cumsum(1), lambda x: x.sin(), inputs)

    assert "not all usual mistakes were tried: it took too long" in cut
    assert not any("were tried" in sentence for sentence in told), told


def be_on_gpu(_tensor):
    return True


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (torch.ops.aten.gather.default, (draw(4, 8), 1, torch.full((4, 1), 8))),
        (torch.ops.aten.index_select.default, (draw(4, 8), 0, torch.tensor([-1, 4]))),
        (torch.ops.aten.index.Tensor, (draw(4, 8), [torch.tensor([4])])),
        (torch.ops.aten.embedding.default, (draw(4, 8), torch.tensor([5]))),
        (torch.ops.aten.nll_loss_forward.default, (draw(4, 8), torch.zeros(4), None, 1, -100)),
    ],
)
def test_an_index_that_would_stop_a_gpu_is_not_run(monkeypatch, operation, arguments):
    monkeypatch.setattr(steps, "_is_on_gpu", be_on_gpu)

    with pytest.raises(steps.UnsafeStepError):
        steps.check_step(operation, arguments)


def test_an_index_inside_is_run(monkeypatch):
    monkeypatch.setattr(steps, "_is_on_gpu", be_on_gpu)
    with steps.SafeSteps():
        assert draw(4, 8).gather(1, torch.full((4, 1), 7)).shape == (4, 1)
