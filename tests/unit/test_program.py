"""The flat program and a walk over the graph are the same decision."""

import json
import multiprocessing
import os

from hypothesis import given, settings
from programs import graph, knowledge, metrics, program

from engine.actions.program import decision_program
from engine.decide.conditions import holds
from engine.decide.derive import complete
from engine.decide.diagnose import diagnose, verdict
from engine.decide.gates import walk
from engine.graph.flatten import flatten
from engine.graph.walk import leaf, silenced, verdicts


@given(metrics())
@settings(max_examples=60, deadline=None)
def test_program_and_graph_give_the_same_verdicts(measured):
    known = complete(program(), measured, "h100-sxm")

    assert {r["id"]: verdict(r, known) for r in program()["bottlenecks"]} == verdicts(
        graph(), known
    )


@given(metrics())
@settings(max_examples=40, deadline=None)
def test_program_and_graph_end_at_the_same_leaf(measured):
    known = complete(program(), measured, None)

    assert walk(program()["gate"], known).gate["id"] == leaf(graph(), "performance-gate", known)


@given(metrics())
@settings(max_examples=40, deadline=None)
def test_program_and_graph_silence_the_same_bottlenecks(measured):
    known = complete(program(), measured, None)
    quiet = {b for g in program()["guards"] if holds(g["when"], known) for b in g["bottlenecks"]}
    said = {
        f.row["id"] for target in ("cpu", "cuda") for f in diagnose(program(), known, target)[0]
    }

    assert silenced(graph(), known) == quiet
    assert not said & quiet


def test_program_survives_being_written():
    assert json.loads(json.dumps(program())) == program()


def test_records_survive_being_written():
    again = type(knowledge()).model_validate(knowledge().model_dump(by_alias=True))

    assert flatten(again) == program()


def test_edited_knowledge_is_never_answered_from_the_cache(knowledge_copy):
    before = decision_program(str(knowledge_copy))
    path = knowledge_copy / "thresholds.yaml"
    path.write_text(path.read_text().replace("value: 0.5\n", "value: 0.25\n", 1))

    assert decision_program(str(knowledge_copy)) != before


def test_a_damaged_cache_is_ignored(knowledge_copy, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = decision_program(str(knowledge_copy))
    (kept,) = (tmp_path / "cache" / "kernelkb").glob("program-*.json")
    kept.write_text(kept.read_text()[:1000])

    assert decision_program(str(knowledge_copy)) == whole


def test_nowhere_to_write_is_no_obstacle(knowledge_copy, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert decision_program(str(knowledge_copy))["bottlenecks"]


def _load(root, cache):
    os.environ["XDG_CACHE_HOME"] = cache
    return decision_program(root)["knowledge"]["sha256"]


def test_writers_at_the_same_time_leave_one_whole_cache(knowledge_copy, tmp_path):
    cache = str(tmp_path / "cache")
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        digests = pool.starmap(_load, [(str(knowledge_copy), cache)] * 3)

    assert len(set(digests)) == 1
    assert [p.suffix for p in (tmp_path / "cache" / "kernelkb").iterdir()] == [".json"]
