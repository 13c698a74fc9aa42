"""What is measured ends up in the database and in the open session, or the answer says why not.

One project is measured once, with a session open; most tests look at what that left.
"""

from types import SimpleNamespace

import pytest
from attacks import write_attack

from kernelkb.actions.history import record_result as record_module
from kernelkb.actions.history.attempts import load_attempt_log
from kernelkb.actions.history.measured_subject import make_record_subject
from kernelkb.actions.history.record_result import (
    CallRecord,
    StepRunner,
    record_result,
    summarize_bench,
)
from kernelkb.actions.kernels.measure_variant import (
    bench_built,
    bench_variant,
    build_prepared,
    build_variant,
    check_variant,
    profile_variant,
)
from kernelkb.actions.project.bench_target import prepare
from kernelkb.actions.sessions.sessions import close_session, load_session, start_session
from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.measure.subject import BenchOptions
from kernelkb.record.measurements.store import open_store

HONEST_BODY = "  honest(x, y, rows, cols);\n"


@pytest.fixture(scope="module")
def measured(module_project, stand_in_judge):
    """What a bench, a build, a check and a profile of one kernel answered and left."""
    kernel = write_attack(module_project, HONEST_BODY)
    start_session("mine", "make it faster", kernel=kernel)
    timed = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.1))
    build_variant(kernel, target="cpu")
    check_variant(kernel, target="cpu")
    profiled = profile_variant(kernel, target="cpu")
    with open_store(module_project) as store:
        history = store.history(kernel)
    return SimpleNamespace(
        kernel=kernel,
        timed=timed,
        profiled=profiled,
        history=history,
        first=next(made for made in history if made.id == timed.measurement),
        benches=[made for made in history if made.kind == "bench"],
        entries=load_session("mine").entries,
    )


def bench_and_record(place, built, options):
    steps = StepRunner()
    timed = steps.run(
        "bench", "it", lambda: bench_built(place, built, "small", options), summarize_bench
    )
    return record_result(CallRecord(place, "bench", steps, options, built, timed), timed)


def test_a_bench_is_kept_with_all_that_it_depends_on(measured):
    timed, made = measured.timed, measured.first

    assert made.kind == "bench"
    assert (made.verdict, made.speedup, made.interval) == (
        timed.verdict,
        timed.speedup,
        timed.interval,
    )
    assert set(made.subject.sources) == {"candidate.cpp", "reference.py"}
    assert made.subject.inputs == {"rows": 64, "cols": 256}
    assert {"compiler", "torch", "os"} <= set(made.subject.environment)
    assert len(made.samples) == timed.pair_count


def test_measuring_again_is_the_same_subject_and_a_changed_source_another_one(
    measured, module_project
):
    source = module_project / "kernels" / measured.kernel / "candidate.cpp"
    source.write_text(source.read_text() + "// changed\n")
    place = prepare(measured.kernel, target="cpu")
    changed = make_record_subject(place, build_prepared(place), "small")

    other, one = measured.benches
    assert one.id != other.id
    assert one.subject == other.subject != changed


def test_a_profile_is_kept_with_the_bench_that_it_explains(measured):
    kinds = {made.kind: made for made in measured.history}

    assert set(kinds) == {"bench", "profile"}
    assert kinds["profile"].metrics == measured.profiled.metrics


def test_a_bench_and_the_open_session_name_each_other(measured):
    timed, entry = measured.timed, measured.entries[0]

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
    assert measured.first.session == "mine"


def test_build_check_and_profile_are_logged_as_separate_entries(measured):
    assert [entry.by for entry in measured.entries] == [
        "bench",
        "build",
        "check",
        "bench",
        "profile",
    ]


@pytest.fixture
def kernel(project):
    return write_attack(project, HONEST_BODY)


@pytest.mark.slow
def test_a_result_that_cannot_be_recorded_is_still_returned(project, kernel, monkeypatch):
    """A build in a session that cannot be read, below, shows the same in less time."""
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{project}/kernels/{kernel}/kernel.yaml")

    timed = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))
    assert timed.speedup is not None
    assert timed.measurement is None
    assert "kernel.yaml" in timed.unrecorded


def test_a_bench_whose_measurement_is_not_kept_is_no_time_of_the_history(
    project, kernel, tmp_path, monkeypatch, stand_in_judge
):
    def fail(*_):
        raise BadValueError("candidate.cpp is not there")

    monkeypatch.setattr(record_module, "_make_measurement", fail)
    timed = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.1))
    tree = load_attempt_log(kernel).tree

    assert (timed.measurement, timed.unrecorded) == (None, "candidate.cpp is not there")
    assert timed.speedup is not None
    assert tree.best is None
    assert main(["export", str(tmp_path / "all.jsonl")]) == 0
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{tmp_path / 'other.db'}")
    assert main(["import", str(tmp_path / "all.jsonl")]) == 0
    assert load_attempt_log(kernel).tree.nodes.keys() == tree.nodes.keys()


@pytest.mark.slow
def test_a_bench_against_a_variant_records_the_sources_of_the_variant(project):
    naive, fast = (prepare("row_softmax", name, "cpu") for name in ("naive", "vectorized"))
    built = {place.subject.variant.id: build_prepared(place) for place in (naive, fast)}
    rival = (naive.subject, built["naive"])
    options = BenchOptions(budget_s=0.3, rival=rival, only_rival=True)
    timed = bench_and_record(fast, built["vectorized"], options)

    with open_store(project) as store:
        (made,) = store.history("row_softmax")
    assert made.id == timed.measurement
    assert made.baseline == "variant naive"
    assert made.baseline_sources == make_record_subject(naive, built["naive"], "small").sources


def test_a_failed_build_is_logged_as_went_wrong(project):
    kernel = write_attack(project, "  this is no C++;\n")
    start_session("mine", "make it faster")
    bench_variant(kernel, target="cpu")

    (entry,) = load_session("mine").entries
    assert entry.steps[0].status == "failure"
    assert entry.went_wrong


def test_a_session_about_another_kernel_gets_nothing(kernel):
    start_session("other", "something else", kernel="gemm")
    build_variant(kernel, target="cpu")

    assert not load_session("other").entries


def test_a_session_that_was_closed_gets_nothing(kernel):
    start_session("mine", "make it faster")
    close_session()
    build_variant(kernel, target="cpu")

    assert [entry.by for entry in load_session("mine").entries] == ["close"]


def test_a_malformed_session_does_not_lose_the_result(project, kernel):
    start_session("mine", "make it faster")
    file = project / "sessions" / "mine.md"
    file.write_text(file.read_text().replace("goal:", "gaol:"))
    built = build_variant(kernel, target="cpu")

    assert built.status == "built"
    assert "gaol" in built.unrecorded
