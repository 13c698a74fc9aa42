"""What keeps happening becomes a candidate, and what happened twice does not."""

from session_histories import decision, session

from kernelkb.model.session import Step
from kernelkb.record.pattern_candidates import candidates


def failed(name, found, cure=None):
    step = Step(name="build", status="failure", found=found, cure=cure, seconds=1.0)
    one = session(name)
    entry = one.entries[0].model_copy(update={"steps": (step,)})
    return one.model_copy(update={"entries": (entry,)})


def test_the_same_cure_in_three_sessions_is_a_candidate():
    (found,) = candidates([session(f"s{n}", decision()) for n in range(3)])

    assert found.says == (
        "uncoalesced-global-access -> remap-threads-coalesced -> faster, falsifier held"
    )
    assert found.sessions == ("s0", "s1", "s2")


def test_two_sessions_are_a_coincidence():
    assert candidates([session(f"s{n}", decision()) for n in range(2)]) == ()


def test_repeating_it_in_one_session_adds_nothing():
    twice = session("s", decision(), decision(applied_as="other"))

    assert candidates([twice, session("t", decision())]) == ()


def test_a_failure_is_the_same_whatever_its_numbers_and_places():
    found = candidates(
        [failed(f"s{n}", f"/tmp/{n}.cu:{n}: ptxas wants {n} bytes", "use less") for n in range(3)]
    )

    assert [one.kind for one in found] == ["failure"]
    assert found[0].says.endswith("wants N bytes -> use less")


def test_reported_sessions_are_no_evidence():
    assert candidates([session(f"s{n}", decision(), kind="reported") for n in range(3)]) == ()


def test_what_nobody_measured_is_no_sequence():
    untimed = decision(measured=None, interval=None)

    assert candidates([session(f"s{n}", untimed) for n in range(3)]) == ()
