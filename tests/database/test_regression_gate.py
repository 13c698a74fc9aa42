"""What is confirmed to be faster is promoted; what falls behind it is a regression."""

from itertools import pairwise

import pytest
from measurements import make_bench

from kernelkb.model.records.measurement import ResourceUse
from kernelkb.record.measurements.regression_gate import apply_regression_gate
from kernelkb.render.text.measurements import format_regression_lines


def list_verdicts(store, **more):
    return [(one.variant, one.verdict) for one in apply_regression_gate(store, **more)]


def test_the_first_valid_bench_is_promoted_by_itself(store):
    one = make_bench()
    store.add([make_bench(verdict="incorrect", candidate_us=None, hours=-1), one])

    assert list_verdicts(store) == [("naive", "promoted")]
    (promotion,) = store.list_promotions()
    assert (promotion.measurement, promotion.number, promotion.previous) == (one.id, 1, None)
    assert list_verdicts(store) == []


def test_a_bench_of_a_busy_machine_is_nothing_to_start_from(store):
    busy = {"verdict": "inconclusive", "disturbed_by": "cpu-contention"}
    store.add([make_bench(us=20.0, hours=0, **busy)])
    assert list_verdicts(store) == [("naive", "incomparable")]
    store.add([make_bench(us=10.0, hours=1)])

    assert list_verdicts(store) == [("naive", "promoted")]


def test_a_loss_that_was_timed_under_noise_is_no_regression(store):
    store.add([make_bench()])
    apply_regression_gate(store)
    store.add([make_bench(us=20.0, hours=1, verdict="slower", disturbed_by="cpu-contention")])

    assert list_verdicts(store) == [("naive", "incomparable")]


def test_memory_that_grew_is_shown_where_the_time_is_steady(store):
    sizes = (64 * 2**20, 96 * 2**20)
    old, new = (ResourceUse(peak_bytes=size) for size in sizes)
    store.add([make_bench(resource_use=old)])
    apply_regression_gate(store)
    store.add([make_bench(us=10.02, hours=1, seed=1, resource_use=new)])
    (ruling,) = apply_regression_gate(store)

    assert (ruling.verdict, ruling.comparison.peak_bytes) == ("steady", sizes)
    shown = next(format_regression_lines([ruling], verbose=False))
    assert shown.endswith("peak memory of a call grew from 64 MiB to 96 MiB")


def test_noise_is_steady_and_promotes_nothing(store):
    store.add([make_bench()])
    apply_regression_gate(store)
    store.add([make_bench(us=10.02, hours=1, seed=1)])

    assert list_verdicts(store) == [("naive", "steady")]
    assert len(store.list_promotions(in_force=False)) == 1


def test_a_confirmed_regression_is_reported_until_it_is_fixed(store):
    store.add([make_bench()])
    apply_regression_gate(store)
    store.add([make_bench(us=11.0, hours=1)])

    (ruling,) = apply_regression_gate(store)
    assert ruling.verdict == "regressed"
    assert ruling.comparison.interval[1] < 0.97
    assert list_verdicts(store) == [("naive", "regressed")]

    store.add([make_bench(us=10.0, hours=2)])
    assert list_verdicts(store) == [("naive", "steady")]


def test_how_much_may_be_lost_is_for_the_caller_to_say(store):
    store.add([make_bench()])
    apply_regression_gate(store)
    store.add([make_bench(us=11.0, hours=1)])

    assert list_verdicts(store, fail_under=0.8) == [("naive", "steady")]


def test_a_confirmed_improvement_is_promoted_with_when_and_why(store):
    old, new = make_bench(), make_bench(us=8.0, hours=1)
    store.add([old])
    apply_regression_gate(store)
    store.add([new])

    assert list_verdicts(store) == [("naive", "promoted")]
    first, second = store.list_promotions(in_force=False)
    assert (second.number, second.measurement, second.previous) == (2, new.id, old.id)
    assert second.interval[0] > 1
    assert "confirmed faster: both timed against torch" in second.because
    assert first.at <= second.at
    assert store.list_promotions() == [second]


def test_another_variant_that_is_slower_is_no_regression(store):
    store.add([make_bench("vectorized", 5.0)])
    apply_regression_gate(store)
    store.add([make_bench("naive", 10.0, hours=1)])

    assert list_verdicts(store) == [("naive", "steady")]


def test_another_variant_that_is_faster_takes_the_place(store):
    store.add([make_bench("naive", 10.0), make_bench("vectorized", 5.0, hours=1)])

    assert list_verdicts(store) == [("naive", "promoted"), ("vectorized", "promoted")]
    store.add([make_bench("vectorized", 9.0, hours=2)])
    assert list_verdicts(store) == [("naive", "steady"), ("vectorized", "regressed")]


def test_gradual_slowdown_is_measured_against_the_promoted_bench(store):
    store.add([make_bench()])
    apply_regression_gate(store)
    for hour in range(1, 6):
        store.add([make_bench(us=10.0 * 1.01**hour, hours=hour)])
        last = list_verdicts(store)

    assert last == [("naive", "regressed")]


def test_answers_that_are_wrong_now_are_a_regression(store):
    store.add([make_bench()])
    apply_regression_gate(store)
    store.add([make_bench(hours=1, verdict="incorrect", candidate_us=None, detail="3 elements")])

    (ruling,) = apply_regression_gate(store)
    assert (ruling.verdict, ruling.because) == ("regressed", "its answers are wrong: 3 elements")


def test_an_incomparable_bench_fails_nothing_and_gives_a_reason(store):
    store.add([make_bench()])
    apply_regression_gate(store)
    store.add([make_bench(us=99.0, hours=1, baseline="torch.compile")])

    (ruling,) = apply_regression_gate(store)
    assert ruling.verdict == "incomparable"
    assert ruling.comparison.command.startswith("kb bench row_softmax --variant naive")


def test_after_a_judge_upgrade_the_gate_is_renewed_only_on_request(store):
    store.add([make_bench()])
    apply_regression_gate(store)
    store.add([make_bench(us=20.0, hours=1, where={"judge": "2.0"})])

    assert list_verdicts(store) == [("naive", "incomparable")]
    assert list_verdicts(store, renew=True) == [("naive", "promoted")]
    assert store.list_promotions()[0].because == "renewed: their judge differs: 1.0 and 2.0"


def test_devices_are_compared_separately(store):
    store.add([make_bench(us=5.0), make_bench(us=50.0, where={"device": "Another"})])
    apply_regression_gate(store)
    store.add([make_bench(us=60.0, hours=1, where={"device": "Another"})])

    assert list_verdicts(store, device="A CPU") == []
    assert list_verdicts(store, device="Another") == [("naive", "regressed")]


@pytest.mark.parametrize("count", [1, 5])
def test_promotions_on_one_device_form_a_chain(store, count):
    for hour in range(count):
        store.add([make_bench(us=10.0 * 0.9**hour, hours=hour)])
        apply_regression_gate(store)
    chain = store.list_promotions(in_force=False)

    assert [one.number for one in chain] == list(range(1, count + 1))
    assert all(b.previous == a.measurement for a, b in pairwise(chain))
