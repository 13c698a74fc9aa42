"""Shipped sessions carry their fields, and a measurement without a new field keeps its id."""

from pathlib import Path

from pydantic import TypeAdapter

from kernelkb.model.records.history import Measurement
from kernelkb.record.measurements.compare import find_noise_reason
from kernelkb.record.measurements.rows import create_measurement, is_intact
from kernelkb.record.sessions import list_session_ids, read_session

SHIPPED_SESSIONS = Path(__file__).parents[2] / "sessions"
RECORD = (
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
"""A measurement as it was exported before ``disturbed_by`` existed."""


def copy_measurement(one, **changes):
    """Create the measurement anew, as a measuring program would."""
    given = ("id", "subject_id", "kind", "at", "subject")
    fields = {name: getattr(one, name) for name in Measurement.model_fields if name not in given}
    return create_measurement(one.kind, one.at, one.subject, **{**fields, **changes})


def test_shipped_sessions_are_read_with_their_fields():
    sessions = [read_session(name, SHIPPED_SESSIONS) for name in list_session_ids(SHIPPED_SESSIONS)]
    entries = [entry for session in sessions for entry in session.entries]
    decisions = [decision for entry in entries for decision in entry.decisions]

    assert all(d.falsifier_held is not None for d in decisions if d.falsifier)
    assert all(step.bottleneck for e in entries for step in e.steps if "(confidence" in step.found)


def test_a_measurement_without_the_field_keeps_its_id():
    old = TypeAdapter(Measurement).validate_json(RECORD)

    assert is_intact(old)
    assert copy_measurement(old).id == old.id
    assert old.disturbed_by is find_noise_reason(old) is None


def test_a_disturbance_is_part_of_the_id_and_spoils_the_times():
    old = TypeAdapter(Measurement).validate_json(RECORD)
    new = copy_measurement(old, disturbed_by="cpu-contention")

    assert is_intact(new)
    assert new.id != old.id
    assert "CPU cores" in find_noise_reason(new)
