"""What the judge reads of every timed call, and what it draws to compare with the reference."""

import random

import pytest
import torch

from kernelkb.measure.worker.judge.inputs.inputs import KernelCase, RandomPool, poison
from kernelkb.measure.worker.judge.returned_outputs import OutputMark, OutputMarker
from kernelkb.measure.worker.judge.timing.pair_timing import MIN_BATCHES, OutputSampler
from kernelkb.measure.worker.judge.timing.runner_timer import TimedBatch
from kernelkb.measure.worker.shared.messages.jobs import Batch

CPU_REFERENCE = {"kind": "python", "file": "reference.py", "entry": "f", "inputs": None}


def make_marker(dtype="float32", count=1000, starts_as=None):
    """A marker for two slots of one input and one output of ``count`` elements each."""
    x = {"name": "x", "shape": [count], "dtype": dtype, "fill": "normal", "scale": 1.0}
    y = {"name": "y", "shape": [count], "dtype": dtype, "starts_as": starts_as}
    spec = {"name": "c", "axis_names": [], "axes": [], "selftest": False}
    case = KernelCase("cpu", CPU_REFERENCE, {**spec, "inputs": [x], "outputs": [y]})
    size = count * getattr(torch, dtype).itemsize
    memory = torch.zeros(4 * size, dtype=torch.uint8)
    arrays = [memory[at * size : (at + 1) * size].view(getattr(torch, dtype)) for at in range(4)]
    marker = OutputMarker(case, [[0, size], [2 * size, 3 * size]], memory)
    return marker, arrays


def read_marks(marker, addresses=(), read_memory=None):
    marker.expect_calls([0, 1])
    marker.take()
    return marker.parse(addresses, read_memory)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int64", "bool", "uint8"])
@pytest.mark.parametrize("count", [1, 2, 5, 1000])
def test_outputs_that_were_not_written_are_seen(dtype, count):
    marker, (_, first, _, second) = make_marker(dtype, count)
    poison([first, second])
    first.zero_()

    assert [mark.is_unwritten for mark in read_marks(marker)] == [False, True]


def test_an_output_of_no_elements_is_never_unwritten():
    marker, _ = make_marker(count=0)

    assert read_marks(marker) == [OutputMark(b"", False)] * 2


def test_a_last_element_that_was_not_written_is_seen():
    marker, (_, first, _, second) = make_marker()
    poison([first, second])
    first.zero_()
    second[:-1] = 0

    assert [mark.is_unwritten for mark in read_marks(marker)] == [False, True]


def test_outputs_that_start_as_an_input_are_unwritten_while_they_equal_it():
    marker, (x, y, u, v) = make_marker(starts_as="x")
    x.copy_(torch.randn(1000))
    u.copy_(torch.randn(1000))
    y.copy_(x)
    v.copy_(u + 1)

    assert [mark.is_unwritten for mark in read_marks(marker)] == [True, False]


def test_marks_follow_the_contents_wherever_the_outputs_are():
    marker, (_, first, _, second) = make_marker()
    first.copy_(torch.randn(1000))
    elsewhere = bytes(first.view(torch.uint8).tolist())

    def read_memory(pieces):
        return [elsewhere[address - 4096 :][:size] for address, size in pieces]

    here, there = read_marks(marker, [[0], [4096]], read_memory)
    poison([second])

    assert here == there
    assert here.content != read_marks(marker)[1].content


def test_outputs_that_change_after_the_batch_are_seen():
    marker, (_, first, _, second) = make_marker()
    poison([first, second])
    marker.expect_calls([0, 1])
    marker.take()
    second.zero_()

    assert [mark.is_late for mark in marker.parse()] == [False, True]


class FakeTimer:
    """A timer whose calls leave what ``marks`` says and whose comparisons find ``fault``."""

    def __init__(self, fault=None):
        self.fault, self.compared = fault, []
        self.shares_outputs = False
        self.content = b"0"

    def read_marks(self, slots):
        return [OutputMark(self.content + bytes([slot]), False) for slot in slots]

    def copy_outputs(self, _slot):
        return []

    def find_fault(self, outputs):
        self.compared.append(list(outputs))
        return self.fault


def run_batches(sampler, timer, count, *, new_contents=True):
    """Look at batches of four calls; return the numbers of those that were drawn."""
    drawn = []
    for number in range(count):
        timer.content = str(number).encode() if new_contents else b"same"
        slots = [0, 1, 2, 3]
        outputs = {slot: [] for slot in sampler.draw_slots(slots)}
        if outputs:
            drawn.append(number)
        fault = sampler.find_fault(TimedBatch(Batch(1, 1, 4, 0, 1), slots, outputs))
        if fault:
            return fault
    return drawn


def make_slow_sampler(timer):
    """A sampler for which comparing has taken longer than its share of the time."""
    sampler = OutputSampler(timer, {"working_set_bytes": 100})
    sampler.check_s = 1e9
    return sampler


def test_every_batch_is_compared_while_that_is_quick():
    timer = FakeTimer()
    sampler = OutputSampler(timer, {"working_set_bytes": 100})
    sampler.check_s = -1e9

    assert len(run_batches(sampler, timer, 100)) == 100


@pytest.mark.parametrize("count", [40, 100, 800])
def test_the_later_half_of_a_bench_is_compared_too_however_long_it_takes(count):
    timer = FakeTimer()
    runs = [run_batches(make_slow_sampler(timer), timer, count) for _ in range(20)]
    late = [sum(number >= count // 2 for number in drawn) for drawn in runs]

    assert all(len(drawn) >= MIN_BATCHES - 6 for drawn in runs)
    assert min(late) >= 1
    assert sum(late) / len(late) > 7  # 15 ln 2 = 10.4 are expected
    assert len({tuple(drawn) for drawn in runs}) == len(runs)


def test_calls_that_left_the_same_are_compared_and_the_reference_decides():
    honest, idle = FakeTimer(), FakeTimer("a timed call was wrong")
    for timer in (honest, idle):
        timer.sampler = make_slow_sampler(timer)
        timer.sampler.draw_slots = lambda _slots: []

    assert run_batches(honest.sampler, honest, 300, new_contents=False) == []
    assert MIN_BATCHES <= len(honest.compared) < 150
    fault = run_batches(idle.sampler, idle, 300, new_contents=False)
    assert fault == "a timed call was wrong: it left what an earlier call had left"


def test_draws_do_not_follow_from_a_seed():
    drawn_by = []
    for seed in (1, 1):
        random.seed(seed)
        timer = FakeTimer()
        drawn_by.append(run_batches(make_slow_sampler(timer), timer, 200))

    assert drawn_by[0] != drawn_by[1]


class FixedOffsets:
    """Gives offsets that were chosen in advance."""

    def __init__(self, *offsets):
        self._offsets = list(offsets)

    def randint(self, _low, _high):
        return self._offsets.pop(0)

    def uniform(self, low, high):
        return (low + high) / 2


@pytest.mark.parametrize(("fill", "scale"), [("normal", 1.0), ("uniform", 1.0), ("integers", 50)])
def test_inputs_are_not_sums_of_earlier_inputs(fill, scale):
    dtype = "int32" if fill == "integers" else "float32"
    spec = {"name": "x", "shape": [64], "dtype": dtype, "fill": fill, "scale": scale}
    pool = RandomPool(spec, torch.device("cpu"))

    def fill_at(first, second):
        out = torch.empty(64, dtype=getattr(torch, dtype))
        pool.fill(out, FixedOffsets(first, second, 400))
        return out

    # With sums of stretches a[i] + b[j], the fourth input follows from the other three.
    fourth = fill_at(0, 200) + fill_at(100, 300) - fill_at(0, 300)

    assert not torch.allclose(fourth.float(), fill_at(100, 200).float(), atol=1e-3)
