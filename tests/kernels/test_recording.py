"""What is measured ends up in the project's database, and a full disk costs nobody the answer."""

import pytest
from attacks import attack

from kernelkb.actions.bench_target import prepare
from kernelkb.actions.building import build_here
from kernelkb.actions.kernels import bench, bench_here, profile
from kernelkb.actions.recording import subject_of
from kernelkb.record.measurements.store import open_store

HONEST = "  honest(x, y, rows, cols);\n"


@pytest.fixture
def kernel(project):
    return attack(project, HONEST)


def stored(project, name):
    with open_store(project) as store:
        return store.history(name)


def test_a_bench_is_kept_with_all_that_it_depends_on(project, kernel):
    timed = bench(kernel, target="cpu", budget_s=0.3)

    (made,) = stored(project, kernel)
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


def test_the_same_variant_measured_again_is_the_same_subject_and_another_record(project, kernel):
    bench(kernel, target="cpu", budget_s=0.3)
    bench(kernel, target="cpu", budget_s=0.3)

    one, other = stored(project, kernel)
    assert one.subject_id == other.subject_id
    assert one.id != other.id


def test_a_changed_source_is_another_subject(project, kernel):
    bench(kernel, target="cpu", budget_s=0.3)
    source = project / "kernels" / kernel / "candidate.cpp"
    source.write_text(source.read_text() + "// changed\n")
    bench(kernel, target="cpu", budget_s=0.3)

    one, other = stored(project, kernel)
    assert one.subject_id != other.subject_id


def test_a_profile_is_kept_with_the_bench_that_it_explains(project, kernel):
    seen = profile(kernel, target="cpu")

    kinds = {made.kind: made for made in stored(project, kernel)}
    assert set(kinds) == {"bench", "profile"}
    assert kinds["profile"].metrics == seen.metrics


def test_what_cannot_be_kept_is_answered_all_the_same(project, kernel, monkeypatch):
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{project}/kernels/{kernel}/kernel.yaml")

    timed = bench(kernel, target="cpu", budget_s=0.3)
    assert timed.speedup is not None
    assert timed.measurement is None
    assert "kernel.yaml" in timed.unrecorded


def test_a_bench_next_to_a_variant_keeps_what_that_was_made_of(project):
    naive, fast = (prepare("row_softmax", name, "cpu") for name in ("naive", "vectorized"))
    built = {place.subject.variant.id: build_here(place) for place in (naive, fast)}
    rival = (naive.subject, built["naive"])
    timed = bench_here(
        fast, built["vectorized"], "small", budget_s=0.3, incumbent=rival, alone=True
    )

    (made,) = stored(project, "row_softmax")
    assert made.id == timed.measurement
    assert made.baseline == "variant naive"
    assert made.baseline_sources == subject_of(naive, built["naive"], "small").sources
