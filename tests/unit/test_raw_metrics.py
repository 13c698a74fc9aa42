"""Values under the names that Nsight Compute has."""

import pytest
from shipped_rules import program

from kernelkb.actions.advice.recommend import parse_given_metrics, resolve_raw_names
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
