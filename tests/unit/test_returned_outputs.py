"""Where a runner says that its outputs are, on a GPU; what it says may be anything."""

import random
from array import array
from types import SimpleNamespace

import pytest
import torch

from kernelkb.measure.worker.judge.returned_outputs import (
    OutputMarker,
    ReturnedArrays,
    UnknownMemoryError,
    locate,
    max_calls,
)
from kernelkb.measure.worker.shared.memory import MalformedError, is_dense

SPECS = [
    {"name": "y", "shape": [4, 6], "dtype": "float32", "starts_as": None},
    {"name": "n", "shape": [3], "dtype": "int64", "starts_as": None},
]
OPENED = SimpleNamespace(
    ranges={7: (1000, range(50_000, 51_000)), 9: (8000, range(70_000, 70_512))}
)
IN_PLACE = [0, 0, 0, 0, 0, 0, 0]


def pack(*rows):
    return array("q", [number for row in rows for number in row]).tobytes().hex()


def test_addresses_of_a_runner_become_those_of_the_judge():
    returned = pack([7, 1040, 6, 1, 9, 8008, 1], [7, 1200, 1, 4, 0, 0, 0], IN_PLACE)

    rows, counts = locate(OPENED, returned, SPECS, 3)

    assert rows.addresses.tolist() == [50_040, 50_200, 0]
    assert rows.strides.tolist() == [[6, 1], [1, 4], [0, 0]]
    assert counts.addresses.tolist() == [70_008, 0, 0]


def test_a_result_without_dimensions_has_a_place_and_no_strides():
    single = [{"name": "loss", "shape": [], "dtype": "float32", "starts_as": None}]

    (loss,) = locate(OPENED, pack([7, 1040], [0, 0]), single, 2)

    assert loss.addresses.tolist() == [50_040, 0]
    assert loss.strides.shape == (2, 0)


@pytest.mark.parametrize(
    "row",
    [
        [7, 990, 6, 1, 0, 0, 0],
        [7, 1908, 6, 1, 0, 0, 0],
        [7, 1042, 6, 1, 0, 0, 0],
        [7, -(2**62), 6, 1, 0, 0, 0],
        [7, 2**62, 6, 1, 0, 0, 0],
        [7, 1040, 0, 1, 0, 0, 0],
        [7, 1040, 12, 2, 0, 0, 0],
        [7, 1040, -6, 1, 0, 0, 0],
        [7, 1040, 2**62, 1, 0, 0, 0],
        [9, 8000, 6, 1, 9, 8496, 1],
    ],
    ids=str,
)
def test_what_is_outside_of_the_memory_or_overlaps_is_rejected(row):
    with pytest.raises(MalformedError):
        locate(OPENED, pack(row), SPECS, 1)


@pytest.mark.parametrize("returned", ["zz", "00", 5, ["00"], {"a": 1}, pack(IN_PLACE, IN_PLACE)])
def test_what_is_no_list_of_places_is_rejected(returned):
    with pytest.raises(MalformedError):
        locate(OPENED, returned, SPECS, 1)


def test_memory_that_is_not_open_is_asked_for_by_an_address_in_it():
    returned = pack([7, 1040, 6, 1, 11, 123, 1], [12, 456, 6, 1, 11, 124, 1])

    with pytest.raises(UnknownMemoryError) as error:
        locate(OPENED, returned, SPECS, 2)

    assert sorted(error.value.addresses) == [124, 456]


@pytest.mark.parametrize(
    ("strides", "expected"),
    [((6, 1), True), ((1, 4), True), ((0, 1), False), ((6, 2), False), ((5, 1), False)],
)
def test_dense_arrays(strides, expected):
    assert is_dense((4, 6), strides) is expected


def test_a_dimension_of_one_may_have_any_stride():
    assert is_dense((1, 6), (999, 1))


def test_an_answer_never_outgrows_a_packet():
    assert max_calls(SPECS) * 7 * 16 < 150_000
    assert max_calls(SPECS * 1000) == 1


def make_marker(outputs):
    case = SimpleNamespace(output_specs=SPECS, input_specs=[])
    return OutputMarker(case, [[0, 128]] * outputs, torch.zeros(256, dtype=torch.uint8))


@pytest.mark.parametrize("is_transposed", [False, True])
def test_marks_are_read_at_the_same_elements_wherever_an_output_is(is_transposed):
    generator = random.Random(5)
    values = torch.tensor([generator.randrange(1 << 30) for _ in range(24)]).int().view(4, 6)
    own = values.view(torch.float32)
    stored = own.t().contiguous().t() if is_transposed else own
    (positions, _) = make_marker(1)._outputs
    arrays = ReturnedArrays(torch.tensor([stored.data_ptr()]), torch.tensor([stored.stride()]))

    storage = torch.empty(0, dtype=torch.uint8).set_(stored.untyped_storage())
    found = storage[(positions.list_addresses(arrays) - stored.data_ptr()).view(-1)]
    wanted = own.contiguous().view(torch.uint8).view(-1)[positions.byte_offsets().view(-1)]

    assert found.tolist() == wanted.tolist()
