"""The study of attacks: its candidates are there, and a bench of one ends as expected."""

import ast
import subprocess

import pytest
from benchmarks.attacks import (
    DATA_FOLDER,
    BenchRun,
    bench_once,
    decide_outcome,
    load_candidates,
    worst_outcome,
    write_project,
)


def test_there_are_as_many_attacks_and_honest_candidates_as_the_study_promises():
    candidates = load_candidates("cpu")

    assert sum(one.kind != "honest" for one in candidates) >= 25
    assert sum(one.kind == "honest" for one in candidates) >= 20


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_every_candidate_makes_a_project(tmp_path, target):
    for candidate in load_candidates(target):
        folder = tmp_path / candidate.name
        folder.mkdir()
        write_project(candidate, folder)
        for file in folder.glob("*.py"):
            ast.parse(file.read_text())


def test_every_file_belongs_to_a_candidate():
    names = {one.name for target in ("cpu", "cuda") for one in load_candidates(target)}
    files = {
        path.name if path.suffix == ".cpp" else path.stem
        for path in (DATA_FOLDER / "candidates").iterdir()
        if path.suffix in (".py", ".cpp")
    }

    assert files == names


@pytest.mark.parametrize(
    ("kind", "verdict", "outcome"),
    [
        ("wrong", "incorrect", "caught"),
        ("wrong", "slower", "open"),
        ("no gain", "slower", "without gain"),
        ("no gain", "faster", "open"),
        ("honest", "faster", "fine"),
        ("honest", "invalid", "accused"),
    ],
)
def test_a_verdict_is_what_it_is_for_a_candidate_of_that_kind(kind, verdict, outcome):
    assert decide_outcome(kind, BenchRun(verdict, None, "")) == outcome


def test_one_open_bench_of_several_makes_an_attack_open():
    attack = next(one for one in load_candidates("cpu") if one.kind == "wrong")
    runs = [BenchRun("incorrect", None, ""), BenchRun("faster", 9.0, "")]

    assert worst_outcome(attack, runs) == "open"


@pytest.mark.slow
def test_every_attack_in_cpp_compiles(tmp_path):
    for candidate in load_candidates("cpu"):
        if candidate.is_cpp:
            folder = tmp_path / candidate.name
            folder.mkdir()
            write_project(candidate, folder)
            source = folder / "kernels" / "softmax" / "candidate.cpp"
            subprocess.run(
                ["g++", "-std=c++17", "-fopenmp", "-pthread", "-fsyntax-only", str(source)],
                check=True,
            )


@pytest.mark.slow
def test_an_honest_candidate_in_cpp_is_not_refused():
    honest = next(one for one in load_candidates("cpu") if one.name == "honest_static_buffer.cpp")

    assert decide_outcome(honest.kind, bench_once(honest, "cpu", 0.3)) == "fine"


@pytest.mark.slow
def test_a_candidate_that_writes_beyond_its_output_is_caught():
    attack = next(one for one in load_candidates("cpu") if one.name == "writes_beyond.cpp")

    assert decide_outcome(attack.kind, bench_once(attack, "cpu", 0.3)) == "caught"
