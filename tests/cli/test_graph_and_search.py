"""``kb lab graph`` and ``kb search``."""

import json
import re

import networkx as nx
import pydot
import pytest

from kernelkb.cli import main

TREES = ("performance-gate", "memory-hierarchy", "build-failure")


def run_kb(capsys, *words):
    assert main(list(words)) == 0
    return capsys.readouterr().out


def graph_json(capsys, *words):
    return json.loads(run_kb(capsys, "graph", *words, "--format", "json"))


def highlighted_boxes(picture):
    return [box["id"] for box in picture["nodes"] if box["taken"]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pydot's, about pyparsing
@pytest.mark.parametrize("name", [*TREES, "uncoalesced-global-access", "near-roofline"])
def test_dot_output_is_readable_by_a_dot_parser(capsys, name):
    text = run_kb(capsys, "graph", name, "--format", "dot", "--bandwidth", "0.9")
    (read,) = pydot.graph_from_dot_data(text)
    picture = graph_json(capsys, name, "--bandwidth", "0.9")

    assert len(read.get_nodes()) == len(picture["nodes"])
    assert len(read.get_edges()) == len(picture["edges"])


@pytest.mark.parametrize("name", TREES)
def test_json_is_a_graph_that_networkx_reads(capsys, name):
    graph = nx.node_link_graph(graph_json(capsys, name), edges="edges")

    assert nx.is_directed_acyclic_graph(graph)


@pytest.mark.parametrize("name", [*TREES, "tensor-core-unused"])
def test_mermaid_names_every_box_once_and_escapes_its_own_marks(capsys, name):
    lines = run_kb(capsys, "graph", name).splitlines()
    labels = [re.search(r'"(.*)"', line)[1] for line in lines if re.match(r"    n\d+[^\d\s]", line)]

    assert lines[0] == "flowchart TD"
    assert len(labels) == len(graph_json(capsys, name)["nodes"])
    assert not any(mark in label.replace("<br/>", "") for label in labels for mark in '"<>')


def test_the_path_that_metrics_take_is_highlighted(capsys):
    picture = graph_json(capsys, "performance-gate", "--speedup", "0.3")
    arrows = [(a["source"], a["target"]) for a in picture["edges"] if a["taken"]]

    assert highlighted_boxes(picture)[-1] == "stop-and-profile"
    assert ("slower-than-half", "stop-and-profile") in arrows
    assert ("slower-than-half", "slower-than-reference") not in arrows


def test_without_metrics_nothing_is_highlighted(capsys):
    assert highlighted_boxes(graph_json(capsys, "performance-gate")) == []


def test_a_memory_tree_ends_at_a_bottleneck(capsys):
    picture = graph_json(
        capsys, "memory-hierarchy", "--bandwidth", "0.9",
        "--metric", "over_fetch=3", "--metric", "sector_load_useful_bytes=4",
    )  # fmt: skip

    assert "scattered" in highlighted_boxes(picture)
    assert any(a["target"] == "bottleneck:uncoalesced-global-access" for a in picture["edges"])


def test_a_bottleneck_stands_between_its_metrics_and_its_fixes(capsys):
    picture = graph_json(capsys, "dram-bandwidth-bound", "--bandwidth", "0.9")
    kinds = {box["kind"] for box in picture["nodes"]}

    assert {"metric", "bottleneck", "fix", "look-alike"} == kinds
    assert "dram-bandwidth-bound" in highlighted_boxes(picture)
    assert "0.9" in next(b["label"] for b in picture["nodes"] if b["kind"] == "metric")


def test_an_unknown_tree_is_offered_the_near_one(capsys):
    assert main(["graph", "memory-hierachy"]) == 2
    assert "did you mean 'memory-hierarchy'" in capsys.readouterr().err


def test_search_prints_kind_id_and_title(capsys):
    line = run_kb(capsys, "search", "coalesing").splitlines()[0]

    assert re.match(r"bottleneck +uncoalesced-global-access +Lanes", line)


def test_search_as_json(capsys):
    (row,) = json.loads(run_kb(capsys, "search", "dram", "--limit", "1", "--json"))

    assert set(row) == {"kind", "id", "title", "score"}


def test_a_search_without_hits_is_reported(capsys):
    assert main(["search", "qqqqxxzz"]) == 1
    assert "nothing fits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "kind", "entry"),
    [
        (["memory", "bandwidth", "of", "a", "4090"], "device", "rtx-4090"),
        (["compute", "capability", "8.9"], "architecture", "8.9"),
        (["set", "up", "my", "own", "project"], "command", "kb init"),
    ],
)
def test_devices_architectures_and_commands_are_found(capsys, words, kind, entry):
    row = json.loads(run_kb(capsys, "search", *words, "--limit", "1", "--json"))[0]

    assert (row["kind"], row["id"]) == (kind, entry)


@pytest.mark.parametrize("kind", ["patterns", "symptoms", "workflow", "stop-rules", "preflight"])
def test_patterns_symptoms_and_workflow_kinds_are_listed(capsys, kind):
    assert len(run_kb(capsys, "show", kind).splitlines()) >= 5


def test_a_pattern_shows_what_it_refines_and_where_it_conflicts(capsys):
    text = run_kb(capsys, "show", "baseline-first")

    assert "conflicts:" in text
    assert "refined_because:" in text
