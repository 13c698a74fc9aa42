"""The flat program and a walk over the graph are the same decision."""

import hashlib
import multiprocessing
import os
from typing import get_args

import pytest
from graph_walk import evaluate_verdicts, find_end_leaf, find_suppressed
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_rules import (
    bottleneck_rows,
    compare_metrics,
    graph,
    guards,
    knowledge,
    metrics,
    program,
)

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide import conditions, rules
from kernelkb.decide.conditions import judge_condition
from kernelkb.decide.diagnose import diagnose, judge_bottleneck, walk_gate_tree
from kernelkb.decide.predict import Predictor
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules_file import RULES_SCHEMA, format_rules, parse_rules
from kernelkb.errors import KnowledgeError
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.digest import compute_sha256
from kernelkb.model.entries.bottleneck import Group

GROUPS = get_args(Group)


@given(metrics())
@settings(max_examples=25, deadline=None)
def test_program_and_graph_give_the_same_verdicts(measured):
    about = compare_metrics(measured, "h100-sxm")

    assert {
        r["id"]: judge_bottleneck(r, about.truth) for r in bottleneck_rows()
    } == evaluate_verdicts(graph(), about.values)


@given(metrics())
@settings(max_examples=25, deadline=None)
def test_program_and_graph_end_at_the_same_leaf(measured):
    about = compare_metrics(measured)
    found = find_end_leaf(graph(), "performance-gate", about.values)

    assert walk_gate_tree(program()["trees"]["performance-gate"], about).gate["id"] == found


@given(metrics())
@settings(max_examples=25, deadline=None)
def test_rules_and_graph_suppress_the_same_bottlenecks(measured):
    about = compare_metrics(measured)
    quiet = {
        b for g in guards() if judge_condition(g["when"], about.truth) for b in g["bottlenecks"]
    }
    predictor = Predictor(program(), about)
    both = [diagnose(program(), about, target, predictor) for target in ("cpu", "cuda")]
    said = {row["id"] for found in both for row in found.open_rows}
    said |= {finding.row["id"] for found in both for finding in found.matches}

    assert find_suppressed(graph(), about.values) == quiet
    assert not said & quiet


def test_program_survives_being_written():
    assert parse_rules(format_rules(program())) == program()


def test_records_survive_being_written():
    again = type(knowledge()).model_validate(knowledge().model_dump(by_alias=True))

    assert compile_rules(again) == program()


def test_edited_knowledge_is_never_answered_from_the_cache(knowledge_copy):
    before = load_compiled_rules(str(knowledge_copy))
    path = knowledge_copy / "thresholds.yaml"
    path.write_text(path.read_text().replace("value: 0.5\n", "value: 0.25\n", 1))

    assert load_compiled_rules(str(knowledge_copy)) != before


def test_a_damaged_cache_is_ignored(knowledge_copy, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = load_compiled_rules(str(knowledge_copy))
    (kept,) = (tmp_path / "cache" / "kernelkb").glob("program-*.json")
    kept.write_text(kept.read_text()[:1000])

    assert load_compiled_rules(str(knowledge_copy)) == whole


def test_an_unwritable_cache_is_ignored(knowledge_copy, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert load_compiled_rules(str(knowledge_copy))["bottlenecks"]


def load_in_process(root, cache):
    os.environ["XDG_CACHE_HOME"] = cache
    return load_compiled_rules(root)["knowledge"]["sha256"]


@pytest.mark.slow
def test_a_fifo_in_place_of_the_cache_is_replaced(knowledge_copy, tmp_path):
    cache = str(tmp_path / "cache")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        whole = pool.apply(load_in_process, (str(knowledge_copy), cache))
        (kept,) = (tmp_path / "cache" / "kernelkb").glob("program-*.json")
        kept.unlink()
        os.mkfifo(kept)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        again = pool.apply_async(load_in_process, (str(knowledge_copy), cache)).get(timeout=120)

    assert again == whole
    assert kept.is_file()


@pytest.mark.slow
def test_writers_at_the_same_time_leave_one_whole_cache(knowledge_copy, tmp_path):
    cache = str(tmp_path / "cache")
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        digests = pool.starmap(load_in_process, [(str(knowledge_copy), cache)] * 3)

    assert len(set(digests)) == 1
    assert [p.suffix for p in (tmp_path / "cache" / "kernelkb").iterdir()] == [".json"]


CASES = [case.metrics for b in knowledge().bottlenecks for case in b.cases]


@given(st.sampled_from(CASES), metrics(), st.sampled_from([None, "l4", "b200"]))
@settings(max_examples=25, deadline=None)
def test_program_and_graph_agree_around_every_case(case, measured, device):
    about = compare_metrics({**measured, **case}, device)

    assert {
        r["id"]: judge_bottleneck(r, about.truth) for r in bottleneck_rows()
    } == evaluate_verdicts(graph(), about.values)


def test_a_second_start_reads_no_knowledge(knowledge_copy, monkeypatch):
    first = load_compiled_rules(str(knowledge_copy))
    monkeypatch.setattr("kernelkb.loading.knowledge.load_knowledge", None)

    assert load_compiled_rules(str(knowledge_copy)) == first


def test_a_cache_of_anything_else_is_ignored(knowledge_copy, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = load_compiled_rules(str(knowledge_copy))
    (kept,) = (tmp_path / "cache" / "kernelkb").glob("program-*.json")
    for text in (
        *("", "{", "[]", "null", '"text"', "{}"),
        *('{"schema": 1}', f'{{"schema": {RULES_SCHEMA}, "knowledge": 3}}'),
    ):
        kept.write_text(text)
        assert load_compiled_rules(str(knowledge_copy)) == whole, text


def test_a_damaged_cache_is_rewritten(knowledge_copy, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = load_compiled_rules(str(knowledge_copy))
    (kept,) = (tmp_path / "cache" / "kernelkb").glob("program-*.json")
    kept.write_bytes(b"\xff\xfe")
    load_compiled_rules(str(knowledge_copy))

    assert parse_rules(kept.read_text()) == whole


@pytest.mark.parametrize("change", ["add", "remove", "rename"])
def test_adding_removing_or_renaming_a_file_changes_the_digest(knowledge_copy, change):
    before = compute_sha256(str(knowledge_copy))
    path = knowledge_copy / "trees" / "performance-gate.yaml"
    match change:
        case "add":
            (knowledge_copy / "trees" / "another.yaml").write_text(path.read_text())
        case "remove":
            path.unlink()
        case "rename":
            path.rename(path.with_name("another.yaml"))

    assert compute_sha256(str(knowledge_copy)) != before


def test_an_invalid_edit_is_reported_despite_the_cache(knowledge_copy):
    load_compiled_rules(str(knowledge_copy))
    path = knowledge_copy / "thresholds.yaml"
    path.write_text(path.read_text().replace("value: 0.5\n", "valu: 0.5\n", 1))

    with pytest.raises(KnowledgeError, match=r"thresholds\.yaml:\d+:\d+: "):
        load_compiled_rules(str(knowledge_copy))


def test_an_answer_follows_an_edited_threshold(knowledge_copy):
    edited = knowledge_copy / "thresholds.yaml"
    text = edited.read_text()
    gates = []
    for limit in ("0.5", "0.25"):
        edited.write_text(text.replace("value: 0.5\n", f"value: {limit}\n", 1))
        answer = recommend(load_compiled_rules(str(knowledge_copy)), {"speedup": 0.3})
        gates.append(answer["gate"]["id"])

    assert gates == ["stop-and-profile", "close-the-gap"]


def test_every_threshold_is_named_where_it_decides():
    text = format_rules(program())

    assert all(
        f"threshold {t.id} ({t.evidence})" in text for t in knowledge().thresholds.thresholds
    )


def test_bottlenecks_stand_in_the_order_of_their_groups():
    for found in program()["bottlenecks"].values():
        order = [GROUPS.index(row["group"]) for row in found]

        assert order == sorted(order)


def test_flattening_twice_gives_the_same():
    assert compile_rules(knowledge()) == program()


SCHEMA_DIGEST = (39, "7527ad487443d6d2")
"""The schema, and what the classes of the program looked like when it was raised last."""


def test_a_changed_shape_raises_the_schema():
    """A cache of another shape would be read as if it were this one."""
    classes = {
        name: sorted(
            (field, getattr(kind, "__forward_arg__", kind))
            for field, kind in one.__annotations__.items()
        )
        for module in (rules, conditions)
        for name, one in vars(module).items()
        if isinstance(one, type) and one.__module__ == module.__name__
    }
    found = hashlib.sha256(repr(sorted(classes.items())).encode()).hexdigest()[:16]

    assert (RULES_SCHEMA, found) == SCHEMA_DIGEST, (
        "raise RULES_SCHEMA in engine/kernelkb/decide/rules_file.py, then write both here"
    )
