"""Drawn sizes of integer inputs: on a GPU an index outside of its array would end the judge."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.measure.check.check import make_hidden_size_cases
from kernelkb.measure.job_specs import make_case_spec
from kernelkb.measure.worker.judge.hidden_checks import takes_all_integers

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
