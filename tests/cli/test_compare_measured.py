"""``kb compare`` of two measurements: what differs besides the time, and what was advised."""

import json
from pathlib import Path

from attempts import START, make_attempt, make_step
from measurements import make_bench, make_subject

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.cli import main
from kernelkb.model.records.history import AdvisedChange
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.report import read_report
from kernelkb.record.attempt_store import open_attempts
from kernelkb.record.measurements.rows import create_measurement
from kernelkb.record.measurements.store import open_store

TABLES = Path(__file__).parents[1] / "data" / "ncu"
PLACE = {"kernel": "scale", "device": "A GPU", "target": "cuda"}
SLOW = "row = i;\nfloat v = x[row * n + c];\ny[c] += v;\n"
FAST = "row = i;\nconst float4 v = x4[row * n + c];\ny[c] += v;\n"
ADVISED = AdvisedChange(
    bottleneck="uncoalesced-global-access", fix="vectorize-128b", predicted=(1.4, 1.8, 2.3),
    falsifier="sector_load_useful_bytes >= 8.8",
)  # fmt: skip


def make_profile(name, hours):
    """A profile with the counters of a real one, of a softmax before or after the change."""
    wanted = list_raw_names(load_compiled_rules())
    (launch,) = read_report(TABLES / f"row_softmax_{name}.csv", wanted, None)
    subject = make_subject(workload="medium", **PLACE)
    at = START.replace(hour=13 + hours)
    return create_measurement("profile", at, subject, status="ncu", metrics=launch.metrics)


def record_change(project, us=(10.0, 8.0), *, profiles=(), fields=({}, {}), advised=ADVISED):
    """Record two states of a kernel with their benches, and return the ids of these."""
    first, slow = make_attempt(SLOW, 0)
    second, fast = make_attempt(FAST, 1, first.id)
    benches = [
        make_bench(us=one, hours=at, where={**PLACE, **fields[at].get("where", {})},
                   metrics=fields[at].get("metrics", {}))
        for at, one in enumerate(us)
    ]  # fmt: skip
    events = [make_step(first, "recommend", 0, advised=advised)] if advised else []
    for at, state in enumerate((first, second)):
        found = {"workload": "medium", "measurement": benches[at].id, "candidate_us": us[at]}
        events.append(make_step(state, "bench", 2 + at, verdict="faster", **found))
        if profiles:
            events.append(make_step(state, "profile", 4 + at, measurement=profiles[at].id))
    with open_store(project) as store:
        store.add([*benches, *profiles])
    with open_attempts(project) as store:
        store.add([first, second], events, [slow, fast])
    return [one.id for one in benches]


def compare(capsys, ids):
    assert main(["compare", *ids]) == 0
    return capsys.readouterr().out


def test_a_gain_stands_beside_what_was_told(project, capsys):
    text = compare(capsys, record_change(project))

    assert "b is 1.25x [" in text
    assert "told vectorize-128b 1.8x [1.4, 2.3], got 1.25x: below the interval" in text
    assert "keep rule sector_load_useful_bytes >= 8.8: not checked, both need kb profile" in text


def test_a_keep_rule_is_checked_where_both_states_were_profiled(project, capsys):
    profiles = make_profile("naive", 0), make_profile("warp", 1)
    ids = record_change(project, (10.0, 6.0), profiles=profiles)
    text = compare(capsys, ids)

    assert "got 1.67x: inside it" in text
    assert "keep rule sector_load_useful_bytes >= " in text
    assert " -> 32, held, and the time fell, so the diagnosis was right" in text


def test_without_advice_nothing_is_said_of_it(project, capsys):
    assert "told" not in compare(capsys, record_change(project, advised=None))


def test_only_the_lines_that_changed_are_shown(project, capsys):
    text = compare(capsys, record_change(project))

    assert "source: naive.cu\n  @@ -1,3 +1,3 @@\n  -float v = x[row * n + c];\n" in text
    assert "  +const float4 v = x4[row * n + c];\n" in text
    assert "y[c] += v" not in text


def test_build_and_environment_are_told_where_they_differ(project, capsys):
    fields = (
        {"where": {"environment": {"driver": "550.1", "torch": "2.9"}},
         "metrics": {"register_count": 32.0, "spill_store_bytes": 0.0}},
        {"where": {"environment": {"driver": "560.2", "torch": "2.9"}, "flags": ("-O3",)},
         "metrics": {"register_count": 64.0, "spill_store_bytes": 0.0}},
    )  # fmt: skip
    text = compare(capsys, record_change(project, fields=fields))

    assert "environment: driver 550.1 -> 560.2\n" in text
    assert "build: register_count 32 -> 64\n" in text
    assert "flags: none -> -O3\n" in text


def test_states_that_are_not_kept_are_told_by_their_files(project, capsys):
    one, other = make_bench(), make_bench("vectorized", 5.0, hours=1)
    with open_store(project) as store:
        store.add([one, other])

    assert "source: naive.cpp differ; their text is not kept here" in compare(
        capsys, [one.id, other.id]
    )


def test_the_difference_is_in_the_json_beside_the_ratio(project, capsys):
    ids = record_change(project)
    assert main(["compare", *ids, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert found["ratio"] > 1.2
    assert found["difference"]["attempts"]["advice"]["gain"] == "below"
