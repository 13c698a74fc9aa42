"""Where comparing takes long, a quarter of the rows of a call is compared."""

import random

import pytest
import torch
from hidden_judging import make_case

from kernelkb.measure.worker.judge.case_buffers import CaseBuffers, find_slot_fault
from kernelkb.measure.worker.judge.compare.compare import ReferenceOutputs
from kernelkb.measure.worker.judge.hidden_reference import HiddenReference
from kernelkb.measure.worker.judge.inputs import inputs as judge_inputs
from kernelkb.measure.worker.judge.inputs.memory_plan import SAMPLED_NOTE, MemoryPlan

SHAPE = [64, 128]


def make_buffers(folder, body="F.softmax(x, -1)", plan=None):
    case = make_case(folder, f"def reference(x):\n    return {body}\n", [SHAPE])
    case.plan = plan or case.plan
    return CaseBuffers(case, {}, 1, random.Random(1), flush_bytes=4)


def compute(buffers):
    (right,) = buffers.case.run_reference(buffers.inputs(0), None)
    return right.clone()


@pytest.fixture
def all_is_slow(monkeypatch):
    monkeypatch.setattr(judge_inputs, "_SLOW_COMPARISON_S", 0.0)


def test_a_quarter_of_the_rows_is_enough_to_judge(tmp_path):
    case = make_case(tmp_path, "def reference(x):\n    return F.softmax(x, -1)\n", [SHAPE])
    inputs = case.make_inputs(3)
    (right,) = case.run_reference(inputs, None)
    whole = ReferenceOutputs(case, inputs, {})
    sample = ReferenceOutputs(case, inputs, {}, sampled=True)
    rows = [row for piece in sample._oracle.pieces for row in range(64)[piece]]

    assert len(rows) == 16
    assert sample.compare([right])["correct"]
    assert not sample.compare([right * 1.001])["correct"]
    (own,), (of_all,) = sample.relative_errors([right]), whole.relative_errors([right])
    assert of_all / 2 < own < 2 * of_all  # rows differ
    for row in range(64):
        wrong = right.clone()
        wrong[row] = 0.0
        assert sample.compare([wrong])["correct"] == (row not in rows)


@pytest.mark.parametrize("body", ["x.cumsum(0)", "x - x.mean(0)"])
def test_rows_that_need_others_are_all_compared(tmp_path, all_is_slow, body):
    buffers = make_buffers(tmp_path, body)
    for row in range(64):
        wrong = compute(buffers)
        wrong[row] += 1.0
        assert find_slot_fault(buffers, 0, [wrong])

    assert SAMPLED_NOTE not in buffers.case.notes


def test_the_first_two_timed_calls_are_compared_whole(tmp_path, all_is_slow):
    buffers = make_buffers(tmp_path)
    for _ in range(2):
        assert find_slot_fault(buffers, 0, [compute(buffers)]) is None
        assert SAMPLED_NOTE not in buffers.case.notes

    assert find_slot_fault(buffers, 0, [compute(buffers)]) is None
    assert SAMPLED_NOTE in buffers.case.notes


def test_a_comparison_that_is_fast_stays_whole(tmp_path):
    buffers = make_buffers(tmp_path)
    for _ in range(5):
        wrong = compute(buffers)
        wrong[random.randrange(64)] = 0.0
        assert find_slot_fault(buffers, 0, [wrong])

    assert SAMPLED_NOTE not in buffers.case.notes


def test_one_element_that_was_not_written_is_always_found(tmp_path, all_is_slow):
    buffers = make_buffers(tmp_path)
    for _ in range(3):
        find_slot_fault(buffers, 0, [compute(buffers)])
    for row in range(64):
        half_done = compute(buffers)
        half_done[row, 5] = torch.nan
        assert "1 elements were not written" in find_slot_fault(buffers, 0, [half_done])


def test_a_row_that_is_wrong_in_every_call_is_found(tmp_path, all_is_slow):
    buffers = make_buffers(tmp_path)
    for _ in range(2):
        find_slot_fault(buffers, 0, [compute(buffers)])
    wrong = compute(buffers)
    wrong[17] = 0.0
    found = [find_slot_fault(buffers, 0, [wrong]) for _ in range(60)]

    assert any(found)
    assert not all(found)


def test_where_the_memory_is_short_no_sample_is_kept(tmp_path, all_is_slow):
    buffers = make_buffers(tmp_path, plan=MemoryPlan(in_pieces=True, has_distributions=False))
    for _ in range(4):
        assert find_slot_fault(buffers, 0, [compute(buffers)]) is None

    assert SAMPLED_NOTE not in buffers.case.notes


def judge_hidden(buffers, distribution="negated"):
    """Return the reference for inputs of a distribution, and what is right."""
    case, inputs = buffers.case, buffers.input_generator.prepare(distribution).arrays
    (right,) = case.run_reference(inputs, None)
    return HiddenReference(case, inputs, distribution, {}, [1.0]), right.clone()


def judge_hidden_again(buffers):
    """Return the same after a first comparison, which was of all rows."""
    hidden, right = judge_hidden(buffers)
    for row in range(64):
        assert not hidden.compare([right.index_fill(0, torch.tensor(row), 0.0)])["correct"]
    return judge_hidden(buffers)


def list_rows(hidden):
    return {row for piece in hidden._pieces for row in range(64)[piece]}


def test_from_the_second_hidden_call_on_a_quarter_of_the_rows_is_compared(tmp_path, all_is_slow):
    buffers = make_buffers(tmp_path)
    hidden, right = judge_hidden_again(buffers)
    rows = list_rows(hidden)

    assert len(rows) == 16
    assert SAMPLED_NOTE in buffers.case.notes
    assert hidden.compare([right])["correct"]
    for row in range(64):
        wrong = right.index_fill(0, torch.tensor(row), 0.0)
        assert hidden.compare([wrong])["correct"] == (row not in rows)


def test_one_element_that_was_not_written_on_hidden_inputs_is_always_found(tmp_path, all_is_slow):
    hidden, right = judge_hidden_again(make_buffers(tmp_path))
    right[min({*range(64)} - list_rows(hidden)), 5] = torch.nan

    assert not hidden.compare([right])["correct"]


def test_hidden_rows_that_need_others_are_all_compared(tmp_path, all_is_slow):
    buffers = make_buffers(tmp_path, "x.cumsum(0)")
    hidden, right = judge_hidden_again(buffers)
    right[63] += 100.0

    assert not hidden.compare([right])["correct"]
    assert SAMPLED_NOTE not in buffers.case.notes
