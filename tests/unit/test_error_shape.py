"""Planted errors: the shape of each names its cause first, and right outputs are not explained."""

import math
import time
from functools import partial

import pytest
import torch
from shipped_rules import program

from kernelkb.decide.symptoms import find_symptoms
from kernelkb.measure.worker.judge.compare.error_shape import describe_error_shape
from kernelkb.measure.worker.judge.compare.wrong_values import WrongOutput
from kernelkb.measure.worker.judge.inputs.inputs import find_poison

LIMIT = 1e-5


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def describe(output, oracle, limit=LIMIT, **given):
    """Return the sentences, with elements that are off by more than the limit as wrong ones."""
    wrong = ~((output.double() - oracle).abs() <= limit + limit * oracle.abs())
    if "is_poison" not in given and output.dim():
        given["is_poison"] = find_poison(output.contiguous())
    return describe_error_shape(WrongOutput(output, oracle, wrong, limit, limit, **given))


def explain(*told):
    """Return the ids of the entries that explain an output, best first."""
    text = "; ".join(told)
    rows = find_symptoms(program(), text)
    return [row["symptom"] for row in rows if row["kind"] in ("error-shape", "changed-steps")]


def change(kind):
    """Plant an error in a right output of (96, 128) or of another shape."""
    return PLAIN[kind](draw(96, 128))


def put(x, index, value):
    x = x.clone()
    x[index] = value
    return x


def tiles(x, tile):
    return x.clone().view(*x.shape[:-1], -1, tile)


def hold(x, tile, here, there):
    cut = tiles(x, tile)
    cut[..., here] = tiles(x, tile)[..., there]
    return cut.view(x.shape)


def padded(x, width):
    full = torch.zeros(len(x), width)
    full[:, : x.shape[1]] = x
    return full.reshape(-1)[: x.numel()].view(x.shape)


def xor(x, mask):
    rows, columns = torch.arange(len(x))[:, None], torch.arange(x.shape[1])
    return x.gather(1, columns ^ (mask(rows) if callable(mask) else mask).expand(x.shape))


def noise(x, share, size=0.5):
    generator = torch.Generator().manual_seed(5)
    hits = torch.rand(x.shape, generator=generator) < share
    return x + size * hits * torch.randn(x.shape, generator=generator)


ALL = slice(None)
UNWRITTEN = float("nan")
"""As the judge fills outputs."""


def computed_nan(x, index):
    return put(x, index, math.inf) - put(torch.zeros_like(x), index, math.inf)


PLAIN = {
    ("second-fragment-address", "half of 64"): lambda x: hold(x, 64, slice(32, 64), slice(0, 32)),
    ("second-fragment-address", "eight of 16"): lambda x: hold(x, 16, slice(8, 16), slice(0, 8)),
    ("second-fragment-address", "first half"): lambda x: hold(x, 32, slice(0, 16), slice(16, 32)),
    ("second-fragment-address", "one of 4"): lambda x: hold(x, 4, slice(3, 4), slice(2, 3)),
    ("second-fragment-address", "rows of 16"): lambda x: hold(x.T, 16, slice(8, 16), slice(0, 8)).T,
    ("output-never-stored", "all"): lambda x: torch.full_like(x, UNWRITTEN),
    ("tail-never-written", "columns"): lambda x: put(x[:, :100], (ALL, slice(96, 100)), UNWRITTEN),
    ("tail-never-written", "rows"): lambda x: put(x[:90], slice(64, 90), UNWRITTEN),
    ("grid-too-small", "rows"): lambda x: put(x, slice(64, 96), UNWRITTEN),
    ("grid-too-small", "rows stay zero"): lambda x: put(x, slice(64, 96), 0.0),
    ("grid-too-small", "columns"): lambda x: put(x, (ALL, slice(64, 128)), UNWRITTEN),
    ("write-predicate-wrong", "half"): lambda x: put(x, (ALL, slice(1, None, 2)), UNWRITTEN),
    ("write-predicate-wrong", "first row"): lambda x: put(x, 0, UNWRITTEN),
    ("tail-masked-to-zero", "columns"): lambda x: put(x[:, :100], (ALL, slice(96, 100)), 0.0),
    ("tail-masked-to-zero", "last of 33"): lambda x: put(x[:, :33], (ALL, 32), 0.0),
    ("tail-not-masked", "columns"): lambda x: (
        x[:, :100] + put(0 * x[:, :100], (ALL, slice(96, 100)), draw(96, 4))
    ),
    ("tail-not-masked", "rows"): lambda x: (
        x[:90] + put(0 * x[:90], slice(64, 90), draw(26, 128, seed=9))
    ),
    ("zero-everywhere", "all"): torch.zeros_like,
    ("part-stays-zero", "a warp"): lambda x: (
        hold(x, 64, slice(32, 64), slice(0, 32)) * (torch.arange(128) % 64 < 32)
    ),
    ("part-stays-zero", "a tile"): lambda x: put(x, (slice(32, 64), slice(32, 64)), 0.0),
    ("accumulator-not-reset", "columns"): lambda x: tiles(x, 32).cumsum(1).view(x.shape),
    ("accumulator-not-reset", "rows"): lambda x: (
        tiles(x.T.contiguous(), 16).cumsum(1).view(128, 96).T
    ),
    ("output-transposed", "in memory"): lambda x: x.T.reshape(x.shape),
    ("output-transposed", "square"): lambda x: x[:, :96].T.contiguous(),
    ("tile-transposed", "16"): lambda x: x.view(6, 16, 8, 16).transpose(1, 3).reshape(x.shape),
    ("tile-transposed", "8"): lambda x: x.view(12, 8, 16, 8).transpose(1, 3).reshape(x.shape),
    ("wrong-leading-dimension", "padded to 128"): lambda x: padded(x[:, :100], 128),
    ("wrong-leading-dimension", "one more"): lambda x: padded(x, 129),
    ("wrong-leading-dimension", "eight more"): lambda x: padded(x, 136),
    ("index-off-by-one", "column"): lambda x: x.roll(1, 1),
    ("index-off-by-one", "row"): lambda x: x.roll(-1, 0),
    ("index-off-by-one", "in memory"): lambda x: x.reshape(-1).roll(1).view(x.shape),
    ("neighbour-tile-read", "columns"): lambda x: x.roll(32, 1),
    ("neighbour-tile-read", "rows"): lambda x: x.roll(16, 0),
    ("neighbour-tile-read", "one tile"): lambda x: put(x, slice(32, 48), x[16:32]),
    ("neighbour-tile-read", "behind"): lambda x: x.roll(-64, 1),
    ("swizzle-mismatch", "128 bytes"): lambda x: xor(x, lambda row: row % 8 * 8),
    ("swizzle-mismatch", "64 bytes"): lambda x: xor(x, lambda row: row // 2 % 4 * 8),
    ("swizzle-mismatch", "of words"): lambda x: xor(x, lambda row: row % 8 * 4),
    ("fragment-layout", "8 by 8"): lambda x: x.view(96, 2, 8, 8).transpose(2, 3).reshape(x.shape),
    ("fragment-layout", "pairs apart"): lambda x: (
        x.view(96, 4, 8, 4).transpose(2, 3).reshape(x.shape)
    ),
    ("vector-parts-swapped", "pairs"): lambda x: x.view(96, 64, 2).flip(2).reshape(x.shape),
    ("vector-parts-swapped", "halves of 16"): lambda x: (
        x.view(96, 8, 2, 8).flip(2).reshape(x.shape)
    ),
    ("vector-parts-swapped", "reversed"): lambda x: x.view(96, 16, 8).flip(2).reshape(x.shape),
    ("vector-parts-swapped", "rows of 16"): lambda x: x.view(6, 2, 8, 128).flip(1).reshape(x.shape),
    ("constant-factor", "twice"): lambda x: x * 2,
    ("constant-factor", "a third"): lambda x: x / 3,
    ("constant-factor", "every fourth row"): lambda x: put(x, slice(3, None, 4), 4 * x[3::4]),
    ("column-term-wrong", "offset"): lambda x: x + draw(128, seed=3),
    ("fraction-lost", "cut"): lambda x: (3 * x).int().float(),
    ("column-term-wrong", "factor"): lambda x: x * draw(128, seed=3),
    ("nan-everywhere", "all"): lambda x: computed_nan(x, ALL),
    ("constant-offset", "half"): lambda x: x + 0.5,
    ("row-normaliser-wrong", "factor"): lambda x: (
        x * torch.rand(96, 1, generator=torch.Generator().manual_seed(1))
    ),
    ("row-normaliser-wrong", "offset"): lambda x: x + draw(96, 1, seed=2),
    ("output-rounded", "bfloat16"): lambda x: x.bfloat16().float(),
    ("output-rounded", "float16"): lambda x: x.half().float(),
    ("narrow-accumulator", "noise"): lambda x: noise(x, 1.0, 0.004),
    ("few-scattered-wrong", "3 %"): partial(noise, share=0.03),
    ("few-scattered-wrong", "0.3 %"): partial(noise, share=0.003),
    ("nan-in-some-rows", "rows"): lambda x: computed_nan(x, slice(None, None, 3)),
    ("nan-in-some-rows", "tail"): lambda x: computed_nan(x[:, :100], (ALL, slice(96, 100))),
    ("half-overflow", "infinite"): lambda x: torch.where(x.abs() > 1.5, math.inf * x, x),
    ("half-overflow", "clamped"): lambda x: torch.where(
        x.abs() > 1e9, x, torch.full_like(x, 65504.0)
    ),
    ("broadcast-wrong-axis", "first row"): lambda x: x[:1].expand_as(x).clone(),
    ("broadcast-wrong-axis", "first column"): lambda x: x[:, :1].expand_as(x).clone(),
    ("broadcast-wrong-axis", "first tile"): lambda x: x[:, :32].repeat(1, 4),
    ("broadcast-wrong-axis", "first of 4"): lambda x: (
        tiles(x, 4)[..., :1].expand(96, 32, 4).reshape(x.shape)
    ),
    ("element-size-wrong", "half"): lambda x: x[:, torch.arange(128) // 2],
    ("sign-wrong", "all"): lambda x: -x,
    ("branch-on-sign-wrong", "clamped"): lambda x: (
        x.clamp(min=0.0) + 0.3 * noise(0 * x, 1.0) * (x < 0)
    ),
    ("diagonal-mask-wrong", "above"): lambda x: x + torch.triu(draw(96, 128, seed=4), 1),
    ("diagonal-mask-wrong", "on it"): lambda x: (
        x + torch.zeros(96, 128).diagonal_scatter(draw(96, seed=4))
    ),
    ("one-constant", "a tile"): lambda x: put(x, (slice(32, 64), slice(32, 64)), 7.0),
    ("one-constant", "lowest"): lambda x: put(x, slice(0, 7), -3.0e38),
}


@pytest.mark.parametrize("kind", PLAIN, ids=": ".join)
def test_a_planted_error_is_named_by_its_shape(kind):
    output = change(kind)
    right = draw(96, 128)[: output.shape[0], : output.shape[1]].double()
    told = describe(output, right)

    assert explain(*told)[:1] == [kind[0]], told


A, B = draw(64, 96, seed=1), draw(96, 80, seed=2)
SQUARE = draw(64, 64, seed=3)
BIAS, WEIGHT = draw(80, seed=4), draw(96, seed=5)


def multiply(a, b):
    return a.double() @ b.double()


def attend(q, k, v):
    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    return scores.softmax(-1) @ v.double()


def normalise(x, weight):
    x = x.double()
    return x / x.square().mean(-1, keepdim=True).sqrt() * weight.double()


def add_up(a, b, bias):
    return multiply(a, b) + bias.double()


def weighted(a, weight):
    return (a * weight).sum(1).double()


def batched(x, y):
    return x.double() @ y.double()


Q, K, V = (draw(2, 48, 64, seed=seed) for seed in (6, 7, 8))
X3, Y3 = draw(4, 24, 32, seed=9), draw(4, 32, 40, seed=10)
HALF_A, HALF_B = A.half(), B.half()


def part(axis_slice):
    return lambda a, b: (a[:, axis_slice] @ b[axis_slice]).float()


GIVEN = {
    ("k-tail-lost", "last tile"): (multiply, (A, B), part(slice(0, 64))),
    ("k-tail-lost", "last element"): (multiply, (A, B), part(slice(0, 95))),
    ("k-tail-lost", "half"): (multiply, (A, B), part(slice(0, 48))),
    ("first-k-tile-lost", "tile"): (multiply, (A, B), part(slice(32, 96))),
    ("first-k-tile-lost", "one"): (multiply, (A, B), part(slice(1, 96))),
    ("k-tile-twice", "first"): (multiply, (A, B), lambda a, b: a @ b + a[:, :16] @ b[:16]),
    ("k-tile-twice", "last"): (multiply, (A, B), lambda a, b: a @ b + a[:, 64:] @ b[64:]),
    ("stale-ring-stage", "last tile"): (
        multiply,
        (A, B),
        lambda a, b: a[:, :64] @ b[:64] + a[:, 32:64] @ b[32:64],
    ),
    ("part-of-warp-reduced", "even lanes"): (
        weighted,
        (A, WEIGHT),
        lambda a, w: (a * w)[:, ::2].sum(1),
    ),
    ("part-of-warp-reduced", "half of a warp"): (
        weighted,
        (A, WEIGHT),
        lambda a, w: (a * w).view(64, 3, 32)[..., :16].sum((1, 2)),
    ),
    ("operand-transposed", "b"): (multiply, (A, B), lambda a, b: a @ b.reshape(80, 96).T),
    ("operand-transposed", "square"): (multiply, (A[:, :64], SQUARE), lambda a, b: a @ b.T),
    ("inputs-exchanged", "square"): (multiply, (A[:, :64], SQUARE), lambda a, b: b @ a),
    ("inputs-exchanged", "one pointer"): (
        attend,
        (Q, K, V),
        lambda q, _, v: attend(q, q, v).float(),
    ),
    ("inputs-exchanged", "v and k"): (attend, (Q, K, V), lambda q, k, v: attend(q, v, k).float()),
    ("softmax-scale-wrong", "missing"): (
        attend,
        (Q, K, V),
        lambda q, k, v: attend(8 * q, k, v).float(),
    ),
    ("softmax-scale-wrong", "twice"): (
        attend,
        (Q, K, V),
        lambda q, k, v: attend(q / 8, k, v).float(),
    ),
    ("softmax-scale-wrong", "of a product"): (multiply, (A, B), lambda a, b: a @ b / math.sqrt(80)),
    ("exp2-without-log2e", "attention"): (
        attend,
        (Q, K, V),
        lambda q, k, v: attend(q * math.log(2), k, v).float(),
    ),
    ("bias-missing", "bias"): (add_up, (A, B, BIAS), lambda a, b, _: a @ b),
    ("weight-ignored", "norm"): (normalise, (A, WEIGHT), lambda x, w: normalise(x, w / w).float()),
    ("input-copied", "x"): (normalise, (A, WEIGHT), lambda x, _: x.clone()),
    ("input-copied", "some rows"): (
        normalise,
        (A, WEIGHT),
        lambda x, w: put(normalise(x, w).float(), slice(48, 64), x[48:]),
    ),
    ("inputs-rounded", "bfloat16"): (
        multiply,
        (A, B),
        lambda a, b: a.bfloat16().float() @ b.bfloat16().float(),
    ),
    ("inputs-rounded", "float16"): (
        multiply,
        (A, B),
        lambda a, b: a.half().float() @ b.half().float(),
    ),
    ("broadcast-wrong-axis", "batch 0 of y"): (batched, (X3, Y3), lambda x, y: x @ y[:1]),
    ("index-off-by-one", "input"): (
        normalise,
        (A, WEIGHT),
        lambda x, w: normalise(x, w.roll(1, 0)).float(),
    ),
    ("sign-wrong", "operand"): (add_up, (A, B, BIAS), lambda a, b, c: a @ b - c),
    ("wrong-type-read", "fp16 as bf16"): (
        multiply,
        (HALF_A, HALF_B),
        lambda a, b: a.float() @ b.view(torch.bfloat16).to(torch.float16).float(),
    ),
    ("batch-stride-wrong", "noise"): (
        batched,
        (X3, Y3),
        lambda x, y: put(x @ y, slice(1, 4), draw(3, 24, 40)),
    ),
    ("output-transposed", "axes"): (
        batched,
        (X3, Y3),
        lambda x, y: (x @ y).transpose(0, 1).reshape(4, 24, 40),
    ),
}


def describe_given(reference, inputs, kernel, limit=1e-4):
    oracle = reference(*inputs)
    named = [(f"in{number}", tensor) for number, tensor in enumerate(inputs)]
    output = kernel(*inputs)
    return describe(output, oracle, limit, inputs=named, rerun=lambda changed: reference(*changed))


@pytest.mark.parametrize("kind", GIVEN, ids=": ".join)
def test_a_planted_error_is_named_by_what_other_inputs_would_give(kind):
    told = describe_given(*GIVEN[kind])

    assert explain(*told)[:1] == [kind[0]], told


SCATTERED = describe(noise(draw(64, 64), 0.03), draw(64, 64).double())
TWICE = describe(draw(64, 64) * 2, draw(64, 64).double())

CALLS = {
    "race-between-calls": ["two calls on the same inputs differ in 120 elements", *SCATTERED],
    "scratch-not-cleared": [*TWICE, "only the second call on the same inputs is wrong"],
    "stale-result": [
        "they hold the outputs of the first call",
        "only the call on other inputs, after two right ones, is wrong",
    ],
    "first-call-wrong": ["only the first call on the same inputs is wrong", *SCATTERED],
}


@pytest.mark.parametrize("kind", CALLS)
def test_what_differs_between_calls_comes_before_where_it_is_wrong(kind):
    assert explain(*CALLS[kind])[:1] == [kind]


def test_planted_errors_are_many():
    kinds = {name for name, _ in (*PLAIN, *GIVEN)} | CALLS.keys()

    assert len(PLAIN) + len(GIVEN) + len(CALLS) >= 80
    assert len(kinds) >= 25


RIGHT = {
    "equal": lambda x: x,
    "last digit": lambda x: x * (1 + 2**-23),
    "other order of a sum": lambda x: x + 1e-7 * draw(96, 128, seed=1),
    "negative zero": lambda x: torch.where(x.abs() < 1e-3, -0.0 * x + x, x),
    "a transposed view": lambda x: x.T.contiguous().T,
    "double": lambda x: x.double(),
    "zeros": lambda x: 0 * x,
    "infinities": lambda x: put(x, 3, math.inf),
    "ones": lambda x: 0 * x + 1,
    "one column": lambda x: x[:, :1],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_output_is_not_explained(name):
    output = RIGHT[name](draw(96, 128))
    right = draw(96, 128).double()[:, : output.shape[1]]
    if name in ("zeros", "ones", "infinities"):
        right = output.double()
    wrong = (output.double() != right) & ~((output.double() - right).abs() <= LIMIT)
    told = describe_error_shape(WrongOutput(output, right, wrong, LIMIT, LIMIT))

    assert told == []


UNKNOWN = {
    "other values": lambda x: draw(*x.shape, seed=9),
    "half of them": lambda x: torch.where(draw(*x.shape, seed=3) > 0, draw(*x.shape, seed=9), x),
    "one wrong row": lambda x: put(x, 17, draw(128, seed=9)),
    "a function of them": lambda x: x.sin() + x.square(),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_no_entry_fits_gets_its_shape_alone(name):
    told = describe(UNKNOWN[name](draw(96, 128)), draw(96, 128).double())

    assert told
    assert explain(*told) == []


def test_the_part_that_holds_another_part_is_said_in_one_sentence():
    told = describe(change(("second-fragment-address", "half of 64")), draw(96, 128).double())

    assert told[0] == "columns 32 to 63 of each 64 hold columns 0 to 31"


def test_a_few_right_values_by_chance_do_not_change_the_place():
    output = put(draw(96, 128), slice(64, 96), 0.0)
    right = draw(96, 128).double()
    right[70:80, 5] = 0.0

    assert "only the last 32 of 96 rows, a whole tile, are wrong" in describe(output, right)


def test_one_output_without_dimensions_is_described():
    told = describe(torch.tensor(2.0), torch.tensor(1.0, dtype=torch.float64))

    assert told[-1].startswith("1 of 1 elements")


def test_an_output_with_a_wrong_stride_has_a_part_that_was_never_written():
    right = draw(4, 12, 20).double()
    own = torch.full((4, 12, 20), UNWRITTEN)
    own.view(-1)[: 3 * 180 + 240] = 0
    for n in range(4):
        own.view(-1)[n * 180 : n * 180 + 240] = right[n].reshape(-1).float()
    told = describe(own, right)
    assert any("of them were never written" in one for one in told)
    assert explain(*told)[0] == "part-never-written"


def test_a_border_is_a_border():
    right = draw(60, 80).double()
    own = right.clone().float()
    for edge in (own[0], own[-1], own[:, 0], own[:, -1]):
        edge += draw(len(edge), seed=len(edge))
    told = describe(own, right)
    assert "only the border of rows and columns is wrong" in told
    assert explain(*told)[0] == "border-wrong"


def test_an_index_inside_of_its_tile_is_off_by_multiples():
    right = torch.randint(0, 4096, (200,), generator=torch.Generator().manual_seed(3))
    told = describe((right % 32).to(torch.int32), right.double())
    assert "they are off by multiples of 32" in told
    assert explain(*told)[0] == "off-by-multiples"


def test_a_wide_matrix_is_not_wrong_above_its_diagonal():
    right = draw(16, 512).double()
    own = right.float() + torch.cat([torch.zeros(16, 64), draw(16, 448, seed=4)], 1)
    assert not any("diagonal" in one for one in describe(own, right))


def test_integers_are_described_like_numbers():
    right = torch.arange(4096).reshape(64, 64)
    output = right.roll(1, 1)
    told = describe_error_shape(WrongOutput(output, right, output != right))

    assert told[0] == "they hold what belongs 1 column before"


@pytest.mark.slow
def test_16_million_elements_take_about_a_second():
    right = torch.randn(4096, 4096, dtype=torch.float64)
    output = right.float().roll(7, 1) + 0.01
    start = time.process_time()
    describe(output, right)

    assert time.process_time() - start < 8  # of all threads; the clock shows half a second
