"""Near its floor: what must move, the ceiling of the same mix, the rest, and the verdict."""

from functools import cache
from pathlib import Path

import pytest
from benchmarks.zoo.recordings import read_recordings
from hypothesis import given
from hypothesis import strategies as st
from shipped_rules import program

from kernelkb.actions.advice.code_location import find_answered_variant
from kernelkb.actions.advice.recommend import complete_answer
from kernelkb.decide.headroom import add_timeline_to_rest
from kernelkb.decide.recommend import recommend
from kernelkb.device_math.roofline import flatten_rates, interpolate_rate
from kernelkb.render.text.answers import format_answer_lines, format_finish

MEASURED = Path(__file__).parents[2] / "kernels/zoo/measured"
OWN = flatten_rates({"mix_gbps": [[0.0, 5000.0], [1.0, 5000.0]]})


@cache
def load_side(kernel, device="h200"):
    rows = {row.kernel: row for row in read_recordings(MEASURED / f"{device}.jsonl")}
    return rows[kernel]


def answer_for(kernel, side="after", device="h200", *, peaks=None, **changed):
    metrics = getattr(load_side(kernel, device), side).metrics
    kept = {n: v for n, v in {**metrics, **changed}.items() if v is not None}
    return recommend(program(), kept, device=device, peaks=peaks)


def test_a_kernel_at_the_ceiling_of_what_must_move_is_finished():
    answer = answer_for("add_rmsnorm_two_sweeps")
    finish = answer["finish"]

    assert finish["verdict"] == "stop"
    assert answer["gate"]["verdict"] == "done"
    assert finish["ceiling"]["source"] == "shipped"
    assert "NVIDIA H200" in finish["ceiling"]["says"]


def test_of_a_finished_kernel_without_a_cause_none_is_missed():
    answer = answer_for("attention_keys_transpose", device="h100-sxm")
    text = "\n".join(format_answer_lines(complete_answer(answer)))

    assert "DONE" in text
    assert "No cause" not in text
    assert "Measure next" not in text


def test_one_that_moves_more_than_it_must_is_not():
    finish = answer_for("add_rmsnorm_two_sweeps", "before")["finish"]

    assert finish["verdict"] == "change"
    assert finish["rest"][0]["what"] == "bytes beyond those that must move"


def test_what_must_move_is_not_guessed():
    answer = answer_for("add_rmsnorm_two_sweeps", algorithmic_bytes=None)
    finish = answer["finish"]

    assert finish["needed_bytes"] is None
    assert finish["verdict"] == "stop-if"
    assert answer["gate"]["verdict"] != "done"
    assert "algorithmic_bytes" in finish["because"]


def test_an_own_measurement_outranks_the_shipped_one():
    ceiling = answer_for("add_rmsnorm_two_sweeps", peaks=OWN)["finish"]["ceiling"]

    assert (ceiling["source"], ceiling["rate"]) == ("measured", 5000)


def test_a_gpu_without_measured_ceilings_says_what_is_assumed():
    ceiling = answer_for("kv_cache_fill", device="h100-sxm")["finish"]["ceiling"]

    assert ceiling["source"] == "assumed"
    assert ceiling["says"] == "assumed: 90% of the data sheet"


def test_a_kernel_far_from_every_ceiling_has_no_such_verdict():
    assert answer_for("crc32_bitwise_blocks", "before")["finish"] is None


def test_a_wrong_result_is_told_before_all_else():
    assert answer_for("add_rmsnorm_two_sweeps", correct=0.0)["finish"] is None


def test_a_faster_reference_shows_that_it_is_not_finished():
    finish = answer_for("add_rmsnorm_two_sweeps", speedup=0.8, algorithmic_bytes=None)["finish"]

    assert finish["verdict"] == "open"


def test_what_is_left_to_the_ceiling_is_not_said_to_lack_a_change_that_is_told():
    """A small gain is told below it: what is said is that none of 1.15x is."""
    answer = answer_for("fp8_token_quantise_bytes", "before", algorithmic_bytes=None)
    gain = answer["diagnoses"][0]["predicted_speedup"]["point"]

    assert answer["finish"]["verdict"] == "open"
    assert 1 < gain < 1.15
    assert answer["finish"]["because"].endswith("and no change is told to gain 1.15x")


def test_a_rest_of_which_no_counter_tells_a_part_is_unexplained():
    known = {"l2_utilization": 0.7, "sm_utilization": 0.055, "profiled_us": 2.172}
    rest = recommend(program(), known, device="h200")["finish"]["rest"]

    assert [part["what"] for part in rest] == ["unexplained"]


def test_an_empty_kernel_is_finished():
    metrics = {**load_side("add_rmsnorm_two_sweeps").after.metrics, "profiled_us": 1.6}
    metrics |= {"dram_read_bytes": 32.0, "dram_write_bytes": 0.0, "kernel_us": 1.6}
    metrics = {n: v for n, v in metrics.items() if not n.startswith("algorithmic_")}
    finish = recommend(program(), metrics, device="h200")["finish"]

    assert finish["ceiling"]["resource"] == "launch"
    assert finish["verdict"] in ("stop", "change")


@pytest.mark.parametrize("device", ["h200", "h100-sxm"])
def test_the_rest_is_the_time_above_the_floor_in_at_most_four_short_lines(device):
    for row in read_recordings(MEASURED / f"{device}.jsonl"):
        answer = recommend(program(), row.after.metrics, device=device)
        finish = answer["finish"]
        if finish is None:
            continue
        left = max(0.0, finish["measured_us"] - finish["floor_us"])
        assert sum(part["us"] for part in finish["rest"]) <= left + 0.01
        lines = format_finish(finish)
        assert len(lines) <= 4
        assert max(map(len, lines)) <= 100
        assert set(lines) <= set(format_answer_lines(answer))


def test_a_sampled_tail_stands_for_idle_sms_and_is_no_more_than_the_rest():
    finish = answer_for("add_rmsnorm_two_sweeps", "before")["finish"]
    timeline = {"ramp_us": 1.0, "lost_us": 500.0}
    told = add_timeline_to_rest(finish, timeline)

    assert told["rest"][0]["what"] == "tail"
    assert sum(row["us"] for row in told["rest"]) <= told["measured_us"] - told["floor_us"] + 0.01


@given(st.floats(-1, 2))
def test_a_rate_lies_between_its_neighbours(at):
    rows = [(0.5, 3922.0), (0.0, 4059.0), (1.0, 4115.0)]

    assert 3922 <= interpolate_rate(rows, at) <= 4115
    assert interpolate_rate(rows, 0.25) == pytest.approx(3990.5)
    assert interpolate_rate([], at) is None


@pytest.mark.parametrize("device", ["h200", "h100-sxm"])
def test_what_heads_a_split_has_a_name_and_a_unit_or_is_called_unexplained(device):
    for row in read_recordings(MEASURED / f"{device}.jsonl"):
        for side in (row.before, row.after):
            parts = recommend(program(), side.metrics, device=device)["time"]
            if not parts:  # of a pair that is still to be profiled
                continue
            head = parts[0]
            assert head["unit"] or "unexplained" in head["title"]
            assert head["part"] != "other"
            assert "other parts" not in head["title"]


def test_the_bytes_are_told_by_array_where_the_cost_is_the_size_of_the_arrays():
    subject = find_answered_variant("row_softmax", "cuda")
    longer = {"dram_read_bytes": 2.0**29, "dram_write_bytes": 2.0**29}
    longer |= {"profiled_us": 280.0, "kernel_us": 280.0}
    answer = answer_for("add_rmsnorm_two_sweeps", algorithmic_bytes=2.0**30, **longer)
    other = answer_for("add_rmsnorm_two_sweeps")
    finish = complete_answer(answer, subject=subject)["finish"]

    assert sorted(finish["arrays"].values()) == [4 * 16384 * 8192] * 2
    assert "1 GiB (x 512 MiB, y 512 MiB)" in format_finish(finish)[0]
    assert complete_answer(other, subject=subject)["finish"]["arrays"] == {}
    assert complete_answer(answer)["finish"]["arrays"] == {}
