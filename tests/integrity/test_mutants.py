"""The study of mutants: its plan is what it says, and a sample of it runs through the check."""

from collections import Counter
from functools import cache
from typing import get_args

import pytest
from benchmarks.mutants.mutant import Kind
from benchmarks.mutants.plan import KERNELS_FOLDER, list_mutants
from benchmarks.mutants.program import choose, run_study
from benchmarks.mutants.table import survivors_share

SAMPLE_COUNT = 20


@cache
def mutants():
    return [*list_mutants("cpu"), *list_mutants("cuda")]


def test_at_least_5000_mutants_are_planned_and_no_two_are_alike():
    assert len(mutants()) >= 5000
    assert len({mutant.name for mutant in mutants()}) == len(mutants())
    assert len({(m.kernel, m.variant, m.source) for m in mutants()}) == len(mutants())


def test_every_kind_and_every_language_has_mutants():
    assert {mutant.kind for mutant in mutants()} == set(get_args(Kind))
    assert set(Counter(m.language for m in mutants())) == {"c++", "cuda", "python", "triton"}
    assert {m.kernel for m in mutants()} == {
        path.parent.name for path in KERNELS_FOLDER.glob("*/*")
    }


def test_a_mutant_differs_from_its_kernel_where_its_name_says():
    for mutant in choose(mutants(), 300, seed=3):
        (file,) = [
            path
            for path in (KERNELS_FOLDER / mutant.kernel).iterdir()
            if path.stem == mutant.variant
        ]
        text = file.read_text()

        assert mutant.source[: mutant.position] == text[: mutant.position]
        assert mutant.source != text


@pytest.mark.slow
def test_the_check_refuses_most_of_a_sample_of_mutants(tmp_path):
    mutants = choose(list_mutants("cpu"), SAMPLE_COUNT, seed=7)
    study = run_study("cpu", mutants, tmp_path, workers=1)

    assert study.unreached == 0
    assert len(study.found) == SAMPLE_COUNT
    assert survivors_share(study.found) < 0.15, [f for f in study.found if f.word == "survives"]
    assert sum(one.word == "refused" for one in study.found) >= SAMPLE_COUNT // 3
