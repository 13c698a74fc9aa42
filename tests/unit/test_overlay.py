"""A project's own knowledge on top of what is shipped: what it adds, overrides and may not do."""

import json
import os

import pytest

from kernelkb.actions.knowledge.knowledge import load_project_knowledge
from kernelkb.actions.project import rules_cache
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.cli import main
from kernelkb.decide.rules_file import format_rules
from kernelkb.errors import KnowledgeError
from kernelkb.loading.knowledge import RECORD_FOLDERS, SINGLE_FILES
from kernelkb.safety.paths import KNOWLEDGE_ENTRIES, overlay_folder

GPU_ENTRY = """\
id: our-slow-table
title: Our table is read again and again
group: memory-traffic
target: cuda
level: L1
definition: The table of our model does not stay in L2.
when: {metric: dram_utilization, op: ">", value: 0.30}
evidence: coarse
confirm: Keep the table in shared memory and see.
fixes: [tile-into-smem]
cases:
  - {name: often, metrics: {dram_utilization: 0.5}, verdict: matches}
  - {name: seldom, metrics: {dram_utilization: 0.2}, verdict: excluded}
sources: [kernelkb-judgement]
"""
THRESHOLD = """\
thresholds:
  - id: stop-and-profile
    metric: speedup
    value: 0.25
    evidence: judgement
    why: Our reference is a library that took years.
    sources: [kernelkb-judgement]
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder to work in, with a cache of its own."""
    (tmp_path / "kernels").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def write_file(project, name, text):
    file = project / "knowledge" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def run_recommend(capsys, *words):
    main(["recommend", *words, "--json"])
    return json.loads(capsys.readouterr().out)


def load_complaint():
    with pytest.raises(KnowledgeError) as caught:
        load_project_knowledge()
    return str(caught.value)


def test_every_kind_of_file_makes_a_folder_knowledge():
    assert set(KNOWLEDGE_ENTRIES) == {*SINGLE_FILES, *RECORD_FOLDERS}


def test_a_bottleneck_of_the_project_is_diagnosed_and_called_its_own(project, capsys):
    write_file(project, "bottlenecks/memory-traffic/our-slow-table.yaml", GPU_ENTRY)
    (kernel,) = run_recommend(capsys, "--bandwidth", "0.5")["kernels"]
    found = next(d for d in kernel["diagnoses"] if d["bottleneck"] == "our-slow-table")

    assert found["verdict"] == "matches"
    assert found["because"][0]["source"].startswith("the project's own knowledge")


def test_the_answer_says_which_overlay_it_used(project, capsys):
    write_file(project, "thresholds.yaml", THRESHOLD)

    stamp = run_recommend(capsys, "--speedup", "0.3")["knowledge"]
    assert stamp["overlay"] == str(project / "knowledge")


def test_a_threshold_of_the_project_counts_and_the_shipped_one_is_named(project, capsys):
    before = run_recommend(capsys, "--speedup", "0.3")["kernels"][0]["gate"]["id"]
    write_file(project, "thresholds.yaml", THRESHOLD)
    after = run_recommend(capsys, "--speedup", "0.3")["kernels"][0]["gate"]["id"]

    assert (before, after) == ("stop-and-profile", "close-the-gap")
    assert "the project's own, shipped 0.5" in format_rules(load_compiled_rules())


def test_without_its_folder_the_shipped_knowledge_is_back(project, capsys):
    file = write_file(project, "thresholds.yaml", THRESHOLD)
    run_recommend(capsys, "--speedup", "0.3")
    file.unlink()

    assert (
        run_recommend(capsys, "--speedup", "0.3")["kernels"][0]["gate"]["id"] == "stop-and-profile"
    )


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "bottlenecks/memory-traffic/dram-bandwidth-bound.yaml",
            GPU_ENTRY.replace("our-slow-table", "dram-bandwidth-bound"),
            "bottleneck 'dram-bandwidth-bound' is shipped, and a project can override",
        ),
        (
            "thresholds.yaml",
            THRESHOLD.replace("metric: speedup", "metric: occupancy"),
            "threshold 'stop-and-profile' limits speedup; an override cannot limit occupancy",
        ),
        (
            "bottlenecks/memory-traffic/our-slow-table.yaml",
            GPU_ENTRY.replace("tile-into-smem", "tile-into-smen"),
            "unknown fix 'tile-into-smen' (did you mean 'tile-into-smem'?)",
        ),
        (
            "bottlenecks/memory-traffic/our-slow-table.yaml",
            GPU_ENTRY.replace("metric: dram_utilization,", "metric: dram_utilisation,"),
            "unknown metric 'dram_utilisation'",
        ),
        ("thresholds.yaml", THRESHOLD.replace("0.25", "25%"), "thresholds.0.value"),
        ("thresholds.yaml", "thresholds: [", "thresholds.yaml"),
        ("notes.yaml", "a: 1", "not a knowledge file"),
    ],
)
def test_an_overlay_that_is_wrong_is_refused_with_file_and_line(project, name, text, says):
    write_file(project, name, text)
    write_file(project, "sources.yaml", "sources: []\n") if name == "notes.yaml" else None

    assert says in load_complaint()


def test_a_wrong_overlay_never_gives_a_diagnosis(project, capsys):
    write_file(project, "thresholds.yaml", THRESHOLD.replace("metric: speedup", "metric: speeedup"))

    assert main(["recommend", "--speedup", "0.3"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "knowledge/thresholds.yaml:3:5" in err


def test_kb_check_reads_it_too(project, capsys):
    write_file(
        project,
        "bottlenecks/memory-traffic/our-slow-table.yaml",
        GPU_ENTRY.replace("dram_utilization: 0.2", "dram_utilization: 0.4"),
    )

    assert main(["check"]) == 1
    assert "case 'seldom' gives matches, not excluded" in capsys.readouterr().out


def test_a_knowledge_folder_without_yaml_is_no_overlay(project):
    write_file(project, "README.md", "our notes")

    assert overlay_folder() is None


def test_a_pattern_and_a_symptom_of_the_project_are_shown(project, capsys):
    write_file(
        project,
        "patterns/our-way.yaml",
        "id: our-way\ntitle: Our way\nproblem: p\npractice: q\ntriggers: [t]\nsteps: [s]\n"
        "sources: [kernelkb-judgement]\n",
    )
    write_file(
        project,
        "symptoms/build.yaml",
        "family: build\nsymptoms:\n  - id: our-proxy\n    title: Our proxy is down\n"
        "    log_patterns: ['proxy said 502']\n"
        "    cause: c\n    cure: restart it\n    check: d\n"
        "    pattern: our-way\n    example: proxy said 502\n"
        "    counterexample: proxy said 200\n"
        "    sources: [kernelkb-judgement]\n",
    )
    log = project / "log"
    log.write_text("pip: proxy said 502\n")

    assert main(["diagnose", str(log)]) == 1
    assert "restart it" in capsys.readouterr().out
    assert main(["check"]) == 0


def test_knowledge_that_stays_as_it_is_is_read_once(project, monkeypatch):
    monkeypatch.setattr(rules_cache, "STABLE_AGE_NS", -1)
    write_file(project, "thresholds.yaml", THRESHOLD)
    first = load_compiled_rules()
    monkeypatch.setattr(rules_cache, "_load_or_compile", None)

    assert load_compiled_rules() is first


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_knowledge_in_memory_follows_every_change(project, monkeypatch, change):
    monkeypatch.setattr(rules_cache, "STABLE_AGE_NS", -1)
    file = write_file(project, "thresholds.yaml", THRESHOLD)
    before = load_compiled_rules()["knowledge"]["sha256"]
    match change:
        case "edit":
            file.write_text(THRESHOLD.replace("0.25", "0.125"))
        case "add":
            write_file(project, "bottlenecks/memory-traffic/our-slow-table.yaml", GPU_ENTRY)
        case "remove":
            file.unlink()

    assert load_compiled_rules()["knowledge"]["sha256"] != before


def test_knowledge_that_was_edited_just_now_is_not_trusted_to_memory(project, monkeypatch):
    file = write_file(project, "thresholds.yaml", THRESHOLD)
    seen = set()
    for limit in ("0.25", "0.35", "0.15"):
        file.write_text(THRESHOLD.replace("0.25", limit))
        os.utime(file, ns=(0, 0))  # as if within one tick of the clock
        seen.add(load_compiled_rules()["knowledge"]["sha256"])

    assert len(seen) == 3
