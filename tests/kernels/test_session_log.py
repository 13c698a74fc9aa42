"""What verbs do lands in the open session by itself."""

from attacks import attack

from kernelkb.actions.building import build
from kernelkb.actions.kernels import bench, check, profile
from kernelkb.actions.sessions import close_session, new_session, show_session
from kernelkb.record.measurements.store import open_store

HONEST = "  honest(x, y, rows, cols);\n"


def test_a_bench_lands_in_the_open_session_with_its_numbers_and_its_record(project):
    kernel = attack(project, HONEST)
    new_session("mine", "make it faster", kernel=kernel)
    timed = bench(kernel, target="cpu", budget_s=0.3)

    (entry,) = show_session("mine").entries
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


def test_the_record_names_the_session_that_it_belongs_to(project):
    kernel = attack(project, HONEST)
    new_session("mine", "make it faster")
    bench(kernel, target="cpu", budget_s=0.3)

    with open_store(project) as store:
        assert store.history(kernel)[0].session == "mine"


def test_build_check_and_profile_land_there_each_as_an_entry_of_its_own(project):
    kernel = attack(project, HONEST)
    new_session("mine", "make it faster")
    build(kernel, target="cpu")
    check(kernel, target="cpu")
    profile(kernel, target="cpu")

    assert [entry.by for entry in show_session("mine").entries] == [
        "build",
        "check",
        "bench",
        "profile",
    ]


def test_a_failed_build_is_what_went_wrong(project):
    kernel = attack(project, "  this is no C++;\n")
    new_session("mine", "make it faster")
    bench(kernel, target="cpu")

    (entry,) = show_session("mine").entries
    assert entry.steps[0].status == "failure"
    assert entry.went_wrong


def test_a_session_about_another_kernel_gets_nothing(project):
    kernel = attack(project, HONEST)
    new_session("other", "something else", kernel="gemm")
    build(kernel, target="cpu")

    assert not show_session("other").entries


def test_a_session_that_was_closed_gets_nothing(project):
    kernel = attack(project, HONEST)
    new_session("mine", "make it faster")
    close_session()
    build(kernel, target="cpu")

    assert [entry.by for entry in show_session("mine").entries] == ["close"]


def test_a_mistake_in_the_session_costs_nobody_the_result(project):
    kernel = attack(project, HONEST)
    new_session("mine", "make it faster")
    file = project / "sessions" / "mine.md"
    file.write_text(file.read_text().replace("goal:", "gaol:"))
    built = build(kernel, target="cpu")

    assert built.status == "built"
    assert "gaol" in built.unrecorded
