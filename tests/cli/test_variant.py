"""``kb variant add``: a copy of a variant, registered, to make one change in."""

import json
import shutil
from pathlib import Path

import pytest
from shipped_rules import program
from simple_kernels import write_kernel

from kernelkb.actions.advice.code_location import (
    AnsweredVariant,
    find_profiled_variant,
)
from kernelkb.actions.advice.next_steps import list_change_steps
from kernelkb.actions.advice.recommend import complete_answer
from kernelkb.actions.project.variants import list_unchanged_copies
from kernelkb.cli import main
from kernelkb.decide.recommend import recommend
from kernelkb.loading.kernels import load_kernel
from kernelkb.render.text.steps import print_answer
from kernelkb.safety.paths import shipped_folder

UNCOALESCED = {"sectors_per_load": 32.0, "sector_load_useful_bytes": 4.0, "speedup": 0.8}


@pytest.fixture
def softmax(project):
    shutil.copytree(
        Path(shipped_folder("kernels")) / "row_softmax", project / "kernels" / "row_softmax"
    )
    return project


def add(*words):
    return main(["variant", "add", *words])


def test_the_file_is_copied_and_registered_and_the_next_call_printed(softmax, capsys):
    folder = softmax / "kernels" / "row_softmax"
    before = (folder / "kernel.yaml").read_text()

    assert add("kernels/row_softmax/", "two-rows", "--from", "naive", "--target", "cpu") == 0

    assert (folder / "two-rows.cpp").read_bytes() == (folder / "naive.cpp").read_bytes()
    after = (folder / "kernel.yaml").read_text()
    assert after.startswith(before.rstrip())
    added = load_kernel("row_softmax", softmax).kernel.variants[-1]
    assert (added.id, added.target, added.source) == ("two-rows", "cpu", "two-rows.cpp")
    *_, edit, follow = capsys.readouterr().out.splitlines()
    assert edit == "change one thing in kernels/row_softmax/two-rows.cpp, then"
    assert follow == "next: kb bench row_softmax --variant two-rows --target cpu --against naive"


def test_a_name_that_is_a_fix_is_applied_once_the_copy_is_changed(softmax, capsys):
    assert add("row_softmax", "vectorize-128b-2", "--from", "warp", "--json") == 0

    folder = load_kernel("row_softmax", softmax)
    added = folder.kernel.variants[-1]
    assert added.applies == ("remap-threads-coalesced", "vectorize-128b")
    assert list_unchanged_copies(folder) == {("cuda", "vectorize-128b-2")}
    path = softmax / json.loads(capsys.readouterr().out)["path"]
    path.write_text(path.read_text() + "// changed\n")
    assert not list_unchanged_copies(folder)


def test_a_shipped_kernel_is_copied_into_the_project_first(project):
    assert add("attention_fp16", "deeper", "--from", "flash-mma") == 0

    folder = load_kernel("attention_fp16", project)
    assert folder.folder == project / "kernels" / "attention_fp16"
    copied, origin = folder.folder / "deeper.cu", project / "kernels/attention/flash_mma.cu"
    assert copied.read_text().count("\n") == origin.read_text().count("\n")


def test_a_source_that_a_launcher_includes_is_copied_and_its_includes_stay_right(project):
    folder = write_kernel(project, "twice")
    source = project / "src" / "twice.cpp"
    source.parent.mkdir()
    (source.parent / "factor.h").write_text("constexpr float FACTOR = 2;\n")
    source.write_text('#include "factor.h"\n' + (folder / "plain.cpp").read_text())
    (folder / "plain.cpp").write_text('#include "../../src/twice.cpp"\n')

    assert add("twice", "faster") == 0

    assert (folder / "faster.cpp").read_text() == '#include "faster_twice.cpp"\n'
    assert (folder / "faster_twice.cpp").read_text().startswith('#include "../../src/factor.h"\n')
    assert main(["build", "twice", "--variant", "faster"]) == 0
    loaded = load_kernel("twice", project)
    assert list_unchanged_copies(loaded) == {("cpu", "faster")}
    (folder / "faster_twice.cpp").write_text("// other\n")
    assert not list_unchanged_copies(loaded)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["row_softmax", "x", "--from", "naive"], "name the target of the new one"),
        (["row_softmax", "x", "--from", "nope"], "unknown variant of row_softmax 'nope'"),
        (["row_softmax", "warp", "--from", "warp"], "take warp-2, or edit that one"),
        (["row_softmax", "Warp", "--from", "warp"], "words with hyphens"),
        (["row_softmax", "../x", "--from", "warp"], "words with hyphens"),
        (["row_softmax", "reference", "--from", "mine"], "exists already; take another name"),
        (["nope", "x", "--from", "naive"], "unknown kernel 'nope'"),
    ],
)
def test_misuse_is_one_line_and_writes_nothing(softmax, capsys, words, text):
    folder = softmax / "kernels" / "row_softmax"
    shutil.copy(folder / "reference.py", folder / "mine.py")
    row = "  - {id: mine, target: cpu, language: python, source: mine.py, summary: torch}\n"
    with (folder / "kernel.yaml").open("a") as file:
        file.write(row)
    before = {path: path.read_bytes() for path in softmax.rglob("*") if path.is_file()}

    assert add(*words) == 2

    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1
    assert before == {path: path.read_bytes() for path in softmax.rglob("*") if path.is_file()}


def answer_for(project, variant, measured=UNCOALESCED):
    folder = load_kernel("row_softmax", project)
    chosen = next(v for v in folder.kernel.variants if (v.id, v.target) == (variant, "cuda"))
    answer = recommend(program(), measured, device="h100-sxm", kernel="row_softmax")
    return print_answer(complete_answer(answer, subject=AnsweredVariant(folder, chosen)))


def test_the_answer_names_the_variant_that_applies_the_fix(softmax):
    answer = answer_for(softmax, "naive")

    assert answer["change"]["applied_by"] == "warp"
    assert "kb bench row_softmax --variant warp --target cuda --against naive" in answer["next"]
    assert not [step for step in answer["next"] if step.startswith("kb variant")]


def test_the_answer_names_file_line_and_copy_where_no_variant_applies_it(softmax):
    path = softmax / "kernels" / "row_softmax" / "kernel.yaml"
    text = path.read_text()
    path.write_text(text[: text.index("  - id: warp")])

    place = answer_for(softmax, "naive")["change"]

    source = (softmax / "kernels/row_softmax/naive.cu").read_text().splitlines()
    assert "softmax_thread_per_row(" in source[place["line"] - 1]
    assert place["file"] == "kernels/row_softmax/remap-threads-coalesced.cu"
    copy, bench = (step.as_shell_words() for step in list_change_steps(place))
    assert copy == "kb variant add row_softmax remap-threads-coalesced --from naive --target cuda"
    assert bench.endswith("--against naive --change remap-threads-coalesced")
    assert main(copy.split()[1:]) == 0
    again = answer_for(softmax, "naive")["change"]
    assert (again["is_copied"], again["new_variant"]) == (True, "remap-threads-coalesced")
    (softmax / place["file"]).write_text("// changed\n")
    assert answer_for(softmax, "naive")["change"]["applied_by"] == place["new_variant"]


def test_a_fix_that_the_variant_applies_is_not_the_change(softmax):
    change = answer_for(softmax, "warp")["change"]

    assert change is None or change["fix"] != "remap-threads-coalesced"


def test_what_only_the_caller_can_change_is_no_change_of_the_kernel(softmax):
    (softmax / ".kb").mkdir(exist_ok=True)
    (softmax / ".kb" / "session").write_text("open")
    launches = {"kernel_us": 4.0, "call_us": 9.0, "launch_count": 200, "speedup": 0.8}

    answer = answer_for(softmax, "warp", launches)

    assert answer["diagnoses"][0]["bottleneck"] == "launch-overhead-bound"
    assert answer["change"] is None
    assert answer["next"][0].startswith("in the program that calls it, cuda-graph: ")
    assert answer["next"][1:] == ["kb session close"]


@pytest.mark.usefixtures("softmax")
def test_a_kernel_of_a_report_is_found_by_its_function():
    found = find_profiled_variant("void softmax_warp_per_row<4>(const float *, float *, long)")

    assert (found.folder.kernel.id, found.variant.id) == ("row_softmax", "warp")
    assert find_profiled_variant("softmax_warp(float *)") is None
