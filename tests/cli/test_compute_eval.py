"""kb bench for problems of ComputeEval: a program with a test of its own, here without a GPU."""

import io
import json
import tarfile

import pytest

from kernelkb.actions.kernels.foreign_tasks import check_problem
from kernelkb.adapters.compute_eval import (
    is_compute_eval,
    parse_reported_ms,
    read_candidate,
    read_problem,
)
from kernelkb.cli import main
from kernelkb.errors import BadValueError

HEADER = "void twice(const float* in, float* out, int count);\n"
TEST_MAIN = """\
#include "twice.h"
int main() {
    float in[5] = {1, 2, 3, 4, 5}, out[5] = {0, 0, 0, 0, 0};
    twice(in, out, 5);
    for (int i = 0; i < 5; ++i)
        if (out[i] != 2 * in[i]) return 1;
    return 0;
}
"""
BENCH_MAIN = """\
#include <cstdio>
#include "twice.h"
int main() {
    float in[2] = {1, 2}, out[2];
    twice(in, out, 2);
    std::printf("COMPUTE_EVAL_TIME_MS: %f\\n", out[0]);
}
"""
CORRECT = (
    '#include "twice.h"\nvoid twice(const float* in, float* out, int count) {\n'
    "    for (int i = 0; i < count; ++i) out[i] = 2 * in[i];\n}\n"
)
BUILD = "g++ -Iinclude -o test.out solution.cpp test/main.cpp"
PROBLEM = {
    "task_id": "CUDA/0",
    "type": "cuda_cpp",
    "schema_version": 2,
    "date": "2026-01-01",
    "prompt": "Double each element.",
    "group": "cuda-kernels",
    "context_files": [{"path": "include/twice.h", "content": HEADER}],
    "test_files": [{"path": "test/main.cpp", "content": TEST_MAIN}],
    "build_command": BUILD,
    "test_command": "./test.out",
    "compute_capability": None,
    "timeout_seconds": 20.0,
}
TIMED = {
    **PROBLEM,
    "test_files": [*PROBLEM["test_files"], {"path": "test/bench.cpp", "content": BENCH_MAIN}],
    "build_command": f"{BUILD} && g++ -Iinclude -o bench.out solution.cpp test/bench.cpp",
    "benchmark_command": "./bench.out",
    "timing_mode": {"type": "custom"},
    "baseline_solution": {
        "type": "file",
        "task_id": "CUDA/0",
        "files": [{"path": "solution.cpp", "content": CORRECT}],
    },
}


@pytest.fixture
def check(project, tmp_path):
    """Check the text of one source file for a problem."""

    def run(problem, text=CORRECT):
        (tmp_path / "problems.jsonl").write_text(json.dumps(problem) + "\n")
        (tmp_path / "mine.cpp").write_text(text)
        return check_problem(str(tmp_path / "problems.jsonl"), str(tmp_path / "mine.cpp"), "cpu")

    return run


def test_a_correct_candidate_passes_and_is_told_what_that_is_worth(check):
    found = check(PROBLEM)

    assert found.status == "passed"
    assert any("shares a process with the test" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (("2 *", "3 *"), "failed", "status 1"),
        (("out[i] = ", "out[i] == "), "failed", "status 1"),
        (("out[i] = 2", "out[i] = two"), "not-built", "two"),
    ],
)
def test_a_wrong_candidate_fails_with_the_reason(check, change, status, words):
    found = check(PROBLEM, CORRECT.replace(*change))

    assert found.status == status
    assert words in found.detail
    assert found.cure


def test_an_endless_loop_ends_at_the_problems_own_limit(check):
    text = CORRECT.replace("for (", "for (;;); for (")
    found = check({**PROBLEM, "timeout_seconds": 1.0}, text)

    assert found.status == "timed-out"


def test_a_candidate_cannot_write_outside_of_its_folder(check, tmp_path):
    target = tmp_path / "taken"
    text = f"#include <fstream>\n{CORRECT}".replace(
        "    for", f'    std::ofstream("{target}") << 1;\n    for'
    )
    found = check(PROBLEM, text)
    if "landlock" not in found.layers:
        pytest.skip("this kernel has no Landlock")

    assert not target.exists()


def test_times_are_called_the_problems_own_and_give_no_verdict(check, capsys):
    found = check(TIMED)

    assert (found.candidate_ms, found.baseline_ms) == (2.0, 2.0)
    assert any("no verdict" in warning for warning in found.warnings)


def test_a_timing_mode_that_needs_a_profiler_is_named(check):
    found = check({**TIMED, "timing_mode": {"type": "region", "include": ["x*"]}})

    assert found.status == "passed"
    assert found.candidate_ms is None
    assert any("timing mode region needs a profiler" in warning for warning in found.warnings)


def test_a_problem_for_a_gpu_is_only_built_without_one(check):
    found = check({**PROBLEM, "compute_capability": "8.0"})

    assert found.status == "built"
    assert "needs a GPU of compute capability 8.0" in found.detail


@pytest.mark.parametrize(
    ("references", "words"),
    [
        ("cudaMalloc", "does not use cudaMalloc"),
        (["count", "cudaFree"], "does not use cudaFree"),
        ({"any": ["cudaMemcpy", "cudaMemcpyAsync"]}, "uses none of cudaMemcpy, cudaMemcpyAsync"),
    ],
)
def test_a_call_that_only_a_comment_names_is_not_used(check, references, words):
    found = check({**PROBLEM, "source_references": references}, f"// cudaMalloc\n{CORRECT}")

    assert found.status == "failed"
    assert words in found.detail


def write_folder(folder):
    """Write the problem as the folder that ComputeEval describes."""
    spec = "task_id: CUDA/0\nproblem_type: cuda_cpp\ncompute_capability: null\n"
    spec += f"build_command: {BUILD}\ntest_command: ./test.out\n"
    for name, text in (
        ("problem-spec.yaml", spec),
        ("context/include/twice.h", HEADER),
        ("test/test/main.cpp", TEST_MAIN),
        ("solution/solution.cpp", CORRECT),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_folder_is_the_same_problem(tmp_path):
    write_folder(tmp_path / "CUDA-0")
    found = read_problem(str(tmp_path / "CUDA-0"))

    assert (found.task_id, found.test_command) == ("CUDA/0", "./test.out")
    assert [file.path for file in found.context_files] == ["include/twice.h"]
    assert [file.path for file in found.baseline_solution.files] == ["solution.cpp"]


def test_one_problem_of_a_release_archive_is_chosen_by_its_id(tmp_path):
    lines = "".join(json.dumps({**PROBLEM, "task_id": f"CUDA/{at}"}) + "\n" for at in range(9))
    path = tmp_path / "2026-1-problems.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("problems.jsonl")
        member.size = len(lines)
        archive.addfile(member, io.BytesIO(lines.encode()))

    assert read_problem(f"{path}#CUDA/7").task_id == "CUDA/7"
    with pytest.raises(BadValueError, match=r"has 9 problems \(CUDA/0, .*name one: --task"):
        read_problem(str(path))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.json", {"task_id": "CUDA/1", "files": []}, "has no solution of CUDA/0"),
        ("a.json", {"task_id": "CUDA/0", "type": "patch", "patch": ""}, "patches are not"),
        ("a.json", {"task_id": "CUDA/0", "files": [{"path": "../x", "content": ""}]}, "outside"),
        (
            "a.json",
            {"task_id": "CUDA/0", "files": [{"path": "./test/main.cpp", "content": ""}]},
            "a file of the problem's test",
        ),
    ],
)
def test_an_unsuitable_solution_is_refused_in_one_line(tmp_path, name, content, complaint):
    (tmp_path / "p.jsonl").write_text(json.dumps(PROBLEM))
    (tmp_path / name).write_text(json.dumps(content))

    with pytest.raises(BadValueError, match=complaint):
        read_candidate(tmp_path / name, read_problem(str(tmp_path / "p.jsonl")))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "no JSON object"),
        ("[" * 100_000, "no JSON object: it is nested too deeply"),
        (r'{"task_id": "\ud800"}', "no JSON object: half a surrogate pair"),
        (json.dumps({"task_id": "CUDA/0"}), "is no problem: test_command"),
        (
            json.dumps({**PROBLEM, "test_files": [{"path": "/etc/x", "content": ""}]}),
            "/etc/x is outside of the problem's folder",
        ),
    ],
)
def test_a_damaged_problem_is_refused_in_one_line(tmp_path, content, complaint):
    (tmp_path / "p.jsonl").write_text(content)

    with pytest.raises(BadValueError, match=complaint):
        read_problem(str(tmp_path / "p.jsonl"))


@pytest.mark.parametrize("content", ["[" * 5000, "date: 2026-13-45", "- " * 5000])
def test_a_damaged_folder_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "problem-spec.yaml").write_text(content)

    with pytest.raises(BadValueError, match=r"nested too deeply|no YAML: month must be"):
        read_problem(str(tmp_path))


def test_a_damaged_archive_is_refused_in_one_line(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"no archive")

    with pytest.raises(BadValueError, match=r"cannot read .*a\.tar\.gz"):
        read_problem(str(tmp_path / "a.tar.gz"))


def test_files_of_other_projects_are_not_taken_for_problems(tmp_path):
    (tmp_path / "definition.json").write_text(json.dumps({"name": "rmsnorm", "axes": {}}))
    (tmp_path / "workload.jsonl").write_text(json.dumps({"axes": {}, "inputs": {}}))

    assert not any(is_compute_eval(str(path)) for path in (tmp_path, *tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COMPUTE_EVAL_TIME_MS: 1.5\nCOMPUTE_EVAL_TIME_MS: 0.25\n", 0.25),
        ("COMPUTE_EVAL_TIME_MS: -1", None),
        ("COMPUTE_EVAL_TIME_MS: nan-ish", None),
        ("COMPUTE_EVAL_TIME_MS: 1e999", None),
        ("COMPUTE_EVAL_TIME_MS: 1-2", None),
        ("took 3 ms", None),
    ],
)
def test_the_last_time_that_a_benchmark_reports_counts(text, expected):
    assert parse_reported_ms(text) == expected


def test_the_command_prints_the_status_and_exits_with_it(project, tmp_path, capsys):
    write_folder(tmp_path / "CUDA-0")
    (tmp_path / "mine.cpp").write_text(CORRECT.replace("2 *", "3 *"))
    words = ["--task", str(tmp_path / "CUDA-0"), "--candidate", str(tmp_path / "mine.cpp")]
    code = main(["bench", "--target", "cpu", *words])
    refused = main(["bench", *words, "--budget", "3"])
    printed = capsys.readouterr()

    assert (code, refused) == (1, 2)
    assert "mine.cpp for CUDA/0: failed" in printed.out
    assert "--budget is not for ComputeEval" in printed.err
