"""The inside of a kernel, from counters sampled as it ran: ramp, phases, tail."""

import re
from types import SimpleNamespace

import pytest
from machine_code import unpack_report

from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.decide.kernel_phases import (
    Samples,
    describe_timeline,
    find_kept_bytes,
    measure_gaps,
)
from kernelkb.profiles.ncu_rep import _read_samples, load_report
from kernelkb.render.text.answers import _format_timeline, format_answer_lines

QUIET = [0.0] * 20
SAMPLED = re.compile(r"sm__cycles_active\.avg$")


def sample(active, blocks=(), **used):
    """Return samples of a kernel with some before and after it; each of 1.5 us."""
    series = {"active": active, "blocks": blocks or [0.0] * len(active), **used}
    return Samples(1.5, {name: (*QUIET, *values, *QUIET) for name, values in series.items()})


def test_ramp_and_tail_are_where_not_all_sms_work():
    active = [1000, *[3000] * 80, 2400, 1800, 1200, 600]
    found = describe_timeline(sample(active, blocks=[8.0] * 70 + [0.0] * 15, L2=[0.8] * 85))

    assert (found["duration_us"], found["ramp_us"], found["tail_us"]) == (127.5, 1.5, 6.0)
    assert found["lost_us"] == pytest.approx(1.5 * (0.2 + 0.4 + 0.6 + 0.8))
    assert found["last_block_us"] == 69 * 1.5
    assert found["phases"] == [{"from_us": 1.5, "to_us": 121.5, "use": {"L2": 0.8}}]


def test_phases_end_where_a_resource_is_used_otherwise_for_good():
    reads, tensor = [0.9] * 30 + [0.1] * 60, [0.0] * 30 + [0.7] * 60
    found = describe_timeline(sample([3000] * 90, reads=reads, tensor=tensor))

    assert found["phases"] == [
        {"from_us": 0.0, "to_us": 45.0, "use": {"reads": 0.9, "tensor": 0.0}},
        {"from_us": 45.0, "to_us": 135.0, "use": {"tensor": 0.7, "reads": 0.1}},
    ]


def test_noise_is_no_phase():
    noisy = [0.5 + 0.2 * (-1) ** (at * at // 3) for at in range(90)]

    assert len(describe_timeline(sample([3000] * 90, L2=noisy))["phases"]) == 1


def test_samples_that_end_before_the_kernel_tell_no_tail():
    whole = sample([3000] * 40, L2=[0.8] * 40)
    cut = Samples(1.5, {name: values[:50] for name, values in whole.series.items()})
    found = describe_timeline(cut, duration_us=60.0)

    assert describe_timeline(cut, duration_us=46.0)["is_whole"]  # to a sample: they end with it
    assert not found["is_whole"]
    assert (found["tail_us"], found["lost_us"], found["last_block_us"]) == (None, None, None)


def test_samples_of_much_less_than_the_duration_are_its_first_part_though_they_end_idle():
    full = sample([3000] * 40, L2=[0.8] * 40)

    assert describe_timeline(full, duration_us=62.0)["is_whole"]
    assert not describe_timeline(full, duration_us=80.0)["is_whole"]


def test_a_launch_of_which_only_active_cycles_were_sampled_has_one_phase():
    found = describe_timeline(Samples(1.5, {"active": (*QUIET, *[3000.0] * 40, *QUIET)}))

    (phase,) = found["phases"]
    assert phase["use"] == {}


class Thinned:
    """A real launch, or one of its counters, with some samples left out, as if dropped."""

    def __init__(self, real, places):
        self._real, self._places = real, places

    def metric_names(self):
        return self._real.metric_names()

    def metric_by_name(self, name):
        return Thinned(self._real.metric_by_name(name), self._places)

    def num_instances(self):
        return len(self._places)

    def correlation_ids(self):
        return Thinned(self._real.correlation_ids(), self._places)

    def as_double(self, at):
        return self._real.as_double(self._places[at])

    def as_uint64(self, at):
        return self._real.as_uint64(self._places[at])


@pytest.fixture(scope="module")
def sampled_launch(tmp_path_factory):
    path = unpack_report(tmp_path_factory.mktemp("report"), "h100-sxm", "barrier-stall")
    action = load_report(path).launches.load(0)
    name = next(one for one in action.metric_names() if SAMPLED.search(one))
    return action, list(range(action.metric_by_name(name).num_instances()))


def test_dropped_samples_are_counted_and_what_follows_stays_where_it_was(sampled_launch):
    action, places = sampled_launch
    whole = _read_samples(action)
    holed = _read_samples(Thinned(action, [at for at in places if not 100 <= at < 120]))

    assert (whole.missing_count, holed.missing_count) == (0, 20)
    assert len(holed.series["active"]) == len(whole.series["active"])
    assert holed.series["active"][200:] == whole.series["active"][200:]
    assert describe_timeline(holed)["missing_count"] == 20


def test_a_full_buffer_leaves_the_first_part_which_is_said_with_the_whole(sampled_launch):
    action, places = sampled_launch
    duration_us = action.metric_by_name("gpu__time_duration.sum").value() / 1e3
    found = describe_timeline(_read_samples(Thinned(action, places[:150])), duration_us)
    lines = list(_format_timeline(found))

    assert (found["is_whole"], found["tail_us"], found["kernel_us"]) == (False, None, duration_us)
    assert found["duration_us"] < 0.6 * duration_us
    assert "only the first" in lines[2]
    assert f"of its {duration_us:,.0f} us" in lines[2]
    assert max(map(len, lines)) <= 100


def test_a_real_report_with_a_hole_says_how_many_samples_it_lacks(tmp_path):
    path = unpack_report(tmp_path, "h100-sxm", "register-spilling")
    answers = recommend_from_report(str(path))["kernels"]

    assert [one["timeline"]["missing_count"] for one in answers].count(3) == 1


@pytest.mark.parametrize("active", [[], [0.0] * 50, [3000.0] * 5])
def test_a_kernel_without_samples_or_with_too_few_has_no_timeline(active):
    assert describe_timeline(sample(active)) is None
    assert describe_timeline(None) is None


def test_recorded_samples_agree_with_the_duration_and_show_the_tail(tmp_path):
    path = unpack_report(tmp_path, "h200", "csr_normalize_thread_rows")
    answers = recommend_from_report(str(path), kernel_pattern="normalize_rows")["kernels"]
    slow, fast = (one["timeline"] for one in answers)

    for one, timeline in zip(answers, (slow, fast), strict=True):
        assert timeline["duration_us"] == pytest.approx(one["duration_us"], rel=0.02)
    assert slow["lost_us"] > 0.05 * slow["duration_us"]  # rows of any length, a thread each
    assert fast["lost_us"] < 0.02 * fast["duration_us"]  # a warp each
    assert max(slow["phases"][-1]["use"], key=slow["phases"][-1]["use"].get) == "L2"
    told = "\n".join(format_answer_lines(answers[0]))
    assert "SMs fall idle one by one, which costs 35 us (7%)" in told


class Sampled:
    """A sampled counter as the report's reader has it; its first sample is the mean."""

    def __init__(self, values, times):
        self.values, self.times = [0.0, *values], [0, *times]

    def num_instances(self):
        return len(self.values)

    def correlation_ids(self):
        return self

    def as_double(self, at):
        return self.values[at]

    def as_uint64(self, at):
        return self.times[at]


def read_samples(times, **values):
    """Return what is read of a launch with these counters."""
    metrics = {name: Sampled(row, times) for name, row in values.items()}
    action = SimpleNamespace(metric_names=lambda: list(metrics), metric_by_name=metrics.get)
    return _read_samples(action)


ACTIVE = "pmsampling:sm__cycles_active.avg"
READS = "TPC.TriageCompute.dram__read_throughput.avg.pct_of_peak_sustained_elapsed"


def test_names_of_both_kinds_are_read_and_a_series_that_is_no_number_is_left_out():
    times = [1500 * at for at in range(1, 21)]
    whole = read_samples(times, **{ACTIVE: [3000.0] * 20, READS: [50.0] * 20})
    damaged = read_samples(times, **{ACTIVE: [3000.0] * 20, READS: [50.0] * 19 + [float("nan")]})

    assert whole.interval_us == 1.5
    assert whole.series["device memory reads"] == (0.5,) * 20
    assert list(damaged.series) == ["active"]


def test_samples_of_one_time_are_none():
    assert read_samples([1500] * 20, **{ACTIVE: [3000.0] * 20}) is None


def test_a_pause_between_two_like_phases_is_a_phase_of_its_own():
    reads = [0.37] * 120 + [0.0] * 40 + [0.37] * 120
    found = describe_timeline(sample([3000] * 280, reads=reads))

    assert [one["to_us"] for one in found["phases"]] == [180.0, 240.0, 420.0]


def test_sms_that_reach_the_next_phase_one_by_one_are_no_phase():
    reads = [0.9] * 100 + [0.4] * 5 + [0.0] * 100
    found = describe_timeline(sample([3000] * 205, reads=reads))

    assert len(found["phases"]) == 2


def test_one_sm_that_works_on_alone_is_the_tail():
    found = describe_timeline(sample([3000] * 90 + [23] * 90, L2=[0.8] * 90 + [0.01] * 90))

    assert (found["duration_us"], found["tail_us"]) == (270.0, 135.0)


def test_short_and_long_gaps_are_told_apart_and_a_wait_of_the_host_is_no_gain_for_sure():
    works = [(0, 10), (11, 20), (22, 30), (90, 100), (130, 140), (135, 150)]
    idle = [(10, 11), (20, 22), (30, 90), (100, 130)]
    found = measure_gaps(works, idle, [(25, 95)])

    assert found.overlap_us == 5
    assert (found.short, found.late) == ((2, 3), (2, 90))
    assert found.graph_us == pytest.approx((0.5 + 28.5, 0.65 + 1.65 + 59.65 + 29.65))
    assert found.dependent_us == 3


def test_two_gaps_are_too_few_to_say_what_a_call_is_like():
    assert measure_gaps([(0, 1), (2, 3), (4, 5)], [(1, 2), (3, 4)], []) is None


GPU = {"device.l2_bytes": 50e6, "device.dram_bytes_us": 3e6}


def test_what_a_kernel_wrote_can_be_in_l2_for_the_next_up_to_its_size():
    before = {"plain_write_sector_count": 1e6, "dram_write_bytes": 12e6}
    found = find_kept_bytes(before, {"dram_read_bytes": 64e6, "profiled_us": 40}, GPU)

    assert (found.read_bytes, found.dirty_bytes) == (32e6, 20e6)
    assert found.saved_us == pytest.approx(32 / 3)
    large = {"plain_write_sector_count": 1e8}
    assert find_kept_bytes(large, {"dram_read_bytes": 64e6}, GPU).read_bytes == 50e6


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {"dram_read_bytes": 1e6}),
        ({"plain_write_sector_count": 1e6}, {}),
        ({"plain_write_sector_count": 100}, {"dram_read_bytes": 64e6, "profiled_us": 40}),
    ],
)
def test_what_is_not_counted_or_is_little_is_not_told(before, now):
    assert find_kept_bytes(before, now, GPU) is None
