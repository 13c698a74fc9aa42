"""Two measurements next to each other: a ratio with its interval, or why there is none."""

import random
from datetime import UTC, datetime
from math import exp, log
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelkb.measure.bench.statistics import paired_speedup
from kernelkb.model.records.history import SubjectRecord
from kernelkb.model.records.measurement import ResourceUse
from kernelkb.record.measurements.compare import compute_comparison
from kernelkb.record.measurements.rows import create_measurement
from kernelkb.render.text.measurements import describe_compared_use, describe_memory_growth

AT = datetime(2026, 11, 21, tzinfo=UTC)


def make_bench(variant, samples=(), *, baseline="torch", judge="1.0", device="A CPU", **fields):
    """A bench with these pairs of times."""
    subject = SubjectRecord(
        kernel="row_softmax",
        variant=variant,
        target="cpu",
        workload="medium",
        sources={"naive.cpp": variant},
        device=device,
        environment={"torch": fields.pop("torch", "2.9")},
        judge=judge,
    )
    if samples:
        found = paired_speedup(*zip(*samples, strict=True))
        fields = {"speedup": found.point, "interval": (found.low, found.high), **fields}
    given = {"verdict": "faster", "candidate_us": 1.0, "timing": "eager", **fields}
    return create_measurement("bench", AT, subject, baseline=baseline, samples=samples, **given)


def make_pairs(speedup, count=101, noise=0.02, seed=0):
    draw = random.Random(seed)
    return tuple((1.0, speedup * exp(draw.gauss(0, noise))) for _ in range(count))


def test_next_to_the_same_baseline_the_paired_ratios_are_divided():
    found = compute_comparison(
        make_bench("naive", make_pairs(2.0)), make_bench("vectorized", make_pairs(3.0, seed=1))
    )

    assert found.by == "same-baseline"
    assert found.ratio == pytest.approx(1.5, rel=0.01)
    assert found.interval[0] < found.ratio < found.interval[1]


def test_the_other_way_round_it_is_the_inverse():
    a, b = make_bench("naive", make_pairs(2.0)), make_bench("vectorized", make_pairs(3.0, seed=1))

    assert compute_comparison(b, a).ratio == pytest.approx(1 / compute_comparison(a, b).ratio)


def test_a_direct_comparison_needs_no_common_baseline():
    a = make_bench("naive", make_pairs(2.0))
    b = make_bench(
        "vectorized",
        make_pairs(1.4, seed=1),
        baseline="variant naive",
        baseline_sources={"naive.cpp": "naive"},
    )
    forth, back = compute_comparison(a, b), compute_comparison(b, a)

    assert (forth.by, forth.ratio, forth.interval) == ("direct", b.speedup, b.interval)
    assert back.interval == (1 / b.interval[1], 1 / b.interval[0])


def test_a_baseline_that_was_changed_since_is_not_the_same_thing():
    a = make_bench("naive", make_pairs(2.0))
    old = {"naive.cpp": "as it was"}
    b = make_bench(
        "vectorized", make_pairs(1.4, seed=1), baseline="variant naive", baseline_sources=old
    )

    assert compute_comparison(a, b).ratio is None
    assert "naive had other sources when it was the baseline" in compute_comparison(a, b).because


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"baseline": "torch.compile"}, "against different baselines: torch and torch.compile"),
        ({"judge": "0.9"}, "their judge differs: 1.0 and 0.9"),
        ({"device": "A GPU"}, "their device differs: A CPU and A GPU"),
        ({"timing": "graph"}, "timed in different ways: eager and graph"),
        ({"torch": "2.8"}, "different torch versions: 2.9 and 2.8"),
        ({"verdict": "incorrect", "candidate_us": None}, "is incorrect"),
        (
            {"verdict": "inconclusive", "disturbed_by": "cpu-contention"},
            "is no fair sample: its threads waited for CPU cores",
        ),
        (
            {"verdict": "slower", "disturbed_by": "cpu-contention"},
            "is no fair sample: its threads waited for CPU cores",
        ),
    ],
)
def test_without_common_ground_there_is_no_ratio_but_a_command(other, why):
    found = compute_comparison(
        make_bench("naive", make_pairs(2.0)), make_bench("vectorized", make_pairs(3.0), **other)
    )

    assert (found.ratio, found.interval) == (None, None)
    assert why in found.because
    assert found.command == (
        "kb bench row_softmax --variant vectorized --target cpu --workload medium --against naive"
    )


def test_peak_memory_is_compared_where_times_cannot_be():
    uses = [ResourceUse(peak_bytes=size * 2**20, joules=0.5) for size in (64, 128)]
    a = make_bench("naive", make_pairs(2.0), resource_use=uses[0])
    b = make_bench("vectorized", make_pairs(3.0), resource_use=uses[1], baseline="torch.compile")
    found = compute_comparison(a, b)

    assert found.ratio is None
    assert (found.peak_bytes, found.joules) == ((64 * 2**20, 128 * 2**20), (0.5, 0.5))
    assert next(iter(describe_compared_use(found))) == (
        "peak memory of a call: a 64 MiB, b 128 MiB (2x)"
    )
    assert describe_memory_growth(found) == "peak memory of a call grew from 64 MiB to 128 MiB"


@pytest.mark.parametrize("other", [{"device": "A GPU"}, {"resource_use": None}])
def test_memory_of_other_calls_and_of_old_records_is_not_compared(other):
    use = {"resource_use": ResourceUse(peak_bytes=2**26)}
    a = make_bench("naive", make_pairs(2.0), **use)
    b = make_bench("vectorized", make_pairs(3.0), **(use | other))

    assert compute_comparison(a, b).peak_bytes is None


def test_a_measurement_without_samples_is_not_compared():
    found = compute_comparison(
        make_bench("naive", make_pairs(2.0)), make_bench("vectorized", speedup=3.0)
    )

    assert found.ratio is None
    assert "came without its samples" in found.because


def test_few_pairs_make_no_interval():
    found = compute_comparison(
        make_bench("naive", make_pairs(2.0)), make_bench("vectorized", make_pairs(3.0, count=4))
    )

    assert found.ratio is None
    assert "has 4 pairs, too few" in found.because


def test_a_measurement_is_not_compared_with_itself():
    one = make_bench("naive", make_pairs(2.0))

    assert compute_comparison(one, one).because == "they are the same measurement"


def test_the_judge_uncertainty_widens_the_interval():
    a, sure = (
        make_bench("naive", make_pairs(2.0)),
        make_bench("vectorized", make_pairs(3.0, seed=1)),
    )
    unsure = make_bench("vectorized", make_pairs(3.0, seed=1), interval=(2.7, 3.3))

    assert (
        compute_comparison(a, unsure).interval[0] < compute_comparison(a, sure).interval[0] * 0.95
    )
    assert (
        compute_comparison(a, unsure).interval[1] > compute_comparison(a, sure).interval[1] * 1.05
    )


@pytest.mark.parametrize("count", [15, 16, 64, 101])
def test_the_fast_bootstrap_matches_the_bench_bootstrap(count):
    """Over a baseline that never varies, the ratio's interval is that of one bench alone."""
    varied, steady = make_pairs(2.0, count, 0.1), tuple((1.0, 1.0) for _ in range(count))
    low, high = compute_comparison(
        make_bench("naive", steady), make_bench("vectorized", varied)
    ).interval
    slow = paired_speedup(*zip(*varied, strict=True))

    width = log(slow.high / slow.low)
    assert log(low / slow.low) == pytest.approx(0, abs=0.15 * width)
    assert log(high / slow.high) == pytest.approx(0, abs=0.15 * width)


@pytest.mark.slow
def test_the_interval_covers_the_true_ratio_at_its_nominal_rate():
    held = 0
    for seed in range(200):
        a = make_bench("naive", make_pairs(2.0, 31, 0.05, 2 * seed))
        b = make_bench("vectorized", make_pairs(3.0, 31, 0.05, 2 * seed + 1))
        low, high = compute_comparison(a, b).interval
        held += low <= 1.5 <= high

    assert held >= 182, "91 %: below the 1st percentile of 200 draws at 95 %"


TIMES = st.floats(min_value=0.1, max_value=1e4)


@settings(max_examples=25)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=5, max_size=40))
def test_the_ratio_lies_in_its_interval_and_is_one_of_medians(samples):
    found = compute_comparison(
        make_bench("naive", ((1.0, 1.0),) * 5), make_bench("vectorized", tuple(samples))
    )

    low, high = found.interval
    assert low <= found.ratio * (1 + 1e-9)
    assert found.ratio <= high * (1 + 1e-9)
    assert found.ratio == pytest.approx(exp(median(log(r / c) for c, r in samples)))
