"""The tree of attempts: the best path, dead ends, and when work is stuck."""

import pytest
from attempts import make_attempt, make_outcome, make_step, make_timing

from kernelkb.record.attempt_tree import AttemptLog, build_tree, find_stuck
from kernelkb.render.text.attempts import format_attempt_log


def grow(results, times=None):
    """Return a tree whose changes gave these results, one after the other."""
    first, _ = make_attempt("0", 0)
    attempts, events = [first], [make_timing(first, 0, 100.0)]
    for minute, result in enumerate(results, 1):
        one, _ = make_attempt(str(minute), minute, attempts[-1].id)
        attempts.append(one)
        if result == "failed":
            events.append(make_step(one, "check", minute, status="failure", found="off by 3"))
        else:
            us = (times or {}).get(minute, 100.0 + minute)
            events.append(make_timing(one, minute, us))
        why = "off by 3" if result == "failed" else None
        events.append(make_outcome(one, minute, result, why=why))
    return build_tree(attempts, events)


def test_the_best_is_the_fastest_valid_attempt_and_its_path_leads_from_the_first():
    tree = grow(["faster", "slower"], {1: 50.0, 2: 70.0})
    ids = list(tree.nodes)

    assert tree.best == ids[1]
    assert tree.list_path(tree.best) == ids[:2]
    assert tree.roots == (ids[0],)


def test_an_attempt_that_is_wrong_now_is_not_the_best():
    first, _ = make_attempt("a", 0)
    second, _ = make_attempt("b", 1, first.id)
    events = [
        make_timing(first, 0, 100.0),
        make_timing(second, 1, 10.0),
        make_step(second, "check", 2, status="failure", found="NaN in row 3"),
    ]
    tree = build_tree([first, second], events)

    assert tree.best == first.id
    assert tree.nodes[second.id].failure == "NaN in row 3"


def test_times_of_another_workload_do_not_count():
    first, _ = make_attempt("a", 0)
    events = [make_timing(first, 0, 100.0), make_timing(first, 1, 1.0, workload="tiny"),
              make_timing(first, 2, 99.0)]  # fmt: skip
    tree = build_tree([first], events)

    assert tree.nodes[first.id].find_time_us(tree.place) == 99.0


def test_time_spent_counts_all_steps_and_those_on_the_device():
    first, _ = make_attempt("a", 0)
    tree = build_tree([first], [make_step(first, "build", 0), make_timing(first, 1, 9.0)])

    assert (tree.seconds, tree.device_seconds) == (4.0, 2.0)


def test_the_log_marks_the_best_path_and_gives_dead_ends_their_reason():
    tree = grow(["faster", "no-gain", "failed"], {1: 50.0, 2: 51.0})
    lines = list(format_attempt_log(AttemptLog("scale", tree, 4, None)))
    shown = [line for line in lines if "naive" in line]

    assert [line.startswith("*") for line in shown] == [True, True, False, False]
    assert "best" in shown[1]
    assert "1x [0.99, 1.01], no gain" in shown[2]
    assert "failed, off by 3" in shown[3]


@pytest.mark.parametrize(
    ("results", "kind"),
    [
        (["no-gain", "no-gain", "slower", "undecided"], "no-gain"),
        (["faster", "no-gain", "no-gain", "slower"], None),
        (["no-gain", "failed", "failed"], "failing"),
        (["slower", "faster", "slower", "faster"], "oscillating"),
        (["faster", "faster", "faster", "faster"], None),
        (["no-gain"], None),
        ([], None),
    ],
)
def test_a_row_of_changes_that_lead_nowhere_is_noticed(results, kind):
    found = find_stuck(grow(results))

    assert (found.kind if found else None) == kind


def test_who_is_stuck_is_told_the_way_back():
    tree = grow(["no-gain"] * 4)

    assert "kb lab restore --best scale" in find_stuck(tree).cure


def test_of_equal_times_the_first_attempt_is_the_best():
    tree = grow(["no-gain", "no-gain"], {1: 99.9, 2: 99.8})

    assert tree.best == tree.roots[0]


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_who_restored_a_state_did_not_measure_it(is_elsewhere):
    """Somebody else's restore takes nothing from here, and one here makes nothing ours."""
    one, _ = make_attempt("a", 0)
    one = one.model_copy(update={"imported": is_elsewhere})
    timed = make_timing(one, 1, 4.0).model_copy(update={"imported": is_elsewhere})
    restored = make_step(one, "restore", 2).model_copy(update={"imported": not is_elsewhere})

    for events in ([timed, restored], [restored]):
        assert build_tree([one], events).nodes[one.id].is_imported == is_elsewhere
