"""What verbs do lands in the open session by itself."""

from attacks import write_attack

from kernelkb.actions.kernels.building import build_variant
from kernelkb.actions.kernels.kernels import bench_variant, check_variant, profile_variant
from kernelkb.actions.sessions.sessions import close_session, load_session, start_session
from kernelkb.measure.bench_options import BenchOptions
from kernelkb.record.measurements.store import open_store

HONEST_BODY = "  honest(x, y, rows, cols);\n"


def test_a_bench_and_the_open_session_name_each_other(project):
    kernel = write_attack(project, HONEST_BODY)
    start_session("mine", "make it faster", kernel=kernel)
    timed = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))

    (entry,) = load_session("mine").entries
    assert entry.by == "bench"
    assert [step.name for step in entry.steps] == ["build", "check", "bench"]
    assert entry.steps[0].sources
    last = entry.steps[-1]
    assert (last.measurement, last.verdict, last.speedup) == (
        timed.measurement,
        timed.verdict,
        timed.speedup,
    )
    assert entry.environment["torch"]
    with open_store(project) as store:
        assert store.history(kernel)[0].session == "mine"


def test_build_check_and_profile_are_logged_as_separate_entries(project):
    kernel = write_attack(project, HONEST_BODY)
    start_session("mine", "make it faster")
    build_variant(kernel, target="cpu")
    check_variant(kernel, target="cpu")
    profile_variant(kernel, target="cpu")

    assert [entry.by for entry in load_session("mine").entries] == [
        "build",
        "check",
        "bench",
        "profile",
    ]


def test_a_failed_build_is_logged_as_went_wrong(project):
    kernel = write_attack(project, "  this is no C++;\n")
    start_session("mine", "make it faster")
    bench_variant(kernel, target="cpu")

    (entry,) = load_session("mine").entries
    assert entry.steps[0].status == "failure"
    assert entry.went_wrong


def test_a_session_about_another_kernel_gets_nothing(project):
    kernel = write_attack(project, HONEST_BODY)
    start_session("other", "something else", kernel="gemm")
    build_variant(kernel, target="cpu")

    assert not load_session("other").entries


def test_a_session_that_was_closed_gets_nothing(project):
    kernel = write_attack(project, HONEST_BODY)
    start_session("mine", "make it faster")
    close_session()
    build_variant(kernel, target="cpu")

    assert [entry.by for entry in load_session("mine").entries] == ["close"]


def test_a_malformed_session_does_not_lose_the_result(project):
    kernel = write_attack(project, HONEST_BODY)
    start_session("mine", "make it faster")
    file = project / "sessions" / "mine.md"
    file.write_text(file.read_text().replace("goal:", "gaol:"))
    built = build_variant(kernel, target="cpu")

    assert built.status == "built"
    assert "gaol" in built.unrecorded
