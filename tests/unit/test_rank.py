"""Best first: order by hand-made findings, and nothing lost or invented."""

from hypothesis import given
from hypothesis import strategies as st

from kernelkb.decide.diagnose import Finding
from kernelkb.decide.rank import ranked, score

EFFORT = {"5": 1.0, "30": 0.9, "120": 0.7, "480": 0.5}


def finding(name, group="latency", saved=0.5, sure=1.0, minutes=5):
    removed = None if saved is None else (saved / 2, saved, saved)
    diagnosis = {
        "bottleneck": name,
        "verdict": "matches",
        "confidence": sure,
        "because": [],
        "fixes": [{"cost_min": minutes}] if minutes else [],
    }
    return Finding({"id": name, "group": group}, diagnosis, removed, [])


def order(*findings):
    return [found.row["id"] for found in ranked(findings, EFFORT)]


def test_the_larger_saving_comes_first():
    assert order(finding("small", saved=0.2), finding("large", saved=0.6)) == ["large", "small"]


def test_doubt_costs_rank():
    assert order(finding("hint", sure=0.4), finding("counter", sure=1.0)) == ["counter", "hint"]


def test_a_day_of_work_comes_after_five_minutes_for_the_same_saving():
    assert order(finding("day", minutes=480), finding("quick", minutes=5)) == ["quick", "day"]


def test_effort_does_not_bury_a_large_gain():
    long, quick = finding("long", saved=0.9, minutes=480), finding("quick", saved=0.3)

    assert order(quick, long) == ["long", "quick"]


def test_a_fault_of_the_measurement_comes_before_any_gain():
    fault = finding("fault", group="measurement", saved=None)

    assert order(finding("gain", saved=0.9), fault) == ["fault", "gain"]


def test_faults_of_the_result_come_before_faults_of_the_timer_and_the_roof():
    names = ["terminal", "measurement", "build", "correctness"]
    found = order(*(finding(name, group=name) for name in names))

    assert found == ["correctness", "build", "measurement", "terminal"]


def test_equals_keep_their_order():
    assert order(*(finding(name) for name in "cab")) == ["c", "a", "b"]


def test_a_match_that_cannot_be_priced_scores_nothing():
    assert score(finding("unpriced", saved=None), EFFORT) == 0.0


FINDINGS = st.lists(
    st.builds(
        finding,
        st.sampled_from("abcdef"),
        group=st.sampled_from(["build", "latency", "terminal", "compute"]),
        saved=st.none() | st.floats(0, 0.999),
        sure=st.floats(0, 1),
        minutes=st.sampled_from([0, 5, 30, 120, 480]),
    )
)


@given(FINDINGS)
def test_ranking_is_a_permutation(findings):
    found = ranked(findings, EFFORT)

    assert sorted(map(id, found)) == sorted(map(id, findings))


@given(FINDINGS)
def test_ranking_again_changes_nothing(findings):
    once = ranked(findings, EFFORT)

    assert ranked(once, EFFORT) == once
