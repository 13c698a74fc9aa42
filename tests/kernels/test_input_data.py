"""What ids, offsets, lengths and masks look like: told right for values of a known distribution."""

import shlex
import sys

import pytest
import torch

from kernelkb.actions.init.init_observed import init_observed
from kernelkb.actions.kernels.measure_variant import check_variant, profile_variant
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.worker.observe.call_record import describe_values
from kernelkb.measure.worker.shared.array_values import describe_data, make_place
from kernelkb.measure.worker.shared.python_files import import_python_file

ROWS = 50_000


def make_generator():
    return torch.Generator().manual_seed(0)


def draw(count, rows=ROWS):
    return torch.randint(0, rows, (count,), generator=make_generator())


def draw_zipf(count, rows, exponent=1.1):
    shares = torch.arange(1, rows + 1, dtype=torch.float64) ** -exponent
    return torch.multinomial(shares, count, replacement=True, generator=make_generator())


def draw_hub_rows():
    """Return offsets of 10,000 rows of 0 to 7 items, but each 1,000th of 4,096."""
    lengths = torch.randint(0, 8, (10_000,), generator=make_generator())
    lengths[::1000] = 4096
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def describe(values, name="ids", **others):
    """Describe one input beside others, which ids may point into."""
    (told,) = [
        one for one in describe_data([(name, values), *others.items()]) if one["name"] == name
    ]
    return told


def test_ids_by_zipfs_law_have_a_hot_one():
    told = describe(draw_zipf(2**17, 2000).int(), table=torch.empty(2000, 4))

    assert told["role"] == "ids"
    assert "of the 2,000 of table" in told["says"]
    assert "as Zipf's law with exponent 1.1" in told["says"]
    assert told["metrics"]["gather_sorting_ratio"] > 5


def test_uniform_ids_are_unordered_and_none_is_hot():
    told = describe(draw(2**17), x=torch.empty(ROWS))

    assert "unordered" in told["says"]
    assert "Zipf" not in told["says"]
    # 32 ids among 1,563 lines of 32 floats: 0.3 of them meet another in its line.
    assert told["metrics"]["gather_line_ratio"] == pytest.approx(31.7, abs=0.1)


def test_sorted_ids_gain_nothing_by_sorting():
    told = describe(draw(2**17).sort().values, x=torch.empty(ROWS))

    assert "sorted" in told["says"]
    assert told["metrics"]["gather_sorting_ratio"] == pytest.approx(1)


def test_equal_neighbours_and_consecutive_ones_are_runs():
    equal = describe(draw(4096).repeat_interleave(32), x=torch.empty(ROWS))
    pages = torch.randperm(1024, generator=make_generator())[:, None] * 8 + torch.arange(8)
    rising = describe(pages.view(64, 128), cache=torch.empty(8192, 64))

    assert "32 equal ones in a row" in equal["says"]
    assert "32 neighbours hit 1 different" in equal["says"]
    assert "consecutive ones in a row" in rising["says"]


def test_a_constant_is_one_row_for_all():
    told = describe(torch.full((1000,), 7), table=torch.empty(10, 4))

    assert "all 7; constant; 32 neighbours hit 1 different" in told["says"]


def test_ids_of_an_output_are_updates():
    keys = draw_zipf(2**16, 256, 1.0).to(torch.uint8)
    counts = make_place("counts", (256,), torch.int32, is_output=True)
    (told,) = describe_data([("keys", keys)], [counts])
    metrics, share = told["metrics"], float((keys == 0).float().mean())

    assert metrics["hottest_update_share"] == pytest.approx(share)
    assert metrics["warp_update_count"] == pytest.approx(22, abs=1)


def test_offsets_are_told_as_lengths_of_rows():
    offsets = draw_hub_rows()
    told = describe(offsets, "row_start", x=torch.empty(int(offsets[-1])))
    metrics = told["metrics"]

    assert told["role"] == "offsets"
    assert "rows of 0 to 4,096, median" in told["says"]
    assert metrics["longest_row_ratio"] == pytest.approx(4096 * 10_000 / int(offsets[-1]))
    assert metrics["longest_row_share"] == pytest.approx(4096 / int(offsets[-1]))
    # The longest 1 % are the 10 hubs, and 90 others of 7.
    assert metrics["longest_rows_share"] == pytest.approx((10 * 4096 + 90 * 7) / int(offsets[-1]))


def test_rows_of_one_length_are_told_so():
    told = describe(torch.arange(0, 6401, 64).int(), "cu_seqlens", x=torch.empty(6400, 2))

    assert told["says"] == "cu_seqlens int32[101]: rows of 64 each"
    assert told["metrics"] == {"longest_row_ratio": 1.0}


def test_a_ragged_batch_is_told_by_its_lengths_with_and_without_a_name():
    lengths = torch.tensor([512, 3, 77, 1024, 9, 250, 31, 2])
    named = describe(lengths, "lengths")
    summed = describe(lengths, "batch", tokens=torch.empty(int(lengths.sum()), 8))

    assert named["role"] == summed["role"] == "lengths"
    assert "rows of 2 to 1,024, median 31" in named["says"]
    assert named["metrics"]["longest_row_ratio"] == pytest.approx(1024 * 8 / 1908)


def test_masks_differ_by_the_tiles_they_leave():
    random = torch.rand(512, 512, generator=make_generator()) < 0.25
    tiles = torch.rand(16, 16, generator=make_generator()) < 0.25
    blocks = tiles.repeat_interleave(64, 0).repeat_interleave(64, 1)
    causal = torch.zeros(256, 256).masked_fill(torch.ones(256, 256).triu(1) == 1, float("-inf"))
    scattered, blocked = describe(random, "mask"), describe(blocks, "mask")
    triangle = describe(causal, "bias")

    assert scattered["metrics"]["mask_tile_share"] == 1
    assert blocked["metrics"]["mask_tile_share"] == pytest.approx(float(tiles.float().mean()))
    assert blocked["metrics"]["mask_kept_share"] == pytest.approx(float(tiles.float().mean()))
    assert "a lower triangle" in triangle["says"]
    assert triangle["metrics"]["mask_tile_share"] == pytest.approx(10 / 16)


def test_numbers_to_compute_with_are_left_out():
    weights = torch.randint(-128, 128, (64, 64), dtype=torch.int8, generator=make_generator())
    words = torch.randint(0, 2**31 - 1, (4096,), dtype=torch.int32, generator=make_generator())
    floats = torch.randn(1000, generator=make_generator())
    nothing = torch.full((100,), float("nan"))

    found = describe_data([("a", weights), ("b", words), ("c", floats), ("d", nothing)])

    assert found == []


def test_quantised_numbers_are_no_ids_of_their_scales():
    codes = torch.randint(0, 128, (128, 512), dtype=torch.int8, generator=make_generator())
    wide = torch.randint(0, 256, (64, 256), dtype=torch.uint8, generator=make_generator())
    codes[0, 0], wide[0, 0] = 127, 255
    flat, sums = codes.reshape(-1), make_place("sums", (4, 128), torch.float32, is_output=True)
    scales, gains = torch.ones(128), torch.ones(256)

    assert describe_data([("codes", codes), ("scales", scales)]) == []
    assert describe_data([("wide", wide), ("gains", gains)]) == []
    assert describe_data([("flat", flat), ("scales", scales)], [sums]) == []


def test_codes_of_a_table_are_ids_of_it():
    codes = torch.randint(0, 16, (64, 512), dtype=torch.uint8, generator=make_generator())
    (told,) = describe_data([("codes", codes), ("table", torch.ones(16))])

    assert "of the 16 of table" in told["says"]


def test_odd_arrays_are_told_without_an_error():
    wide = torch.ones(64, 64, dtype=torch.bool).tril().expand(1000, 64, 64)
    arrays = {
        "empty": torch.empty(0, dtype=torch.int32),
        "one": torch.tensor([5]),
        "scalar": torch.tensor(3),
        "turned": torch.randint(0, 9, (64, 32), generator=make_generator()).t(),
        "unsigned": torch.arange(100).to(torch.uint16),
        "repeated": wide,
        "absent": torch.full((64,), -1),
    }
    told = {one["name"]: one["says"] for one in describe_data(list(arrays.items()))}

    assert told["empty"] == "empty int32[0]: empty"
    assert told["one"] == "one int64[1]: 5"
    assert "9 different" in told["turned"]
    assert told["repeated"].startswith("repeated bool[1000,64,64]: 51 % kept; a lower triangle")


def test_a_large_array_is_sampled_and_that_is_said():
    values = (torch.arange(2**22, dtype=torch.int32) * 7919) % ROWS
    first = describe(values, x=torch.empty(ROWS))

    assert "in a sample of 262,144" in first["says"]
    assert first == describe(values, x=torch.empty(ROWS))


def test_of_a_sample_what_sorting_saves_is_computed():
    ids = draw(2**21, 2**21)
    groups = (ids.sort().values.view(-1, 32) * 4 // 128).diff(dim=1)
    lines = 1 + float((groups != 0).sum()) / len(groups)
    told = describe(ids, x=torch.empty(2**21))["metrics"]

    assert told["gather_sorting_ratio"] == pytest.approx(
        told["gather_line_ratio"] / lines, rel=0.03
    )


KERNEL = """
id: gather
title: rows of a table by ids, times the keep flags
axes: [n, v]
workloads: {small: {n: 512, v: 64}, large: {n: 20000, v: 2000}}
default_workload: {cpu: large}
inputs:
  - {name: ids, shape: [n], dtype: int32}
  - {name: table, shape: [v], dtype: float32}
outputs: [{name: y, shape: [n], dtype: float32}]
reference: {file: reference.py, function: gather, inputs: make_inputs}
entry: gather
variants:
  - {id: plain, target: cpu, language: c++, source: plain.cpp, summary: a loop}
"""
REFERENCE = """
import torch


def gather(ids, table):
    return table[ids.long()]


def make_inputs(n, v):
    shares = torch.arange(1, v + 1, dtype=torch.float64) ** -1.2
    return [torch.multinomial(shares, n, replacement=True).int(), torch.randn(v)]
"""
SOURCE = """
#include <cstdint>
extern "C" int gather(const std::int32_t* ids, const float* table, float* y, std::int64_t n,
                      std::int64_t, void*) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = table[ids[i]];
  return 0;
}
"""


@pytest.fixture
def gather(project):
    """A kernel whose ids follow Zipf's law."""
    folder = project / "kernels" / "gather"
    folder.mkdir(parents=True)
    (folder / "kernel.yaml").write_text(KERNEL)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "plain.cpp").write_text(SOURCE)


def test_a_check_describes_the_data_of_its_last_workload(gather):
    checked = check_variant("gather", target="cpu")

    assert [one.name for one in checked.data] == ["ids"]
    assert "ids int32[20,000]" in checked.data[0].says
    assert "of the 2,000 of table" in checked.data[0].says


@pytest.mark.slow
def test_a_profile_tells_the_data_and_has_it_as_metrics(gather):
    profiled = profile_variant("gather", target="cpu")

    assert profiled.metrics["gather_line_ratio"] > 8
    assert profiled.data[0].metrics.items() <= profiled.metrics.items()


PROGRAM = """
import torch


def pick(row_start, x):
    return x[row_start[:-1]] * row_start.diff()


lengths = torch.tensor([3, 0, 900, 5] * 50)
pick(torch.nn.functional.pad(lengths.cumsum(0), (1, 0)), torch.randn(int(lengths.sum()) + 1))
"""


def test_a_draft_from_a_program_says_what_its_data_was(project):
    (project / "program.py").write_text(PROGRAM)
    command = shlex.join([sys.executable, str(project / "program.py")])

    init_observed(command, operation="pick")
    text = load_kernel("pick", project).folder.joinpath("kernel.yaml").read_text()

    values = import_python_file(str(project / "kernels" / "pick" / "reference.py")).make_inputs
    drawn = values(*load_kernel("pick", project).kernel.workloads["observed-1"].values())[0]

    assert int(drawn[0]) == 0
    assert set(drawn.diff().tolist()) & set(range(700, 1200))
    assert "#     row_start int64[201]: rows of 0 to 900, median 3, longest 4x the mean" in text


def test_a_recipe_keeps_how_hot_the_hottest_ids_are():
    ids = torch.randperm(2000, generator=make_generator())[draw_zipf(2**15, 2000, 1.2)]
    recipe = describe_values(ids)
    even = describe_values(draw(2**15, 2000))
    hottest = float(ids.unique(return_counts=True)[1].max()) / len(ids)

    assert (recipe["kind"], even["kind"]) == ("ranked", "integers")
    assert recipe["below"][0] == pytest.approx(hottest, abs=1e-4)
