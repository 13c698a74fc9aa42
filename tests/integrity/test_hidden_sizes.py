"""Sizes that kernel.yaml does not name: drawn by its pattern, and a wrong answer there counts."""

import random

import pytest
from attacks import write_attack

from kernelkb.actions.kernels.measure_variant import check_variant
from kernelkb.loading.kernels import load_kernel, load_kernel_folder
from kernelkb.measure.check.check import draw_sizes, make_hidden_size_cases
from kernelkb.measure.job_specs import make_case_spec

HONEST_BODY = "  honest(x, y, rows, cols);\n"


def change_sizes(folder, sizes):
    """Return a kernel with other sizes: (rows, cols), the last ones a workload."""
    named = [{"rows": rows, "cols": cols} for rows, cols in sizes]
    kernel = folder.kernel.model_copy(
        update={"workloads": {"small": named[-1]}, "check_workloads": tuple(named[:-1])}
    )
    return folder._replace(kernel=kernel)


@pytest.fixture
def softmax():
    return load_kernel("row_softmax")


def test_sizes_are_small_new_and_of_every_remainder(softmax):
    drawn = draw_sizes(softmax, random.Random(1))
    named = [*softmax.kernel.workloads.values(), *softmax.kernel.check_workloads]

    assert len(drawn) == 64
    assert all(sizes not in named for sizes in drawn)
    assert all(sizes["rows"] * sizes["cols"] <= 2**16 for sizes in drawn)
    assert len({sizes["cols"] % 32 for sizes in drawn}) > 20


def test_every_power_of_two_between_named_sizes_is_drawn(softmax):
    drawn = draw_sizes(change_sizes(softmax, [(40, 5), (1, 301)]), random.Random(1))

    assert {sizes["cols"] for sizes in drawn} >= {8, 16, 32, 64, 128, 256}
    assert {sizes["rows"] for sizes in drawn} >= {1, 2, 4, 8, 16, 32}


@pytest.mark.parametrize("seed", range(10))
def test_every_size_of_a_short_axis_is_drawn(softmax, seed):
    """As the queries of an attention: a kernel that was wrong for 7 of them passed."""
    short = change_sizes(softmax, [(1, 1), (5, 7), (3, 33), (12, 20)])
    drawn = draw_sizes(short, random.Random(seed))

    assert {sizes["rows"] for sizes in drawn} == set(range(1, 13))
    assert len({sizes["cols"] for sizes in drawn}) > 20


@pytest.mark.parametrize(
    ("sizes", "holds"),
    [
        ([(64, 128), (64, 33)], lambda s: s["rows"] == 64),
        ([(3, 128), (40, 512)], lambda s: s["cols"] in (128, 256, 512)),
        ([(3, 96), (40, 240)], lambda s: s["cols"] % 48 == 0),
        ([(7, 7), (40, 40)], lambda s: s["rows"] == s["cols"]),
        ([(7, 21), (40, 120), (5, 35)], lambda s: s["cols"] % s["rows"] == 0),
        ([(7, 21), (40, 50)], lambda s: s["rows"] <= s["cols"]),
    ],
)
def test_what_all_named_sizes_share_is_kept(softmax, sizes, holds):
    drawn = draw_sizes(change_sizes(softmax, sizes), random.Random(1))

    assert drawn
    assert all(map(holds, drawn)), drawn


def test_a_kernel_may_exclude_other_sizes(project):
    folder = project / "kernels" / write_attack(project, HONEST_BODY)
    path = folder / "kernel.yaml"
    path.write_text(path.read_text() + "hidden_inputs: {skip: [sizes], reason: fixed}\n")

    assert make_hidden_size_cases(load_kernel_folder(folder), "cpu") == []


@pytest.mark.defends(
    "R5",
    attack="right for the sizes in kernel.yaml only",
    defence="sizes drawn by the judge; a kernel may refuse them",
)
def test_a_kernel_that_is_wrong_for_other_sizes_is_incorrect(project):
    wrong = "  if (cols % 32 != 1 && cols % 256) std::memset(y, 0, bytes);\n"
    found = check_variant(write_attack(project, HONEST_BODY + wrong), target="cpu")

    assert found.status == "incorrect"
    assert "drawn by the judge" in found.detail


@pytest.mark.slow
def test_a_kernel_that_refuses_other_sizes_is_correct_with_a_note(project):
    refuse = "  if (cols != 33 && cols != 256 && cols != 1024 && cols != 4096) return 1;\n"
    found = check_variant(write_attack(project, refuse + HONEST_BODY), target="cpu")

    assert found.status == "correct", found.detail
    assert any("hidden inputs left out: other sizes" in note for note in found.notes)


@pytest.mark.slow
def test_sizes_at_which_the_reference_has_other_shapes_are_left_out(project):
    """As of an upsampling: every named size is twice the other axis, and no pattern says so."""
    name = write_attack(project, HONEST_BODY)
    reference = project / "kernels" / name / "reference.py"
    reference.write_text(
        reference.read_text()
        + "    return out if x.shape[1] in (33, 256, 1024, 4096) else out[:, :8]\n"
    )
    reference.write_text(reference.read_text().replace("return torch", "out = torch"))
    found = check_variant(name, target="cpu")

    assert found.status == "correct", found.detail
    assert any("the reference's outputs have other shapes" in note for note in found.notes)


@pytest.mark.parametrize("seed", range(5))
def test_a_number_that_is_an_axis_is_drawn_among_the_named_ones(seed):
    attention = load_kernel("attention_fp16")
    drawn = draw_sizes(attention, random.Random(seed))

    assert {sizes["causal"] for sizes in drawn} == {0, 1}
    assert {sizes["dim"] for sizes in drawn} == {64, 128}
    for sizes in drawn:
        spec = make_case_spec(attention, "drawn", sizes)
        assert spec["axis_names"] == ["bh", "seq", "dim"]
        assert spec["inputs"][3] == {"name": "causal", "value": sizes["causal"]}
