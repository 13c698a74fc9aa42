"""When a fix can work: every fix says so in data, and what it says is physics."""

import re
import shutil
from pathlib import Path

import pytest
from benchmarks.zoo.score import CURED, judge_pairs, read_all_recordings
from shipped_rules import compare_metrics, program

from kernelkb.decide.conditions import judge_condition
from kernelkb.errors import KnowledgeError
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.base import Record
from kernelkb.safety.paths import shipped_folder

LEAST_FIRST = 110
"""Pairs of the zoo whose own fix is the first that is told."""


def can_work(fix, metrics, device=None):
    """Return whether a fix can work by its condition; None if that is unknown."""
    return judge_condition(
        program()["fixes"][fix]["applies"], compare_metrics(metrics, device).truth
    )


def test_a_fix_without_a_condition_is_refused(tmp_path):
    folder = Path(shutil.copytree(shipped_folder("knowledge"), tmp_path / "knowledge"))
    file = folder / "fixes" / "compute.yaml"
    text = file.read_text()
    start = text.index("    applies:", text.index("- id: float-literals"))
    file.write_text(text[:start] + text[text.index("    cost_min", start) :])

    with pytest.raises(KnowledgeError) as caught:
        load_knowledge(folder)
    assert re.search(r"fixes/compute\.yaml.*applies", str(caught.value))


def test_a_condition_is_unknown_while_nothing_is_measured():
    known = {name: can_work(name, {}) for name in program()["fixes"]}

    assert {name for name, found in known.items() if found is True} == set()


def test_no_pair_of_the_zoo_loses_the_fix_that_cured_it():
    lost = [
        f"{row.kernel}: {one.pair.fix}"
        for one in judge_pairs(program(), read_all_recordings())
        if one.pair.kind in CURED
        for row in [one.recording]
        if can_work(one.pair.fix, row.before.metrics, row.device) is False
    ]

    assert lost == []


def test_most_pairs_are_told_their_own_fix_first():
    first = [
        one.matches[0]["fixes"][0]["id"] == one.pair.fix
        for one in judge_pairs(program(), read_all_recordings())
        if one.pair.kind in CURED and one.matches and one.matches[0]["fixes"]
    ]

    assert sum(first) >= LEAST_FIRST


class Example(Record):
    """Metrics, and whether a fix can work with them."""

    name: str
    fix: str
    metrics: dict[str, float]
    works: bool | None


UNBALANCED = {"sm_balance": 0.5, "sm_imbalance_loss": 0.4, "grid_fill": 4.0}
WARPS = {"grid_block_count": 1000, "block_thread_count": 32}
ATOMICS = {"atomic_share": 0.5, "lanes_per_instruction": 32.0, "atomic_concentration": 1.0}
EXAMPLES = [
    Example(
        name="order says nothing while all blocks start at once",
        fix="sort-work-longest-first",
        metrics={**UNBALANCED, "waves": 0.5},
        works=False,
    ),
    Example(
        name="order of two waves",
        fix="sort-work-longest-first",
        metrics={**UNBALANCED, "waves": 2.0, "unequal_work": 1},
        works=True,
    ),
    Example(
        name="pieces help in one wave too",
        fix="split-large-items",
        metrics={**UNBALANCED, "waves": 0.5, "unequal_work": 1},
        works=True,
    ),
    Example(
        name="a queue has nothing to balance",
        fix="dynamic-work-queue",
        metrics={
            "sm_balance": 0.98,
            "sm_imbalance_loss": 0.01,
            "occupancy_gap": 0.02,
            "waves": 9.0,
        },
        works=False,
    ),
    Example(
        name="lanes of a warp add to one address",
        fix="warp-aggregate-atomics",
        metrics={**ATOMICS, "update_address_sectors": 1.0},
        works=True,
    ),
    Example(
        name="lanes of a warp add to neighbouring addresses",
        fix="warp-aggregate-atomics",
        metrics={**ATOMICS, "update_address_sectors": 4.0},
        works=False,
    ),
    Example(
        name="nobody counted where the atomics go",
        fix="warp-aggregate-atomics",
        metrics={"atomic_share": 0.5},
        works=None,
    ),
    Example(
        name="random updates of a large table",
        fix="block-privatize",
        metrics={**ATOMICS, "update_address_sectors": 32.0},
        works=False,
    ),
    Example(
        name="all updates in one slice of L2",
        fix="block-privatize",
        metrics={**ATOMICS, "atomic_concentration": 80.0},
        works=True,
    ),
    Example(
        name="a grid that fills the GPU",
        fix="split-k",
        metrics={"grid_fill": 4.0, "waves": 2.0, "loads_per_warp": 500, "reduction_ratio": 900},
        works=False,
    ),
    Example(
        name="few blocks with a long sum each",
        fix="split-k",
        metrics={"grid_fill": 0.2, "waves": 0.1, "loads_per_warp": 500, "reduction_ratio": 900},
        works=True,
    ),
    Example(
        name="rows that begin in the middle of a sector",
        fix="align-base",
        metrics={"coalesced_share": 0.8, "random_access": 0},
        works=True,
    ),
    Example(
        name="lanes that are far apart",
        fix="align-base",
        metrics={"coalesced_share": 0.13, "random_access": 0},
        works=False,
    ),
    Example(
        name="a product of 4-bit weights",
        fix="library-first",
        metrics={"product_share": 1.0, "loads_per_fma": 0.5, "widened_operand_share": 0.2},
        works=False,
    ),
    Example(
        name="a product in single precision",
        fix="library-first",
        metrics={
            "matrix_work": 1,
            "product_share": 1.0,
            "loads_per_fma": 0.5,
            "widened_operand_share": 0.0,
        },
        works=True,
    ),
    Example(
        name="a polynomial loads hardly anything",
        fix="use-tensor-cores",
        metrics={
            "product_share": 1.0,
            "loads_per_fma": 0.001,
            "half_matrix_share": 0.0,
            "tensor_utilization": 0.0,
        },
        works=False,
    ),
    Example(
        name="a table that is staged once",
        fix="cp-async-pipeline",
        metrics={
            "device.cc": 9.0,
            "barriers_per_warp": 1.0,
            "shared_stores_per_warp": 128.0,
            "stall_long_scoreboard": 0.6,
        },
        works=False,
    ),
    Example(
        name="each element is read once",
        fix="tile-into-smem",
        metrics={"load_repeat": 1.0, "global_lsu_share": 0.9},
        works=False,
    ),
    Example(
        name="one launch is all there is",
        fix="fuse-kernels",
        metrics={"dram_utilization": 0.9, "call_launch_count": 1},
        works=False,
    ),
    Example(
        name="the launches of a call are not known",
        fix="fuse-kernels",
        metrics={"dram_utilization": 0.9},
        works=None,
    ),
    Example(
        name="a reduction with full lanes and no tree",
        fix="warp-shuffle",
        metrics={
            "barrier_instruction_share": 0.2,
            "barriers_per_load": 100.0,
            "fp_issue_share": 0.4,
        },
        works=False,
    ),
    Example(
        name="every element is stored by one load",
        fix="unroll-ilp",
        metrics={"loads_per_warp": 1.0, "shared_loads_per_warp": 0.0},
        works=False,
    ),
]


@pytest.mark.parametrize("one", EXAMPLES, ids=lambda one: f"{one.fix}: {one.name}")
def test_a_condition_is_the_physics_of_the_change(one):
    assert can_work(one.fix, one.metrics) is one.works
