"""The model of the time: it gives back the time that was measured, and what a change leaves."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_rules import program

from kernelkb.decide.predict import combine_changes
from kernelkb.decide.time_model import (
    NO_CHANGE,
    Change,
    KernelTime,
    build_kernel_time,
    combine_roofs,
    find_held_clock,
    predict_time,
    restore_clock,
    split_time,
    sum_groups,
)

MODEL = program()["time_model"]
USES = [resource["use"] for resource in MODEL["resources"]]
PEAKS = [resource["peak"] for resource in MODEL["resources"] if isinstance(resource["peak"], str)]
STALLS = [metric for metric, _ in MODEL["waits"].values()]
SHARE = st.floats(0, 1)


def list_optional(names, values):
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, values))


@st.composite
def kernel_times(draw):
    """Where the time of any launch goes, from any counters."""
    known = {"dram_utilization": 0.1, "issue_use": 0.1, **dict.fromkeys(PEAKS, 0.9)}
    known |= draw(list_optional(USES, st.floats(0, 1.2)))
    known |= draw(list_optional(STALLS, SHARE))
    known |= draw(list_optional([MODEL["fill"]], st.floats(0.001, 1)))
    known |= draw(list_optional([MODEL["warps"]], st.floats(0, 1e4)))
    known |= draw(list_optional([MODEL["duration"]], st.floats(0.5, 1e6)))
    known |= draw(list_optional([MODEL["clock"]], st.floats(0.1, 1.3)))
    return build_kernel_time(MODEL, known)


def changes(factors):
    """Any change whose factors are drawn from a strategy."""
    return st.builds(
        Change,
        list_optional([r["id"] for r in MODEL["resources"]], factors),
        st.just({}),
        list_optional(MODEL["waits"], factors),
        latency=factors,
        fill=st.none() | SHARE,
        warps=st.none() | st.floats(0, 1e5),
    )


def make_time(memory=0.0, l1=0.0, compute=0.0, fill=1.0, launch=0.0, **more):
    """A kernel with one resource for each group, which has waited as long as the model says."""
    use = {"dram": memory, "l1-wavefronts": l1, "issue": compute}
    groups = {"memory": ["dram"], "l1": ["l1-wavefronts"], "compute": ["issue"]}
    roofs = combine_roofs(sum_groups(use, groups, fill))
    latency = sqrt((1 - launch) ** 2 - roofs**2)
    fields = {"warps": None, "waits": {}, "follows": {}, **more}
    return KernelTime(use, groups, fill, launch, latency, **fields)


def scale_work(**factors):
    return NO_CHANGE._replace(work={name.replace("_", "-"): f for name, f in factors.items()})


def stop_waiting(*reasons):
    return NO_CHANGE._replace(waits=dict.fromkeys(reasons, 0.0))


@given(kernel_times())
def test_without_a_change_the_time_is_the_measured_one(now):
    assert predict_time(now, NO_CHANGE) == pytest.approx(1)


@given(kernel_times(), changes(SHARE))
def test_less_work_never_takes_longer(now, change):
    assert predict_time(now, change) <= 1 + 1e-9


@given(kernel_times(), st.sampled_from(USES), st.floats(1, 10))
def test_more_work_never_takes_less_time(now, use, factor):
    name = next(r["id"] for r in MODEL["resources"] if r["use"] == use)

    assert predict_time(now, NO_CHANGE._replace(work={name: factor})) >= 1 - 1e-9


@given(kernel_times(), changes(st.floats(0, 10)))
def test_no_change_removes_the_time_of_an_empty_kernel(now, change):
    assert predict_time(now, change) >= now.launch


@given(kernel_times())
def test_the_parts_of_the_time_are_shares_that_sum_to_one(now):
    shares = split_time(now)

    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= -1e-12


def test_a_held_clock_slows_the_sms_and_not_the_memory():
    now = make_time(memory=0.6, compute=0.8)
    usual = restore_clock(now, 0.8)

    assert usual.use["dram"] / usual.use["issue"] == pytest.approx(0.6 / (0.8 * 0.8))
    assert predict_time(usual, NO_CHANGE) == pytest.approx(1)
    assert predict_time(usual, scale_work(issue=0.1)) > predict_time(now, scale_work(issue=0.1))


def test_a_kernel_bound_by_memory_alone_is_as_fast_at_any_clock():
    now = make_time(memory=1.0)

    assert restore_clock(now, 0.5) == now


@pytest.mark.parametrize(
    ("clock", "found"),
    [(0.24, None), (0.25, 0.25), (0.37, 0.37), (0.849, 0.849), (0.85, None), (None, None)],
)
def test_a_clock_is_held_where_it_is_well_below_the_highest(clock, found):
    assert find_held_clock(MODEL, {} if clock is None else {MODEL["clock"]: clock}) == found


@given(kernel_times())
def test_roofs_explain_no_more_than_the_time_after_the_launch(now):
    roofs = combine_roofs(sum_groups(now.use, now.groups, now.fill))

    assert roofs <= 1 - now.launch + 1e-9


def test_counters_above_the_practical_peak_leave_no_latency():
    known = {"dram_utilization": 0.96, "dram_practical_share": 0.8, "issue_use": 0.0}
    now = build_kernel_time(MODEL, known)

    assert now.use["dram"] == pytest.approx(1)
    assert now.latency == 0


@pytest.mark.parametrize("busy", [0.0, 5e-324, 1e-300])
def test_sms_that_are_hardly_ever_busy_make_no_overflow(busy):
    known = {"dram_utilization": 0.1, "dram_practical_share": 0.9, "issue_use": 0.5}
    now = build_kernel_time(MODEL, {**known, MODEL["fill"]: busy})

    assert predict_time(now, NO_CHANGE) == pytest.approx(1)


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"dram_utilization": 0.9, "dram_practical_share": 0.92},
        {"issue_use": 0.5, "lsu_wavefront_utilization": 0.3},
        {"dram_utilization": 0.9, "issue_use": 0.5},
    ],
    ids=["nothing", "memory alone", "the SMs alone", "memory without its peak"],
)
def test_without_memory_and_the_sms_there_is_no_model(known):
    assert build_kernel_time(MODEL, known) is None


@given(kernel_times(), st.floats(1, 100))
def test_more_warps_shrink_only_the_latency(now, factor):
    now = now._replace(warps=8.0)
    roofs = combine_roofs(sum_groups(now.use, now.groups, now.fill))
    after = predict_time(now, NO_CHANGE._replace(warps=8.0 * factor))

    assert after == pytest.approx(now.launch + sqrt(roofs**2 + (now.latency / factor) ** 2))


@pytest.mark.parametrize("warps", [2.0, 8.0, None])
def test_no_more_warps_than_now_change_nothing(warps):
    now = make_time(memory=0.4, warps=8.0)

    assert predict_time(now, NO_CHANGE._replace(warps=warps)) == pytest.approx(1)


@pytest.mark.parametrize("roof", ["memory", "l1", "compute"])
def test_a_kernel_at_a_roof_gains_nothing_from_hiding_latency(roof):
    now = make_time(**{roof: 1.0}, warps=8.0, waits={"long-scoreboard": 0.9})
    change = stop_waiting("long-scoreboard")._replace(warps=64.0, latency=0.1)

    assert predict_time(now, change) == pytest.approx(1)


def test_a_roof_that_is_halved_leaves_the_latency():
    now = make_time(memory=0.8)
    after = predict_time(now, scale_work(dram=0.5))

    assert after == pytest.approx(sqrt(0.4**2 + 0.6**2))


def test_of_a_group_the_busiest_counts():
    now = make_time(memory=0.8)
    now = now._replace(use={**now.use, "l2": 0.5}, groups={**now.groups, "memory": ["dram", "l2"]})

    assert predict_time(now, scale_work(l2=0.0)) == pytest.approx(1)
    assert predict_time(now, scale_work(dram=0.0)) == pytest.approx(sqrt(0.5**2 + 0.6**2))


def test_filled_sms_finish_their_own_work_sooner_and_memory_does_not():
    now = make_time(memory=0.3, l1=0.4, fill=0.5)  # 0.8 of the time on the SMs that have work
    after = predict_time(now, NO_CHANGE._replace(fill=1.0))

    assert after == pytest.approx(sqrt((0.3**4 + 0.4**4) ** 0.5 + now.latency**2))


def test_sms_never_get_emptier():
    now = make_time(l1=0.4, fill=0.5)

    assert predict_time(now, NO_CHANGE._replace(fill=0.25)) == pytest.approx(1)


def test_a_reason_to_wait_that_goes_away_takes_its_share_of_the_latency():
    now = make_time(waits={"long-scoreboard": 0.6, "membar": 0.1})

    assert predict_time(now, stop_waiting("long-scoreboard")) == pytest.approx(0.4)


def test_a_wait_shrinks_with_the_work_that_it_follows():
    now = make_time(waits={"wait": 0.6}, follows={"wait": "issue"})

    assert predict_time(now, scale_work(issue=0.5)) == pytest.approx(1 - 0.6 * 0.5)


def test_warps_at_a_barrier_wait_less_if_the_others_wait_less():
    now = make_time(waits={"barrier": 0.5, "long-scoreboard": 0.5}, follows={"barrier": "others"})
    change = NO_CHANGE._replace(waits={"long-scoreboard": 0.5})

    assert predict_time(now, change) == pytest.approx(0.5)


def test_added_work_counts_beside_what_is_there():
    now = make_time(compute=0.6)
    after = predict_time(now, NO_CHANGE._replace(added={"issue": 0.2}))

    assert after == pytest.approx(sqrt(0.8**2 + now.latency**2))


def test_of_two_roofs_that_hide_each_other_both_must_go():
    now = make_time(memory=0.84, l1=0.84)
    gains = [
        1 / predict_time(now, scale_work(**work))
        for work in ({"dram": 0.1}, {"l1_wavefronts": 0.1}, {"dram": 0.1, "l1_wavefronts": 0.1})
    ]

    assert gains[2] > 5
    assert gains[0] * gains[1] < gains[2] / 2


@given(kernel_times(), changes(st.floats(0, 2)))
def test_a_change_alone_is_what_it_was(now, change):
    assert predict_time(now, combine_changes([change])) == predict_time(now, change)


@given(kernel_times(), st.lists(changes(st.floats(0, 2)), max_size=3))
def test_the_order_of_changes_does_not_matter(now, parts):
    there, back = combine_changes(parts), combine_changes(reversed(parts))

    assert predict_time(now, there) == pytest.approx(predict_time(now, back))


def test_factors_of_several_changes_multiply_and_additions_add():
    first = Change({"dram": 0.5}, {"tensor": 0.1}, {"barrier": 0.5}, 0.5, fill=0.7, warps=8.0)
    second = Change({"dram": 0.5, "issue": 0.9}, {"tensor": 0.2}, {}, 0.5, fill=1.0)

    assert combine_changes([first, second]) == Change(
        {"dram": 0.25, "issue": 0.9},
        {"tensor": pytest.approx(0.3)},
        {"barrier": 0.5},
        0.25,
        fill=1.0,
        warps=8.0,
    )


def test_no_changes_at_all_are_no_change():
    assert combine_changes([]) == NO_CHANGE


@given(kernel_times(), changes(SHARE), changes(SHARE))
def test_a_second_saving_never_costs_time(now, first, second):
    both = combine_changes([first, second])

    assert predict_time(now, both) <= predict_time(now, first) + 1e-9


def test_the_time_is_split_by_what_it_went_for():
    now = make_time(memory=0.6, launch=0.0, waits={"barrier": 0.25}, fill=1.0)
    shares = split_time(now)

    assert shares["memory"] == pytest.approx(0.6**2)
    assert shares["barrier"] == pytest.approx(0.8**2 * 0.25)
    assert shares["unexplained"] == pytest.approx(0.8**2 * 0.75)


def test_empty_sms_and_the_launch_are_parts_of_their_own():
    shares = split_time(make_time(memory=0.3, fill=0.5, launch=0.2))

    assert shares["launch"] == 0.2
    assert shares["fill"] == pytest.approx(0.8 * 0.5)


def test_much_more_work_than_can_be_measured_has_a_time():
    now = KernelTime({"dram": 0.5}, {"memory": ["dram"]}, 1.0, 0.0, 0.5, None, {}, {})

    assert predict_time(now, NO_CHANGE._replace(work={"dram": 1e200})) == pytest.approx(5e199)
