"""Drawn sizes of integer inputs: on a GPU an index outside of its array would end the judge."""

from __future__ import annotations

import random
import re

import pytest

pytest.importorskip("torch")

import torch

from kernelkb.errors import KnowledgeError
from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.check.check import draw_sizes, make_hidden_size_cases
from kernelkb.measure.job_specs import make_case_spec
from kernelkb.measure.worker.judge.hidden_checks import takes_all_integers
from kernelkb.measure.worker.judge.inputs.inputs import KernelCase

KERNEL = """\
id: lookup
title: Elements of a table, by index
axes: [n]
workloads:
  small: {n: 100}
default_workload: {cpu: small, cuda: small}
check_workloads: [{n: 70}]
inputs:
  - {name: table, shape: [n], dtype: float32, fill: normal, scale: 1.0}
  - {name: index, shape: [n], dtype: int64, fill: integers, scale: 90}
outputs: [{name: y, shape: [n], dtype: float32}]
reference: {file: reference.py, function: lookup}
entry: lookup
variants:
  - {id: plain, target: cpu, language: python, source: plain.py, returns: true, summary: torch}
"""
LOOKUP = "def lookup(table, index):\n    return table[index]\n"
INPUTS = """
def make_inputs(n):
    import torch
    return torch.rand(n), torch.randint(n, (n,))
"""


def write_lookup(project, kernel=KERNEL):
    folder = project / "kernels" / "lookup"
    folder.mkdir(parents=True)
    (folder / "kernel.yaml").write_text(kernel)
    (folder / "plain.py").write_text(LOOKUP)
    (folder / "reference.py").write_text(LOOKUP + INPUTS)
    return load_kernel_folder(folder)


@pytest.mark.parametrize(("size", "expected"), [(90, True), (89, False)])
def test_every_index_is_tried(project, size, expected):
    folder = write_lookup(project)
    file = str(folder.folder / "reference.py")
    reference = {"kind": "python", "file": file, "entry": "lookup", "inputs": None}

    assert takes_all_integers(reference, make_case_spec(folder, "", {"n": size})) == expected


@pytest.mark.parametrize(("target", "are_drawn"), [("cpu", True), ("cuda", False)])
def test_integers_of_the_kernels_own_function_are_not_drawn_in_other_sizes_on_a_gpu(
    project, target, are_drawn
):
    own = KERNEL.replace("function: lookup}", "function: lookup, inputs: make_inputs}")

    assert bool(make_hidden_size_cases(write_lookup(project, own), target)) == are_drawn


def test_filled_integers_are_drawn_in_other_sizes_on_a_gpu(project):
    assert make_hidden_size_cases(write_lookup(project), "cuda")


SPARSE = """\
id: lookup
title: Sums of the rows of a sparse matrix
axes: [rows, count]
workloads:
  small: {rows: 40, count: 300}
default_workload: {cpu: small}
check_workloads: [{rows: 7, count: 31}, {rows: 1, count: 2}]
inputs:
  - {name: begin, shape: [rows + 1], dtype: int32, fill: offsets, scale: count}
  - {name: column, shape: [count], dtype: int32, fill: integers, scale: 2 * rows}
  - {name: x, shape: [2 * rows], dtype: float32}
outputs: [{name: y, shape: [rows], dtype: float32}]
reference: {file: reference.py, function: lookup}
entry: lookup
variants:
  - {id: plain, target: cpu, language: python, source: plain.py, returns: true, summary: torch}
"""


@pytest.mark.parametrize("sizes", [{"rows": 40, "count": 300}, {"rows": 1, "count": 2}])
def test_offsets_ascend_from_zero_to_their_last_value(project, sizes):
    case = KernelCase(
        "cpu",
        {"kind": "python", "file": "reference.py", "entry": "lookup", "inputs": None},
        make_case_spec(write_lookup(project, SPARSE), "", sizes),
    )

    drawn = [case.make_inputs(seed) for seed in range(3)]

    for begin, column, x in drawn:
        assert len(begin) == sizes["rows"] + 1
        assert len(x) == 2 * sizes["rows"]
        assert (begin.diff() >= 0).all()
        assert (int(begin[0]), int(begin[-1])) == (0, sizes["count"])
        assert int(column.min()) >= 0
        assert int(column.max()) < 2 * sizes["rows"]
    assert sizes["rows"] == 1 or not torch.equal(drawn[0][0], drawn[1][0])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[rows + 1]", "[rows + lines]", "'rows + lines' is not an expression of the axes"),
        ("[2 * rows]", "[rows / 2]", "'rows / 2' is 3.5 for"),
        ("scale: count}", "scale: counts}", "'counts', not one of the axes"),
        ("[rows + 1]", "[rows - 20]", "no number of elements"),
    ],
)
def test_an_extent_that_is_no_size_for_a_workload_is_refused(project, old, new, complaint):
    with pytest.raises(KnowledgeError, match=re.escape(complaint)):
        write_lookup(project, SPARSE.replace(old, new))


def test_sizes_that_the_judge_draws_give_whole_extents(project):
    halved = SPARSE.replace("[2 * rows]", "[count / 2]").replace("31}", "32}")
    folder = write_lookup(project, halved.replace("scale: 2 * rows", "scale: count / 2"))

    drawn = draw_sizes(folder, random.Random(3))

    assert drawn
    assert all(sizes["count"] % 2 == 0 for sizes in drawn)
