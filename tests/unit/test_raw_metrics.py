"""Values under the names that Nsight Compute has."""

import pytest
from shipped_rules import program

from kernelkb.actions.advice.recommend import (
    parse_given_metrics,
    recommend_from_metrics,
    resolve_raw_names,
)
from kernelkb.decide.parse_metric import resolve_device
from kernelkb.errors import BadValueError, UnknownNameError

SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


@pytest.mark.parametrize(
    ("name", "value", "metric", "converted"),
    [
        (SM, "43", "sm_utilization", 0.43),
        (SM, 43.0, "sm_utilization", 0.43),
        (SM, "43 %", "sm_utilization", 0.43),
        ("gpu__time_duration.sum", "1,500", "profiled_us", 1.5),
        ("gpu__time_duration.sum", "1.5 ms", "profiled_us", 1500),
        ("dram__bytes_read.sum", "2.5 Mbyte", "dram_read_bytes", 2.5e6),
        ("launch__registers_per_thread", "96", "register_count", 96),
        ("sass__inst_executed_per_opcode[CALL]", "8", "call_instruction_count", 8),
    ],
)
def test_a_raw_value_is_converted_to_the_metrics_unit(name, value, metric, converted):
    given = parse_given_metrics(program(), {name: value}, {}, "cuda")

    assert given == {metric: pytest.approx(converted)}


def test_each_raw_name_of_the_knowledge_is_taken():
    for metric, row in program()["raw_names"].items():
        for name in row["names"]:
            assert list(resolve_raw_names(program(), {name: 1.0})) == [metric]


@pytest.mark.parametrize(
    ("name", "value", "metric", "converted"),
    [
        ("DRAM Throughput", "17.98", "dram_utilization", 0.1798),
        ("dram_throughput", 17.98, "dram_utilization", 0.1798),
        ("achieved_occupancy", "45%", "occupancy", 0.45),
        ("Registers Per Thread", 64, "register_count", 64),
        ("Duration", "1.5 ms", "profiled_us", 1500),
        ("correct", "yes", "correct", 1),
        ("debug_build", "False", "debug_build", 0),
    ],
)
def test_a_name_is_taken_as_people_type_it(name, value, metric, converted):
    given = parse_given_metrics(program(), {name: value}, {}, "cuda")

    assert given == {metric: pytest.approx(converted)}


def test_a_share_under_a_title_may_be_percent_so_it_is_asked():
    with pytest.raises(BadValueError, match="write achieved_occupancy=45% or achieved_occ"):
        parse_given_metrics(program(), {"achieved_occupancy": 0.45}, {}, "cuda")


def test_a_counter_that_no_metric_is_read_from_is_left_out_beside_others():
    metrics = {SM: 43, "l1tex__t_bytes.sum": 4096}
    (answer,) = recommend_from_metrics(metrics)["kernels"]

    assert answer["notes"][0] == "no metric is read from l1tex__t_bytes.sum, so it is left out"
    with pytest.raises(UnknownNameError, match="unknown metric of Nsight Compute"):
        recommend_from_metrics({"l1tex__t_bytes.sum": 4096})


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("4090", "rtx-4090"),
        ("h100 pcie", "h100-pcie"),
        ("A100", "a100-80-sxm"),
        ("geforce-rtx-3090", "rtx-3090"),
        ("NVIDIA L4 GPU", "l4"),
    ],
)
def test_a_gpu_is_found_without_the_words_of_its_family(name, device):
    assert resolve_device(program(), name) == device


@pytest.mark.parametrize("name", ["rtx", "h", "a10 0"])
def test_part_of_a_name_is_no_gpu(name):
    with pytest.raises(UnknownNameError, match="unknown GPU"):
        resolve_device(program(), name)


def test_the_metrics_own_id_comes_first():
    assert resolve_raw_names(program(), {SM: 43, "sm_utilization": 0.5}) == {"sm_utilization": 0.5}


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        (SM.replace("elapsed", "elapsd"), 1, UnknownNameError, f"did you mean '{SM}'"),
        (SM, "high", BadValueError, "as ncu prints it"),
        (SM, 430, BadValueError, "430 %, more than its peak"),
        ("occupancyy", 1, UnknownNameError, "unknown metric 'occupancyy'"),
    ],
)
def test_misuse_says_what_is_accepted(name, value, error, text):
    with pytest.raises(error, match=text.replace("(", r"\(")):
        parse_given_metrics(program(), {name: value}, {}, "cuda")
