"""Errors of measurement that need no cheat (M1 to M13): raw times in, verdicts out.

M1 to M3, M9 and M11 need a GPU and stand with the attacks that do; M5 belongs to the tuner; M12
is a build's; M13 a check's.
"""

import random

import pytest

from kernelkb.loading.kernels import load_kernel, select_variant
from kernelkb.measure.bench.bench_verdict import compute_bench_fields, compute_time_floor
from kernelkb.measure.job_specs import output_bytes
from kernelkb.measure.machine.nvidia_driver import GpuSample, GpuSampler
from kernelkb.measure.machine.torch_info import Peaks
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import Batch
from kernelkb.model.records.measurement import Bench, Machine
from kernelkb.render.text.measurements import describe_bench

PEAKS = Peaks(copy_gbps=3000.0, dispatch_us=1.3, launch_us=14.0, gemm_gflops={"float32": 4e5})
NS_PER_MS = 1e6
ROUND_TRIP_NS = 2e4


def make_subject():
    source = load_kernel("row_softmax")
    machine = Machine(
        target="cuda",
        title="a GPU",
        core_count=8,
        cache_bytes=50 * 2**20,
        cc="9.0",
        compiler="nvcc",
        compiler_version="13.0",
        python="python3",
        torch="2.11",
    )
    return MeasurementSubject(source, select_variant(source.kernel, "cuda"), machine)


def make_bench_times(
    candidate_ns,
    rival_ns,
    *,
    runner_share=1.0,
    calls=4,
    count=40,
    noise=0.0,
    seed=1,
    start=0.0,
    extra_overhead_ns=0.0,
):
    """Batches of both runners, of ``calls`` calls each, 20 us longer by the judge's clock.

    ``extra_overhead_ns`` is how much longer still the candidate's are, nanoseconds.
    """
    rng = random.Random(seed)

    def make_batches(call_ns, share, overhead_ns=0.0):
        batches = []
        for at in range(count):
            calls_ns = call_ns * calls * rng.lognormvariate(0.0, noise)
            judge_ns = calls_ns + ROUND_TRIP_NS + overhead_ns
            batches.append(Batch(judge_ns, calls_ns * share, calls, start + at, start + at + 0.5))
        return batches

    return {
        "candidate_batches": make_batches(candidate_ns, runner_share, extra_overhead_ns),
        "rival_batches": make_batches(rival_ns, 1.0),
        "single_call_batches": make_single_calls(candidate_ns, candidate_ns * runner_share),
        "rival_single_call_batches": make_single_calls(rival_ns, rival_ns),
        "warm_call_ns": candidate_ns,
        "busy_cores": 1.0,
        "are_busy_cores_certain": True,
        "checked_count": 40,
        "hidden_inputs": ["negated inputs"],
        "new_thread_count": 0,
        "idle_cpu_ns": 0.0,
        "rival_name": "torch",
        "rivals": {"torch": {"eager_ns": rival_ns, "graph_ns": rival_ns}},
        "rejection_reasons": {},
        "uses_graph": True,
        "no_graph_reason": None,
        "eager_ns": candidate_ns,
        "layers": ["landlock"],
        "copy_ns": None,
        "idle_read_ns": 5e4,
    }


def make_single_calls(call_ns, runner_ns):
    return [Batch(ROUND_TRIP_NS + call_ns, runner_ns, 1, 0.0, 0.5)] * 5


def change_batches(times, key, change, indices=None):
    """Replace batches by ``change(batch)``: all, or those of some indices."""
    times[key] = [
        change(batch) if indices is None or index in indices else batch
        for index, batch in enumerate(times[key])
    ]


def make_verdict(times, workload="xlarge", watch=None):
    one = make_subject()
    fields = compute_bench_fields(one, workload, times, PEAKS, watch or GpuSampler("0"))
    return Bench(**one.identity_fields, workload=workload, **fields, seconds=1.0)


@pytest.mark.defends(
    "H23",
    attack="one impossible time distorts an aggregate",
    defence="the roofline floor is checked for each workload; nothing is aggregated over shapes",
)
def test_faster_than_the_roofline_is_invalid():
    found = make_verdict(make_bench_times(0.1 * NS_PER_MS, 0.6 * NS_PER_MS))

    assert found.verdict == "invalid"
    assert "the measured copy bandwidth allows" in found.detail


def test_a_kernel_at_its_roofline_floor_is_valid():
    floor_us, roof = compute_time_floor(make_subject(), "xlarge", PEAKS, 4)
    found = make_verdict(make_bench_times(floor_us * 1e3, 0.6 * NS_PER_MS))

    assert (found.verdict, roof) == ("faster", "the measured copy bandwidth")
    assert found.attainable_speedup == pytest.approx(1.0, abs=0.01)
    assert found.hidden_inputs == ("negated inputs",)


def test_a_product_of_shorter_numbers_is_measured_against_their_rate():
    one = make_subject()
    kernel = one.kernel_folder.kernel
    inputs = tuple(x.model_copy(update={"dtype": "bfloat16"}) for x in kernel.inputs)
    cost = kernel.cost.model_copy(update={"flops": "10000 * rows * cols"})
    short = kernel.model_copy(update={"inputs": inputs, "cost": cost})
    one = one._replace(kernel_folder=one.kernel_folder._replace(kernel=short))
    both = PEAKS._replace(gemm_gflops={"float32": 4e5, "bfloat16": 8e5})

    assert compute_time_floor(one, "xlarge", PEAKS, 4)[1] == "the measured copy bandwidth"
    fast, roof = compute_time_floor(one, "xlarge", both, 4)
    assert roof == "the measured GEMM throughput"
    assert fast == pytest.approx(
        1e4 * output_bytes(one.kernel_folder, "xlarge") / 4 / 8e5 / 1e3, rel=0.01
    )


def test_outputs_that_the_cache_holds_need_not_have_reached_memory():
    small, _ = compute_time_floor(make_subject(), "medium", PEAKS, 4)
    written = output_bytes(make_subject().kernel_folder, "medium")

    assert small == pytest.approx(written / 3000.0 / 1e3, rel=0.01)


def test_work_outside_the_runner_clock_is_invalid():
    found = make_verdict(make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS, runner_share=0.3))

    assert found.verdict == "invalid"
    assert "the judge's clock" in found.detail


@pytest.mark.parametrize("calls", [3, 20])
@pytest.mark.parametrize(
    ("alone_us", "rival_alone_us", "verdict"),
    [
        (100.0, 120.0, "faster"),
        (400.0, 420.0, "faster"),  # both take longer alone: cold code, threads that wake up
        (105.0, 117.0, "faster"),  # within what the clocks cannot tell
        (115.0, 115.0, "inconclusive"),
        (190.0, 120.0, "invalid"),
        (1900.0, 120.0, "invalid"),
    ],
)
def test_calls_that_are_cheaper_in_a_batch_than_the_rivals_are_invalid(
    alone_us, rival_alone_us, verdict, calls
):
    times = make_bench_times(1e5, 1.2e5, calls=calls)
    times["single_call_batches"] = make_single_calls(alone_us * 1e3, alone_us * 1e3)
    times["rival_single_call_batches"] = make_single_calls(*[rival_alone_us * 1e3] * 2)
    found = make_verdict(times, workload="medium")

    assert found.verdict == verdict, found.detail
    assert verdict != "invalid" or "calls that are yet to come" in found.detail


@pytest.mark.parametrize(
    ("in_batch_us", "rival_in_batch_us", "alone_us", "verdict"),
    [(8.7, 5.2, 40.0, "slower"), (8.7, 5.2, 90.0, "slower"), (8.7, 13.0, 40.0, "inconclusive")],
)
def test_cold_code_accuses_no_short_call(in_batch_us, rival_in_batch_us, alone_us, verdict):
    """A loop in C++ that was called invalid beside other tests, though it was slower as well."""
    times = make_bench_times(in_batch_us * 1e3, rival_in_batch_us * 1e3, calls=500)
    times["single_call_batches"] = make_single_calls(alone_us * 1e3, alone_us * 1e3)
    times["rival_single_call_batches"] = make_single_calls(*[rival_in_batch_us * 1e3] * 2)
    found = make_verdict(times, workload="medium")

    assert found.verdict == verdict, found.detail


def test_a_large_gain_that_calls_alone_do_not_have_decides_nothing_on_a_slow_round_trip():
    """A recurrent net that computed the calls of a batch together; medians of a real run."""
    times = make_bench_times(1.51e5, 2.64e5, calls=10)
    for key in ("candidate_batches", "rival_batches"):
        change_batches(times, key, lambda b: b._replace(judge_ns=b.judge_ns + 2.49e5))
    times["single_call_batches"] = make_single_calls(6.75e5, 6.75e5)
    times["rival_single_call_batches"] = make_single_calls(6.13e5, 6.13e5)
    found = make_verdict(times | {"busy_cores": 2.0}, workload="medium")

    assert found.verdict == "inconclusive", found.detail
    assert any("only when many calls follow one another" in line for line in found.warnings)


def test_a_round_trip_that_is_shorter_for_a_call_accuses_no_candidate():
    """On a CPU a batch ends with a signal that stops the process, a call alone does not."""
    times = make_bench_times(1.53e5, 2.43e5, calls=30)
    for key in ("candidate_batches", "rival_batches"):
        change_batches(times, key, lambda b: b._replace(judge_ns=b.judge_ns + 2e5))
    times["single_call_batches"] = make_single_calls(1.53e5, 1.53e5)
    times["rival_single_call_batches"] = make_single_calls(2.43e5, 2.43e5)
    found = make_verdict(times, workload="medium")

    assert found.verdict == "faster", found.detail


def test_a_round_trip_that_differs_between_processes_accuses_no_candidate():
    """That of a process without torch took 37 us longer than that of one with it."""
    times = make_bench_times(8.7e3, 5e3, calls=400)
    keys = ("single_call_batches", "rival_single_call_batches")
    for key, call_ns, more_ns in zip(keys, (8.7e3, 5e3), (1.17e5, 8e4), strict=True):
        times[key] = make_single_calls(call_ns, call_ns)
        change_batches(
            times, key, lambda b, more_ns=more_ns: b._replace(judge_ns=b.judge_ns + more_ns)
        )

    assert make_verdict(times, workload="medium").verdict == "slower"


def wait_for_cores(batch, wait_us):
    """Return a batch of which the sum of its threads' waits on the run queue is known."""
    return batch._replace(runqueue_wait_ns=wait_us * 1e3)


def test_a_rival_whose_threads_waited_while_it_ran_alone_accuses_no_candidate():
    """Waits of several threads together may be longer than the call."""
    times = make_bench_times(1e5, 2.4e5, calls=3)
    times["single_call_batches"] = make_single_calls(1.0e5, 1.0e5)
    alone = make_single_calls(2.4e5, 2.4e5)
    times["rival_single_call_batches"] = [wait_for_cores(batch, 300.0) for batch in alone]
    found = make_verdict(times, workload="medium")

    assert found.verdict == "faster", found.detail


@pytest.mark.parametrize("quiet", [4, 5])
def test_only_single_calls_that_nothing_disturbed_accuse_a_candidate(quiet):
    times = make_bench_times(1e5, 1.2e5, calls=20)
    crowded = [wait_for_cores(batch, 2000.0) for batch in make_single_calls(1.9e6, 1.9e6)]
    calls = [*make_single_calls(1.9e6, 1.9e6)[:quiet], *crowded]
    times["single_call_batches"] = calls
    times["rival_single_call_batches"] = make_single_calls(1.2e5, 1.2e5) * 2
    times["rival_single_call_batches"] = times["rival_single_call_batches"][: len(calls)]
    found = make_verdict(times, workload="medium")

    assert found.verdict == ("inconclusive" if quiet < 5 else "invalid"), found.detail
    assert quiet == 5 or any("too few calls by themselves" in text for text in found.warnings)


def test_no_single_call_accuses_a_candidate_on_a_busy_machine():
    times = add_runqueue_wait(make_bench_times(1e5, 1.2e5, calls=20), 0.9, of=21)
    times["single_call_batches"] = make_single_calls(1.9e6, 1.9e6)
    times["rival_single_call_batches"] = make_single_calls(1.2e5, 1.2e5)

    assert make_verdict(times, workload="medium").verdict == "inconclusive"


def test_a_gain_that_no_single_call_has_decides_nothing():
    times = make_bench_times(4e5, 5e5, calls=20)
    times["single_call_batches"] = make_single_calls(5.1e5, 5.1e5)
    found = make_verdict(times, workload="large")

    assert found.verdict == "inconclusive"
    assert any("a call by itself took 510 us" in warning for warning in found.warnings)


def test_a_busy_machine_is_not_invalid():
    times = make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS)
    change_batches(
        times,
        "candidate_batches",
        lambda batch: batch._replace(judge_ns=3 * batch.judge_ns),
        range(0, 40, 2),
    )

    assert make_verdict(times).verdict != "invalid"


def add_runqueue_wait(times, share, *, of):
    """Let threads wait on the run queue for a share of each batch, in the first ``of`` pairs."""
    for key in ("candidate_batches", "rival_batches"):
        change_batches(
            times,
            key,
            lambda batch: batch._replace(runqueue_wait_ns=share * batch.judge_ns),
            range(of),
        )
    return times


def test_runqueue_wait_is_not_invalid():
    times = add_runqueue_wait(
        make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS, runner_share=0.8), 0.2, of=40
    )

    assert make_verdict(times).verdict != "invalid"


@pytest.mark.parametrize(("crowded", "verdict"), [(19, "faster"), (21, "inconclusive")])
def test_contention_in_most_batches_is_inconclusive(crowded, verdict):
    found = make_verdict(
        add_runqueue_wait(make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS), 0.9, of=crowded)
    )

    assert found.verdict == verdict
    assert any("something else uses" in text for text in found.warnings) == (verdict != "faster")


def test_contention_hides_no_loss_and_the_loss_is_marked_noisy():
    times = make_bench_times(0.6 * NS_PER_MS, 0.4 * NS_PER_MS)
    found = make_verdict(add_runqueue_wait(times, 0.9, of=21))

    assert (found.verdict, found.disturbed_by) == ("slower", "cpu-contention")
    assert describe_bench(found).endswith("slower (noisy)")


def test_contention_hides_a_gain_and_the_reason_stands_beside_it():
    times = make_bench_times(0.4 * NS_PER_MS, 0.6 * NS_PER_MS)
    found = make_verdict(add_runqueue_wait(times, 0.9, of=21))

    assert found.interval[0] > 1
    assert (found.verdict, found.disturbed_by) == ("inconclusive", "cpu-contention")
    assert any("threads waited for cores" in text for text in found.warnings)


@pytest.mark.parametrize(("others", "verdict"), [(19, "faster"), (21, "inconclusive")])
def test_work_left_on_the_gpu_is_inconclusive(others, verdict):
    """A kernel that spins for ever takes turns with the rival's, and cannot be stopped."""
    times = make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS)
    change_batches(times, "rival_batches", lambda batch: batch._replace(idle_read_ns=6e4))
    change_batches(
        times,
        "rival_batches",
        lambda batch: batch._replace(idle_read_ns=1.5 * NS_PER_MS),
        range(others),
    )
    found = make_verdict(times)

    assert found.verdict == verdict
    assert any("left work behind" in text for text in found.warnings) == (verdict != "faster")


def test_a_gpu_that_is_a_little_slow_to_answer_is_quiet():
    times = make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS)
    for key in ("candidate_batches", "rival_batches"):
        change_batches(times, key, lambda batch: batch._replace(idle_read_ns=3.9e5))

    assert make_verdict(times).verdict == "faster"


def test_a_gpu_that_was_hot_all_the_time_decides_nothing():
    watch = GpuSampler("0")
    watch.samples = [GpuSample(at + 0.25, 1000.0, 90.0, 700.0, 0x40) for at in range(40)]
    found = make_verdict(make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS), watch=watch)

    assert found.verdict == "inconclusive"
    assert any("measure again when it is cool" in text for text in found.warnings)


def add_copy_time(times, *, rival):
    """Let the candidate spend 0.3 ms of each batch on copies, which a rival may do as well."""

    def add_copies(batch, copy_ns):
        return batch._replace(judge_ns=batch.judge_ns + copy_ns, copy_ns=copy_ns)

    change_batches(times, "candidate_batches", lambda batch: add_copies(batch, 0.3 * NS_PER_MS))
    change_batches(times, "rival_batches", lambda batch: add_copies(batch, rival))
    return times


@pytest.mark.parametrize("rival", [0.0, 0.3 * NS_PER_MS])
def test_output_copies_are_not_invalid_for_any_rival(rival):
    times = {
        **add_copy_time(make_bench_times(0.1 * NS_PER_MS, 0.12 * NS_PER_MS), rival=rival),
        "copy_ns": 0.3 * NS_PER_MS / 4,
    }
    found = make_verdict(times, workload="small")

    assert found.verdict != "invalid"
    assert found.speedup == pytest.approx(1.2, abs=0.03)


def test_from_a_candidate_that_copies_nothing_no_copies_are_taken_off():
    times = make_bench_times(0.4 * NS_PER_MS, 0.4 * NS_PER_MS)
    change_batches(
        times,
        "rival_batches",
        lambda batch: batch._replace(
            judge_ns=batch.judge_ns + 0.3 * NS_PER_MS, copy_ns=0.3 * NS_PER_MS
        ),
    )
    found = make_verdict({**times, "copy_ns": 0.0}, workload="small")

    assert found.speedup == pytest.approx(1.0, abs=0.03)


def test_a_plausible_runner_clock_never_increases_the_speedup():
    times = {
        **add_copy_time(
            make_bench_times(0.1 * NS_PER_MS, 0.105 * NS_PER_MS, runner_share=0.8),
            rival=0.3 * NS_PER_MS,
        ),
        "copy_ns": 0.0,
    }
    found = make_verdict(times, workload="small")

    assert found.speedup <= 1.06


@pytest.mark.parametrize(("idle_ms", "verdict"), [(0.1, "faster"), (40.0, "invalid")])
def test_leftover_threads_are_invalid_where_they_work_between_calls(idle_ms, verdict):
    times = {**make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS), "new_thread_count": 2}
    times["idle_cpu_ns"] = idle_ms * NS_PER_MS
    found = make_verdict(times)

    assert found.verdict == verdict
    told = (found.detail or "", *found.warnings)
    assert any("it started 2 threads while it was timed" in text for text in told)


@pytest.mark.defends(
    "M4",
    attack="drift of clocks and temperature",
    defence="clocks are recorded, throttled pairs dropped, candidate and baseline interleaved",
)
def test_thermally_throttled_batches_are_dropped():
    times = make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS)
    change_batches(
        times,
        "candidate_batches",
        lambda batch: batch._replace(judge_ns=5 * batch.judge_ns, runner_ns=5 * batch.runner_ns),
        range(10),
    )
    watch = GpuSampler("0")
    watch.sm_max_mhz = 1980.0
    watch.samples = [
        GpuSample(at + 0.25, 1000.0 if at < 10 else 1980.0, 90.0, 700.0, 0x40 if at < 10 else 0)
        for at in range(40)
    ]
    found = make_verdict(times, watch=watch)

    assert found.verdict == "faster"
    assert (found.clocks.dropped_count, found.pair_count) == (10, 30)
    assert "hardware thermal slowdown" in found.clocks.throttled
    assert any("10 pairs were dropped" in warning for warning in found.warnings)


def test_a_power_cap_drops_no_batches():
    watch = GpuSampler("0")
    watch.samples = [GpuSample(at + 0.25, 1700.0, 60.0, 700.0, 0x4) for at in range(40)]
    found = make_verdict(make_bench_times(0.5 * NS_PER_MS, 0.6 * NS_PER_MS), watch=watch)

    assert (found.clocks.dropped_count, found.clocks.throttled) == (0, ("power cap",))


@pytest.mark.defends(
    "M6",
    attack="comparison of two points without an interval",
    defence="paired bootstrap, a minimum effect of 1 %, and a kernel against itself as control",
)
def test_a_kernel_against_itself_is_inconclusive():
    verdicts = [
        make_verdict(
            make_bench_times(0.5 * NS_PER_MS, 0.5 * NS_PER_MS, noise=0.02, seed=seed)
        ).verdict
        for seed in range(60)
    ]

    assert verdicts.count("inconclusive") >= 57


@pytest.mark.parametrize("way", [-7e3, 7e3])
@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_different_process_overheads_change_no_verdict(way, noise):
    found = make_verdict(
        make_bench_times(1e5, 1e5, calls=3, extra_overhead_ns=way, noise=noise), workload="medium"
    )

    assert found.verdict == "inconclusive"


def test_unknown_overhead_is_never_a_gain():
    """0.3 ms windows, of which the candidate's clock leaves out what the way may take."""
    found = make_verdict(make_bench_times(1e5, 1e5, calls=3, runner_share=0.97), workload="medium")

    assert found.verdict == "inconclusive"


@pytest.mark.slow
def test_3_percent_are_detected_under_2_percent_noise():
    verdicts = [
        make_verdict(
            make_bench_times(0.5 * NS_PER_MS, 0.515 * NS_PER_MS, noise=0.01, count=100, seed=seed)
        ).verdict
        for seed in range(60)
    ]

    assert verdicts.count("faster") >= 57


def test_very_noisy_times_are_inconclusive_with_a_warning():
    found = make_verdict(make_bench_times(1e6, 1e6, calls=4, count=15, noise=2.0))

    assert found.verdict == "inconclusive"
    assert any("something else uses" in warning for warning in found.warnings)


@pytest.mark.defends(
    "M7",
    attack="a small shape measures the launch",
    defence="reported as launch bound; CUDA-graph times beside single calls",
)
def test_a_tiny_kernel_is_reported_as_launch_bound():
    found = make_verdict(make_bench_times(2e3, 2.5e3, calls=500), workload="tiny")

    assert any("mostly launch" in warning for warning in found.warnings)


def test_a_slightly_fast_runner_clock_is_inconclusive():
    found = make_verdict(
        make_bench_times(0.5 * NS_PER_MS, 0.5 * NS_PER_MS, runner_share=0.95, noise=0.002)
    )

    assert found.verdict == "inconclusive"
    assert found.speedup == pytest.approx(1.0, abs=0.01)
