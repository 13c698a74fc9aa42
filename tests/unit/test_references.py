"""Mistakes in knowledge: every name that leads nowhere is shown where it stands, all at once.

Most mistakes are made in one copy of the knowledge, which is loaded once.
"""

import re

import pytest

from kernelkb.errors import KnowledgeError
from kernelkb.loading.knowledge import load_knowledge

GATE = "trees/performance-gate.yaml"
GRID = "bottlenecks/parallelism/small-grid.yaml"
NEAR = "bottlenecks/terminal/near-roofline.yaml"
TAIL = "bottlenecks/parallelism/tail-effect.yaml"
SPILL = "bottlenecks/memory-transactions/register-spilling.yaml"


def load_problems(folder):
    with pytest.raises(KnowledgeError) as caught:
        load_knowledge(folder)
    return caught.value.problems


def edit_file(folder, name, old, new):
    """Change one place of a file, and return the line that it is on."""
    path = folder / name
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


MISTAKES = [
    (
        NEAR,
        "bottleneck: timing-artifact",
        "bottleneck: timing-artefact",
        "unknown bottleneck 'timing-artefact' (did you mean 'timing-artifact'?)",
    ),
    (
        NEAR,
        "metric: over_fetch",
        "metric: overfetch",
        "unknown metric 'overfetch' (did you mean 'over_fetch'?)",
    ),
    (
        NEAR,
        "{attainable_speedup: 0.5}",
        "{attainable_speed: 0.5}",
        "unknown metric 'attainable_speed' (did you mean 'attainable_speedup'?)",
    ),
    (
        TAIL,
        "falsifier: {metric: wave_loss",
        "falsifier: {metric: waveloss",
        "unknown metric 'waveloss' (did you mean 'wave_loss'?)",
    ),
    (
        SPILL,
        "- relax-register-cap",
        "- relax-registers-cap",
        "unknown fix 'relax-registers-cap' (did you mean 'relax-register-cap'?)",
    ),
    (
        GATE,
        "threshold: parity",
        "threshold: party",
        "unknown threshold 'party' (did you mean 'parity'?)",
    ),
    (
        GATE,
        "otherwise: incorrect",
        "otherwise: incorect",
        "unknown node 'incorect' (did you mean 'incorrect'?)",
    ),
    (
        GATE,
        "root: result-correct",
        "root: result-corect",
        "unknown node 'result-corect' (did you mean 'result-correct'?)",
    ),
    (
        "thresholds.yaml",
        "metric: waves",
        "metric: wavs",
        "unknown metric 'wavs' (did you mean 'waves'?)",
    ),
    (
        "metrics.yaml",
        "derive: working_set_bytes /",
        "derive: working_bytes /",
        "unknown metric 'working_bytes' (did you mean 'working_set_bytes'?)",
    ),
    (
        "trees/restructuring.yaml",
        "fixes: [algorithm-change]",
        "fixes: [algoritm-change]",
        "unknown fix 'algoritm-change' (did you mean 'algorithm-change'?)",
    ),
    (
        "metrics.yaml",
        "recipe: nsys-timeline",
        "recipe: nsys-timelin",
        "unknown recipe 'nsys-timelin' (did you mean 'nsys-timeline'?)",
    ),
    (
        "guards.yaml",
        "bottlenecks: [single-threaded]",
        "bottlenecks: [single-thread]",
        "unknown bottleneck 'single-thread' (did you mean 'single-threaded'?)",
    ),
    (
        "guards.yaml",
        "needs: [launch_gap_share]",
        "needs: [launch_gap]",
        "unknown metric 'launch_gap' (did you mean 'launch_gap_us'?)",
    ),
    (
        "fixes/system.yaml",
        "family: system",
        "family: systems",
        "'systems' must equal the file's name, 'system'",
    ),
    (
        "calibration.yaml",
        "sources: [kernelkb-judgement]",
        "sources: [kernelkb-judgment]",
        "unknown source 'kernelkb-judgment' (did you mean 'kernelkb-judgement'?)",
    ),
    (GRID, "metric: waves,", "metric: wave,", "unknown metric 'wave' (did you mean 'waves'?)"),
    (GRID, "one-wave", "one-wafe", "unknown threshold 'one-wafe' (did you mean 'one-wave'?)"),
    (
        GRID,
        "device.sm_count",
        "device.sm_cont",
        "unknown device fact 'device.sm_cont' (did you mean 'device.sm_count'?)",
    ),
    (GRID, "split-k", "split-q", "unknown fix 'split-q'"),
    (GRID, "nsight-compute-rules", "nsight-rules", "unknown source 'nsight-rules'"),
]
"""(file, what stands there, the mistake, the beginning of the complaint), each on its own line."""


def test_every_name_that_leads_nowhere_is_shown_at_its_line_with_a_suggestion(knowledge_copy):
    lines = [edit_file(knowledge_copy, name, old, new) for name, old, new, _ in MISTAKES]
    problems = load_problems(knowledge_copy)
    missed = [
        (name, line, message)
        for line, (name, _, _, message) in zip(lines, MISTAKES, strict=True)
        if not any(
            p.path.endswith(name) and p.line == line and p.message.startswith(message)
            for p in problems
        )
    ]

    assert not missed, "\n".join(map(str, problems))
    assert list(problems) == sorted(problems)


def test_the_column_is_that_of_the_wrong_value(knowledge_copy):
    line = edit_file(
        knowledge_copy, NEAR, "quantised-gemv, reduce-precision", "quantised-gemv, reduce-px"
    )
    text = (knowledge_copy / NEAR).read_text().splitlines()[line - 1]

    (found,) = load_problems(knowledge_copy)
    assert found.column == text.index("reduce-px") + 1


def test_entries_in_the_wrong_place_or_twice_are_refused(knowledge_copy):
    """An id beside its file's name, a group outside its folder, one fix in two families."""
    edit_file(knowledge_copy, GRID, "id: small-grid", "id: tiny-grid")
    edit_file(knowledge_copy, SPILL, "group: memory-transactions", "group: latency")
    copy = (knowledge_copy / TAIL).read_text()
    (knowledge_copy / "bottlenecks" / "latency" / "tail-effect.yaml").write_text(copy)
    moved = knowledge_copy / "bottlenecks" / "near-roofline.yaml"
    (knowledge_copy / NEAR).rename(moved)
    cpu = knowledge_copy / "fixes" / "cpu.yaml"
    text = (knowledge_copy / "fixes" / "system.yaml").read_text()
    start = text.index("  - id: cuda-graph")
    cpu.write_text(cpu.read_text() + text[start : text.index("  - id:", start + 1)])
    messages = [str(p) for p in load_problems(knowledge_copy)]

    for complaint in (
        "'tiny-grid' must equal the file's name",
        "belongs in bottlenecks/latency/",
        "bottleneck 'tail-effect' is defined twice",
        "group 'parallelism' belongs in bottlenecks/parallelism/",
        "belongs in bottlenecks/terminal/",
        "fix 'cuda-graph' is defined twice, see",
    ):
        assert any(complaint in text for text in messages), (complaint, messages)


LEAF = "  - {id: at-roof, verdict: stop, because: It says so., do: [stop]}\n"
QUESTION = """\
  - id: near-the-roof
    ask: Again?
    when: {metric: speedup, op: "<", value: 9.0}
    then: at-roof
    otherwise: at-roof
    unknown: at-roof
"""


TWINS = [
    ("sources.yaml", "id: gpa\n", "id: gpuscout\n", "source 'gpuscout' is defined twice"),
    ("devices.yaml", "id: l4\n", "id: h200\n", "device 'h200' is defined twice"),
    ("metrics.yaml", "id: occupancy\n", "id: speedup\n", "metric 'speedup' is defined twice"),
    ("thresholds.yaml", "id: parity", "id: one-wave", "threshold 'one-wave' is defined twice"),
    ("effects.yaml", "- id: fewer-bytes\n", "- id: widen\n", "effect 'widen' is defined twice"),
    (GATE, "leaves:\n", QUESTION + "leaves:\n" + LEAF, "'near-the-roof' is defined twice"),
    (GATE, "leaves:\n", "leaves:\n", "'at-roof' is defined twice"),
]


def test_every_id_that_stands_twice_is_refused(knowledge_copy):
    for name, old, new, _ in TWINS:
        edit_file(knowledge_copy, name, old, new)
    messages = [str(p) for p in load_problems(knowledge_copy)]

    for _, _, _, complaint in TWINS:
        assert any(complaint in text for text in messages), (complaint, messages)


def test_files_that_are_no_knowledge_are_named(knowledge_copy):
    """Somebody who adds one would otherwise see it pass every check and never decide anything."""
    (knowledge_copy / "metriks.yaml").write_text("a: 1\n")
    for name in ("new-one.yml", "new-two.YAML"):
        (knowledge_copy / "bottlenecks" / "latency" / name).write_text("id: new-one\n")
    found = [str(p) for p in load_problems(knowledge_copy)]

    assert any("not a knowledge file (did you mean 'metrics.yaml'?)" in text for text in found)
    assert all(any(name in text for text in found) for name in ("new-one.yml", "new-two.YAML"))


REQUIRED = ("metrics", "devices", "thresholds", "guards", "calibration", "effects", "sources")


def test_every_file_that_is_missing_is_named(knowledge_copy):
    for name in REQUIRED:
        (knowledge_copy / f"{name}.yaml").unlink()
    found = [str(p) for p in load_problems(knowledge_copy)]

    for name in REQUIRED:
        assert any(text.endswith(f"{name}.yaml:1:1: file: this file is required") for text in found)


def test_a_missing_file_makes_no_noise_about_its_references(knowledge_copy):
    (knowledge_copy / "thresholds.yaml").unlink()
    (found,) = load_problems(knowledge_copy)

    assert "this file is required" in found.message


def test_a_missing_folder_is_reported(tmp_path):
    assert "no such folder" in str(load_problems(tmp_path / "nowhere")[0])


def test_a_file_that_does_not_load_makes_no_noise_about_its_references(knowledge_copy):
    edit_file(knowledge_copy, "metrics.yaml", "metrics:", "metriks:")

    assert all(p.path.endswith("metrics.yaml") for p in load_problems(knowledge_copy))


def test_a_broken_file_does_not_hide_another_one(knowledge_copy):
    edit_file(knowledge_copy, GRID, "level: L0", "level: L9")
    edit_file(knowledge_copy, "guards.yaml", "target: cuda", "target: cudda")
    (knowledge_copy / "notes.yaml").write_text("a: 1\n")

    assert len(load_problems(knowledge_copy)) == 3


def test_paths_are_shown_from_where_one_stands(knowledge_copy, monkeypatch):
    monkeypatch.chdir(knowledge_copy.parent)
    edit_file(knowledge_copy, GRID, "metric: waves,", "metric: wave,")

    assert str(load_problems(knowledge_copy)[0]).startswith(f"knowledge/{GRID}:")


def test_two_loads_of_the_same_files_are_equal_wherever_they_lie(knowledge_copy):
    copied, shipped = load_knowledge(knowledge_copy), load_knowledge()

    assert copied == shipped
    assert copied.sha256 == shipped.sha256


def test_a_wrong_formula_is_found_where_it_stands(knowledge_copy):
    right = "derive: working_set_bytes / cache_bytes"
    edit_file(knowledge_copy, "metrics.yaml", right, "derive: working_set_bytes cache_bytes")

    (found,) = load_problems(knowledge_copy)
    assert re.search(r"metrics\.yaml:\d+:\d+: .*is not a formula", str(found))
