"""Errors of measurement that need no cheat (M1 to M13): raw times in, verdicts out.

M1 to M3, M9 and M11 need a GPU and stand with the attacks that do; M5 belongs to the tuner; M12
is a build's; M13 a check's.
"""

import random

import pytest

from kernelkb.loading.kernels import load_kernel, variant_of
from kernelkb.measure.array_sizes import output_bytes
from kernelkb.measure.bench_verdict import bench_fields, floor_of
from kernelkb.measure.machine.gpu_telemetry import Sample, Watch
from kernelkb.measure.machine.peaks import Peaks
from kernelkb.measure.subject import Subject
from kernelkb.model.measurement import Bench, Machine

PEAKS = Peaks(copy_gbps=3000.0, dispatch_us=1.3, launch_us=14.0, gemm_gflops={"float32": 4e5})
MS = 1e6


def subject():
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
    return Subject(source, variant_of(source.kernel, "cuda"), machine)


def raw(
    candidate_ns, rival_ns, *, inner=1.0, calls=4, count=40, noise=0.0, seed=1, start=0.0, way=0.0
):
    """Windows of two sides, each of ``calls`` calls, 20 us longer by the judge's clock.

    ``way`` is how much longer still the candidate's are, nanoseconds.
    """
    draw = random.Random(seed)

    def windows(call_ns, share, way=0.0):
        found = []
        for at in range(count):
            took = call_ns * calls * draw.lognormvariate(0.0, noise)
            found.append([took + 2e4 + way, took * share, calls, start + at, start + at + 0.5])
        return found

    return {
        "candidate": windows(candidate_ns, inner, way),
        "rival_times": windows(rival_ns, 1.0),
        "warm_ns": [candidate_ns, rival_ns],
        "busy": 1.0,
        "checked": 40,
        "threads_started": 0,
        "rival": "torch",
        "rivals": {"torch": {"eager_ns": rival_ns, "graph_ns": rival_ns}},
        "rejected": {},
        "graph": True,
        "graph_why": None,
        "eager_ns": candidate_ns,
        "layers": ["landlock"],
        "copy_ns": None,
        "quiet_ns": 5e4,
        "alone": [[2e4 + candidate_ns, candidate_ns * inner, 1, 0.0, 0.5]] * 5,
    }


def judged(times, workload="xlarge", watch=None):
    one = subject()
    fields = bench_fields(one, workload, times, PEAKS, watch or Watch("0"))
    return Bench(**one.names, workload=workload, **fields, seconds=1.0)


def test_h23_faster_than_possible_is_invalid():
    found = judged(raw(0.1 * MS, 0.6 * MS))

    assert found.verdict == "invalid"
    assert "the measured copy bandwidth allows" in found.detail


def test_a_kernel_at_its_floor_is_believed():
    floor_us, roof = floor_of(subject(), "xlarge", PEAKS, 4)
    found = judged(raw(floor_us * 1e3, 0.6 * MS))

    assert (found.verdict, roof) == ("faster", "the measured copy bandwidth")
    assert found.attainable_speedup == pytest.approx(1.0, abs=0.01)


def test_a_product_of_shorter_numbers_is_measured_against_their_rate():
    one = subject()
    kernel = one.source.kernel
    inputs = tuple(x.model_copy(update={"dtype": "bfloat16"}) for x in kernel.inputs)
    cost = kernel.cost.model_copy(update={"flops": "10000 * rows * cols"})
    short = kernel.model_copy(update={"inputs": inputs, "cost": cost})
    one = one._replace(source=one.source._replace(kernel=short))
    both = PEAKS._replace(gemm_gflops={"float32": 4e5, "bfloat16": 8e5})

    assert floor_of(one, "xlarge", PEAKS, 4)[1] == "the measured copy bandwidth"
    fast, roof = floor_of(one, "xlarge", both, 4)
    assert roof == "the measured matrix product rate"
    assert fast == pytest.approx(1e4 * output_bytes(one.source, "xlarge") / 4 / 8e5 / 1e3, rel=0.01)


def test_outputs_that_the_cache_holds_need_not_have_reached_memory():
    small, _ = floor_of(subject(), "medium", PEAKS, 4)
    written = output_bytes(subject().source, "medium")

    assert small == pytest.approx(written / 3000.0 / 1e3, rel=0.01)


def test_h6_work_that_the_runners_own_clock_does_not_see_is_invalid():
    found = judged(raw(0.5 * MS, 0.6 * MS, inner=0.3))

    assert found.verdict == "invalid"
    assert "the judge's clock" in found.detail


@pytest.mark.parametrize(("alone_us", "verdict"), [(100.0, "faster"), (1900.0, "invalid")])
def test_h3_one_call_that_takes_as_long_as_many_is_invalid(alone_us, verdict):
    times = raw(1e5, 1.2e5, calls=20)
    times["alone"] = [[2e4 + alone_us * 1e3, alone_us * 1e3, 1, 0.0, 0.5]] * 5
    found = judged(times, workload="medium")

    assert found.verdict == verdict, found.detail
    assert verdict == "faster" or "calls that are yet to come" in found.detail


def test_a_busy_machine_is_not_a_lie():
    times = raw(0.5 * MS, 0.6 * MS)
    for window in times["candidate"][::2]:
        window[0] *= 3

    assert judged(times).verdict != "invalid"


def waiting(times, share, *, of):
    """Let threads stand in line for some of each window's time, in some of the pairs."""
    for side in ("candidate", "rival_times"):
        for at, window in enumerate(times[side]):
            window += [0.0, share * window[0] if at < of else 0.0]
    return times


def test_time_in_line_for_a_core_is_not_a_lie_either():
    times = waiting(raw(0.5 * MS, 0.6 * MS, inner=0.8), 0.2, of=40)

    assert judged(times).verdict != "invalid"


@pytest.mark.parametrize(("crowded", "verdict"), [(19, "faster"), (21, "inconclusive")])
def test_a_machine_that_was_crowded_most_of_the_time_decides_nothing(crowded, verdict):
    found = judged(waiting(raw(0.5 * MS, 0.6 * MS), 0.9, of=crowded))

    assert found.verdict == verdict
    assert any("something else uses" in text for text in found.warnings) == (verdict != "faster")


@pytest.mark.parametrize(("others", "verdict"), [(19, "faster"), (21, "inconclusive")])
def test_h7_work_that_was_left_on_the_gpu_decides_nothing(others, verdict):
    """A kernel that spins for ever takes turns with the rival's, and cannot be stopped."""
    times = waiting(raw(0.5 * MS, 0.6 * MS), 0.0, of=0)
    for at, window in enumerate(times["rival_times"]):
        window += [1.5 * MS if at < others else 6e4]
    found = judged(times)

    assert found.verdict == verdict
    assert any("left work behind" in text for text in found.warnings) == (verdict != "faster")


def test_a_gpu_that_is_a_little_slow_to_answer_is_quiet():
    times = waiting(raw(0.5 * MS, 0.6 * MS), 0.0, of=0)
    for side in ("candidate", "rival_times"):
        for window in times[side]:
            window += [3.9e5]

    assert judged(times).verdict == "faster"


def test_a_gpu_that_was_hot_all_the_time_decides_nothing():
    watch = Watch("0")
    watch.samples = [Sample(at + 0.25, 1000.0, 90.0, 700.0, 0x40) for at in range(40)]
    found = judged(raw(0.5 * MS, 0.6 * MS), watch=watch)

    assert found.verdict == "inconclusive"
    assert any("measure again when it is cool" in text for text in found.warnings)


def copying(times, *, rival):
    """Let the candidate spend 0.3 ms of a window on copies, which a rival may do as well."""
    for side, took in (("candidate", 0.3 * MS), ("rival_times", rival)):
        for window in times[side]:
            window[0] += took
            window += [took]
    return times


@pytest.mark.parametrize("rival", [0.0, 0.3 * MS])
def test_copies_of_what_was_returned_are_no_lie_beside_any_rival(rival):
    times = {**copying(raw(0.1 * MS, 0.12 * MS), rival=rival), "copy_ns": 0.3 * MS / 4}
    found = judged(times, workload="small")

    assert found.verdict != "invalid"
    assert found.speedup == pytest.approx(1.2, abs=0.03)


def test_h9_a_clock_that_may_be_right_makes_no_gain_larger():
    times = {**copying(raw(0.1 * MS, 0.105 * MS, inner=0.8), rival=0.3 * MS), "copy_ns": 0.0}
    found = judged(times, workload="small")

    assert found.speedup <= 1.06


def test_h7_threads_that_were_left_behind_are_invalid():
    times = {**raw(0.5 * MS, 0.6 * MS), "threads_started": 2}

    assert judged(times).verdict == "invalid"


def test_m4_windows_under_a_heat_alarm_are_dropped():
    times = raw(0.5 * MS, 0.6 * MS)
    for window in times["candidate"][:10]:
        window[0], window[1] = window[0] * 5, window[1] * 5
    watch = Watch("0")
    watch.sm_max_mhz = 1980.0
    watch.samples = [
        Sample(at + 0.25, 1000.0 if at < 10 else 1980.0, 90.0, 700.0, 0x40 if at < 10 else 0)
        for at in range(40)
    ]
    found = judged(times, watch=watch)

    assert found.verdict == "faster"
    assert (found.clocks.dropped_count, found.pair_count) == (10, 30)
    assert "hardware thermal slowdown" in found.clocks.throttled
    assert any("10 pairs were dropped" in warning for warning in found.warnings)


def test_a_power_cap_is_how_a_busy_card_works():
    watch = Watch("0")
    watch.samples = [Sample(at + 0.25, 1700.0, 60.0, 700.0, 0x4) for at in range(40)]
    found = judged(raw(0.5 * MS, 0.6 * MS), watch=watch)

    assert (found.clocks.dropped_count, found.clocks.throttled) == (0, ("power cap",))


def test_m6_a_kernel_against_itself_is_inconclusive():
    verdicts = [
        judged(raw(0.5 * MS, 0.5 * MS, noise=0.02, seed=seed)).verdict for seed in range(200)
    ]

    assert verdicts.count("inconclusive") >= 190


@pytest.mark.parametrize("way", [-7e3, 7e3])
@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_m6_another_way_to_another_process_is_no_gain_and_no_loss(way, noise):
    found = judged(raw(1e5, 1e5, calls=3, way=way, noise=noise), workload="medium")

    assert found.verdict == "inconclusive"


def test_h9_a_way_that_is_not_known_is_never_a_gain():
    """0.3 ms windows, of which the candidate's clock leaves out what the way may take."""
    found = judged(raw(1e5, 1e5, calls=3, inner=0.97), workload="medium")

    assert found.verdict == "inconclusive"


def test_m6_three_percent_are_found_in_noise_of_two():
    verdicts = [
        judged(raw(0.5 * MS, 0.515 * MS, noise=0.01, count=100, seed=seed)).verdict
        for seed in range(60)
    ]

    assert verdicts.count("faster") >= 57


def test_m6_times_that_say_nothing_are_said_to():
    found = judged(raw(1e6, 1e6, calls=4, count=15, noise=2.0))

    assert found.verdict == "inconclusive"
    assert any("something else uses" in warning for warning in found.warnings)


def test_m7_a_small_kernel_is_said_to_be_mostly_launch():
    found = judged(raw(2e3, 2.5e3, calls=500), workload="tiny")

    assert any("mostly launch" in warning for warning in found.warnings)


def test_h9_a_clock_that_flatters_by_a_little_is_not_believed_either():
    found = judged(raw(0.5 * MS, 0.5 * MS, inner=0.95, noise=0.002))

    assert found.verdict == "inconclusive"
    assert found.speedup == pytest.approx(1.0, abs=0.01)
