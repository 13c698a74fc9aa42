"""An error says what happened, then the cure; each front end writes the next step its own way."""

import pickle

import pytest

from kernelkb.errors import (
    BadValueError,
    EnvironmentGapError,
    ForbiddenPathError,
    KnowledgeError,
    NextStep,
    Problem,
    SessionError,
    UnknownNameError,
)
from kernelkb_mcp.views.next_call import format_next_call


@pytest.mark.parametrize(
    ("step", "command", "call"),
    [
        (
            NextStep("show", {"id": "metrics"}, "lists them"),
            "`kb show metrics` lists them",
            "read_entry(id='metrics') lists them",
        ),
        (
            NextStep("show", {"kind": None}, "lists them"),
            "`kb show KIND` lists them",
            "read_entry(id=...) lists them",
        ),
        (
            NextStep("env", {}, "lists what this machine lacks"),
            "`kb env` lists what this machine lacks",
            "read_entry(id='environment') lists what this machine lacks",
        ),
        (
            NextStep("bench", {"kernel": "gemm", "variant": "tiled"}, "measures it again"),
            "`kb bench gemm --variant tiled` measures it again",
            "bench_kernel(kernel='gemm', variant='tiled') measures it again",
        ),
        (
            NextStep("history", {"kernel": None}, "lists them"),
            "`kb lab history KERNEL` lists them",
            "bench_kernel(kernel=...) records one",
        ),
        (
            NextStep("build", {"kernel": "gemm", "arch": "9.0"}, "compiles without a GPU"),
            "`kb build gemm --arch 9.0` compiles without a GPU",
            "build_kernel(kernel='gemm', arch='9.0') compiles without a GPU",
        ),
        (
            NextStep("session list", {}, "lists them"),
            "`kb session list` lists them",
            "session() says where work stands and how to begin",
        ),
    ],
)
def test_a_next_step_is_a_command_in_the_cli_and_a_call_over_mcp(step, command, call):
    error = BadValueError("no", step)

    assert str(error) == f"no; {command}"
    assert error.format_text(format_next_call) == f"no; {call}"


def test_an_unknown_name_offers_the_nearest_and_lists_the_rest():
    error = UnknownNameError("metric", "occupency", ["occupancy"], "show", id="metrics")

    assert str(error) == (
        "unknown metric 'occupency' (did you mean 'occupancy'?); `kb show metrics` lists them"
    )


def test_a_word_of_one_name_alone_offers_that_name():
    error = UnknownNameError("metric", "smem", ["dynamic_smem", "grid"], "show", id="metrics")

    assert str(error).startswith("unknown metric 'smem' (did you mean 'dynamic_smem'?)")


def test_what_is_like_none_of_many_names_gets_the_closest():
    names = [f"cause-{number}" for number in range(20)]
    error = UnknownNameError("entry", "scare", names, "show", kind=None)

    assert "unknown entry 'scare'; closest: 'cause-" in str(error)
    assert error.suggestion == ""


def test_a_gap_without_a_cure_names_the_command_that_inspects_the_machine():
    assert str(EnvironmentGapError("no nvcc", None)).startswith("no nvcc; `kb env` lists")
    assert str(EnvironmentGapError("no nvcc", "install CUDA 12")) == "no nvcc; install CUDA 12"


def test_text_that_looks_like_a_command_stays_as_it_is():
    error = BadValueError("a kernel printed: kb show metrics")

    assert error.format_text(format_next_call) == "a kernel printed: kb show metrics"


def test_a_forbidden_path_is_named_in_both_front_ends():
    error = ForbiddenPathError("/etc/passwd", "outside the workspace", "stay inside")

    assert str(error) == error.format_text(format_next_call)
    assert "'/etc/passwd' is outside the workspace; stay inside" in str(error)


@pytest.mark.parametrize(
    "error",
    [
        EnvironmentGapError("no compiler", "install one"),
        EnvironmentGapError("no compiler", None),
        UnknownNameError("kernel", "gem", ["gemm"], "show", id="kernels"),
        KnowledgeError([Problem("a.yaml", 1, 2, "id", "is wrong")]),
        ForbiddenPathError("/etc/x", "outside; far", "move it"),
        SessionError("cut", next_step=NextStep("session list", {}, "lists them")),
    ],
)
def test_an_error_of_a_worker_arrives_as_it_was(error):
    arrived = pickle.loads(pickle.dumps(error))

    assert type(arrived) is type(error)
    assert (str(arrived), arrived.args, vars(arrived)) == (str(error), error.args, vars(error))
