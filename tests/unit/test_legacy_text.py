"""Records written before a number had its field are read with the same meaning today."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from kernelkb.model.records.history import Measurement
from kernelkb.model.records.session import Decision, Step
from kernelkb.record.legacy_text import fill_decision, fill_step, find_disturbance
from kernelkb.record.measurements.compare import find_noise_reason
from kernelkb.record.measurements.rows import create_measurement, is_intact
from kernelkb.record.outcomes import get_valid_timing
from kernelkb.record.sessions import list_session_ids, read_session

SHIPPED_SESSIONS = Path(__file__).parents[2] / "sessions"
OLD_RECORD = (
    '{"id":"e1c1a26ca7af34da14fab98475cdc6c3","subject_id":"09a6f0969320260b5b4d87545a238e58",'
    '"kind":"bench","at":"2026-11-01T00:00:00Z","subject":{"kernel":"row_softmax","variant":"naive"'
    ',"target":"cpu","workload":"medium","sources":{"naive.cpp":"naive"},"device":"A CPU",'
    '"judge":"1.0"},"verdict":"inconclusive","candidate_us":20.0,"baseline":"torch",'
    '"baseline_us":30.0,"speedup":1.5,"interval":[1.4925,1.5074999999999998],"timing":"eager",'
    '"warnings":["threads waited for cores in 14 of 15 pairs: something else uses this machine, or '
    'they are more than its cores; measure again when it is idle"],"samples":['
    + ",".join(["[20.0,30.0]"] * 15)
    + "]}"
)
"""As the first release exported it."""


def make_step(found, name="bench", **more):
    return Step(**{"name": name, "status": "ok", "found": found, "seconds": 1, **more})


def make_sentence(speedup="0.801", baseline="sdpa-flash", verdict="faster"):
    times = f"tiled 3.32 ms, {baseline} 2.66 ms on large"
    return f"{times}: {speedup}x [{speedup}, {speedup}] of 129 pairs, {verdict}"


def read_timing(found, **more):
    return get_valid_timing(fill_step(make_step(found, **more)))


@pytest.mark.parametrize("speedup", ["0.000123", "0.801", "1", "12.3", "2.06e+03"])
@pytest.mark.parametrize("baseline", ["torch.compile", "sdpa-flash", "variant naive"])
def test_a_bench_is_read_from_its_sentence(speedup, baseline):
    timing = read_timing(make_sentence(speedup, baseline))

    assert (timing.speedup, timing.interval) == (float(speedup), (float(speedup), float(speedup)))
    assert (timing.baseline, timing.workload) == (baseline, "large")


@pytest.mark.parametrize("verdict", ["incorrect", "invalid", "unheard-of"])
def test_a_sentence_about_something_invalid_gives_no_speedup(verdict):
    assert read_timing(make_sentence(verdict=verdict)) is None


def test_a_bench_that_was_not_timed_gives_none():
    assert read_timing("tiled was not timed (invalid): it hung") is None


def test_fields_count_before_the_sentence():
    timing = read_timing(make_sentence(), speedup=2.0, interval=(1.9, 2.1), baseline="x")

    assert (timing.speedup, timing.interval, timing.baseline) == (2.0, (1.9, 2.1), "x")


def test_a_speedup_without_an_interval_borrows_none():
    assert read_timing(make_sentence(), speedup=2.0).interval is None


def test_only_a_step_that_times_is_read_as_a_bench():
    assert fill_step(make_step(make_sentence(), name="profile")).speedup is None


def test_the_first_bottleneck_is_read_from_its_sentence():
    advice = "small-grid (confidence 1.00) -> parallelize-outer-dim, predicted 1.39x [1.27, 1.54]"

    assert fill_step(make_step(advice, name="recommend")).bottleneck == "small-grid"


@pytest.mark.parametrize(
    "found", ["nothing known limits it", "no cause can be named yet; measure occupancy", ""]
)
def test_a_sentence_that_names_no_bottleneck_gives_none(found):
    assert fill_step(make_step(found, name="recommend")).bottleneck is None


@pytest.mark.parametrize(
    ("text", "left", "held"),
    [
        ("held: x 32 >= 24", "x 32 >= 24", True),
        ("failed: x 8 >= 24 is false; revert", "x 8 >= 24 is false; revert", False),
        ("x was not measured after the change", "x was not measured after the change", None),
    ],
)
def test_a_falsifier_is_read_from_its_prefix(text, left, held):
    decision = fill_decision(Decision(bottleneck="b", fix="f", falsifier=text))

    assert (decision.falsifier, decision.falsifier_held) == (left, held)


def test_a_falsifier_with_its_field_keeps_its_text():
    decision = Decision(bottleneck="b", fix="f", falsifier="held: x", falsifier_held=False)

    assert fill_decision(decision) == decision


def test_shipped_sessions_are_read_with_their_fields():
    sessions = [read_session(name, SHIPPED_SESSIONS) for name in list_session_ids(SHIPPED_SESSIONS)]
    entries = [entry for session in sessions for entry in session.entries]
    decisions = [decision for entry in entries for decision in entry.decisions]

    assert all(d.falsifier_held is not None for d in decisions if d.falsifier)
    assert all(step.bottleneck for e in entries for step in e.steps if "(confidence" in step.found)


def test_an_old_measurement_keeps_its_id_and_its_disturbance():
    old = TypeAdapter(Measurement).validate_json(OLD_RECORD)

    assert is_intact(old)
    assert old.disturbed_by is None
    assert "CPU cores" in find_noise_reason(old)


def test_a_disturbance_is_part_of_a_new_measurement_id():
    old = TypeAdapter(Measurement).validate_json(OLD_RECORD)
    fields = {name: getattr(old, name) for name in Measurement.model_fields}
    for name in ("id", "subject_id", "kind", "at", "subject", "disturbed_by"):
        del fields[name]
    new = create_measurement(old.kind, old.at, old.subject, disturbed_by="thermal", **fields)

    assert create_measurement(old.kind, old.at, old.subject, **fields).id == old.id
    assert new.id != old.id
    assert is_intact(new)


@pytest.mark.parametrize(
    ("warning", "disturbance"),
    [
        ("threads waited for cores in 9 of 15 pairs", "cpu-contention"),
        ("the GPU had other work while all processes stood still, in 9 of 31", "gpu-contention"),
        ("the GPU slowed down in nearly all pairs (heat); measure again when cool", "thermal"),
        ("10 pairs were dropped: heat", None),
    ],
)
def test_a_disturbance_is_read_from_an_old_warning(warning, disturbance):
    assert find_disturbance(["it cannot be captured", warning]) == disturbance
