"""Energy from samples of a counter, warnings about memory, and what is shown of both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelkb.measure.bench.bench import (
    compute_joules_per_call,
    describe_memory_excess,
    make_resource_use,
)
from kernelkb.measure.machine.nvidia_driver import GpuSample
from kernelkb.measure.worker.judge.timing import resource_use
from kernelkb.model.records.measurement import Bench, InputData, ResourceUse
from kernelkb.render.text.measurements import format_bench_lines
from kernelkb.units import format_size

MIB = 2**20
STRETCH = {"start_s": 100.0, "end_s": 100.8, "calls": 1000}


def sample_counter(watts, change_s, offset_s=0.0, start_j=5e5):
    """Samples every 20 ms of a counter that changes every ``change_s`` seconds."""
    samples = []
    for at in (98.0 + 0.02 * index for index in range(250)):
        changes = (at - 98.0 + offset_s) // change_s
        joules = start_j + watts * changes * change_s
        samples.append(GpuSample(at, 1980.0, 60.0, watts, 0, joules))
    return samples


@given(change_s=st.floats(0.02, 0.1), offset_s=st.floats(0, 0.1), watts=st.floats(60, 700))
def test_energy_is_right_however_the_counter_falls_on_the_stretch(change_s, offset_s, watts):
    found = compute_joules_per_call(sample_counter(watts, change_s, offset_s), STRETCH)

    # Each end of the span is known to one sample, 20 ms of at least 0.3 s.
    assert found == pytest.approx(watts * 0.8 / 1000, rel=0.15)


class EndedRunner:
    """A runner that keeps nothing, whose end frees its context."""

    def close(self):
        """Do nothing."""


@pytest.mark.parametrize(
    ("after_mib", "held_mib"), [(1200, 800), (2000, None), (2600, None)], ids=str
)
def test_memory_that_another_process_takes_meanwhile_is_nobodys(monkeypatch, after_mib, held_mib):
    """A baseline that kept 0 B made 646 MiB of an equal candidate's look like its own."""
    used = iter([2000 * MIB, after_mib * MIB])
    monkeypatch.setattr(resource_use, "_used_device_bytes", lambda: next(used))
    monkeypatch.setattr(resource_use, "release", lambda _runner: None)
    held = resource_use._close_and_count(EndedRunner())

    assert held == (held_mib and held_mib * MIB)


def test_power_before_and_after_the_stretch_does_not_count():
    busy = sample_counter(400, 0.1)
    quiet = [
        s if 100.0 <= s.time_s <= 100.8 else s._replace(energy_j=busy[0].energy_j) for s in busy
    ]

    assert compute_joules_per_call(quiet, STRETCH) == compute_joules_per_call(busy, STRETCH)


@pytest.mark.parametrize(
    ("samples", "stretch"),
    [
        ([], STRETCH),
        (sample_counter(400, 0.1), None),
        ([s._replace(energy_j=0.0) for s in sample_counter(400, 0.1)], STRETCH),
        (sample_counter(400, 0.5), STRETCH),
        (sample_counter(400, 0.1), {**STRETCH, "end_s": 100.3}),
    ],
)
def test_without_enough_of_the_counter_there_is_no_energy(samples, stretch):
    assert compute_joules_per_call(samples, stretch) is None


def list_warnings(peak, other, held=0, other_held=0, target="cpu"):
    use = ResourceUse(
        peak_bytes=peak,
        baseline_peak_bytes=other,
        held_bytes=held,
        baseline_held_bytes=other_held,
    )
    return list(describe_memory_excess(use, target))


@pytest.mark.parametrize(
    ("peak", "other", "target", "count"),
    [
        (110 * MIB, 100 * MIB, "cpu", 1),
        (109 * MIB, 100 * MIB, "cpu", 0),
        (MIB + 4096, 4096, "cpu", 1),
        (8192, 4096, "cpu", 0),
        (31 * MIB, 1 * MIB, "cuda", 0),
        (64 * MIB, 32 * MIB, "cuda", 1),
        (None, None, "cpu", 0),
        (None, MIB, "cpu", 1),
    ],
)
def test_a_tenth_more_memory_is_a_warning_unless_it_is_the_measurements_own_step(
    peak, other, target, count
):
    assert len(list_warnings(peak, other, target=target)) == count


def test_the_warning_gives_both_sizes_and_their_ratio():
    assert list_warnings(192 * MIB, 128 * MIB) == [
        "a call takes 192 MiB of memory at its peak, 1.5 times the baseline's 128 MiB"
    ]


def test_memory_that_is_kept_is_a_warning_of_its_own():
    (found,) = list_warnings(10 * MIB, 10 * MIB, held=64 * MIB, other_held=4 * MIB)

    assert found == "its process keeps 64 MiB of memory between calls, the baseline's 4 MiB"
    assert not list_warnings(10 * MIB, 10 * MIB, held=64 * MIB, other_held=60 * MIB)


def test_inputs_and_outputs_count_and_the_start_is_a_step():
    times = {
        "candidate_memory": {"scratch_bytes": 10, "held_bytes": 5},
        "rival_memory": {"scratch_bytes": None, "held_bytes": None},
        "candidate_energy": None,
        "rival_energy": None,
        "step_seconds": {"load": 1.0, "timing": 2.5},
    }
    use = make_resource_use(times, 100, [], 5.0)

    assert (use.peak_bytes, use.baseline_peak_bytes, use.joules) == (110, None, None)
    assert use.step_seconds == {"start": 1.5, "load": 1.0, "timing": 2.5}


def test_a_bench_shows_memory_energy_and_its_own_time():
    use = ResourceUse(
        peak_bytes=192 * MIB,
        baseline_peak_bytes=128 * MIB,
        held_bytes=0,
        baseline_held_bytes=MIB,
        joules=0.0042,
        baseline_joules=1.5,
        step_seconds={"start": 3.14, "timing": 2.0},
    )
    timed = Bench(
        kernel="k",
        variant="v",
        target="cuda",
        workload="w",
        verdict="faster",
        resource_use=use,
        seconds=6.04,
    )

    assert format_bench_lines(timed)[1:] == [
        "  peak memory of a call 192 MiB, baseline 128 MiB; kept between calls 0 B, baseline 1 MiB",
        "  energy of a call 4.2 mJ, baseline 1.5 J",
        "  judged in 6.0 s: start 3.1, timing 2.0",
    ]


def test_a_bench_shows_on_which_hidden_inputs_a_call_of_the_timed_process_was_right():
    timed = Bench(
        kernel="k",
        variant="v",
        target="cpu",
        workload="w",
        verdict="faster",
        hidden_inputs=("negated inputs", "inputs with NaN"),
        seconds=6.0,
    )

    assert format_bench_lines(timed)[1:] == [
        "  between timed calls correct on 2 hidden inputs: negated inputs; inputs with NaN"
    ]


def test_a_bench_tells_the_inputs_whose_values_matter_in_one_short_line_each():
    says = "rows int64[100]: " + "; ".join(["rows of 0 to 4,096, median 4"] * 9)
    data = (InputData(name="rows", role="offsets", says=says),)
    timed = Bench(
        kernel="k", variant="v", target="cpu", workload="w", verdict="faster", data=data, seconds=6
    )
    (line,) = format_bench_lines(timed)[1:]

    assert line.startswith("  data rows int64[100]: rows of 0 to 4,096")
    assert line.endswith(" …")
    assert len(line) <= 100


@given(st.integers(0, 2**50))
def test_a_size_is_written_in_the_unit_that_fits_to_three_digits(size):
    number, unit = format_size(size).split()
    factor = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]

    assert float(number) * factor == pytest.approx(size, rel=0.005)
    assert float(number) <= 1024 or unit == "GiB"
