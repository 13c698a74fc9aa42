"""When a fix can work: every fix says so in data, and what it says is physics."""

import re
import shutil
from pathlib import Path

import pytest
from benchmarks.zoo.score import CURED, judge_pairs, read_all_recordings
from fix_examples import EXAMPLES, can_work
from shipped_rules import program

from kernelkb.errors import KnowledgeError
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.safety.paths import shipped_folder

LEAST_FIRST = 140
"""Pairs of the zoo whose own fix is the first that is told."""


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


def test_no_pair_that_the_rules_know_loses_all_right_fixes():
    lost = [
        f"{row.kernel}: {one.pair.fix}"
        for one in judge_pairs(program(), read_all_recordings())
        if one.pair.kind in CURED and not one.pair.held_out
        for row in [one.recording]
        if not any(
            can_work(fix, row.before.metrics, row.device) is not False
            for fix in (one.pair.fix, *one.pair.also_right)
        )
    ]

    assert lost == []


def test_most_pairs_are_told_their_own_fix_first():
    first = [
        one.matches[0]["fixes"][0]["id"] == one.pair.fix
        for one in judge_pairs(program(), read_all_recordings())
        if one.pair.kind in CURED and one.matches and one.matches[0]["fixes"]
    ]

    assert sum(first) >= LEAST_FIRST


@pytest.mark.parametrize("one", EXAMPLES, ids=lambda one: f"{one.fix}: {one.name}")
def test_a_condition_is_the_physics_of_the_change(one):
    assert can_work(one.fix, one.metrics) is one.works


def test_a_cause_of_which_no_fix_can_work_is_told_as_suppressed():
    answers = [one.answer for one in judge_pairs(program(), read_all_recordings())]
    told = [d for answer in answers for d in answer["diagnoses"] if d["verdict"] == "matches"]
    dropped = [s for answer in answers for s in answer["suppressed"]]

    assert {d["group"] for d in told if not d["fixes"]} <= {"memory-traffic", "terminal"}
    assert any(one["guard"] == "no-fix-applies" for one in dropped)


LAYOUT_OF_SHARED_MEMORY = (
    *("pad-smem", "xor-swizzle", "ldmatrix"),
    *("transpose-free-layout", "tma-swizzle"),
)


def test_no_kernel_in_triton_is_told_to_lay_out_shared_memory_which_its_compiler_does():
    rows = read_all_recordings()
    launches = [(row.device, one.metrics) for row in rows for one in (row.before, row.after)]
    triton = [(device, one) for device, one in launches if one.get("triton_kernel") == 1]

    assert len(triton) > 60
    for device, metrics in triton:
        found = [can_work(fix, metrics, device) for fix in LAYOUT_OF_SHARED_MEMORY]
        assert found == [False] * len(found)
