"""References are resolved after everything was read, and every dangling one is named in place."""

import re

import pytest

from engine.errors import KnowledgeError
from engine.loading.knowledge import load_knowledge

GRID = "bottlenecks/parallelism/small-grid.yaml"


def edit(folder, name, old, new):
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def problems(folder):
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
    edit(knowledge_copy, name, old, new)
    found = [text for text in problems(knowledge_copy) if complaint in text]

    assert found
    assert re.search(rf"{re.escape(name)}:\d+:\d+: ", found[0])


def test_mistakes_of_several_files_are_reported_together(knowledge_copy):
    edit(knowledge_copy, GRID, "metric: waves,", "metric: wave,")
    edit(knowledge_copy, "metrics.yaml", "recipe: kb-bench", "recipe: kb-bensh")

    assert len({text.split(":")[0] for text in problems(knowledge_copy)}) == 2


def test_a_strange_file_is_not_ignored(knowledge_copy):
    (knowledge_copy / "metriks.yaml").write_text("a: 1\n")

    assert "not a knowledge file (did you mean 'metrics.yaml'?)" in problems(knowledge_copy)[0]


def test_a_missing_file_is_named(knowledge_copy):
    (knowledge_copy / "sources.yaml").unlink()

    assert any("sources.yaml" in text and "required" in text for text in problems(knowledge_copy))


def test_a_folder_that_does_not_exist_is_said_to_not_exist(tmp_path):
    assert "no such folder" in problems(tmp_path / "nowhere")[0]
