"""What is measured ends up in the project's database, and a full disk costs nobody the answer."""

import pytest
from attacks import write_attack

from kernelkb.actions.history.recording import make_record_subject
from kernelkb.actions.kernels.building import build_prepared
from kernelkb.actions.kernels.built_variant import bench_built
from kernelkb.actions.kernels.kernels import bench_variant, profile_variant
from kernelkb.actions.project.bench_target import prepare
from kernelkb.measure.bench_options import BenchOptions
from kernelkb.record.measurements.store import open_store

HONEST_BODY = "  honest(x, y, rows, cols);\n"


@pytest.fixture
def kernel(project):
    return write_attack(project, HONEST_BODY)


def read_history(project, name):
    with open_store(project) as store:
        return store.history(name)


def test_a_bench_is_kept_with_all_that_it_depends_on(project, kernel):
    timed = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))

    (made,) = read_history(project, kernel)
    assert made.id == timed.measurement
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


def test_measuring_again_is_the_same_subject_and_a_changed_source_another_one(project, kernel):
    source = project / "kernels" / kernel / "candidate.cpp"
    place = prepare(kernel, target="cpu")
    built = build_prepared(place)
    for _ in range(2):
        bench_built(place, built, "small", options=BenchOptions(budget_s=0.1))
    source.write_text(source.read_text() + "// changed\n")
    place = prepare(kernel, target="cpu")
    changed = make_record_subject(place, build_prepared(place), "small")

    other, one = read_history(project, kernel)
    assert one.id != other.id
    assert one.subject == other.subject != changed


def test_a_profile_is_kept_with_the_bench_that_it_explains(project, kernel):
    seen = profile_variant(kernel, target="cpu")

    kinds = {made.kind: made for made in read_history(project, kernel)}
    assert set(kinds) == {"bench", "profile"}
    assert kinds["profile"].metrics == seen.metrics


def test_a_result_that_cannot_be_recorded_is_still_returned(project, kernel, monkeypatch):
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{project}/kernels/{kernel}/kernel.yaml")

    timed = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))
    assert timed.speedup is not None
    assert timed.measurement is None
    assert "kernel.yaml" in timed.unrecorded


def test_a_bench_against_a_variant_records_the_sources_of_the_variant(project):
    naive, fast = (prepare("row_softmax", name, "cpu") for name in ("naive", "vectorized"))
    built = {place.subject.variant.id: build_prepared(place) for place in (naive, fast)}
    rival = (naive.subject, built["naive"])
    timed = bench_built(
        fast,
        built["vectorized"],
        "small",
        options=BenchOptions(budget_s=0.3, rival=rival, only_rival=True),
    )

    (made,) = read_history(project, "row_softmax")
    assert made.id == timed.measurement
    assert made.baseline == "variant naive"
    assert made.baseline_sources == make_record_subject(naive, built["naive"], "small").sources
