"""What is confirmed to be faster is promoted; what falls behind it is a regression."""

from itertools import pairwise

import pytest
from measurements import timed

from kernelkb.measure.bench_verdict import CROWDED
from kernelkb.record.measurements.regression_gate import regress


def verdicts(store, **more):
    return [(one.variant, one.verdict) for one in regress(store, **more)]


def test_the_first_valid_bench_is_promoted_by_itself(store):
    one = timed()
    store.add([timed(verdict="incorrect", candidate_us=None, hours=-1), one])

    assert verdicts(store) == [("naive", "promoted")]
    (promotion,) = store.promoted()
    assert (promotion.measurement, promotion.number, promotion.previous) == (one.id, 1, None)
    assert verdicts(store) == []


def test_a_bench_of_a_busy_machine_is_nothing_to_start_from(store):
    busy = {"verdict": "inconclusive", "warnings": (f"{CROWDED} in 14 of 15 pairs",)}
    store.add([timed(us=20.0, hours=0, **busy)])
    assert verdicts(store) == [("naive", "incomparable")]
    store.add([timed(us=10.0, hours=1)])

    assert verdicts(store) == [("naive", "promoted")]


def test_noise_is_steady_and_promotes_nothing(store):
    store.add([timed()])
    regress(store)
    store.add([timed(us=10.02, hours=1, seed=1)])

    assert verdicts(store) == [("naive", "steady")]
    assert len(store.promoted(in_force=False)) == 1


def test_a_confirmed_regression_is_found_until_it_is_mended(store):
    store.add([timed()])
    regress(store)
    store.add([timed(us=11.0, hours=1)])

    (ruling,) = regress(store)
    assert ruling.verdict == "regressed"
    assert ruling.comparison.interval[1] < 0.97
    assert verdicts(store) == [("naive", "regressed")]

    store.add([timed(us=10.0, hours=2)])
    assert verdicts(store) == [("naive", "steady")]


def test_how_much_may_be_lost_is_for_the_caller_to_say(store):
    store.add([timed()])
    regress(store)
    store.add([timed(us=11.0, hours=1)])

    assert verdicts(store, fail_under=0.8) == [("naive", "steady")]


def test_a_confirmed_improvement_is_promoted_with_when_and_why(store):
    old, new = timed(), timed(us=8.0, hours=1)
    store.add([old])
    regress(store)
    store.add([new])

    assert verdicts(store) == [("naive", "promoted")]
    first, second = store.promoted(in_force=False)
    assert (second.number, second.measurement, second.previous) == (2, new.id, old.id)
    assert second.interval[0] > 1
    assert "confirmed faster: both timed in turn with torch" in second.because
    assert first.at <= second.at
    assert store.promoted() == [second]


def test_another_variant_that_is_slower_is_no_regression(store):
    store.add([timed("vectorized", 5.0)])
    regress(store)
    store.add([timed("naive", 10.0, hours=1)])

    assert verdicts(store) == [("naive", "steady")]


def test_another_variant_that_is_faster_takes_the_place(store):
    store.add([timed("naive", 10.0), timed("vectorized", 5.0, hours=1)])

    assert verdicts(store) == [("naive", "promoted"), ("vectorized", "promoted")]
    store.add([timed("vectorized", 9.0, hours=2)])
    assert verdicts(store) == [("naive", "steady"), ("vectorized", "regressed")]


def test_slow_creeping_is_held_against_what_was_promoted(store):
    store.add([timed()])
    regress(store)
    for hour in range(1, 6):
        store.add([timed(us=10.0 * 1.01**hour, hours=hour)])
        last = verdicts(store)

    assert last == [("naive", "regressed")]


def test_answers_that_are_wrong_now_are_a_regression(store):
    store.add([timed()])
    regress(store)
    store.add([timed(hours=1, verdict="incorrect", candidate_us=None, detail="3 elements")])

    (ruling,) = regress(store)
    assert (ruling.verdict, ruling.because) == ("regressed", "its answers are wrong: 3 elements")


def test_what_cannot_be_compared_is_quiet_and_says_why(store):
    store.add([timed()])
    regress(store)
    store.add([timed(us=99.0, hours=1, baseline="torch.compile")])

    (ruling,) = regress(store)
    assert ruling.verdict == "incomparable"
    assert ruling.comparison.command.startswith("kb bench row_softmax --variant naive")


def test_after_a_new_judge_the_ratchet_is_renewed_on_demand_only(store):
    store.add([timed()])
    regress(store)
    store.add([timed(us=20.0, hours=1, where={"judge": "2.0"})])

    assert verdicts(store) == [("naive", "incomparable")]
    assert verdicts(store, renew=True) == [("naive", "promoted")]
    assert store.promoted()[0].because == "renewed: their judge differs: 1.0 and 2.0"


def test_one_place_says_nothing_of_another(store):
    store.add([timed(us=5.0), timed(us=50.0, where={"device": "Another"})])
    regress(store)
    store.add([timed(us=60.0, hours=1, where={"device": "Another"})])

    assert verdicts(store, device="A CPU") == []
    assert verdicts(store, device="Another") == [("naive", "regressed")]


@pytest.mark.parametrize("count", [1, 5])
def test_promotions_of_a_place_are_a_chain(store, count):
    for hour in range(count):
        store.add([timed(us=10.0 * 0.9**hour, hours=hour)])
        regress(store)
    chain = store.promoted(in_force=False)

    assert [one.number for one in chain] == list(range(1, count + 1))
    assert all(b.previous == a.measurement for a, b in pairwise(chain))
