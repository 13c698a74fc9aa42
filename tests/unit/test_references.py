"""Each kind of reference is resolved, and a dangling one is shown at the line to edit."""

import pytest

from kernelkb.errors import KnowledgeError
from kernelkb.loading.knowledge import load_knowledge

GATE = "trees/performance-gate.yaml"
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


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
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
    ],
)
def test_a_dangling_reference_names_its_line_and_a_suggestion(
    knowledge_copy, name, old, new, message
):
    line = edit_file(knowledge_copy, name, old, new)
    found = [(p.line, p.message) for p in load_problems(knowledge_copy) if p.path.endswith(name)]

    assert (line, message) in found


def test_the_column_is_that_of_the_wrong_value(knowledge_copy):
    line = edit_file(
        knowledge_copy, NEAR, "[fuse-kernels, reduce-precision", "[fuse-kernels, reduce-px"
    )
    text = (knowledge_copy / NEAR).read_text().splitlines()[line - 1]

    (found,) = load_problems(knowledge_copy)
    assert found.column == text.index("reduce-px") + 1


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("metrics.yaml", "id: occupancy\n", "id: speedup\n", "metric 'speedup' is defined twice"),
        ("thresholds.yaml", "id: parity", "id: one-wave", "threshold 'one-wave' is defined twice"),
        ("sources.yaml", "id: gpa\n", "id: gpuscout\n", "source 'gpuscout' is defined twice"),
        ("devices.yaml", "id: l4\n", "id: h200\n", "device 'h200' is defined twice"),
    ],
)
def test_an_id_that_stands_twice_is_refused(knowledge_copy, name, old, new, message):
    edit_file(knowledge_copy, name, old, new)

    assert any(p.message.startswith(message) for p in load_problems(knowledge_copy))


def test_a_fix_of_two_families_is_refused_with_the_other_place(knowledge_copy):
    path = knowledge_copy / "fixes" / "cpu.yaml"
    text = (knowledge_copy / "fixes" / "system.yaml").read_text()
    start = text.index("  - id: cuda-graph")
    stop = text.index("  - id:", start + 1)
    path.write_text(path.read_text() + text[start:stop])

    (found,) = load_problems(knowledge_copy)
    assert "fix 'cuda-graph' is defined twice, see" in found.message


def test_a_bottleneck_in_two_folders_is_refused(knowledge_copy):
    text = (knowledge_copy / TAIL).read_text()
    (knowledge_copy / "bottlenecks" / "latency" / "tail-effect.yaml").write_text(text)
    messages = " ".join(p.message for p in load_problems(knowledge_copy))

    assert "bottleneck 'tail-effect' is defined twice" in messages
    assert "group 'parallelism' belongs in bottlenecks/parallelism/" in messages


LEAF = "  - {id: at-roof, verdict: stop, because: It says so., do: [stop]}\n"
QUESTION = """\
  - id: near-the-roof
    ask: Again?
    when: {metric: speedup, op: "<", value: 9.0}
    then: at-roof
    otherwise: at-roof
    unknown: at-roof
"""


@pytest.mark.parametrize(
    "twin", ["leaves:\n" + LEAF, QUESTION + "leaves:\n"], ids=["leaf", "question"]
)
def test_a_gate_node_that_stands_twice_is_refused(knowledge_copy, twin):
    edit_file(knowledge_copy, GATE, "leaves:\n", twin)

    assert any("defined twice" in p.message for p in load_problems(knowledge_copy))


def test_complaints_come_in_the_order_of_the_files(knowledge_copy):
    edit_file(knowledge_copy, TAIL, "metric: waves,", "metric: wavs,")
    edit_file(knowledge_copy, TAIL, "- stream-k", "- stream-q")
    edit_file(knowledge_copy, "guards.yaml", "needs: [speedup]", "needs: [spedup]")
    found = load_problems(knowledge_copy)

    assert len(found) == 3
    assert list(found) == sorted(found)
