"""What older records say in words is read as it was written."""

import pytest

from kernelkb.model.measurement import Bench
from kernelkb.model.session import Step
from kernelkb.record.legacy_steps import extract_bottleneck, extract_timing
from kernelkb.render.answers import describe_advice
from kernelkb.render.measurements import describe_bench


def make_step(found, **more):
    return Step(**{"name": "bench", "status": "ok", "found": found, "seconds": 1, **more})


def make_bench(**more):
    given = {"variant": "tiled", "verdict": "faster", "baseline": "sdpa-flash", "detail": None}
    given |= {"candidate_us": 3320.0, "baseline_us": 2660.0, "workload": "large"}
    given |= {"speedup": 0.801, "interval": (0.8, 0.802), "pair_count": 129, **more}
    return Bench.model_construct(**given)


@pytest.mark.parametrize("speedup", [0.000123, 0.801, 1.0, 12.3, 2065.0])
@pytest.mark.parametrize("baseline", ["torch.compile", "sdpa-flash", "variant naive"])
def test_a_bench_is_read_from_the_sentence_that_kb_writes(speedup, baseline):
    timed = make_bench(speedup=speedup, interval=(speedup * 0.9, speedup * 1.1), baseline=baseline)
    found = extract_timing(make_step(describe_bench(timed)))

    assert found.speedup == pytest.approx(speedup, rel=0.005)
    assert found.interval == pytest.approx((speedup * 0.9, speedup * 1.1), rel=0.005)
    assert (found.baseline, found.workload) == (baseline, "large")


@pytest.mark.parametrize("verdict", ["incorrect", "invalid"])
def test_a_sentence_about_something_invalid_gives_no_speedup(verdict):
    assert extract_timing(make_step(describe_bench(make_bench(verdict=verdict)))) is None


def test_a_bench_that_was_not_timed_gives_none():
    assert (
        extract_timing(make_step(describe_bench(make_bench(candidate_us=None, detail="it hung"))))
        is None
    )


def test_fields_count_before_the_sentence():
    found = extract_timing(
        make_step(describe_bench(make_bench()), speedup=2.0, interval=(1.9, 2.1), baseline="x")
    )

    assert (found.speedup, found.interval, found.baseline) == (2.0, (1.9, 2.1), "x")


def test_a_speedup_without_an_interval_borrows_none():
    assert extract_timing(make_step(describe_bench(make_bench()), speedup=2.0)).interval is None


def test_the_first_bottleneck_is_read_from_the_sentence_that_kb_writes():
    match = {"verdict": "matches", "confidence": 0.8, "predicted_speedup": None, "fixes": []}
    both = [{"bottleneck": name, **match} for name in ("small-grid", "bank-conflicts")]
    said = describe_advice({"diagnoses": both, "measure_next": []})

    assert extract_bottleneck(make_step(said)) == "small-grid"


@pytest.mark.parametrize(
    "said", ["nothing known limits it", "no cause can be named yet; measure occupancy", ""]
)
def test_a_sentence_that_names_none_gives_none(said):
    assert extract_bottleneck(make_step(said)) is None
