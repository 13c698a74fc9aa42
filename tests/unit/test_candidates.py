"""What keeps happening becomes a candidate, and what happened twice does not."""

from session_histories import make_decision, make_session

from kernelkb.model.records.session import Step
from kernelkb.record.learn import find_pattern_candidates


def make_failed_session(name, found, cure=None):
    step = Step(name="build", status="failure", found=found, cure=cure, seconds=1.0)
    one = make_session(name)
    entry = one.entries[0].model_copy(update={"steps": (step,)})
    return one.model_copy(update={"entries": (entry,)})


def test_the_same_sequence_in_three_sessions_is_a_candidate():
    (found,) = find_pattern_candidates([make_session(f"s{n}", make_decision()) for n in range(3)])

    assert found.says == (
        "uncoalesced-global-access -> remap-threads-coalesced -> faster, falsifier held"
    )
    assert found.sessions == ("s0", "s1", "s2")


def test_two_sessions_are_a_coincidence():
    assert find_pattern_candidates([make_session(f"s{n}", make_decision()) for n in range(2)]) == ()


def test_repeating_it_in_one_session_adds_nothing():
    twice = make_session("s", make_decision(), make_decision(applied_as="other"))

    assert find_pattern_candidates([twice, make_session("t", make_decision())]) == ()


def test_a_failure_is_the_same_whatever_its_numbers_and_places():
    found = find_pattern_candidates(
        [
            make_failed_session(f"s{n}", f"/tmp/{n}.cu:{n}: ptxas wants {n} bytes", "use less")
            for n in range(3)
        ]
    )

    assert [one.kind for one in found] == ["failure"]
    assert found[0].says.endswith("wants N bytes -> use less")


def test_reported_sessions_are_no_evidence():
    assert (
        find_pattern_candidates(
            [make_session(f"s{n}", make_decision(), kind="reported") for n in range(3)]
        )
        == ()
    )


def test_unmeasured_decisions_are_no_candidate():
    untimed = make_decision(measured=None, interval=None)

    assert find_pattern_candidates([make_session(f"s{n}", untimed) for n in range(3)]) == ()
