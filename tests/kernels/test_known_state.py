"""A build says what the history knows: equal machine code, and words that nothing shows."""

import json
from pathlib import Path

import pytest
from attacks import write_attack

from kernelkb.actions.advice.apply_history import list_tried_changes
from kernelkb.actions.history import reuse_results as known_bench
from kernelkb.actions.history.attempts import load_attempt_log
from kernelkb.actions.history.outcomes import collect_evidence
from kernelkb.actions.kernels.measure_variant import bench_variant, build_variant
from kernelkb.cli import main
from kernelkb.decide.past_changes import reorder_by_history
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.records.measurement import is_valid
from kernelkb.record.attempt_store import open_attempts

HONEST = "  honest(x, y, rows, cols);\n"
SAME = "the change is called unroll-ilp, but the machine code is the same as before"


@pytest.fixture
def source(project):
    """The source file of a kernel in a project."""
    kernel = write_attack(project, HONEST)
    (path,) = (project / "kernels" / kernel).glob("*.cpp")
    return path


@pytest.fixture
def every_bench_counts(monkeypatch):
    """A busy machine decides nothing."""
    monkeypatch.setattr(known_bench, "is_decided", is_valid)
    monkeypatch.setattr(known_bench, "find_noise_reason", lambda _one: None)


def edit(source, text):
    source.write_text(source.read_text() + text)


def build(source, **fields):
    return build_variant(source.parent.name, target="cpu", **fields)


def test_a_build_with_the_code_of_the_state_before_says_so(source, capsys):
    first = build(source)
    edit(source, "// a comment\n")
    assert main(["build", source.parent.name, "--target", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert first.same_code is None
    assert found["same_code"] == (
        f"machine code as in attempt {first.attempt[:8]}, the state before"
    )


def test_a_build_with_other_code_says_nothing(source):
    build(source)
    edit(source, 'extern "C" int more(int x) { return x * 3; }\n')

    assert build(source, change="unroll-ilp").warnings == ()
    assert build(source).same_code is None


@pytest.mark.slow
def test_a_build_names_the_measured_attempt_whose_time_a_bench_answers(
    source, capsys, every_bench_counts
):
    kernel, whole = source.parent.name, source.read_text()
    first = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))
    edit(source, 'extern "C" int more(int x) { return x * 3; }\n')
    build(source)
    source.write_text(whole + "// the first one again\n")
    assert main(["build", kernel, "--target", "cpu"]) == 0
    shown = capsys.readouterr().out
    (root,) = load_attempt_log(kernel).tree.roots

    assert f"machine code as in attempt {root[:8]}, measured " in shown
    assert f" on {first.workload}: kb bench answers from the record" in shown
    assert bench_variant(
        kernel, target="cpu", options=BenchOptions(budget_s=0.3, again=False)
    ).from_record


@pytest.mark.slow
def test_words_for_equal_code_are_unconfirmed_and_refute_nothing(
    source, capsys, every_bench_counts
):
    kernel = source.parent.name
    bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))
    edit(source, "// unrolled, it says\n")
    built = build(source, change="unroll-ilp")
    timed = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3, again=False))
    assert main(["log", kernel]) == 0
    shown = capsys.readouterr().out
    node = list(load_attempt_log(kernel).tree.nodes.values())[-1]
    with open_attempts(Path.cwd()) as store:
        tried = list_tried_changes(store, kernel, node.attempt.id)
    diagnosis = {"verdict": "matches", "bottleneck": "low-ilp", "fixes": [
        {"id": "unroll-ilp", "tried": None}]}  # fmt: skip

    assert built.warnings == (SAME,)
    assert timed.from_record
    assert SAME in timed.warnings
    assert node.outcome.recognised_by == "unconfirmed"
    assert "unroll-ilp (unconfirmed)" in shown.replace(" at line 1", "")
    assert [one.outcome.result for one in tried] == ["no-gain"]
    assert reorder_by_history([diagnosis], tried, {}).behind_count == 0


def test_evidence_without_all_sources_or_with_other_flags_is_not_whole(source):
    first = build(source)
    edit(source, "static const int one = 1;\n")
    second = build(source)
    with open_attempts(Path.cwd()) as store:
        before, after = store.find(first.attempt), store.find(second.attempt)
        other = before.model_copy(update={"flags": ("-O1",)})
        gone = before.model_copy(update={"files": {**before.files, "gone.h": "0" * 32}})

        assert collect_evidence(store, before, after, ((), ())).is_whole
        assert not collect_evidence(store, other, after, ((), ())).is_whole
        assert not collect_evidence(store, gone, after, ((), ())).is_whole


def test_a_damaged_history_costs_these_lines_and_not_the_build(source):
    build(source)
    edit(source, "// a comment\n")
    (Path.cwd() / ".kb" / "measurements.db").write_bytes(b"this is no database at all" * 100)
    built = build(source, change="unroll-ilp")

    assert built.error is None
    assert (built.same_code, built.warnings) == (None, ())
    assert "not kept" in built.unrecorded


@pytest.mark.slow
def test_triage_keeps_the_words_for_a_change(source, capsys):
    kernel = source.parent.name
    build(source)
    edit(source, "// a comment\n")
    main(["triage", kernel, "--target", "cpu", "--change", "unroll-ilp"])
    said = capsys.readouterr()
    node = list(load_attempt_log(kernel).tree.nodes.values())[-1]

    assert node.said == "unroll-ilp"
    assert SAME in said.out + said.err
