"""Recorded kernels: where their time goes, what cures of two flaws give, and what a roof leaves."""

import math
from functools import cache
from pathlib import Path

import pytest
from shipped_rules import program

from kernelkb.decide.recommend import recommend
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page

DATA = Path(__file__).parents[1] / "data" / "ncu"
PAGES = [
    *sorted(DATA.glob("*.csv")),
    *sorted((DATA / "faults").glob("*.csv")),
    DATA / "library" / "torch_operations.csv",
]
AT_ROOF = [
    "row_softmax_warp",
    "plain_copy",
    *(
        f"torch_operations: {name}"
        for name in ("add_big/", "gelu_fp32/", "sum_rows/", "bytes_add/")
    ),
]


@cache
def answer_all():
    """Return the answer about each launch, by its page and name."""
    return {
        f"{page.stem}: {launch.kernel[:40]}": recommend(
            program(), launch.metrics, device="h100-sxm"
        )
        for page in PAGES
        for launch in read_raw_page(page.read_text(), list_raw_names(program()))
    }


def find_answer(start):
    return next(answer for name, answer in answer_all().items() if name.startswith(start))


def list_gains(answer):
    """The predicted gain of each fix of each match."""
    return {
        fix["id"]: fix["predicted_speedup"]["point"]
        for d in answer["diagnoses"]
        for fix in d["fixes"]
        if fix["predicted_speedup"]
    }


def test_of_a_thread_for_each_row_the_joint_cure_gives_more_than_both_alone():
    answer = find_answer("row_softmax_full")
    gains = list_gains(answer)

    assert answer["diagnoses"][0]["bottleneck"] == "uncoalesced-global-access"
    assert (
        gains["remap-threads-coalesced"]
        > 1.5 * gains["smem-transpose"] * gains["parallelize-outer-dim"]
    )


def test_two_flaws_that_hide_each_other_are_named_with_what_each_gives_alone():
    joint = find_answer("row_softmax_full")["joint"]

    assert len(joint["parts"]) == 2
    assert joint["predicted_speedup"]["point"] > joint["alone"][0] * joint["alone"][1]


@pytest.mark.parametrize("start", AT_ROOF)
def test_at_its_roof_no_kernel_is_promised_more_than_a_fifth(start):
    promised = [
        d["predicted_speedup"]["point"]
        for d in find_answer(start)["diagnoses"]
        if d["predicted_speedup"]
    ]

    assert all(point <= 1.2 for point in promised)


def list_failing(holds):
    """Return the launches of whose answers something does not hold."""
    return [name for name, answer in answer_all().items() if not holds(answer)]


def test_the_parts_of_the_time_sum_to_one():
    def holds(answer):
        shares = [row["share"] for row in answer["time"]]
        return all(share >= 0 for share in shares) and (
            not shares or sum(shares) == pytest.approx(1, abs=0.002)
        )

    assert list_failing(holds) == []


def test_each_step_of_the_chain_gains_and_the_gains_multiply():
    def holds(answer):
        gains = [step["step_speedup"] for step in answer["chain"]]
        totals = [step["total_speedup"] for step in answer["chain"]]
        return all(gain > 1 for gain in gains) and all(
            total == pytest.approx(math.prod(gains[: at + 1]), rel=0.01)
            for at, total in enumerate(totals)
        )

    assert list_failing(holds) == []


def test_all_fixes_together_gain_no_less_than_the_best():
    def holds(answer):
        told = (d["predicted_speedup"] for d in answer["diagnoses"])
        gains = [gain["point"] for gain in told if gain]
        together = answer["combined_speedup"]
        return not together or together["point"] >= max(gains) - 0.001

    assert list_failing(holds) == []
