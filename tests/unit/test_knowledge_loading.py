"""References are resolved after everything was read, and every dangling one is named in place."""

import re

import pytest

from kernelkb.errors import KnowledgeError
from kernelkb.loading.knowledge import load_knowledge

GRID = "bottlenecks/parallelism/small-grid.yaml"


def edit_file(folder, name, old, new):
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def load_problems(folder):
    with pytest.raises(KnowledgeError) as caught:
        load_knowledge(folder)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        (GRID, "metric: waves,", "metric: wave,", "unknown metric 'wave' (did you mean 'waves'?)"),
        (GRID, "one-wave", "one-wafe", "unknown threshold 'one-wafe' (did you mean 'one-wave'?)"),
        (GRID, "device.sm_count", "device.sm_cont", "unknown device fact 'device.sm_cont' (did"),
        (GRID, "split-k", "split-q", "unknown fix 'split-q'"),
        (GRID, "nsight-compute-rules", "nsight-rules", "unknown source 'nsight-rules'"),
        (GRID, "id: small-grid", "id: tiny-grid", "'tiny-grid' must equal the file's name"),
        (GRID, "group: parallelism", "group: latency", "belongs in bottlenecks/latency/"),
        ("metrics.yaml", "recipe: kb-bench", "recipe: kb-bensh", "unknown recipe 'kb-bensh'"),
        ("trees/performance-gate.yaml", "then: at-roof", "then: a-roof", "unknown node 'a-roof'"),
        ("sources.yaml", "id: gpa", "id: gpuscout", "source 'gpuscout' is defined twice"),
    ],
)
def test_a_dangling_name_is_found_where_it_stands(knowledge_copy, name, old, new, complaint):
    edit_file(knowledge_copy, name, old, new)
    found = [text for text in load_problems(knowledge_copy) if complaint in text]

    assert found
    assert re.search(rf"{re.escape(name)}:\d+:\d+: ", found[0])


def test_mistakes_of_several_files_are_reported_together(knowledge_copy):
    edit_file(knowledge_copy, GRID, "metric: waves,", "metric: wave,")
    edit_file(knowledge_copy, "metrics.yaml", "recipe: kb-bench", "recipe: kb-bensh")

    assert len({text.split(":")[0] for text in load_problems(knowledge_copy)}) == 2


def test_an_unexpected_file_is_reported(knowledge_copy):
    (knowledge_copy / "metriks.yaml").write_text("a: 1\n")

    assert "not a knowledge file (did you mean 'metrics.yaml'?)" in load_problems(knowledge_copy)[0]


def test_a_missing_file_is_named(knowledge_copy):
    (knowledge_copy / "sources.yaml").unlink()

    assert any(
        "sources.yaml" in text and "required" in text for text in load_problems(knowledge_copy)
    )


def test_a_missing_folder_is_reported(tmp_path):
    assert "no such folder" in load_problems(tmp_path / "nowhere")[0]


@pytest.mark.parametrize(
    "name",
    [
        "metrics.yaml",
        "devices.yaml",
        "thresholds.yaml",
        "guards.yaml",
        "calibration.yaml",
        "effects.yaml",
    ],
)
def test_each_single_file_is_required(knowledge_copy, name):
    (knowledge_copy / name).unlink()
    (found,) = load_problems(knowledge_copy)

    assert found.endswith(f"{name}:1:1: file: this file is required")


def test_a_file_that_does_not_load_makes_no_noise_about_its_references(knowledge_copy):
    edit_file(knowledge_copy, "metrics.yaml", "metrics:", "metriks:")

    assert all("metrics.yaml" in text for text in load_problems(knowledge_copy))


def test_a_broken_file_does_not_hide_another_one(knowledge_copy):
    edit_file(knowledge_copy, GRID, "level: L0", "level: L9")
    edit_file(knowledge_copy, "guards.yaml", "target: cuda", "target: cudda")
    (knowledge_copy / "notes.yaml").write_text("a: 1\n")

    assert len(load_problems(knowledge_copy)) == 3


@pytest.mark.parametrize("name", ["new-one.yml", "new-one.YAML"])
def test_an_entry_with_another_suffix_is_not_lost(knowledge_copy, name):
    """Somebody who adds one would otherwise see it pass every check and never decide anything."""
    (knowledge_copy / "bottlenecks" / "latency" / name).write_text("id: new-one\n")

    assert any(name in text for text in load_problems(knowledge_copy))


def test_a_bottleneck_outside_every_group_is_refused(knowledge_copy):
    (knowledge_copy / GRID).rename(knowledge_copy / "bottlenecks" / "small-grid.yaml")

    assert "belongs in bottlenecks/parallelism/" in load_problems(knowledge_copy)[0]


def test_paths_are_shown_from_where_one_stands(knowledge_copy, monkeypatch):
    monkeypatch.chdir(knowledge_copy.parent)
    edit_file(knowledge_copy, GRID, "metric: waves,", "metric: wave,")

    assert load_problems(knowledge_copy)[0].startswith(f"knowledge/{GRID}:")


def test_two_loads_of_the_same_files_are_equal(knowledge_copy):
    assert load_knowledge(knowledge_copy) == load_knowledge()


def test_the_digest_names_the_content_and_not_the_place(knowledge_copy):
    assert load_knowledge(knowledge_copy).sha256 == load_knowledge().sha256


@pytest.mark.parametrize("formula", ["working_set_bytes /", "working_set_bytes cache_bytes"])
def test_a_wrong_formula_is_found_where_it_stands(knowledge_copy, formula):
    edit_file(
        knowledge_copy,
        "metrics.yaml",
        "derive: working_set_bytes / cache_bytes",
        f"derive: {formula}",
    )

    (found,) = load_problems(knowledge_copy)
    assert re.search(r"metrics\.yaml:\d+:\d+: .*is not a formula", found)
