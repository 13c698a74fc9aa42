"""Rejected trials by reason: what concentrates them, and silence where nothing does."""

import random

from kernelkb.model.kernels.tuning import TuningTrial
from kernelkb.tune.outcome import analyse_rejections, measure_convergence


def make_trial(number, status="timed", time_us=None, detail=None, **configuration):
    return TuningTrial(
        number=number,
        configuration=configuration,
        status=status,
        time_us=10.0 if status == "timed" and time_us is None else time_us,
        detail=detail,
        trial_s=0.5,
    )


def draw_trials(rng, count, decide):
    values = {"M": [16, 32, 64], "N": [32, 64, 128, 256], "S": [1, 2, 3, 4], "U": [0, 1]}
    trials = []
    for number in range(count):
        configuration = {name: rng.choice(choices) for name, choices in values.items()}
        trials.append(make_trial(number, decide(configuration), **configuration))
    return trials


def list_values(rejection):
    return [(one.tunable, one.value) for one in rejection.concentrations]


def test_the_value_behind_most_rejections_is_named_with_its_counts():
    trials = draw_trials(
        random.Random(0), 130, lambda one: "refused" if one["N"] == 256 else "timed"
    )
    (found,) = analyse_rejections([*trials, make_trial(130, "refused", M=16, N=32, S=1, U=0)])

    assert list_values(found) == [("N", 256)]
    (value,) = found.concentrations
    assert value.rejected_count == value.reached_count == found.count - 1
    assert found.share == found.count / 131


def test_two_causes_are_named_one_after_the_other():
    trials = draw_trials(
        random.Random(1),
        300,
        lambda one: "crashed" if one["N"] == 256 or one["S"] == 4 else "timed",
    )
    (found,) = analyse_rejections(trials)

    assert sorted(list_values(found)) == [("N", 256), ("S", 4)]


def test_a_value_that_only_comes_with_the_cause_is_not_named():
    trials = []
    for number in range(120):  # U=1 wherever N=256, and nowhere else
        size = (32, 64, 128, 256)[number % 4]
        trials.append(
            make_trial(
                number, "refused" if size == 256 else "timed", N=size, M=number % 3, U=size == 256
            )
        )
    (found,) = analyse_rejections(trials)

    assert len(found.concentrations) == 1


def test_nothing_is_said_where_rejections_are_spread_by_chance():
    said = 0
    for seed in range(100):
        rng = random.Random(seed)
        outcomes = iter(["refused" if rng.random() < 0.2 else "timed" for _ in range(150)])
        trials = draw_trials(rng, 150, lambda _, outcomes=outcomes: next(outcomes))
        said += any(one.concentrations for one in analyse_rejections(trials))

    assert said <= 5


def test_two_rejections_are_too_few_to_say_anything():
    trials = [make_trial(at, M=16) for at in range(60)]
    trials += [make_trial(60 + at, "refused", M=32) for at in range(2)]
    (found,) = analyse_rejections(trials)

    assert found.concentrations == ()


def test_trials_that_an_earlier_gate_ended_do_not_count_for_a_later_one():
    trials = [make_trial(at, "build-failed", M=16, N=at % 2) for at in range(50)]
    trials += [make_trial(50 + at, "incorrect" if at < 10 else "timed", M=32, N=at % 2)
               for at in range(20)]  # fmt: skip
    built, incorrect = analyse_rejections(trials)

    assert (built.reached_count, incorrect.reached_count) == (70, 20)
    assert incorrect.concentrations == ()


def test_reasons_stand_in_the_order_of_their_counts_with_the_usual_detail():
    trials = [make_trial(at, "crashed", detail="b" if at else "a", M=at) for at in range(3)]
    trials += [make_trial(3, "refused", M=1), make_trial(4, M=1)]
    found = analyse_rejections(trials)

    assert [(one.status, one.count) for one in found] == [("crashed", 3), ("refused", 1)]
    assert found[0].example == "b"
    assert analyse_rejections([]) == ()


def test_convergence_counts_trials_and_seconds_until_a_time_is_near_the_best():
    times = [20.0, 10.4, 12.0, 10.05, 10.0, 11.0]
    found = measure_convergence([make_trial(at, time_us=us) for at, us in enumerate(times)])

    assert [(one.within, one.trial_count, one.device_s) for one in found] == [
        (0.05, 2, 1.0),
        (0.01, 4, 2.0),
        (0.0, 5, 2.5),
    ]
    assert measure_convergence([make_trial(0, "crashed")]) == ()
